//! Functions and types that generated code uses. Public because generated code lives in user
//! crates; not covered by semantic versioning.

pub use core::ffi::c_void;

pub use crate::abi::{TVMFFIAny, field_flag, seq_hash_kind};
pub use crate::device::DeviceKindInfo;
pub use crate::embedded::{HEADER_SIZE as OBJECT_HEADER_SIZE, ObjectCell};
pub use crate::function::{ExceptionInfo, register_exception};
pub use crate::function::{
    FunctionInfo, FunctionRole, ParamInfo, ParamKind, arg, call_bound, call_getter, call_packed, no_entry_point,
    return_doc, return_metadata, value_to_set,
};
pub use crate::kernel::model::{CANCEL_BYTES, CANCEL_MARK, Cache, Canceller, ModelWeights, WeightsSlot, WeightsSource};
pub use crate::kernel::{
    DeviceKernelInfo, HostKernelTypes, Kernel, KernelInfo, call_device_kernel, call_kernel, device_kernel_metadata,
    explained, explained_views, extent_of, host_kernel_metadata, kernel_arg, kernel_doc, launch_kernel,
    register_kernel,
};
pub use crate::module::device_image::ArgType;
pub use crate::module::{CarriedKind, note_carried, register_carried as register_carried_loader};
pub use crate::object::derived::{
    FieldNames, assert_new_name, assert_open_parent, default_of, duplicate_field, duplicate_of, is_creatable,
    is_parent_creatable, parent_def, parent_duplicate, parent_index, parent_names,
};
pub use crate::object::{
    Borrowed, HasConstructor, MethodDef, MethodName, MethodsDef, ObjRef, Recursion, method_name_len,
};
pub use crate::object::{
    CloneOf, CopyFn, DefaultDef, Defined, FieldAt, FieldDef, FieldValue, FromFieldValue, HiddenDef, NoClone, NoSetter,
    NotThreadSafe, Object, ObjectPart, ObjectRoot, ObjectStruct, RegisterInit, SetterOf, TextInPlace, ThreadSafety,
    TypeDef, TypeIndexCell, assert_object_part, copy_of, create_of, field_def, hidden_def, type_index_of,
    writable_field_def,
};
pub use crate::object::{
    EnumDef, EnumInstances, EnumKind, RegisteredEnum, VariantDef, enum_from_any, enum_into_any, enum_to_arg,
    family_def, family_index, tag_def,
};
pub use crate::parallel::kernel::{
    ReadTensor, WrittenTensor, for_each_call, parallel_for_each, parallel_map, read_tensor, written_tensor,
};
pub use crate::reflect::derived::{NoVisit, VisitOf, visit_base, visit_base_mut, visit_field, visit_field_mut};
pub use crate::reflect::{AttrVisitor, AttrVisitorMut, ConvertOf, NoConvert, VisitAttrs};
pub use crate::registration::{Collected, DependencyInfo, LibraryInfo, cpu_level, on_load};
pub use crate::tensor::{TensorView, TensorViewMut};
pub use crate::value::{Access, Any, FromAny, FromArg, IntoAny, IntoReturn, ResultPlace, Schema, Storage, TypeSchema};

/// The error that ends an iteration by `__next__`.
#[cold]
pub fn end_of_iteration() -> crate::Error {
    crate::Error::with_backtrace("StopIteration", "", "")
}

/// Checks the compile-time requirements of an object type without a base.
pub const fn assert_object_layout<T: Object>() {
    assert!(align_of::<T>() <= 8, "an object type can be aligned to at most 8 bytes");
    assert!(
        core::mem::offset_of!(ObjectCell<T>, body) == OBJECT_HEADER_SIZE,
        "an object's value follows its header directly"
    );
}

/// The import tree of a crate, which its build script has linked under this symbol: a function, for
/// generated code.
#[doc(hidden)]
#[macro_export]
macro_rules! __library_bin {
    ($symbol:literal) => {{
        unsafe extern "C" {
            #[link_name = $symbol]
            static LIBRARY_BIN: u8;
        }
        || &raw const LIBRARY_BIN
    }};
}

/// The schema of a type, for the tables that generated code fills: `SchemaOf::<T>::TYPE`.
///
/// A type without a schema gets a placeholder (from [`NoSchema`]) instead of a compile error: the
/// conversion of the same type, next to the table, is already a compile error with instructions.
pub struct SchemaOf<T>(core::marker::PhantomData<T>);

impl<T: Schema> SchemaOf<T> {
    /// The schema.
    pub const TYPE: TypeSchema = <T as Schema>::TYPE;

    /// The access that a parameter of the type has to its argument.
    pub const ACCESS: Access = <T as Schema>::ACCESS;
}

/// The placeholder; the inherent constant of [`SchemaOf`] takes precedence over it.
pub trait NoSchema {
    /// Placeholder for a schema.
    const TYPE: TypeSchema = TypeSchema::new("Any");
    /// Placeholder for the type's access to its argument.
    const ACCESS: Access = Access::Keeps;
}

impl<T> NoSchema for SchemaOf<T> {}

/// The constructor of an artifact: passes the entries that a function collects to [`on_load`].
///
/// It runs before the C++ constructors in the same artifact, which may look up the registered
/// definitions. 101 is the first priority that is not reserved for the compiler; it is left to
/// `kernpack-capi`, which decides before this whose implementation serves the process.
#[doc(hidden)]
#[macro_export]
macro_rules! __constructor {
    ($collected:expr) => {
        extern "C" fn constructor() {
            $crate::generated_code::on_load($collected);
        }

        #[used]
        #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
        #[cfg_attr(windows, unsafe(link_section = ".CRT$XCU"))]
        #[cfg_attr(not(any(target_vendor = "apple", windows)), unsafe(link_section = ".init_array.00102"))]
        static CONSTRUCTOR: extern "C" fn() = constructor;
    };
}

/// In the generated module of a crate with CUDA kernels: expands to nothing, because kernpack
/// includes the code that runs them.
#[cfg(feature = "cuda")]
#[doc(hidden)]
#[macro_export]
macro_rules! __has_cuda_kernels {
    () => {};
}

/// In the generated module of a crate with CUDA kernels: a compile error if kernpack does not
/// include the code that runs them.
#[cfg(not(feature = "cuda"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __has_cuda_kernels {
    () => {
        ::core::compile_error!(
            "build.rs compiles CUDA kernels (`.cuda(..)`), which needs kernpack's feature `cuda` to run them; write `kernpack = { \
             features = [\"cuda\"], .. }` in Cargo.toml, or set KERNPACK_CUDA=off to build without them"
        );
    };
}

/// In the generated module of a crate with OpenCL kernels: expands to nothing, because kernpack
/// includes the code that runs them.
#[cfg(feature = "opencl")]
#[doc(hidden)]
#[macro_export]
macro_rules! __has_opencl_kernels {
    () => {};
}

/// In the generated module of a crate with OpenCL kernels: a compile error if kernpack does not
/// include the code that runs them.
#[cfg(not(feature = "opencl"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __has_opencl_kernels {
    () => {
        ::core::compile_error!(
            "build.rs brings OpenCL kernels (`.opencl(..)` or `.devices(..)`), which need kernpack's feature `opencl` to run them; write `kernpack = { \
             features = [\"opencl\"], .. }` in Cargo.toml"
        );
    };
}

/// In the generated module of a crate with compressed modules: expands to nothing, because kernpack
/// includes the code that restores them.
#[cfg(feature = "zstd")]
#[doc(hidden)]
#[macro_export]
macro_rules! __has_compressed_modules {
    () => {};
}

/// In the generated module of a crate with compressed modules: a compile error if kernpack does not
/// include the code that restores them.
#[cfg(not(feature = "zstd"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __has_compressed_modules {
    () => {
        ::core::compile_error!(
            "build.rs compresses modules (`.compress(true)`), which needs kernpack's feature `zstd` to restore them; write `kernpack = \
             { features = [\"zstd\"], .. }` in Cargo.toml"
        );
    };
}
