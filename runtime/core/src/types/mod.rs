//! Registered types of all languages as data: fields, methods, attribute columns.

mod attr;
mod type_info;

pub use attr::AttrColumn;
#[doc(hidden)]
pub use type_info::call_function;
pub use type_info::{Field, Fields, Method, TypeInfo};
