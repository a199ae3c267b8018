//! Numbers in Python objects: an `Any` keeps a number of a class that is derived from `int` or
//! `float` as the Python object, and conversions to numbers read it.

use super::{Any, AnyView};

/// Returns the number of the Python object with this handle; with `true` it may be a float.
#[cfg(feature = "python_numbers")]
pub type Read = fn(*mut core::ffi::c_void, bool) -> Option<Any>;

#[cfg(feature = "python_numbers")]
static READ: std::sync::OnceLock<Read> = std::sync::OnceLock::new();

/// Registers the function that reads Python objects.
#[cfg(feature = "python_numbers")]
pub fn register(read: Read) {
    let _ = READ.set(read);
}

/// The number of a value that is a Python object.
#[cfg(feature = "python_numbers")]
#[inline(never)]
pub(super) fn of(value: &AnyView<'_>, is_float: bool) -> Option<Any> {
    use crate::abi::{TVMFFIOpaqueObjectCell, type_index};
    let object = value.object()?;
    // SAFETY: the view keeps the object alive; its type is checked before it is read.
    let handle = unsafe {
        if (*object).type_index != type_index::OPAQUE_PY_OBJECT {
            return None;
        }
        crate::embedded::body::<TVMFFIOpaqueObjectCell>(object).handle
    };
    READ.get()?(handle, is_float)
}

/// The artifact has no Python objects.
#[cfg(not(feature = "python_numbers"))]
#[inline(always)]
pub(super) const fn of(_: &AnyView<'_>, _: bool) -> Option<Any> {
    None
}
