//! What generated code calls. Public because generated code lives in user crates; not covered by semantic versioning.

pub use kernpack_builtins::{register_carried, register_enum, register_init};
pub use kernpack_core::impl_::*;
pub use linkme;

pub use crate::slices::{
    KERNPACK_CARRIED_V1, KERNPACK_DEVICES_V1, KERNPACK_ENUMS_V1, KERNPACK_FUNCTIONS_V1, KERNPACK_KERNELS_V1,
    KERNPACK_LIBRARIES_V1, KERNPACK_METHODS_V1, KERNPACK_TYPES_V1,
};

/// What gives other languages a constructor made of a type's fields, if they get one.
pub const fn generated_init(wanted: bool) -> Option<RegisterInit> {
    if wanted { Some(register_init) } else { None }
}
