//! Lists: in-place operations, also while a list is shared.
//!
//! Elements are moved as plain data; a removed element is released after the list is consistent
//! again, because its destructor may read the list or change it. A list whose capacity is exhausted
//! gets twice the capacity.
//!
//! ```
//! use kernpack::sys::abi::TVMFFIAny;
//! use kernpack::sys::embedded::{dec_ref, list, seq};
//! let numbers = seq::new_list(vec![TVMFFIAny::int(1), TVMFFIAny::int(2), TVMFFIAny::int(3)]);
//! // SAFETY: the list is ours until `dec_ref`.
//! unsafe {
//!     list::push(numbers, TVMFFIAny::int(4)).unwrap();
//!     list::erase_range(numbers, 0, 2).unwrap();
//!     list::reverse(numbers);
//!     let values: Vec<u64> = seq::elements(numbers).iter().map(|value| value.bits()).collect();
//!     assert_eq!(values, [4, 3]);
//!     dec_ref(numbers);
//! }
//! ```

use crate::abi::{TVMFFIAny, TVMFFIObject, TVMFFISeqCell};

pub mod shared;

use crate::cells::failure::Failure;
use crate::cells::release::{release, release_elements, retain};
use crate::cells::seq::{allocate_buffer, cell, elements, free_buffer, remove};

/// The factor by which the capacity grows when it is exhausted.
const GROWTH: i64 = 2;

/// Reserves capacity for `capacity` elements in total. Does nothing if there is enough.
///
/// # Errors
/// `InternalError`: out of memory.
///
/// # Safety
/// `list` is a live list (not an array), and no other thread uses it during the call.
pub unsafe fn reserve(list: *mut TVMFFIObject, capacity: i64) -> Result<(), Failure> {
    // SAFETY: promised by the caller.
    unsafe {
        let cell = cell(list);
        if capacity <= (*cell).capacity {
            return Ok(());
        }
        enlarge(cell, capacity)
    }
}

/// Reserves capacity for `extra` more elements.
#[inline]
unsafe fn make_room(cell: *mut TVMFFISeqCell, extra: i64) -> Result<(), Failure> {
    // SAFETY: the caller passes the cell of a list.
    unsafe {
        let needed = (*cell).size.saturating_add(extra);
        if needed <= (*cell).capacity {
            return Ok(());
        }
        enlarge(cell, needed.max((*cell).capacity.saturating_mul(GROWTH)))
    }
}

#[cold]
#[inline(never)]
unsafe fn enlarge(cell: *mut TVMFFISeqCell, capacity: i64) -> Result<(), Failure> {
    let Some(data) = allocate_buffer(capacity as usize) else {
        return Err(Failure::internal("std::bad_alloc"));
    };
    // SAFETY: the caller passes the cell of a list. The elements are moved as plain data, and the
    // old buffer is freed by its own deleter.
    unsafe {
        let old = (*cell).data;
        if (*cell).size > 0 {
            data.copy_from_nonoverlapping(old.cast(), (*cell).size as usize);
        }
        let old_deleter = (*cell).data_deleter.replace(free_buffer);
        (*cell).data = data.cast();
        (*cell).capacity = capacity;
        if let Some(deleter) = old_deleter {
            deleter(old);
        }
    }
    Ok(())
}

/// Appends an owned element.
///
/// # Errors
/// `InternalError`: out of memory; the element is released.
///
/// # Safety
/// As for [`reserve`]; the value's ownership moves into the list.
#[inline]
pub unsafe fn push(list: *mut TVMFFIObject, value: TVMFFIAny) -> Result<(), Failure> {
    // SAFETY: promised by the caller; after `make_room` there is room for one more element.
    unsafe {
        let cell = cell(list);
        if let Err(failure) = make_room(cell, 1) {
            release(value);
            return Err(failure);
        }
        (*cell).data.cast::<TVMFFIAny>().add((*cell).size as usize).write(value);
        (*cell).size += 1;
    }
    Ok(())
}

/// Inserts an owned element before position `index`.
///
/// # Errors
/// `IndexError`: `index` is neither an element's position nor the end; or out of memory. The
/// element is released.
///
/// # Safety
/// As for [`push`].
pub unsafe fn insert(list: *mut TVMFFIObject, index: i64, value: TVMFFIAny) -> Result<(), Failure> {
    // SAFETY: promised by the caller.
    unsafe {
        match open_gap(cell(list), index, 1) {
            Ok(gap) => gap.write(value),
            Err(failure) => {
                release(value);
                return Err(failure);
            }
        }
    }
    Ok(())
}

/// Makes room for `count` elements before position `index`; the caller writes them at once.
unsafe fn open_gap(cell: *mut TVMFFISeqCell, index: i64, count: i64) -> Result<*mut TVMFFIAny, Failure> {
    // SAFETY: the caller passes the cell of a list; after `make_room` there is room for `count`
    // more elements.
    unsafe {
        let size = (*cell).size;
        if index < 0 || index > size {
            return Err(Failure::new("IndexError", format_args!("Index {index} out of bounds [0, {size}]")));
        }
        make_room(cell, count)?;
        let gap = (*cell).data.cast::<TVMFFIAny>().add(index as usize);
        gap.copy_to(gap.add(count as usize), (size - index) as usize);
        (*cell).size = size + count;
        Ok(gap)
    }
}

/// Removes the element at `index` and returns it; the caller owns it.
///
/// # Errors
/// `IndexError`: there is no such element.
///
/// # Safety
/// As for [`reserve`].
pub unsafe fn pop(list: *mut TVMFFIObject, index: i64) -> Result<TVMFFIAny, Failure> {
    // SAFETY: promised by the caller.
    unsafe { remove(list, index) }
}

/// Removes the elements from `start` up to, but not including, `stop`; nothing if both are the
/// same.
///
/// # Errors
/// `IndexError`: the range is not within the list.
///
/// # Safety
/// As for [`reserve`].
pub unsafe fn erase_range(list: *mut TVMFFIObject, start: i64, stop: i64) -> Result<(), Failure> {
    // SAFETY: promised by the caller.
    unsafe {
        let erased = take_range(cell(list), start, stop)?;
        release_elements(erased);
    }
    Ok(())
}

/// Removes the elements of a range and returns them; the caller owns them.
unsafe fn take_range(cell: *mut TVMFFISeqCell, start: i64, stop: i64) -> Result<Vec<TVMFFIAny>, Failure> {
    if start == stop {
        return Ok(Vec::new());
    }
    // SAFETY: the caller passes the cell of a list; the range is checked.
    unsafe {
        let size = (*cell).size;
        if start < 0 || stop > size || start >= stop {
            return Err(Failure::new("IndexError", format_args!("Erase range [{start}, {stop}) out of bounds {size}")));
        }
        let first = (*cell).data.cast::<TVMFFIAny>().add(start as usize);
        let count = (stop - start) as usize;
        let taken = core::slice::from_raw_parts(first, count).to_vec();
        first.copy_from(first.add(count), (size - stop) as usize);
        (*cell).size = size - count as i64;
        Ok(taken)
    }
}

/// Replaces the elements from `start` up to `stop` by those of another list (or the same one),
/// which keeps them.
///
/// # Errors
/// `IndexError`: the range is not within the list; or out of memory. In the latter case the
/// elements of the range may be gone.
///
/// # Safety
/// As for [`reserve`]; `replacement` is a live list or array.
pub unsafe fn replace_slice(
    list: *mut TVMFFIObject,
    start: i64,
    stop: i64,
    replacement: *mut TVMFFIObject,
) -> Result<(), Failure> {
    // SAFETY: promised by the caller. The new elements are retained before the old ones go, and
    // those are released last.
    unsafe {
        let inserted = elements(replacement).to_vec();
        let erased = take_range(cell(list), start, stop)?;
        let mut replaced = Ok(());
        if !inserted.is_empty() {
            match open_gap(cell(list), start, inserted.len() as i64) {
                Ok(gap) => {
                    for value in &inserted {
                        retain(value);
                    }
                    gap.copy_from_nonoverlapping(inserted.as_ptr(), inserted.len());
                }
                Err(failure) => replaced = Err(failure),
            }
        }
        release_elements(erased);
        replaced
    }
}

/// Reverses the order of the elements.
///
/// # Safety
/// As for [`reserve`].
pub unsafe fn reverse(list: *mut TVMFFIObject) {
    // SAFETY: promised by the caller; the elements are valid.
    unsafe {
        let cell = cell(list);
        if (*cell).size > 1 {
            core::slice::from_raw_parts_mut((*cell).data.cast::<TVMFFIAny>(), (*cell).size as usize).reverse();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::seq::{clear, new_list, replace};
    use crate::cells::{body, dec_ref};

    fn ints(seq: *mut TVMFFIObject) -> Vec<i64> {
        // SAFETY: the tests pass live sequences of integers.
        unsafe { elements(seq).iter().map(|value| value.payload.v_int64).collect() }
    }

    fn list_of(values: impl IntoIterator<Item = i64>) -> *mut TVMFFIObject {
        new_list(values.into_iter().map(TVMFFIAny::int).collect())
    }

    fn fails<T>(result: Result<T, Failure>) -> (String, String) {
        let failure = result.err().expect("the operation should fail");
        (failure.kind(), failure.message())
    }

    fn index_error(message: &str) -> (String, String) {
        ("IndexError".to_owned(), message.to_owned())
    }

    #[test]
    fn lists_grow_and_shrink() {
        let list = list_of([]);
        // SAFETY: the test owns the list.
        unsafe {
            let cell = body::<TVMFFISeqCell>(list);
            assert!(cell.data_deleter.is_some(), "also without elements");
            for i in 0..10 {
                push(list, TVMFFIAny::int(i)).unwrap();
            }
            assert_eq!((cell.size, cell.capacity), (10, 16));
            insert(list, 0, TVMFFIAny::int(-1)).unwrap();
            assert_eq!(pop(list, 5).unwrap().bits(), 4);
            assert_eq!(replace(list, 1, TVMFFIAny::int(100)).unwrap().bits(), 0);
            assert_eq!(ints(list), [-1, 100, 1, 2, 3, 5, 6, 7, 8, 9]);
            assert_eq!(fails(pop(list, 10)), index_error("Index 10 out of bounds 10"));
            assert_eq!(fails(insert(list, 11, TVMFFIAny::NONE)), index_error("Index 11 out of bounds [0, 10]"));
            assert_eq!(fails(replace(list, -1, TVMFFIAny::NONE)), index_error("Index -1 out of bounds 10"));
            reserve(list, 100).unwrap();
            reserve(list, -5).unwrap();
            assert_eq!(cell.capacity, 100);
            assert_eq!(fails(reserve(list, i64::MAX)).0, "InternalError");
            clear(list);
            assert!(ints(list).is_empty());
            dec_ref(list);
        }
    }

    #[test]
    fn ranges() {
        let list = list_of(0..8);
        let other = list_of([20, 21, 22]);
        let empty = list_of([]);
        // SAFETY: the test owns the lists.
        unsafe {
            erase_range(list, 1, 3).unwrap();
            assert_eq!(ints(list), [0, 3, 4, 5, 6, 7]);
            erase_range(list, 100, 100).unwrap();
            assert_eq!(fails(erase_range(list, 3, 2)), index_error("Erase range [3, 2) out of bounds 6"));
            assert_eq!(fails(erase_range(list, 0, 7)), index_error("Erase range [0, 7) out of bounds 6"));
            replace_slice(list, 1, 2, other).unwrap();
            assert_eq!(ints(list), [0, 20, 21, 22, 4, 5, 6, 7]);
            replace_slice(list, 4, 8, empty).unwrap();
            replace_slice(list, 2, 2, list).unwrap();
            assert_eq!(ints(list), [0, 20, 0, 20, 21, 22, 21, 22]);
            assert_eq!(fails(replace_slice(list, 9, 9, other)), index_error("Index 9 out of bounds [0, 8]"));
            reverse(list);
            assert_eq!(ints(list), [22, 21, 22, 21, 20, 0, 20, 0]);
            for list in [list, other, empty] {
                dec_ref(list);
            }
        }
    }
}
