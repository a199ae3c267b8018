//! Lists that several threads may use at the same time: each function has [`Access`] to the list
//! for one step, and returns owned values. Functions that only read also accept arrays.
//!
//! ```
//! use kernpack::sys::abi::TVMFFIAny;
//! use kernpack::sys::embedded::list::shared;
//! use kernpack::sys::embedded::{dec_ref, seq};
//! let numbers = seq::new_list(vec![TVMFFIAny::int(1)]);
//! // SAFETY: the list is ours until `dec_ref`.
//! unsafe {
//!     shared::push(numbers, TVMFFIAny::int(2)).unwrap();
//!     assert_eq!(shared::element(numbers, 1).unwrap().bits(), 2);
//!     assert_eq!(shared::elements(numbers).len(), 2);
//!     dec_ref(numbers);
//! }
//! ```

use core::ops::Deref;

use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};

use super::{make_room, open_gap, take_range};
use crate::cells::access::Access;
use crate::cells::any_hash;
use crate::cells::failure::Failure;
use crate::cells::release::{release, release_elements, retain};
use crate::cells::seq;

/// Elements or entries at one moment: those of a container that does not change are borrowed,
/// others have their own references.
pub struct Contents<'a>(Values<'a>);

enum Values<'a> {
    Borrowed(&'a [TVMFFIAny]),
    /// Plain data, whose references the container holds.
    Copied(Vec<TVMFFIAny>),
    Owned(Vec<TVMFFIAny>),
}

impl Contents<'_> {
    /// # Safety
    /// The values are owned, and transferred to the result; or borrowed, from a container that does
    /// not change and outlives the result.
    pub(in crate::cells) const unsafe fn of(values: Vec<TVMFFIAny>, are_owned: bool) -> Self {
        Self(if are_owned { Values::Owned(values) } else { Values::Copied(values) })
    }

    /// Converts to values whose references the caller owns.
    #[must_use]
    pub fn into_owned(mut self) -> Vec<TVMFFIAny> {
        if let Values::Owned(values) = &mut self.0 {
            return core::mem::take(values);
        }
        // SAFETY: the values are alive.
        self.iter().map(|value| unsafe { retain(value) }).collect()
    }

    /// Returns true if the values have references of their own.
    #[must_use]
    pub const fn are_owned(&self) -> bool {
        matches!(self.0, Values::Owned(_))
    }
}

impl Deref for Contents<'_> {
    type Target = [TVMFFIAny];

    #[inline]
    fn deref(&self) -> &[TVMFFIAny] {
        match &self.0 {
            Values::Borrowed(values) => values,
            Values::Copied(values) | Values::Owned(values) => values,
        }
    }
}

impl Drop for Contents<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Values::Owned(values) = &mut self.0 {
            // SAFETY: the values are owned, and given up once.
            unsafe { release_elements(values.drain(..)) }
        }
    }
}

// SAFETY of all functions: the caller passes a live list that stays alive for the call, owns the
// values that it passes, and has no access to the list. Nothing that is called under the access
// runs code of others.

/// Number of elements at this moment.
///
/// # Safety
/// `sequence` is a live list or array.
#[inline]
pub unsafe fn len(sequence: *mut TVMFFIObject) -> usize {
    // SAFETY: see above.
    unsafe {
        let _access = Access::new(sequence);
        seq::elements(sequence).len()
    }
}

/// The element at `index`, owned; `None` if there is none.
///
/// # Safety
/// As for [`len`].
#[inline]
pub unsafe fn element(sequence: *mut TVMFFIObject, index: usize) -> Option<TVMFFIAny> {
    // SAFETY: see above.
    unsafe {
        let _access = Access::new(sequence);
        seq::elements(sequence).get(index).map(|element| retain(element))
    }
}

/// The element at `index`, owned.
///
/// # Errors
/// `IndexError`: there is no such element.
///
/// # Safety
/// As for [`len`].
#[inline]
pub unsafe fn get(sequence: *mut TVMFFIObject, index: i64) -> Result<TVMFFIAny, Failure> {
    // SAFETY: see above.
    unsafe {
        let _access = Access::new(sequence);
        Ok(retain(&seq::get(sequence, index)?))
    }
}

/// The elements of this moment.
///
/// # Safety
/// As for [`len`]; the sequence stays alive for `'a`.
#[inline]
pub unsafe fn elements<'a>(sequence: *mut TVMFFIObject) -> Contents<'a> {
    // SAFETY: see above; an array does not change while others refer to it.
    unsafe {
        if (*sequence).type_index != type_index::LIST {
            return Contents(Values::Borrowed(seq::elements(sequence)));
        }
        owned_elements(sequence)
    }
}

#[inline]
unsafe fn owned_elements<'a>(list: *mut TVMFFIObject) -> Contents<'a> {
    // SAFETY: see above.
    unsafe {
        let _access = Access::new(list);
        Contents::of(seq::elements(list).iter().map(|element| retain(element)).collect(), true)
    }
}

/// Returns true if an element of this moment is equal to `value`, by the equality of map keys.
///
/// # Errors
/// An equality hook failed.
///
/// # Safety
/// As for [`len`]; `value` is a valid value or view.
#[inline]
pub unsafe fn contains(sequence: *mut TVMFFIObject, value: &TVMFFIAny) -> Result<bool, Failure> {
    // SAFETY: see above.
    unsafe {
        for element in &*elements(sequence) {
            if any_hash::equal(element, value)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Appends an owned element.
///
/// # Errors
/// `InternalError`: out of memory; the element is released.
///
/// # Safety
/// `list` is a live list; the value's ownership moves into it.
#[inline]
pub unsafe fn push(list: *mut TVMFFIObject, value: TVMFFIAny) -> Result<(), Failure> {
    // SAFETY: see above.
    unsafe {
        let access = Access::new(list);
        let room = make_room(seq::cell(list), 1);
        if room.is_ok() {
            return super::push(list, value);
        }
        drop(access);
        release(value);
        room
    }
}

/// Inserts owned elements before position `index`, or at the end.
///
/// # Errors
/// `IndexError`: `index` is neither an element's position nor the end; or out of memory. The
/// elements are released.
///
/// # Safety
/// As for [`push`].
#[inline]
pub unsafe fn insert(list: *mut TVMFFIObject, index: Option<i64>, values: &[TVMFFIAny]) -> Result<(), Failure> {
    // SAFETY: see above.
    unsafe {
        let access = Access::new(list);
        let cell = seq::cell(list);
        let index = index.unwrap_or((*cell).size);
        match open_gap(cell, index, values.len() as i64) {
            Ok(gap) => {
                gap.copy_from_nonoverlapping(values.as_ptr(), values.len());
                Ok(())
            }
            Err(failure) => {
                drop(access);
                release_elements(values.iter().copied());
                Err(failure)
            }
        }
    }
}

/// Replaces the element at `index` by an owned one; the caller owns the old element.
///
/// # Errors
/// `IndexError`: there is no such element. The value is released.
///
/// # Safety
/// As for [`push`].
#[inline]
pub unsafe fn replace(list: *mut TVMFFIObject, index: i64, value: TVMFFIAny) -> Result<TVMFFIAny, Failure> {
    // SAFETY: see above.
    unsafe {
        let access = Access::new(list);
        let place = seq::element(&*seq::cell(list), index);
        match place {
            Ok(place) => Ok(place.replace(value)),
            Err(failure) => {
                drop(access);
                release(value);
                Err(failure)
            }
        }
    }
}

/// Removes the element at `index` and returns it; the caller owns it.
///
/// # Errors
/// `IndexError`: there is no such element.
///
/// # Safety
/// As for [`push`].
#[inline]
pub unsafe fn pop(list: *mut TVMFFIObject, index: i64) -> Result<TVMFFIAny, Failure> {
    // SAFETY: see above.
    unsafe {
        let _access = Access::new(list);
        super::pop(list, index)
    }
}

/// Removes the element at `index` if it still is `expected`, whose second reference the caller then
/// owns; returns false if it is not.
///
/// # Safety
/// As for [`push`]; the caller owns a reference to `expected`.
#[inline]
pub unsafe fn pop_expected(list: *mut TVMFFIObject, index: i64, expected: &TVMFFIAny) -> bool {
    // SAFETY: see above.
    unsafe {
        let _access = Access::new(list);
        let is_same = usize::try_from(index)
            .ok()
            .and_then(|index| seq::elements(list).get(index))
            .is_some_and(|element| any_hash::is_identical(element, expected));
        is_same && super::pop(list, index).is_ok()
    }
}

/// Replaces the elements from `start` up to `stop`, or up to the end, by owned ones.
///
/// # Errors
/// `IndexError`: the range is not within the list; or out of memory, in which case the elements of
/// the range are gone. The values are released.
///
/// # Safety
/// As for [`push`].
#[inline]
pub unsafe fn replace_range(
    list: *mut TVMFFIObject,
    start: i64,
    stop: Option<i64>,
    values: &[TVMFFIAny],
) -> Result<(), Failure> {
    // SAFETY: see above.
    unsafe {
        let access = Access::new(list);
        let stop = stop.unwrap_or((*seq::cell(list)).size);
        let taken = take_range(seq::cell(list), start, stop);
        let (gap, taken) = match taken {
            Ok(taken) if values.is_empty() => (Ok(core::ptr::null_mut()), taken),
            Ok(taken) => (open_gap(seq::cell(list), start, values.len() as i64), taken),
            Err(failure) => (Err(failure), Vec::new()),
        };
        if let Ok(gap) = &gap
            && !values.is_empty()
        {
            gap.copy_from_nonoverlapping(values.as_ptr(), values.len());
        }
        drop(access);
        release_elements(taken);
        if gap.is_err() {
            release_elements(values.iter().copied());
        }
        gap.map(|_| ())
    }
}

/// Replaces all elements by owned ones.
///
/// # Errors
/// `InternalError`: out of memory. The values are released.
///
/// # Safety
/// As for [`push`].
#[inline]
pub unsafe fn assign(list: *mut TVMFFIObject, values: &[TVMFFIAny]) -> Result<(), Failure> {
    // SAFETY: see above. The room comes first, so that nothing is lost without it.
    unsafe {
        let access = Access::new(list);
        let cell = seq::cell(list);
        let before = (*cell).size;
        if let Err(failure) = make_room(cell, (values.len() as i64 - before).max(0)) {
            drop(access);
            release_elements(values.iter().copied());
            return Err(failure);
        }
        let taken = seq::elements(list).to_vec();
        (*cell).data.cast::<TVMFFIAny>().copy_from_nonoverlapping(values.as_ptr(), values.len());
        (*cell).size = values.len() as i64;
        drop(access);
        release_elements(taken);
    }
    Ok(())
}

/// Removes the elements from `length` on.
///
/// # Safety
/// As for [`push`].
#[inline]
pub unsafe fn truncate(list: *mut TVMFFIObject, length: usize) {
    // SAFETY: see above; the elements up to the size are there.
    unsafe {
        let access = Access::new(list);
        let taken = seq::elements(list).get(length..).unwrap_or_default().to_vec();
        (*seq::cell(list)).size -= taken.len() as i64;
        drop(access);
        release_elements(taken);
    }
}

/// Removes all elements and releases them, in reverse order.
///
/// # Safety
/// As for [`push`].
#[inline]
pub unsafe fn clear(list: *mut TVMFFIObject) {
    // SAFETY: see above.
    unsafe {
        let access = Access::new(list);
        let taken = seq::elements(list).to_vec();
        (*seq::cell(list)).size = 0;
        drop(access);
        release_elements(taken.into_iter().rev());
    }
}

/// Reverses the order of the elements.
///
/// # Safety
/// As for [`push`].
#[inline]
pub unsafe fn reverse(list: *mut TVMFFIObject) {
    // SAFETY: see above.
    unsafe {
        let _access = Access::new(list);
        super::reverse(list);
    }
}

/// Reserves capacity for `capacity` elements in total. Does nothing if there is enough.
///
/// # Errors
/// `InternalError`: out of memory.
///
/// # Safety
/// As for [`push`].
#[inline]
pub unsafe fn reserve(list: *mut TVMFFIObject, capacity: i64) -> Result<(), Failure> {
    // SAFETY: see above.
    unsafe {
        let _access = Access::new(list);
        super::reserve(list, capacity)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::cells::seq::{new_array, new_list};
    use crate::cells::{dec_ref, new_string_object, strong_count};

    fn ints(list: *mut TVMFFIObject) -> Vec<i64> {
        // SAFETY: the tests pass live lists of integers.
        unsafe { elements(list).iter().map(|value| value.payload.v_int64).collect() }
    }

    #[test]
    fn each_step_by_itself() {
        let list = new_list(vec![TVMFFIAny::int(1)]);
        let int = TVMFFIAny::int;
        // SAFETY: the test owns the list.
        unsafe {
            push(list, int(2)).unwrap();
            insert(list, Some(0), &[int(7), int(8)]).unwrap();
            assert_eq!(ints(list), [7, 8, 1, 2]);
            assert_eq!(insert(list, Some(5), &[int(0)]).err().unwrap().message(), "Index 5 out of bounds [0, 4]");
            assert_eq!(replace(list, 1, int(9)).unwrap().bits(), 8);
            assert_eq!(replace(list, 4, int(0)).err().unwrap().message(), "Index 4 out of bounds 4");
            assert!(!pop_expected(list, 0, &int(9)) && pop_expected(list, 1, &int(9)));
            assert_eq!((pop(list, 0).unwrap().bits(), ints(list)), (7, vec![1, 2]));
            replace_range(list, 1, Some(2), &[int(3), int(4), int(5)]).unwrap();
            replace_range(list, 0, Some(1), &[]).unwrap();
            assert_eq!(ints(list), [3, 4, 5]);
            assert!(replace_range(list, 2, Some(9), &[int(0)]).is_err());
            reverse(list);
            assert!(contains(list, &int(4)).unwrap() && !contains(list, &int(6)).unwrap());
            truncate(list, 2);
            truncate(list, 10);
            assert_eq!((ints(list), len(list)), (vec![5, 4], 2));
            assign(list, &[int(1), int(2), int(3), int(4), int(5)]).unwrap();
            assert_eq!((ints(list), element(list, 5).is_none()), (vec![1, 2, 3, 4, 5], true));
            assign(list, &[]).unwrap();
            assert!(ints(list).is_empty() && reserve(list, i64::MAX).is_err());
            dec_ref(list);
        }
    }

    /// References to elements are neither lost nor released twice, whichever thread removes them.
    #[test]
    fn many_threads() {
        const THREADS: usize = 4;
        const ROUNDS: usize = if cfg!(miri) { 20 } else { 2000 };
        let text = new_string_object(b"an element that is an object");
        let list = new_list(Vec::new());
        let (shared_text, shared_list) = (text.expose_provenance(), list.expose_provenance());
        thread::scope(|scope| {
            for number in 0..THREADS {
                scope.spawn(move || {
                    let text = core::ptr::with_exposed_provenance_mut::<TVMFFIObject>(shared_text);
                    let list = core::ptr::with_exposed_provenance_mut::<TVMFFIObject>(shared_list);
                    let value = TVMFFIAny::pointer(type_index::STR, text.cast());
                    for round in 0..ROUNDS {
                        // SAFETY: the list and the text outlive the threads; each value that is
                        // passed is owned.
                        unsafe {
                            push(list, retain(&value)).unwrap();
                            match (round + number) % 4 {
                                0 => assert!(elements(list).iter().all(|element| element.bits() == value.bits())),
                                1 => reverse(list),
                                2 => element(list, round % 7).into_iter().for_each(|element| release(element)),
                                _ => assert!(contains(list, &value).unwrap() || len(list) < THREADS),
                            }
                            pop(list, 0).into_iter().for_each(|element| release(element));
                        }
                    }
                });
            }
        });
        // SAFETY: the test owns both.
        unsafe {
            assert_eq!((len(list), strong_count(text)), (0, 1));
            dec_ref(list);
            dec_ref(text);
        }
    }

    #[test]
    fn arrays_are_read() {
        let array = new_array(vec![TVMFFIAny::int(1)]);
        // SAFETY: the test owns the array.
        unsafe {
            assert!(!elements(array).are_owned());
            assert_eq!((len(array), elements(array).into_owned().len()), (1, 1));
            dec_ref(array);
        }
    }
}
