use core::fmt;
use core::marker::PhantomData;

use super::{FromAny, type_name};
use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};
use crate::{Error, Result, embedded};

/// A value of any type, borrowed for `'a`: the argument type of packed functions. 16 bytes, `Copy`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct AnyView<'a> {
    raw: TVMFFIAny,
    borrowed: PhantomData<&'a TVMFFIAny>,
}

/// An owned value of any type: the result type of packed functions. Holds one reference if the
/// value is an object.
///
/// Never contains a borrowed C string, byte array or tensor pointer; those become owned values or
/// errors on conversion.
#[repr(transparent)]
pub struct Any {
    raw: TVMFFIAny,
}

// SAFETY: reference counts are atomic, and the ABI's objects may be used from any thread: Rust
// objects are `Send + Sync` by the bounds of `Object` and of closures; foreign code guarantees it
// by passing them through the ABI.
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

    /// Returns the name of the value's type for messages: `int`, `str`, `Tensor`,
    /// `imagekit.Histogram`.
    pub fn type_name(&self) -> String {
        type_name(self)
    }

    /// Converts the value; the result borrows from it if `T` borrows.
    ///
    /// # Errors
    /// Returns a TypeError or ValueError with the expected type.
    #[track_caller]
    pub fn get<T: FromAny<'a>>(&'a self) -> Result<T> {
        match T::from_any(self) {
            Ok(value) => Ok(value),
            Err(mismatch) => Err(mismatch.into_error("", &T::TYPE, self)),
        }
    }

    /// Returns the object, including one behind an rvalue reference.
    #[inline]
    #[doc(hidden)]
    pub fn object(&self) -> Option<*mut TVMFFIObject> {
        // SAFETY: the payload's meaning follows from the type index, which the caller of `from_raw`
        // guarantees.
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

    /// Returns the value in a form that can be passed on: an object that the caller offers to move
    /// is only borrowed, because a string or a tensor may be borrowed from it here.
    #[inline]
    #[doc(hidden)]
    pub fn lent(&self) -> Self {
        if self.is_rvalue_ref() { self.lent_object() } else { *self }
    }

    #[cold]
    fn lent_object(&self) -> Self {
        self.object().map_or(Self::NONE, |object| {
            // SAFETY: the view keeps the object alive for `'a`, since the callee does not move from
            // it.
            unsafe { Self::from_raw(TVMFFIAny::pointer((*object).type_index, object.cast())) }
        })
    }

    /// Returns an owned copy of the value.
    ///
    /// # Errors
    /// Returns a TypeError for a borrowed `DLTensor*`: its lifetime is unknown, so it cannot be
    /// kept.
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

    /// Takes ownership of a raw owned value.
    ///
    /// # Safety
    /// `raw` is an owned value by the ABI's rules, and its reference, if any, now belongs to this
    /// value.
    #[inline]
    pub const unsafe fn from_raw(raw: TVMFFIAny) -> Self {
        Self { raw }
    }

    /// The raw value, borrowed: the object that it refers to lives as long as this value.
    #[inline]
    pub const fn as_raw(&self) -> &TVMFFIAny {
        &self.raw
    }

    /// Releases ownership of the raw value; the receiver must release it.
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

    /// Borrows the value as a view.
    #[inline]
    pub const fn as_view(&self) -> &AnyView<'_> {
        // SAFETY: both are transparent over the same struct, an owned value is a valid view, and it
        // lives as long as the borrow.
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

    /// Returns the name of the value's type for messages: `int`, `str`, `Tensor`,
    /// `imagekit.Histogram`.
    pub fn type_name(&self) -> String {
        type_name(self.as_view())
    }

    /// Converts to an owned Rust value.
    ///
    /// # Errors
    /// Returns a TypeError such as `expected int, got str`, or a ValueError if the value is out of
    /// range.
    #[track_caller]
    pub fn to<T: for<'a> FromAny<'a>>(&self) -> Result<T> {
        self.get()
    }

    /// Converts the value; the result borrows from it if `T` borrows (`&str`, `&[u8]`).
    ///
    /// # Errors
    /// As for [`Any::to`].
    #[track_caller]
    pub fn get<'a, T: FromAny<'a>>(&'a self) -> Result<T> {
        self.as_view().get()
    }

    /// Converts a view to an owned value; `None` for a borrowed tensor pointer and for an rvalue
    /// reference that was moved from.
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

    /// Takes ownership of one reference to `object`.
    ///
    /// # Safety
    /// `object` is alive, and the caller's reference now belongs to this value.
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

/// Not inlined: most results of calls do not own an object, and the release code would only slow
/// them down.
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
