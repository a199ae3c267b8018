//! The place that a call writes its result to, and memory that a caller in the same artifact lends
//! in addition: places for the elements of a tuple, so that they need no array, and for a string,
//! so that it is not copied into an object. An error is returned in the same way instead of through
//! the slot of raised errors.
//!
//! The caller marks the place by storing a value there that is not None, which the ABI requires
//! otherwise. Only the crate that makes Python modules does this, for entry points that the macros
//! generated in its own artifact; it removes the mark before the place goes out of scope. Without
//! that crate no code checks for the mark.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr;

use super::Any;
use crate::Error;
use crate::abi::{TVMFFIAny, TVMFFIAnyPayload, type_index};

/// True if callers in this artifact may lend places.
const IS_LENT: bool = cfg!(feature = "lent_results");

/// Larger tuples become arrays.
const MOST: usize = 8;

/// The type index of a place that is lent. No value has this index or one of the next three.
const LENT: i32 = i32::MIN + 0x4b50;
/// Type index of a result whose elements are in the places that were lent.
const TUPLE: i32 = LENT + 1;
/// Type index of a result that is a `String` in the lent memory.
const TEXT: i32 = LENT + 2;
/// Type index of an error.
const ERROR: i32 = LENT + 3;

const fn mark(type_index: i32, small_len: u32, v_ptr: *mut core::ffi::c_void) -> TVMFFIAny {
    TVMFFIAny { type_index, small_len, payload: TVMFFIAnyPayload { v_ptr } }
}

/// The place that a call writes its result to.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct ResultPlace(*mut TVMFFIAny);

impl ResultPlace {
    /// The mark that a caller in this artifact stores in the place of a result, so that errors are
    /// written there directly.
    pub const LENT: TVMFFIAny = mark(LENT, 0, ptr::null_mut());

    /// # Safety
    /// `place` is the place of a result by the ABI's calling convention, for as long as this is
    /// used.
    #[inline]
    pub(crate) unsafe fn new(place: *mut TVMFFIAny) -> Self {
        Self(place)
    }

    fn is_lent(self) -> bool {
        // SAFETY: the caller stored None or the mark in the place.
        IS_LENT && unsafe { (*self.0).type_index == LENT }
    }

    /// The lent places for parts of the result.
    #[inline]
    fn parts(self) -> Option<ptr::NonNull<core::ffi::c_void>> {
        // SAFETY: as above.
        self.is_lent().then(|| ptr::NonNull::new(unsafe { (*self.0).payload.v_ptr })).flatten()
    }

    /// Moves the elements of a tuple to the places that the caller has lent, and returns the value
    /// that marks them; returns the elements if no places were lent.
    #[inline]
    pub(crate) fn put<const N: usize>(self, elements: [Any; N]) -> Result<Any, [Any; N]> {
        match self.parts().filter(|_| N <= MOST) {
            // SAFETY: there are at least N places, whose owner waits for the call; only the owner
            // sees the mark.
            Some(parts) => unsafe {
                parts.cast::<[Any; N]>().write(elements);
                Ok(Any::from_raw(mark(TUPLE, N as u32, parts.as_ptr())))
            },
            None => Err(elements),
        }
    }

    /// Like `put`, for a string.
    #[inline]
    pub(crate) fn put_text(self, text: String) -> Result<Any, String> {
        match self.parts() {
            // SAFETY: the places are larger than a `String`, and as above.
            Some(parts) => unsafe {
                parts.cast::<String>().write(text);
                Ok(Any::from_raw(mark(TEXT, 0, parts.as_ptr())))
            },
            None => Err(text),
        }
    }

    /// Like `put`, for an error.
    pub(crate) fn put_error(self, error: Error) -> Result<(), Error> {
        if !self.is_lent() {
            return Err(error);
        }
        // SAFETY: the place belongs to the caller, which handles the mark.
        unsafe { self.0.write(mark(ERROR, 0, error.into_raw().cast())) };
        Ok(())
    }

    /// Returns the result of an operator that one of its operands does not convert for, with this
    /// error. A caller that has lent the place sees the mark in it again, and may ask the other
    /// operand; for all others it is the error, with a mark of its own. A value out of range is an
    /// error for both.
    ///
    /// # Errors
    /// Returns the error.
    #[cold]
    #[inline]
    pub fn inapplicable(self, error: Error) -> Result<TVMFFIAny, Error> {
        match (error.kind() == "TypeError", self.is_lent()) {
            (true, true) => Ok(Self::LENT),
            (true, false) => Err(error.not_implemented()),
            (false, _) => Err(error),
        }
    }

    /// Returns true if an operator that was given this place, and has succeeded, does not apply to
    /// its operands; removes the mark.
    pub fn is_inapplicable(place: &mut TVMFFIAny) -> bool {
        let is_marked = place.type_index == LENT;
        if is_marked {
            clear(place);
        }
        is_marked
    }

    /// Returns true if a call that was given this place and has failed left its error here, without
    /// the frame of the function.
    pub fn has_error(place: &TVMFFIAny) -> bool {
        place.type_index == ERROR
    }

    /// Returns the error of a call that was given this place and has failed.
    #[cold]
    pub fn error(place: &mut TVMFFIAny) -> Error {
        let own = match place.type_index {
            // SAFETY: the mark means that the call has stored its error here.
            ERROR => Some(unsafe { Error::from_raw(place.payload.v_obj) }),
            _ => None,
        };
        clear(place);
        own.unwrap_or_else(Error::take_raised)
    }
}

/// Removes a mark. This stack memory may become the place of another call's result, whose caller
/// only writes the required fields.
fn clear(place: &mut TVMFFIAny) {
    // SAFETY: the place is borrowed.
    unsafe { ptr::write_volatile(&raw mut place.type_index, type_index::NONE) };
}

const _: () = assert!(size_of::<String>() <= size_of::<Parts>() && align_of::<String>() <= align_of::<Parts>());

/// Memory for the parts of a result.
#[doc(hidden)]
pub type Parts = [TVMFFIAny; MOST];

/// Places for the result of a function of this artifact that returns a tuple or a text.
#[doc(hidden)]
pub struct LentPlaces<'a> {
    result: TVMFFIAny,
    parts: PhantomData<&'a mut Parts>,
}

/// The result that a call has written.
#[doc(hidden)]
pub enum Written<'a> {
    /// The elements of a tuple, each of which belongs to the caller.
    Elements(&'a [TVMFFIAny]),
    /// A text.
    Text(String),
    /// Any other value, which belongs to the caller.
    Value(TVMFFIAny),
}

impl<'a> LentPlaces<'a> {
    /// Maximum number of tuple elements that have places.
    pub const MOST: usize = MOST;

    /// Lends this memory to a call.
    #[inline]
    pub fn new(parts: &'a mut MaybeUninit<Parts>) -> Self {
        Self { result: mark(LENT, 0, parts.as_mut_ptr().cast()), parts: PhantomData }
    }

    /// The place for the result of the call. Only for functions that the macros generated in this
    /// artifact: other functions do not know the mark that is stored there.
    #[inline]
    pub fn result(&mut self) -> &mut TVMFFIAny {
        &mut self.result
    }

    /// Returns the result that the call has written.
    ///
    /// # Safety
    /// The call has succeeded.
    #[inline]
    pub unsafe fn written(self) -> Written<'a> {
        // SAFETY: promised by the caller: an owned value, or what the mark says in the memory that
        // was lent.
        unsafe {
            let parts = self.result.payload.v_ptr;
            match self.result.type_index {
                TUPLE => Written::Elements(core::slice::from_raw_parts(parts.cast(), self.result.small_len as usize)),
                TEXT => Written::Text(parts.cast::<String>().read()),
                _ => Written::Value(self.result),
            }
        }
    }
}

impl Drop for LentPlaces<'_> {
    #[inline]
    fn drop(&mut self) {
        clear(&mut self.result);
    }
}
