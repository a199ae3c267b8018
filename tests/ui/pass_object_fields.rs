//! Options that `#[field(...)]` and `#[object(...)]` accept.
#![deny(warnings, non_ascii_idents)]

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use kernpack::{Any, Array, Field, Map, ObjRef, Object, Tensor};

/// A parent that only Rust can create.
#[derive(Object)]
#[object(key = "pass_object_fields.Handle", create = false, child_slots = 2, structural = "singleton")]
#[repr(C)]
pub struct Handle {
    pub number: i64,
    /// A raw pointer is fine in a type whose author vouches for it.
    address: *mut u8,
}

// SAFETY: the pointer is not used.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

#[derive(Object)]
#[object(key = "pass_object_fields.File", final, structural = "unsupported")]
#[repr(C)]
pub struct File {
    #[base]
    handle: Handle,
    pub path: String,
}

struct NoDefault;

fn size() -> i64 {
    Settings::SIZE
}

/// Every option.
#[derive(Object)]
#[object(key = "pass_object_fields.Settings", structural = "dag", init = true, create = true)]
#[repr(C)]
pub struct Settings {
    #[field(default = Self::SIZE * 2)]
    pub size: i64,
    #[field(default_factory = size)]
    pub other_size: i64,
    #[field(default_factory = || Array::from(vec![1, 2]), kw_only)]
    pub sizes: Array<i64>,
    #[field(default = BTreeMap::<String, i64>::new())]
    pub names: BTreeMap<String, i64>,
    #[field(default = None, repr = false, compare = false, hash = false)]
    pub next: Option<ObjRef<Self>>,
    #[field(init = false, default_factory = Vec::new, structural = "ignore")]
    pub notes: Vec<String>,
    #[field(structural = "def")]
    pub variables: Array<ObjRef<Settings>>,
    #[field(structural = "def_simple")]
    pub more_variables: Array<ObjRef<Settings>>,
    #[field(writable, default = Field::new("x".to_owned()))]
    pub title: Field<String>,
    #[field(writable)]
    pub hits: AtomicI64,
    #[field(writable, kw_only)]
    pub done: AtomicBool,
    #[field]
    private_but_visible: f64,
    #[field(name = "kind")]
    pub(crate) r#type: i64,
    #[field(skip)]
    pub secret: Mutex<Vec<u8>>,
    #[field(skip, default = NoDefault)]
    no_default: NoDefault,
    #[field(skip, default_factory = || NoDefault)]
    another: NoDefault,
    pub any: Any,
    pub map: Map<String, Any>,
    pub tensor: Option<Tensor>,
    plain: u8,
}

impl Settings {
    const SIZE: i64 = 4;
}

fn main() {
    let file =
        ObjRef::new(File { handle: Handle { number: 3, address: std::ptr::null_mut() }, path: "a.txt".to_owned() });
    assert_eq!((file.number, file.path.as_str(), file.address.is_null()), (3, "a.txt", true));
    let settings = ObjRef::new(Settings {
        size: 1,
        other_size: 2,
        sizes: Array::from(vec![]),
        names: BTreeMap::new(),
        next: None,
        notes: Vec::new(),
        variables: Array::from(vec![]),
        more_variables: Array::from(vec![]),
        title: Field::new("a".to_owned()),
        hits: AtomicI64::new(0),
        done: AtomicBool::new(false),
        private_but_visible: 0.5,
        r#type: 7,
        secret: Mutex::new(vec![1]),
        no_default: NoDefault,
        another: NoDefault,
        any: Any::NONE,
        map: std::iter::empty().collect(),
        tensor: None,
        plain: 9,
    });
    settings.title.set("b".to_owned());
    settings.hits.store(5, Ordering::Relaxed);
    let any: Any = settings.clone().into();
    assert_eq!(any.field("title").unwrap().to::<String>().unwrap(), "b");
    assert_eq!(any.field("hits").unwrap().to::<i64>().unwrap(), 5);
    assert_eq!(any.field("kind").unwrap().to::<i64>().unwrap(), 7);
    assert_eq!(any.field("private_but_visible").unwrap().to::<f64>().unwrap(), 0.5);
    assert!(any.field("plain").is_err() && any.field("secret").is_err());
    let Settings { no_default: NoDefault, another: NoDefault, plain, .. } = &*settings;
    assert_eq!(*plain, 9);
}
