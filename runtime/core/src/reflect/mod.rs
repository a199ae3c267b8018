//! Registered types as data, and visitors of fields: `kernpack::reflect`, without what prints, saves and loads.

mod attr;
mod attr_slot;
mod dispatch;
mod object;
mod type_info;
mod visitor;
mod visitor_mut;

pub use attr::AttrColumn;
pub use attr_slot::AttrSlot;
pub(crate) use attr_slot::Slot;
#[doc(hidden)]
pub use attr_slot::{ConvertOf, NoConvert, SetAttr};
#[doc(hidden)]
pub use dispatch::dispatch;
pub(crate) use dispatch::visit_lent;
pub use dispatch::visit_value;
pub use object::visit_object;
#[doc(hidden)]
pub use type_info::call_function;
pub use type_info::{Field, Fields, Method, TypeInfo};
pub use visitor::{AttrVisitor, VisitAttrs};
pub use visitor_mut::AttrVisitorMut;
