//! The type of `cpp/lib.cc`, in Rust.

use kernpack::{ObjRef, Object, Str};

/// Fields of four kinds.
#[derive(Object)]
#[object(key = "bench.kernpack.Record")]
#[repr(C)]
pub struct Record {
    /// An integer.
    pub count: i64,
    /// A number.
    pub scale: f64,
    /// A text.
    pub label: Str,
    /// Another object, if there is one.
    pub next: Option<ObjRef<Record>>,
}

/// Makes a record.
#[kernpack::packed_func]
pub fn make_record(count: i64, scale: f64, label: Str, next: Option<ObjRef<Record>>) -> ObjRef<Record> {
    ObjRef::new(Record { count, scale, label, next })
}
