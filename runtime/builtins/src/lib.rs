//! The parts of the stock TVM FFI library beyond the C ABI, in Rust: global functions and types
//! under its names for callers in any language, and the same as typed operations on values of all
//! languages ([`structural`], [`reflect`]).
//!
//! Crates use it through `kernpack`.
//!
//! | module | content |
//! |---|---|
//! | `definition` | a global function, a type, a signature as data |
//! | `functions` | functions that do not walk values: containers, strings, JSON, modules |
//! | `dataclass` | classes that other languages define, enums |
//! | `walker` | shared parts of all walks through graphs |
//! | `engines` | equality, hash, visit, mutate, repr, copies, JSON graphs, access paths |
//! | `catalog` | the list of all functions and types, and their registration |
//! | [`structural`], [`reflect`] | typed operations over the engines |

#![cfg_attr(
    not(feature = "all"),
    allow(dead_code, unused_imports, reason = "only what the crate's own interface uses is called then")
)]

mod catalog;
mod dataclass;
mod definition;
mod engines;
mod functions;
pub mod reflect;
pub mod structural;
mod walker;

use kernpack_core::{
    Array, DataType, Element, Error, Function, Map, ObjRef, Object, ObjectRoot, Result, Tensor, bail, container,
    ensure, error, function, json, module, object, provider, value,
};
#[cfg(test)]
use kernpack_core::{Device, Shape};
use kernpack_embedded as embedded;
use kernpack_formats::abi;

#[doc(hidden)]
#[cfg(feature = "all")]
#[doc(hidden)]
pub use catalog::register;
#[doc(hidden)]
pub use catalog::{register_carried, register_init, register_markers};
#[doc(hidden)]
pub use dataclass::enum_registration::register_enum;
#[doc(hidden)]
pub use engines::json_graph::tensor::register_tensor_hooks;

/// The constructor that the crate `kernpack` gives artifacts, for the unit tests of this crate.
#[cfg(test)]
mod constructor {
    use kernpack_core::generated_code::Collected;

    kernpack_core::__constructor!(|| Collected { builtins: crate::register, ..Collected::NOTHING });
}
