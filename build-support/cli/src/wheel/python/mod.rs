//! The Python side of a wheel: a module that loads the library, and its type stubs.

mod annotation;
mod api;
mod hidden;
mod module;
mod names;
mod operator;
mod setter;
mod stub;

pub(crate) use api::Api;
pub(crate) use module::{loader, package};
pub(crate) use names::is_identifier;
pub(crate) use stub::{Place, inner_stubs, package_stub, stub};

/// The loader of the library in Python.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Host {
    /// CPython: the library is an extension module.
    Extension,
    /// The package tvm_ffi.
    TvmFfi,
}
