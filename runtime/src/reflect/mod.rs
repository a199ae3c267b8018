//! Registered types as data: their fields, methods and attributes, whatever language they come from, and visitors of fields.
//!
//! Printing, comparing, copying and serializing are written on this.

mod attr;
mod attr_slot;
mod dispatch;
mod json;
mod object;
mod repr;
mod tree;
mod type_info;
mod visitor;
mod visitor_mut;

pub use attr::AttrColumn;
pub use attr_slot::AttrSlot;
pub(crate) use attr_slot::Slot;
#[doc(hidden)]
pub use attr_slot::{ConvertOf, NoConvert, SetAttr};
pub use dispatch::visit_value;
pub(crate) use dispatch::{dispatch, visit_lent};
pub use json::{from_json, to_json};
pub use object::visit_object;
pub use repr::repr;
pub use tree::Tree;
pub(crate) use type_info::call_function;
pub use type_info::{Field, Fields, Method, TypeInfo};
pub use visitor::{AttrVisitor, VisitAttrs};
pub use visitor_mut::AttrVisitorMut;
