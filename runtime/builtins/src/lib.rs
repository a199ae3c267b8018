//! What the stock TVM FFI library has beyond the C ABI, in Rust: global functions and types under its names for hosts in any language,
//! and the same as typed operations on values of all languages ([`structural`], [`reflect`]).
//!
//! Crates use it through `kernpack`.

mod builtins;
pub mod reflect;
pub mod structural;

use kernpack_core::{
    Array, DataType, Element, Error, Function, Map, ObjRef, Object, ObjectRoot, Result, Tensor, bail, container,
    ensure, error, function, host, json, module, object, value,
};
#[cfg(test)]
use kernpack_core::{Device, Shape};
use kernpack_embedded as embedded;
use kernpack_formats::abi;

#[doc(hidden)]
pub use builtins::{register, register_carried, register_enum, register_init};

/// What the crate `kernpack` has for artifacts, for the unit tests of this crate.
#[cfg(test)]
mod constructor {
    use kernpack_core::impl_::Collected;

    kernpack_core::__constructor!(|| Collected { builtins: crate::register, ..Collected::NOTHING });
}
