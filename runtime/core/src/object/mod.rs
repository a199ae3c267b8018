//! Objects: reference-counted values with a string type key, registered at run time.
//!
//! A Rust struct with `#[derive(Object)]` is stored after the ABI's object header; [`ObjRef`] is a
//! counted reference to one.
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

mod borrowed;
mod brought;
mod construction;
mod copy;
mod definition;
pub(crate) mod derived;
mod enum_type;
mod family;
mod field;
mod field_value;
mod fields;
mod foreign;
mod identity;
mod methods;
mod reference;
mod refusal;
mod registration;
mod root;
mod thread_safety;
mod type_key;
mod weak;
mod write_access;

pub use borrowed::Borrowed;
pub(crate) use brought::bring;
pub use construction::create_of;
pub use copy::{CopyFn, copy_of};
pub use definition::{DefaultDef, Defined, FieldDef, HiddenDef, RegisterInit, TextInPlace, TypeDef, TypeIndexCell};
pub use enum_type::{
    EnumDef, EnumInstances, EnumKind, EnumType, RegisteredEnum, VariantDef, enum_from_any, enum_into_any, enum_to_arg,
};
pub use family::{family_def, family_index, tag_def};
pub use field::{CloneOf, FieldAt, NoClone, NoSetter, SetterOf, field_def, hidden_def, writable_field_def};
#[doc(hidden)]
pub use field_value::FromFieldValue;
pub use field_value::{Field, FieldValue, MutableField};
#[doc(hidden)]
pub use foreign::is_made_by_rust;
pub use identity::Identity;
pub use methods::{HasConstructor, MethodDef, MethodName, MethodsDef, Recursion, method_name_len};
pub use reference::ObjRef;
#[doc(hidden)]
pub use registration::register_attr;
pub use registration::type_index_of;
pub use root::{Object, ObjectRoot, ObjectStruct};
pub use thread_safety::{NotThreadSafe, ObjectPart, ThreadSafety, assert_object_part};
pub use weak::WeakRef;
#[doc(hidden)]
pub use write_access::is_shared;
