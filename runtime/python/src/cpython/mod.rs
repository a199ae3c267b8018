//! The interpreter: the functions of CPython and its lock, references, classes and exceptions.

pub(crate) mod alive;
pub(crate) mod capi;
pub(crate) mod exception;
pub(crate) mod freelist;
pub(crate) mod heap_type;
pub(crate) mod interpreter;
pub(crate) mod object;
pub(crate) mod pending;
pub(crate) mod signals;
mod snapshot;
pub(crate) mod state;
pub(crate) mod tvm_ffi;
