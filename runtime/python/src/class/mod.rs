//! Classes of Python for the library's types, enums, tensors, lists and dicts.

mod construct;
pub(crate) mod container;
mod copy_level;
pub(crate) mod declared;
mod deep_copy;
pub(crate) mod enumeration;
mod field;
mod gc;
pub(crate) mod operators;
pub(crate) mod pickle;
mod special;
pub(crate) mod tensor;
mod tensor_copy;
pub(crate) mod types;
mod walk;
