use super::{AnyView, Mismatch};
use crate::abi::{TVMFFIObject, type_index};
use crate::embedded;

/// The elements of an `ffi.Array` or `ffi.List` as views.
///
/// # Safety
/// `object` is an array or list that lives for `'a`, and it does not change meanwhile.
pub(crate) unsafe fn views<'a>(object: *mut TVMFFIObject) -> &'a [AnyView<'a>] {
    // SAFETY: promised by the caller; a view is transparent over the raw struct, and owned elements are valid views.
    unsafe {
        let elements = embedded::seq::elements(object);
        core::slice::from_raw_parts(elements.as_ptr().cast(), elements.len())
    }
}

/// The elements of a value that is an array or list.
#[doc(hidden)]
pub fn sequence<'a>(value: &'a AnyView<'a>) -> Result<&'a [AnyView<'a>], Mismatch> {
    let object = value.object().ok_or(Mismatch::TYPE)?;
    // SAFETY: the view keeps the object alive; its type is checked. A list must not be changed during a call that it is an
    // argument of: the ABI's contract for mutable containers.
    unsafe {
        match (*object).type_index {
            type_index::ARRAY | type_index::LIST => Ok(views(object)),
            _ => Err(Mismatch::TYPE),
        }
    }
}
