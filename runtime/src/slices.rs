//! The distributed slices that generated code adds to, and the constructor that passes them to the
//! runtime.

use kernpack_core::generated_code::{
    CarriedKind, Collected, DeviceKindInfo, EnumDef, ExceptionInfo, FunctionInfo, KernelInfo, LibraryInfo, MethodsDef,
    TypeDef,
};
use linkme::distributed_slice;

/// Packed functions of this artifact.
#[distributed_slice]
pub static KERNPACK_FUNCTIONS_V1: [FunctionInfo];

/// Kernels that build scripts compiled into this artifact.
#[distributed_slice]
pub static KERNPACK_KERNELS_V1: [KernelInfo];

/// Object types of this artifact.
#[distributed_slice]
pub static KERNPACK_TYPES_V1: [TypeDef];

/// Enums without data of this artifact.
#[distributed_slice]
pub static KERNPACK_ENUMS_V1: [EnumDef];

/// Methods of object types of this artifact.
#[distributed_slice]
pub static KERNPACK_METHODS_V1: [MethodsDef];

/// Kinds of the modules that this artifact contains in its import tree.
#[distributed_slice]
pub static KERNPACK_CARRIED_V1: [CarriedKind];

/// Kinds of devices that this artifact registers.
#[distributed_slice]
pub static KERNPACK_DEVICES_V1: [DeviceKindInfo];

/// This artifact's own kinds of errors.
#[distributed_slice]
pub static KERNPACK_EXCEPTIONS_V1: [ExceptionInfo];

/// Crates of this artifact that called `library!()`.
#[distributed_slice]
pub static KERNPACK_LIBRARIES_V1: [LibraryInfo];

/// The entries that the crates of this artifact have added to the slices.
pub(crate) fn collected() -> Collected {
    Collected {
        #[cfg(feature = "builtins")]
        builtins: kernpack_builtins::register,
        #[cfg(not(feature = "builtins"))]
        builtins: || Ok(()),
        functions: KERNPACK_FUNCTIONS_V1.static_slice(),
        kernels: KERNPACK_KERNELS_V1.static_slice(),
        types: KERNPACK_TYPES_V1.static_slice(),
        enums: KERNPACK_ENUMS_V1.static_slice(),
        methods: KERNPACK_METHODS_V1.static_slice(),
        carried: KERNPACK_CARRIED_V1.static_slice(),
        devices: KERNPACK_DEVICES_V1.static_slice(),
        exceptions: KERNPACK_EXCEPTIONS_V1.static_slice(),
        libraries: KERNPACK_LIBRARIES_V1.static_slice(),
    }
}

kernpack_core::__constructor!(collected);
