//! Types whose fields have options: defaults, keywords, fields that comparing and printing leave
//! out, and fields that other languages do not see.

use kernpack::{Array, ObjRef, Object, packed_func};

/// Fields that may be omitted in a constructor call.
#[derive(Object)]
#[object(key = "objects.Defaults")]
#[repr(C)]
pub struct Defaults {
    /// Must be given.
    pub required: i64,
    /// Is 3 otherwise.
    #[field(default = 3)]
    pub count: i64,
    #[field(default = "nothing".to_owned())]
    pub label: String,
    #[field(default_factory = || Array::from(vec![1, 2]))]
    pub items: Array<i64>,
    #[field(kw_only)]
    pub keyword: bool,
    #[field(kw_only, default = None)]
    pub maybe: Option<f64>,
}

/// Fields that printing, comparing and hashing leave out.
#[derive(Object)]
#[object(key = "objects.Flags")]
#[repr(C)]
pub struct Flags {
    pub plain: i64,
    #[field(repr = false, default = 0)]
    pub unprinted: i64,
    #[field(compare = false, hash = false, default = 0)]
    pub uncompared: i64,
    #[field(hash = false, default = 0)]
    pub unhashed: i64,
    #[field(init = false, default = 7)]
    pub computed: i64,
}

/// Fields that other languages see, and hidden ones.
#[derive(Object)]
#[object(key = "objects.Secretive")]
#[repr(C)]
pub struct Secretive {
    pub shown: i64,
    #[field(name = "type")]
    kind: String,
    #[field(skip, default_factory = Vec::new)]
    pub skipped: Vec<u8>,
    #[field(skip, default = vec![9, 9])]
    cache: Vec<u8>,
    #[field(skip, default_factory = String::new)]
    hidden: String,
}

#[kernpack::object_methods]
impl Secretive {
    /// Everything, hidden or not.
    pub fn everything(&self) -> (i64, String, Vec<u8>, Vec<u8>, String) {
        (self.shown, self.kind.clone(), self.skipped.clone(), self.cache.clone(), self.hidden.clone())
    }
}

/// Objects that only Rust makes.
#[derive(Object)]
#[object(key = "objects.Token", create = false, structural = "singleton", final)]
#[repr(C)]
pub struct Token {
    pub number: i64,
}

/// Makes a token.
#[packed_func]
pub fn token(number: i64) -> ObjRef<Token> {
    ObjRef::new(Token { number })
}

/// A type without a constructor made of its fields.
#[derive(Object)]
#[object(key = "objects.Uninitialized", init = false)]
#[repr(C)]
pub struct Uninitialized {
    pub number: i64,
}

/// Makes one.
#[packed_func]
pub fn uninitialized(number: i64) -> ObjRef<Uninitialized> {
    ObjRef::new(Uninitialized { number })
}
