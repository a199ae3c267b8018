//! Interoperation with C++: the vtable of our modules, calls of the virtual functions of others,
//! and errors in both directions.

pub(in crate::module) mod call;
pub(in crate::module) mod error_relay;
mod exception;
pub mod result;
pub mod symbols;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod thrown;
pub(in crate::module) mod vtable;
