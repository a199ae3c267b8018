//! A visitor in Rust for the objects of other languages.

use std::ffi::c_void;

use kernpack::reflect::{AttrVisitor, Tree, from_json, repr, to_json, visit_object};
use kernpack::{Any, AnyView, DataType, Device, ObjRef, ObjectRoot, Result, Tensor, packed_func};

/// One line for each field: the kind of value, the field's name, the value.
#[derive(Default)]
struct Lines(Vec<String>);

impl Lines {
    fn add(&mut self, kind: &str, name: &str, value: impl std::fmt::Debug) -> Result<()> {
        self.0.push(format!("{kind} {name} {value:?}"));
        Ok(())
    }
}

impl AttrVisitor for Lines {
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
        self.add("object", name, value.type_key())
    }
    fn visit_none(&mut self, name: &str) -> Result<()> {
        self.add("none", name, ())
    }
    fn visit_other(&mut self, name: &str, value: &AnyView<'_>) -> Result<()> {
        self.add("other", name, value.type_name())
    }
}

/// The lines that a visitor records for an object.
#[packed_func]
pub fn visit(object: ObjRef<ObjectRoot>) -> Result<Vec<String>> {
    let mut lines = Lines::default();
    visit_object(&object, &mut lines)?;
    Ok(lines.0)
}

/// A value as a tree.
#[packed_func]
pub fn tree_of(value: Any) -> String {
    Tree::of(&value).to_string()
}

/// A value's repr.
#[packed_func]
pub fn repr_of(value: Any) -> Result<String> {
    repr(&value)
}

/// A value as a JSON graph.
#[packed_func]
pub fn json_of(value: Any) -> Result<String> {
    to_json(&value)
}

/// The value of a JSON graph.
#[packed_func]
pub fn value_of_json(text: &str) -> Result<Any> {
    from_json(text)
}
