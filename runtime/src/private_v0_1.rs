//! The functions and types that generated code of version 0.1 uses. Public because generated code
//! lives in user crates; not covered by semantic versioning.
//!
//! The module is named after the minor version: code that another minor version of the macros or of
//! `kernpack-build` has generated does not compile, and the error names the version that it was
//! made for (`tests/ui/*_of_another_version.rs`). A patch release may add to this module, for a
//! `kernpack-build` of the same minor version; it removes nothing.

pub use kernpack_builtins::{register_carried, register_enum, register_init, register_tensor_hooks};
pub use kernpack_core::generated_code::*;
pub use kernpack_core::{
    __cpp_result as cpp_result, __entry_point as entry_point, __foreign_entry_point as foreign_entry_point,
    __getter as getter, __has_compressed_modules as has_compressed_modules, __has_cuda_kernels as has_cuda_kernels,
    __has_opencl_kernels as has_opencl_kernels, __host_kernel as host_kernel, __library_bin as library_bin,
    __method_name as method_name, __packed_function as packed_function, __text_symbol as text_symbol,
    __weights_slot as weights_slot,
};
pub use linkme;

pub use crate::__python_module as python_module;
#[cfg(feature = "python")]
pub use crate::python::Module as PythonModule;

pub use crate::slices::{
    KERNPACK_CARRIED_V1, KERNPACK_DEVICES_V1, KERNPACK_ENUMS_V1, KERNPACK_EXCEPTIONS_V1, KERNPACK_FUNCTIONS_V1,
    KERNPACK_KERNELS_V1, KERNPACK_LIBRARIES_V1, KERNPACK_METHODS_V1, KERNPACK_TYPES_V1,
};

/// The functions that compare and hash objects by the hooks of their types, for a caller in this
/// artifact: Python's operators.
#[cfg(feature = "python")]
pub const RECURSION: Option<&'static Recursion> = Some(&kernpack_python::RECURSION);
/// No code in this artifact compares objects by the hooks of their types.
#[cfg(not(feature = "python"))]
pub const RECURSION: Option<&'static Recursion> = None;

/// The function that registers a constructor generated from a type's fields for other languages, if
/// `wanted`.
pub const fn generated_init(wanted: bool) -> Option<RegisterInit> {
    if wanted { Some(register_init) } else { None }
}

/// The function that registers copying and writing of tensors, for a type that has tensors among
/// its fields.
#[inline]
pub const fn tensor_hooks(fields: &[TypeSchema]) -> Option<fn() -> kernpack_core::Result<()>> {
    let mut index = 0;
    while index < fields.len() {
        if fields[index].mentions("ffi.Tensor") {
            return Some(register_tensor_hooks);
        }
        index += 1;
    }
    None
}

// The name follows the version of the workspace: in `lib.rs`, and wherever kernpack-macros-backend
// and kernpack-build write it.
const _: () = assert!(
    matches!((env!("CARGO_PKG_VERSION_MAJOR").as_bytes(), env!("CARGO_PKG_VERSION_MINOR").as_bytes()), (b"0", b"1")),
    "rename `__private_v0_1` after the new minor version, here and in what generates code"
);
