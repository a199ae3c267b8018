/// Defines `from_raw`, `into_raw` and `as_ptr` for a handle: a struct with a field `object`, which
/// is a counted reference of the given type, and other fields whose values are the same for every
/// object.
macro_rules! raw_handle {
    ($counted:ident: $($param:ident)* => $handle:ty, $object:literal $(, $field:ident: $value:expr)*) => {
        impl<$($param),*> $handle {
            /// Takes ownership of one counted reference, as returned by [`Self::into_raw`].
            ///
            /// # Safety
            #[doc = concat!("`object` is a live ", $object, ", and one counted reference to it was the caller's.")]
            #[inline]
            pub unsafe fn from_raw(object: *mut $crate::abi::TVMFFIObject) -> Self {
                // SAFETY: promised by the caller; every object is an `ffi.Object`.
                Self { object: unsafe { $counted::from_raw(object) }$(, $field: $value)* }
            }

            /// Returns the counted reference without releasing it: it now belongs to the pointer.
            #[inline]
            #[must_use = "the reference is never released unless the receiver does it"]
            pub fn into_raw(self) -> *mut $crate::abi::TVMFFIObject {
                self.object.into_raw()
            }

            /// The object's header, borrowed: alive as long as this handle.
            #[inline]
            pub fn as_ptr(&self) -> *mut $crate::abi::TVMFFIObject {
                self.object.as_ptr()
            }
        }
    };
}

pub(crate) use raw_handle;
