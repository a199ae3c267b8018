//! Registered types as data, and visitors of fields: `kernpack::reflect` without printing, saving
//! and loading.

mod attr_slot;
pub(crate) mod derived;
mod dispatch;
mod object;
mod visitor;
mod visitor_mut;

pub use attr_slot::AttrSlot;
#[doc(hidden)]
pub use attr_slot::{ConvertOf, NoConvert, SetAttr};
#[doc(hidden)]
pub use dispatch::dispatch;
pub use dispatch::visit_value;
pub use object::visit_object;
pub use visitor::{AttrVisitor, VisitAttrs};
pub use visitor_mut::AttrVisitorMut;

#[doc(hidden)]
pub use crate::types::call_function;
pub use crate::types::{AttrColumn, Field, Fields, Method, TypeInfo};
