//! Definitions in this artifact of the members of a type, and the place of its class.

use kernpack_core::generated_code::{FieldDef, MethodDef, MethodsDef};
use kernpack_core::value::TypeSchema;

use crate::cpython::capi::Py;
use crate::cpython::state::State;

/// The methods of a type that this artifact has.
pub(crate) fn blocks(py: Py, key: &str) -> impl Iterator<Item = &'static MethodDef> {
    let methods: &'static [MethodsDef] = State::get(py).collected.methods;
    methods.iter().filter(move |block| block.key == key).flat_map(|block| block.members)
}

/// The definition of a field, where the type is one of this artifact.
pub(crate) fn own_field(py: Py, key: &str, name: &str) -> Option<&'static FieldDef> {
    let types = State::get(py).collected.types;
    types.iter().filter(|def| def.key == key).flat_map(|def| def.fields).find(|field| field.name == name)
}

/// The declared type of a field or property.
pub(crate) fn declared(py: Py, key: &str, name: &str) -> &'static TypeSchema {
    if let Some(field) = own_field(py, key, name) {
        return &field.ty;
    }
    for member in blocks(py, key) {
        if let MethodDef::Property { name: own, info, .. } = member
            && *own == name
        {
            return &info.ret;
        }
    }
    const { &TypeSchema::new("Any") }
}

/// The attributes that lead from the module to the class of a type: its key without the module's
/// own name.
#[inline(never)]
pub(crate) fn path(py: Py, key: &str) -> Vec<&str> {
    let module = State::get(py).module.rsplit('.').next().unwrap_or_default();
    key.strip_prefix(module).and_then(|rest| rest.strip_prefix('.')).unwrap_or(key).split('.').collect()
}
