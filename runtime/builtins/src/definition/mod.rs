//! The registrations of the embedded implementation, as data: a function with its signature, a type
//! with its fields, methods and attributes. One entry point serves all functions.

pub(crate) mod field;
pub(crate) mod function;
pub(crate) mod functor;
pub(crate) mod instance;
pub(crate) mod setters;
pub(crate) mod signature;
pub(crate) mod type_def;
mod type_index;
