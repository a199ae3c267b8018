//! Objects: reference-counted values with a string type key, registered at run time.
//!
//! A Rust struct with `#[derive(Object)]` lives behind the ABI's object header; [`ObjRef`] is a counted reference to one.
//!
//! ```
//! use kernpack::{ObjRef, Object};
//!
//! #[derive(Object)]
//! #[object(key = "docs.Point")]
//! #[repr(C)]
//! pub struct Point {
//!     pub x: i64,
//!     pub y: i64,
//! }
//!
//! let point = ObjRef::new(Point { x: 3, y: 4 });
//! assert_eq!(point.x, 3);
//! let again = point.clone();
//! assert!(again.ptr_eq(&point));
//! ```

mod fields;
mod reference;
mod registration;
mod root;

pub use reference::ObjRef;
pub(crate) use registration::register_type;
pub use registration::{FieldDef, FieldValue, TypeDef, TypeIndexCell, field_getter, type_index_of};
pub use root::{Object, ObjectRoot};
