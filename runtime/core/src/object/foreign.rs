//! Objects whose type another language derived from a Rust type (`@py_class` in Python).
//!
//! Such an object was allocated as zeros, and its fields were set by our setters; code that copies
//! or destroys it treats its fields as bytes, values or object pointers. So it may be used as the
//! Rust type if that type and its ancestors only have fields with such storage, do not have hidden
//! fields, and every field is set.

use super::TypeDef;
use crate::abi::TVMFFIObject;
use crate::types::{AttrColumn, TypeInfo};
use crate::value::{Mismatch, Storage, type_key};

/// The type attribute of types defined with `#[derive(Object)]`. It also distinguishes two
/// definitions of a type: layouts that differ only in private fields, such as `Vec<u8>` and
/// `[usize; 3]`, are otherwise registered identically.
pub(super) static FINGERPRINT: AttrColumn = AttrColumn::new("__kernpack_fingerprint__");

/// Returns whether objects of a type are only created by the code of `#[derive(Object)]`.
#[inline]
#[doc(hidden)]
pub fn is_made_by_rust(index: i32) -> bool {
    FINGERPRINT.get(index).is_some()
}

/// Returns the key of a type, for messages.
#[cold]
pub(super) fn key_of(index: i32) -> String {
    type_key(index)
}

/// Checks that a complete object of a foreign type is a valid value of the Rust type that its type
/// is derived from.
///
/// # Errors
/// Returns the reason that the object is not usable as one of this type.
///
/// # Safety
/// The object is alive, and its type is derived from `definition`'s.
#[cold]
#[inline(never)]
pub(super) unsafe fn check(object: *mut TVMFFIObject, definition: &'static TypeDef) -> Result<(), Mismatch> {
    // SAFETY: promised by the caller.
    let index = unsafe { (*object).type_index };
    for def in definition.lineage() {
        let obstacle = match def.fields.iter().find(|field| field.storage == Storage::Rust) {
            _ if def.is_final => Some("it is final".to_owned()),
            Some(field) => Some(format!("only Rust code can make its field '{}'", field.name)),
            None if !def.hidden.is_empty() => Some("it has private fields".to_owned()),
            None => None,
        };
        if let Some(obstacle) = obstacle {
            return Err(Mismatch::type_note(format!(
                "expected {}, got {}, whose objects another language makes: a type cannot be derived from {} there, because \
                 {obstacle}",
                definition.key,
                key_of(index),
                def.key
            )));
        }
        for field in def.fields {
            // SAFETY: the object has the fields of its ancestors, each set by its setter or still
            // zeros.
            if !unsafe { (field.is_set)(object.byte_add(field.offset).cast()) } {
                return Err(Mismatch::type_note(format!(
                    "expected {}, got {} whose field '{}' has no value yet",
                    definition.key,
                    key_of(index),
                    field.name
                )));
            }
        }
    }
    // The other ancestors are not Rust types of this project; the author of the
    // `unsafe impl Object` guarantees this.
    debug_assert!(TypeInfo::find(index).is_some());
    Ok(())
}
