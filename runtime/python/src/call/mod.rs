//! Calls of the library's functions from Python.

pub(crate) mod arguments;
pub(crate) mod function;
pub(crate) mod given;
pub(crate) mod handle;
pub(crate) mod method;
mod operator;
mod signed;
