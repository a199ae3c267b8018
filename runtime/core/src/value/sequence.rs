use super::{Any, AnyView, Mismatch};
use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};
use crate::embedded::{self, list::shared::Contents};

/// Borrows owned values as views.
fn as_views(values: &[TVMFFIAny]) -> &[AnyView<'_>] {
    // SAFETY: a view is transparent over the raw struct, and owned values are valid views for as
    // long as they are borrowed.
    unsafe { core::slice::from_raw_parts(values.as_ptr().cast(), values.len()) }
}

/// The elements of an `ffi.Array` as views.
///
/// # Safety
/// `object` is an array that lives for `'a` and does not change during that time.
pub(crate) unsafe fn views<'a>(object: *mut TVMFFIObject) -> &'a [AnyView<'a>] {
    // SAFETY: promised by the caller.
    as_views(unsafe { embedded::seq::elements(object) })
}

/// Returns the elements of a value that is an array; empty for any other value.
pub(crate) fn array_elements<'a>(value: &'a AnyView<'a>) -> &'a [AnyView<'a>] {
    match value.object() {
        // SAFETY: the view keeps the array alive, and arrays do not change.
        Some(object) if unsafe { (*object).type_index } == type_index::ARRAY => unsafe { views(object) },
        _ => &[],
    }
}

/// The elements of an array or list, as a snapshot for lists.
#[doc(hidden)]
pub struct Sequence<'a>(Contents<'a>);

impl Sequence<'_> {
    /// The elements.
    #[inline]
    #[must_use]
    pub fn views(&self) -> &[AnyView<'_>] {
        as_views(&self.0)
    }

    /// Returns the elements with references that the caller owns.
    pub(crate) fn into_owned(self) -> Vec<TVMFFIAny> {
        self.0.into_owned()
    }
}

/// Returns the elements of a value that is an array or list.
#[doc(hidden)]
pub fn sequence<'a>(value: &'a AnyView<'a>) -> Result<Sequence<'a>, Mismatch> {
    let object = value.object().ok_or(Mismatch::TYPE)?;
    // SAFETY: the view keeps the object alive; its type is checked.
    unsafe {
        match (*object).type_index {
            type_index::ARRAY | type_index::LIST => Ok(Sequence(embedded::list::shared::elements(object))),
            _ => Err(Mismatch::TYPE),
        }
    }
}

/// Moves two values into an array.
pub(crate) fn pair(values: [Any; 2]) -> Any {
    let values = values.map(Any::into_raw);
    // SAFETY: the values are owned and are moved into a new object; the value takes ownership of
    // its one reference.
    unsafe { Any::from_object(embedded::seq::new_array_of_moved(&values)) }
}

/// Returns the keys and values of a map or dict, alternating.
pub(crate) fn entries<'a>(value: &'a AnyView<'a>) -> Result<Sequence<'a>, Mismatch> {
    let object = value.object().ok_or(Mismatch::TYPE)?;
    // SAFETY: the view keeps the object alive; its type is checked.
    unsafe {
        match (*object).type_index {
            type_index::MAP | type_index::DICT => Ok(Sequence(embedded::map::shared::contents(object))),
            _ => Err(Mismatch::TYPE),
        }
    }
}
