//! Fields that may hold Python objects.

use kernpack_core::generated_code::FieldDef;
use kernpack_core::value::Storage;

use crate::signature::wanted::inner;

/// A field that may hold a function or another Python object: its offset from the object, and its
/// representation.
#[derive(Clone, Copy)]
pub(crate) struct Edge {
    pub(crate) offset: usize,
    pub(crate) is_any: bool,
}

impl Edge {
    /// Creates the edge for a field that may hold a Python object.
    pub(crate) fn of(def: &FieldDef) -> Option<Self> {
        let ty = inner(&def.ty);
        let is_any = def.storage == Storage::Any;
        let may_hold = matches!(ty.key, "ffi.Function" | "ffi.OpaquePyObject" | "Any")
            && (is_any || def.storage == Storage::Object);
        may_hold.then_some(Self { offset: def.offset, is_any })
    }
}
