//! Enums with data: families of object types, one for each variant, with the enum as their parent.
//!
//! ```
//! use kernpack::{ObjRef, Object};
//!
//! #[derive(Object)]
//! #[object(key = "docs.Expr")]
//! #[repr(C, u32)]
//! pub enum Expr {
//!     /// A number.
//!     Const { value: i64 },
//!     /// A sum.
//!     Add { lhs: ObjRef<Expr>, rhs: ObjRef<Expr> },
//! }
//!
//! fn evaluate(expr: &ObjRef<Expr>) -> i64 {
//!     match &**expr {
//!         Expr::Const { value } => *value,
//!         Expr::Add { lhs, rhs } => evaluate(lhs) + evaluate(rhs),
//!     }
//! }
//!
//! let number = |value| ObjRef::new(Expr::Const { value });
//! let sum = ObjRef::new(Expr::Add { lhs: number(1), rhs: number(2) });
//! assert_eq!(evaluate(&sum), 3);
//! assert_eq!(sum.type_key(), "docs.Expr.Add");
//! ```
//!
//! The body of an object is the enum's value, including its tag. To keep an object's type in line
//! with its variant, its value is never replaced as a whole: there is no `get_mut` and no
//! `make_mut`.

use core::ffi::c_void;

use super::brought::brought;
use super::{HiddenDef, Object, TypeDef};
use crate::embedded::HEADER_SIZE;

/// The type index of a family, for its variants.
pub fn family_index<T: Object>() -> i32 {
    T::type_index()
}

/// The definition of a family, for its variants.
pub fn family_def<T: Object>() -> Option<&'static TypeDef> {
    T::type_def()
}

/// The type keys of the variants if a type is a family: a type with slots for exactly these
/// subtypes, whose objects have the same size as its own.
#[cold]
pub(super) fn variant_keys(definition: &'static TypeDef) -> Vec<&'static str> {
    let is_variant = |def: &&TypeDef| {
        let parent = (def.parent_def)();
        parent.is_some_and(|parent| core::ptr::eq(parent, definition)) && def.is_final && def.size == definition.size
    };
    // In source order. A few elements do not need a sorting algorithm, which every library would
    // link.
    let mut variants: Vec<&TypeDef> = Vec::new();
    for def in brought().types.iter().filter(is_variant) {
        let place = variants.iter().position(|other| other.line > def.line).unwrap_or(variants.len());
        variants.insert(place, def);
    }
    if variants.len() != definition.child_slots as usize {
        return vec![];
    }
    variants.iter().map(|def| def.key).collect()
}

/// The tag of a variant as a hidden field, which the creator writes.
pub const fn tag_def<const TAG: u32>() -> HiddenDef {
    HiddenDef { name: "the tag", offset: HEADER_SIZE, make: Some(write_tag::<TAG>), drop: leave }
}

unsafe fn write_tag<const TAG: u32>(place: *mut c_void) {
    // SAFETY: the caller passes the beginning of a body, which is the tag of an enum with
    // `#[repr(C, u32)]`.
    unsafe { place.cast::<u32>().write(TAG) }
}

/// A tag does not own anything.
unsafe fn leave(_: *mut c_void) {}
