//! Registered types as data: their fields, methods and attributes, whatever language they come from.
//!
//! Printing, comparing, copying and serializing are written on this.

mod attr;
mod type_info;

pub use attr::AttrColumn;
pub(crate) use type_info::call_function;
pub use type_info::{Field, Fields, Method, TypeInfo};
