//! A visitor that records its calls, and the expected calls.

pub(crate) mod types;

use std::ffi::{CString, c_void};
use std::path::Path;

use kernpack::reflect::{AttrVisitor, visit_object};
use kernpack::{AnyView, DataType, Device, ObjRef, Object, ObjectRoot, Result, Tensor};

/// One line for each call.
#[derive(Default)]
pub(crate) struct Log(pub(crate) Vec<String>);

impl Log {
    fn add(&mut self, kind: &str, name: &str, value: impl std::fmt::Debug) -> Result<()> {
        self.0.push(format!("{kind} {name} {value:?}"));
        Ok(())
    }
}

/// The calls for an object, through registered fields.
pub(crate) fn log<T: Object>(object: &ObjRef<T>) -> Vec<String> {
    let mut log = Log::default();
    visit_object(object, &mut log).unwrap();
    log.0
}

impl AttrVisitor for Log {
    fn visit_f64(&mut self, name: &str, value: f64) -> Result<()> {
        self.add("f64", name, value)
    }
    fn visit_i64(&mut self, name: &str, value: i64) -> Result<()> {
        self.add("i64", name, value)
    }
    fn visit_u64(&mut self, name: &str, value: u64) -> Result<()> {
        self.add("u64", name, value)
    }
    fn visit_i32(&mut self, name: &str, value: i32) -> Result<()> {
        self.add("i32", name, value)
    }
    fn visit_bool(&mut self, name: &str, value: bool) -> Result<()> {
        self.add("bool", name, value)
    }
    fn visit_str(&mut self, name: &str, value: &str) -> Result<()> {
        self.add("str", name, value)
    }
    fn visit_bytes(&mut self, name: &str, value: &[u8]) -> Result<()> {
        self.add("bytes", name, value)
    }
    fn visit_opaque(&mut self, name: &str, value: *mut c_void) -> Result<()> {
        self.add("opaque", name, value)
    }
    fn visit_data_type(&mut self, name: &str, value: DataType) -> Result<()> {
        self.add("data_type", name, value)
    }
    fn visit_device(&mut self, name: &str, value: Device) -> Result<()> {
        self.add("device", name, value)
    }
    fn visit_tensor(&mut self, name: &str, value: &Tensor) -> Result<()> {
        self.add("tensor", name, value)
    }
    fn visit_object(&mut self, name: &str, value: &ObjRef<ObjectRoot>) -> Result<()> {
        self.0.push(format!("object {name} {}", value.type_key()));
        Ok(())
    }
    fn visit_none(&mut self, name: &str) -> Result<()> {
        self.0.push(format!("none {name}"));
        Ok(())
    }
    fn visit_other(&mut self, name: &str, value: &AnyView<'_>) -> Result<()> {
        self.0.push(format!("other {name} {}", value.type_name()));
        Ok(())
    }
}

/// Loads a library for its registrations.
pub(crate) fn open(library: &Path) {
    let path = CString::new(library.to_str().unwrap()).unwrap();
    // SAFETY: a valid path; the library's constructors are ours.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!handle.is_null(), "{}", library.display());
}

/// The calls that a visitor gets for `fields.All` in `fields.cc`.
pub(crate) const CPP_CALLS: [&str; 24] = [
    "i64 wide -5",
    "bool flag true",
    "i32 tiny -1",
    "i32 little 60000",
    "i32 narrow -70000",
    "i32 small 7",
    "i64 large 4000000000",
    "f64 real 1.5",
    "f64 half 0.25",
    "str text \"text of a length that takes an object\"",
    "bytes invalid [255, 33]",
    "bytes bytes [0, 255]",
    "opaque pointer 0x10",
    "data_type dtype float32x4",
    "device device cuda:1",
    "i64 some 3",
    "none none",
    "f64 any 2.5",
    "object array ffi.Array",
    "object map ffi.Map",
    "object shape ffi.Shape",
    "object object fields.Base",
    "none nothing",
    "object same fields.Base",
];

pub(crate) const CPP_TREE: &str = r#"fields.All
  wide: -5
  flag: true
  tiny: -1
  little: 60000
  narrow: -70000
  small: 7
  large: 4000000000
  real: 1.5
  half: 0.25
  text: "text of a length that takes an object"
  invalid: b"\xff!"
  bytes: b"\x00\xff"
  pointer: 0x10
  dtype: float32x4
  device: cuda:1
  some: 3
  none: None
  any: 2.5
  array: ffi.Array of 3
    [0]: 1
    [1]: 2
    [2]: 3
  map: ffi.Map of 1
    "a": 1
  shape: Shape[2, 3]
  object: fields.Base #1
    wide: -5
    flag: true
  nothing: None
  same: fields.Base #1, see above
"#;

/// A `fields.Base`.
pub(crate) const CPP_JSON: &str =
    r#"{"root_index":0,"nodes":[{"type":"fields.Base","data":{"wide":12,"flag":false}}]}"#;
