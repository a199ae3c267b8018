use core::fmt;
use core::marker::PhantomData;

use super::{FromAny, type_name};
use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};
use crate::{Error, Result, embedded};

/// A value of any type that is borrowed for `'a`: what a packed function gets as arguments. 16 bytes, free to copy.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct AnyView<'a> {
    raw: TVMFFIAny,
    borrowed: PhantomData<&'a TVMFFIAny>,
}

/// An owned value of any type: what a packed function returns. Holds one reference when the value is an object.
///
/// Never holds a borrowed C string, byte array or tensor pointer; those become owned values or errors on the way in.
#[repr(transparent)]
pub struct Any {
    raw: TVMFFIAny,
}

// SAFETY: reference counts are atomic, and the ABI's objects may be used from any thread: Rust objects are `Send + Sync`
// by the bounds of `Object` and of closures; foreign ones promise it by being passed through the ABI.
unsafe impl Send for Any {}
// SAFETY: as above.
unsafe impl Sync for Any {}

impl<'a> AnyView<'a> {
    /// No value.
    pub const NONE: Self = Self { raw: TVMFFIAny::NONE, borrowed: PhantomData };

    /// Wraps a raw view.
    ///
    /// # Safety
    /// `raw` follows the ABI's rules for its type index, and what it refers to lives for `'a`.
    #[inline]
    pub const unsafe fn from_raw(raw: TVMFFIAny) -> Self {
        Self { raw, borrowed: PhantomData }
    }

    /// The raw view.
    #[inline]
    pub const fn as_raw(&self) -> &TVMFFIAny {
        &self.raw
    }

    /// The type index; see [`type_index`].
    #[inline]
    pub const fn type_index(&self) -> i32 {
        self.raw.type_index
    }

    /// Returns whether the value is None.
    #[inline]
    pub const fn is_none(&self) -> bool {
        self.raw.type_index == type_index::NONE
    }

    /// The name of the value's type for people: `int`, `str`, `Tensor`, `imagekit.Histogram`.
    pub fn type_name(&self) -> String {
        type_name(self)
    }

    /// Converts, borrowing from the value where `T` borrows.
    ///
    /// # Errors
    /// TypeError or ValueError that says what was expected.
    #[track_caller]
    pub fn get<T: FromAny<'a>>(&'a self) -> Result<T> {
        match T::from_any(self) {
            Ok(value) => Ok(value),
            Err(mismatch) => Err(mismatch.into_error("", &T::TYPE, self)),
        }
    }

    /// The object, also behind an rvalue reference.
    #[inline]
    #[doc(hidden)]
    pub fn object(&self) -> Option<*mut TVMFFIObject> {
        // SAFETY: the payload's meaning follows from the type index, which `from_raw`'s caller vouches for.
        unsafe {
            if self.raw.type_index >= type_index::STATIC_OBJECT_BEGIN {
                return Some(self.raw.payload.v_obj);
            }
            if self.raw.type_index == type_index::OBJECT_RVALUE_REF {
                let object = *self.raw.payload.v_ptr.cast::<*mut TVMFFIObject>();
                return (!object.is_null()).then_some(object);
            }
        }
        None
    }

    /// Returns true if the caller passes the object as an rvalue reference, which the callee may
    /// move from.
    #[inline]
    #[doc(hidden)]
    pub const fn is_rvalue_ref(&self) -> bool {
        self.raw.type_index == type_index::OBJECT_RVALUE_REF
    }

    /// The value as it may be passed on: an object that the caller offers to be taken is only lent, because text or a tensor
    /// may be borrowed from it here.
    #[inline]
    #[doc(hidden)]
    pub fn lent(&self) -> Self {
        if self.is_rvalue_ref() { self.lent_object() } else { *self }
    }

    #[cold]
    fn lent_object(&self) -> Self {
        self.object().map_or(Self::NONE, |object| {
            // SAFETY: the view keeps the object alive for `'a`, since this side of the call does not take it.
            unsafe { Self::from_raw(TVMFFIAny::pointer((*object).type_index, object.cast())) }
        })
    }

    /// An owned copy of the value.
    ///
    /// # Errors
    /// TypeError for a borrowed `DLTensor*`: nothing says how long it lives, so it cannot be kept.
    pub fn try_to_owned(&self) -> Result<Any> {
        Any::from_view(self).ok_or_else(|| {
            Error::type_error("a borrowed DLTensor* cannot be kept; pass an ffi.Tensor, which is reference-counted")
        })
    }
}

impl fmt::Debug for AnyView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: the member read is the one that the type index names.
        unsafe {
            match self.raw.type_index {
                type_index::NONE => f.write_str("None"),
                type_index::INT => write!(f, "{}", self.raw.payload.v_int64),
                type_index::BOOL => write!(f, "{}", self.raw.payload.v_int64 != 0),
                type_index::FLOAT => write!(f, "{:?}", self.raw.payload.v_float64),
                _ => match embedded::text_of(&self.raw) {
                    Some(text) => match self.raw.type_index {
                        type_index::SMALL_BYTES | type_index::BYTES | type_index::BYTE_ARRAY_PTR => {
                            write!(f, "b\"{}\"", text.escape_ascii())
                        }
                        _ => write!(f, "{:?}", String::from_utf8_lossy(text)),
                    },
                    None => write!(f, "<{}>", self.type_name()),
                },
            }
        }
    }
}

impl Any {
    /// No value.
    pub const NONE: Self = Self { raw: TVMFFIAny::NONE };

    /// Takes over a raw owned value.
    ///
    /// # Safety
    /// `raw` is an owned value by the ABI's rules, and its reference, if any, is now this value's.
    #[inline]
    pub const unsafe fn from_raw(raw: TVMFFIAny) -> Self {
        Self { raw }
    }

    /// The raw value, borrowed: what it refers to lives as long as this value.
    #[inline]
    pub const fn as_raw(&self) -> &TVMFFIAny {
        &self.raw
    }

    /// Gives up the raw owned value; the receiver releases it.
    #[inline]
    #[must_use = "a reference in it is never released unless the receiver does it"]
    pub const fn into_raw(self) -> TVMFFIAny {
        let raw = self.raw;
        core::mem::forget(self);
        raw
    }

    /// The place that a call writes its result to.
    #[inline]
    pub(crate) const fn as_raw_mut(&mut self) -> *mut TVMFFIAny {
        &raw mut self.raw
    }

    /// The value as a view.
    #[inline]
    pub const fn as_view(&self) -> &AnyView<'_> {
        // SAFETY: both are transparent over the same struct, an owned value is a valid view, and it lives as long as the
        // borrow.
        unsafe { &*core::ptr::from_ref(self).cast::<AnyView<'_>>() }
    }

    /// The type index; see [`type_index`].
    #[inline]
    pub const fn type_index(&self) -> i32 {
        self.raw.type_index
    }

    /// Returns whether the value is None.
    #[inline]
    pub const fn is_none(&self) -> bool {
        self.raw.type_index == type_index::NONE
    }

    /// The name of the value's type for people: `int`, `str`, `Tensor`, `imagekit.Histogram`.
    pub fn type_name(&self) -> String {
        type_name(self.as_view())
    }

    /// Converts to a Rust value that owns what it needs.
    ///
    /// # Errors
    /// TypeError `expected int, got str`, or ValueError when the value does not fit.
    #[track_caller]
    pub fn to<T: for<'a> FromAny<'a>>(&self) -> Result<T> {
        self.get()
    }

    /// Converts, borrowing from the value where `T` borrows (`&str`, `&[u8]`).
    ///
    /// # Errors
    /// As for [`Any::to`].
    #[track_caller]
    pub fn get<'a, T: FromAny<'a>>(&'a self) -> Result<T> {
        self.as_view().get()
    }

    /// An owned value from a view; `None` for a borrowed tensor pointer and for an rvalue reference that was moved out.
    pub(crate) fn from_view(view: &AnyView<'_>) -> Option<Self> {
        let mut raw = view.raw;
        match raw.type_index {
            type_index::RAW_STR => {
                // SAFETY: the view's invariant.
                let text = unsafe { embedded::text_of(&view.raw) }.unwrap_or_default();
                raw = embedded::new_string(text);
            }
            type_index::BYTE_ARRAY_PTR => {
                // SAFETY: the view's invariant.
                let bytes = unsafe { embedded::text_of(&view.raw) }.unwrap_or_default();
                raw = embedded::new_bytes(bytes);
            }
            type_index::DL_TENSOR_PTR => return None,
            index if index >= type_index::STATIC_OBJECT_BEGIN || index == type_index::OBJECT_RVALUE_REF => {
                let object = view.object()?;
                // SAFETY: the view's invariant: the object is alive.
                raw = unsafe {
                    embedded::inc_ref(object);
                    TVMFFIAny::pointer((*object).type_index, object.cast())
                };
            }
            _ => {}
        }
        Some(Self { raw })
    }

    /// Takes over one reference to `object`.
    ///
    /// # Safety
    /// `object` is alive and the caller's reference is now this value's.
    #[inline]
    #[doc(hidden)]
    pub unsafe fn from_object(object: *mut TVMFFIObject) -> Self {
        // SAFETY: promised by the caller.
        Self { raw: TVMFFIAny::pointer(unsafe { (*object).type_index }, object.cast()) }
    }
}

impl Drop for Any {
    #[inline]
    fn drop(&mut self) {
        if self.raw.type_index >= type_index::STATIC_OBJECT_BEGIN {
            // SAFETY: the value owns one reference.
            unsafe { release(self.raw.payload.v_obj) }
        }
    }
}

/// Out of line: in calls most results own nothing, and code for those that do would only stand in their way.
#[inline(never)]
unsafe fn release(object: *mut TVMFFIObject) {
    // SAFETY: the caller owns one reference and gives it up.
    unsafe { embedded::dec_ref(object) }
}

impl Clone for Any {
    #[inline]
    fn clone(&self) -> Self {
        if self.raw.type_index >= type_index::STATIC_OBJECT_BEGIN {
            // SAFETY: the value keeps its object alive.
            unsafe { embedded::inc_ref(self.raw.payload.v_obj) }
        }
        Self { raw: self.raw }
    }
}

impl Default for Any {
    fn default() -> Self {
        Self::NONE
    }
}

impl fmt::Debug for Any {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_view().fmt(f)
    }
}
