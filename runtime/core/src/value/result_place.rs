//! The place that a call writes its result to, and what a caller in the same artifact lends beyond it: places for the elements of a tuple, so
//! that none is made of an array.
//!
//! A caller says so by what it leaves in the place of the result, where the ABI asks for None. Only the room that makes Python modules does,
//! for entry points that the macros made in its own artifact; it takes the mark away before the place goes.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr;

use super::Any;
use crate::abi::{TVMFFIAny, TVMFFIAnyPayload};

/// Tuples of more elements are arrays.
const MOST: usize = 8;

/// The type index of a place that lends others, and of a result whose elements are there. No value has it.
const LENT: i32 = i32::MIN + 0x4b50;

/// Where a call writes its result.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct ResultPlace(*mut TVMFFIAny);

impl ResultPlace {
    /// # Safety
    /// The place is that of a result by the ABI's calling convention, for as long as this is used.
    #[inline]
    pub(crate) unsafe fn new(place: *mut TVMFFIAny) -> Self {
        Self(place)
    }

    /// Puts the elements of a tuple where the caller has lent places for them, and gives the value that says so; without such a caller they
    /// come back.
    #[inline]
    pub(crate) fn put<const N: usize>(self, elements: [Any; N]) -> Result<Any, [Any; N]> {
        // SAFETY: the place is what the caller says it is: None, or lent by `TuplePlaces`, which has so many places, and waits for the call.
        unsafe {
            if N > MOST || (*self.0).type_index != LENT {
                return Err(elements);
            }
            let places = (*self.0).payload.v_ptr;
            places.cast::<[Any; N]>().write(elements);
            let payload = TVMFFIAnyPayload { v_ptr: places };
            Ok(Any::from_raw(TVMFFIAny { type_index: LENT, small_len: N as u32, payload }))
        }
    }
}

/// Places for the result of a function of this artifact that returns a tuple.
#[doc(hidden)]
pub struct TuplePlaces<'a> {
    result: TVMFFIAny,
    elements: PhantomData<&'a mut [TVMFFIAny]>,
}

impl<'a> TuplePlaces<'a> {
    /// Places for so many elements.
    pub const MOST: usize = MOST;

    /// Lends these places to a call.
    #[inline]
    pub fn new(elements: &'a mut MaybeUninit<[TVMFFIAny; MOST]>) -> Self {
        let payload = TVMFFIAnyPayload { v_ptr: elements.as_mut_ptr().cast() };
        Self { result: TVMFFIAny { type_index: LENT, small_len: 0, payload }, elements: PhantomData }
    }

    /// Where the call writes its result. The function is one that the macros made in this artifact: no other knows what stands there.
    #[inline]
    pub fn result(&mut self) -> &mut TVMFFIAny {
        &mut self.result
    }

    /// What the call has written: the elements, each of which belongs to the caller, or any other value.
    ///
    /// # Safety
    /// The call has succeeded.
    #[inline]
    pub unsafe fn elements(self) -> Result<&'a [TVMFFIAny], Any> {
        let result = self.result;
        // SAFETY: promised by the caller: an owned value, or so many elements in the places that were lent.
        unsafe {
            match result.type_index {
                LENT => Ok(core::slice::from_raw_parts(result.payload.v_ptr.cast(), result.small_len as usize)),
                _ => Err(Any::from_raw(result)),
            }
        }
    }
}

impl Drop for TuplePlaces<'_> {
    #[inline]
    fn drop(&mut self) {
        // Memory of the stack may become the place of another call's result, whose caller writes no more of it than it must.
        // SAFETY: the place is this value's.
        unsafe { ptr::write_volatile(&raw mut self.result.type_index, crate::abi::type_index::NONE) };
    }
}
