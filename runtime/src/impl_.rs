//! What generated code calls. Public because generated code lives in user crates; not covered by semantic versioning.

pub use linkme;

pub use crate::abi::TVMFFIAny;
pub use crate::embedded::{HEADER_SIZE as OBJECT_HEADER_SIZE, ObjectCell};
pub use crate::function::{
    FunctionInfo, KernelInfo, ParamInfo, arg, call_device_kernel, call_packed, return_doc, return_metadata,
};
pub use crate::module::{LoaderInfo, cuda_loader};
pub use crate::object::{
    FieldDef, FieldValue, Object, ObjectRoot, TypeDef, TypeIndexCell, field_getter, type_index_of,
};
pub use crate::registration::{
    KERNPACK_FUNCTIONS_V1, KERNPACK_KERNELS_V1, KERNPACK_LIBRARIES_V1, KERNPACK_LOADERS_V1, KERNPACK_TYPES_V1,
    LibraryInfo,
};
pub use crate::value::{FromAny, FromArg, IntoReturn, Schema, TypeSchema};

/// Checks at compile time what can be checked about an object type without a base.
pub const fn assert_object_layout<T: Object>() {
    assert!(align_of::<T>() <= 8, "an object type can be aligned to at most 8 bytes");
    assert!(
        core::mem::offset_of!(ObjectCell<T>, body) == OBJECT_HEADER_SIZE,
        "an object's value follows its header directly"
    );
}

/// The schema of a type, for the tables that generated code fills: `SchemaOf::<T>::TYPE`.
///
/// A type without a schema gets a placeholder (from [`NoSchema`]) in place of a compile error: the conversion of the same
/// type, next to the table, is a compile error already, and that one says what to do.
pub struct SchemaOf<T>(core::marker::PhantomData<T>);

impl<T: Schema> SchemaOf<T> {
    /// The schema.
    pub const TYPE: TypeSchema = <T as Schema>::TYPE;
}

/// The placeholder; the inherent constant of [`SchemaOf`] goes before it.
pub trait NoSchema {
    /// Stands where a schema would.
    const TYPE: TypeSchema = TypeSchema::new("Any");
}

impl<T> NoSchema for SchemaOf<T> {}
