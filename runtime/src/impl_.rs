//! What generated code calls. Public because generated code lives in user crates; not covered by semantic versioning.

pub use kernpack_builtins::register_enum;
pub use kernpack_core::impl_::*;
pub use linkme;

pub use crate::slices::{
    KERNPACK_CARRIED_V1, KERNPACK_DEVICES_V1, KERNPACK_ENUMS_V1, KERNPACK_FUNCTIONS_V1, KERNPACK_KERNELS_V1,
    KERNPACK_LIBRARIES_V1, KERNPACK_METHODS_V1, KERNPACK_TYPES_V1,
};
