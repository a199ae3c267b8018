//! The properties of a type that structural operations depend on.

use crate::abi::{TVMFFITypeInfo, seq_hash_kind};
use crate::walker::field_value::type_info;
use crate::{Error, Result, error};

/// The record of an object's type and its kind, one of [`seq_hash_kind`]; an error for types
/// without a kind.
#[inline]
pub(super) fn of(index: i32) -> Result<(&'static TVMFFITypeInfo, i32)> {
    let info = type_info(index)?;
    // SAFETY: NULL, or a record that lives forever.
    match unsafe { info.metadata.as_ref() } {
        Some(metadata) if metadata.structural_eq_hash_kind != seq_hash_kind::UNSUPPORTED => {
            Ok((info, metadata.structural_eq_hash_kind))
        }
        metadata => Err(unsupported(info, metadata.is_some())),
    }
}

#[cold]
fn unsupported(info: &TVMFFITypeInfo, has_metadata: bool) -> Error {
    // SAFETY: the table keeps keys forever.
    let key = String::from_utf8_lossy(unsafe { info.type_key.as_slice() });
    let what = if has_metadata { "_type_s_eq_hash_kind" } else { "Type metadata" };
    error!(TypeError, "{what} is not set for type `{key}`, so StructuralHash is not supported for this type")
}
