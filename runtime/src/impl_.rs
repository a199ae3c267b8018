//! What generated code calls. Public because generated code lives in user crates; not covered by semantic versioning.

pub use linkme;

pub use crate::abi::TVMFFIAny;
pub use crate::embedded::{HEADER_SIZE as OBJECT_HEADER_SIZE, ObjectCell};
pub use crate::function::{
    FunctionInfo, KernelInfo, ParamInfo, arg, call_packed, return_doc, return_metadata,
};
pub use crate::object::{
    FieldDef, FieldValue, Object, ObjectRoot, TypeDef, TypeIndexCell, field_getter, type_index_of,
};
pub use crate::registration::{
    KERNPACK_FUNCTIONS_V1, KERNPACK_KERNELS_V1, KERNPACK_LIBRARIES_V1, KERNPACK_TYPES_V1, LibraryInfo,
};
pub use crate::value::{FromAny, FromArg, IntoReturn, Schema};

/// Checks at compile time what can be checked about an object type without a base.
pub const fn assert_object_layout<T: Object>() {
    assert!(align_of::<T>() <= 8, "an object type can be aligned to at most 8 bytes");
    assert!(
        core::mem::offset_of!(ObjectCell<T>, body) == OBJECT_HEADER_SIZE,
        "an object's value follows its header directly"
    );
}
