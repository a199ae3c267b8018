use core::ptr::NonNull;

use super::{Any, AnyView, Arg};
use crate::abi::{TVMFFIAny, TVMFFIObject};
use crate::embedded;

/// A counted reference to an object of any type, for handles that track the type themselves.
#[repr(transparent)]
pub(crate) struct Counted(NonNull<TVMFFIObject>);

// SAFETY: counts are atomic, and a handle controls access to the content itself.
unsafe impl Send for Counted {}
// SAFETY: as above.
unsafe impl Sync for Counted {}

impl Counted {
    /// Takes ownership of one counted reference.
    ///
    /// # Safety
    /// `object` is alive, and the caller owned one counted reference to it.
    #[inline]
    pub(crate) unsafe fn from_raw(object: *mut TVMFFIObject) -> Self {
        // SAFETY: live objects are not at address 0.
        Self(unsafe { NonNull::new_unchecked(object) })
    }

    /// Returns the counted reference without releasing it.
    #[inline]
    pub(crate) fn into_raw(self) -> *mut TVMFFIObject {
        let object = self.0.as_ptr();
        core::mem::forget(self);
        object
    }

    /// The object's header, borrowed.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut TVMFFIObject {
        self.0.as_ptr()
    }

    /// Converts the reference to a value.
    #[inline]
    pub(crate) fn into_any(self) -> Any {
        // SAFETY: the value takes ownership of the reference.
        unsafe { Any::from_object(self.into_raw()) }
    }

    /// Borrows the reference as an argument.
    #[inline]
    pub(crate) fn to_arg(&self) -> Arg<'_> {
        // SAFETY: the object is alive, and lives as long as the borrow.
        unsafe {
            let raw = TVMFFIAny::pointer((*self.as_ptr()).type_index, self.as_ptr().cast());
            Arg::borrowed(AnyView::from_raw(raw))
        }
    }
}

impl Clone for Counted {
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: the object is alive.
        unsafe { embedded::inc_ref(self.as_ptr()) };
        Self(self.0)
    }
}

impl Drop for Counted {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this reference is owned.
        unsafe { embedded::dec_ref(self.as_ptr()) }
    }
}
