//! Array and list cells: construction, reading, and in-place operations for both. The operations of
//! lists only are in [`list`](super::list).
//!
//! An array's elements are inside the object; a list's are in a separate buffer, which C++ code
//! replaces through `operator new` without changing `data_deleter`, so it must be allocated by
//! `malloc` and freed by `free`.

use core::ffi::c_void;

use crate::abi::{TVMFFIAny, TVMFFIObject, TVMFFISeqCell, type_index};

use super::failure::Failure;
use super::release::{is_object, is_owned_form, release, release_elements, retain, to_owned};
use super::{ObjectCell, any_hash, body, dec_ref, new_object, new_object_with_tail};

/// The capacity of a list that is created empty.
const LIST_CAPACITY: usize = 4;

#[repr(C)]
struct SeqBody {
    cell: TVMFFISeqCell,
}

impl Drop for SeqBody {
    fn drop(&mut self) {
        // C++ may have moved elements out, so the cell's present size is used.
        // SAFETY: the cell owns the elements that it counts, and no other code uses a dying object.
        unsafe {
            let elements = slice(&self.cell);
            if elements.iter().any(is_object) {
                release_elements(elements.iter().copied());
            }
            if let Some(deleter) = self.cell.data_deleter {
                deleter(self.cell.data);
            }
        }
    }
}

pub(super) unsafe extern "C" fn free_buffer(data: *mut c_void) {
    // SAFETY: buffers come from our `malloc` or from C++'s `operator new`, which is `malloc` too.
    unsafe { libc::free(data) }
}

/// Creates an array that owns `elements`; the caller owns the reference.
pub fn new_array(elements: Vec<TVMFFIAny>) -> *mut TVMFFIObject {
    let capacity = elements.len();
    new_array_with_capacity(elements, capacity)
}

/// Like [`new_array`], with room for `capacity` elements (at least as many as given).
pub fn new_array_with_capacity(elements: Vec<TVMFFIAny>, capacity: usize) -> *mut TVMFFIObject {
    let array = empty_array(capacity.max(elements.len()));
    // SAFETY: the array is new and ours and has room for the elements, which are plain data:
    // copying moves their ownership into it.
    unsafe { append_moved(array, &elements) };
    array
}

/// Creates an array of owned copies of views (a packed function's arguments); the caller owns the
/// reference.
///
/// # Errors
/// A view cannot be converted to an owned value: see [`to_owned`].
///
/// # Safety
/// Each view follows the ABI's rules for its type index, and its referent is alive.
pub unsafe fn new_array_of_views(views: &[TVMFFIAny]) -> Result<*mut TVMFFIObject, Failure> {
    // SAFETY: promised by the caller; the array is new and has the room.
    unsafe { append_views(empty_array(views.len()), views) }
}

/// Creates an array that owns second references to the elements of another owner; the caller owns
/// the reference.
///
/// # Safety
/// The elements are valid owned values of a live owner.
pub unsafe fn new_array_of_shared(elements: &[TVMFFIAny]) -> *mut TVMFFIObject {
    let array = empty_array(elements.len());
    // SAFETY: promised by the caller; the array is new and has the room.
    unsafe { append_shared(array, elements) };
    array
}

/// Creates an array that takes over the elements of a slice; the caller owns the reference.
///
/// # Safety
/// The caller owns the elements, and does not use them afterwards.
pub unsafe fn new_array_of_moved(elements: &[TVMFFIAny]) -> *mut TVMFFIObject {
    let array = empty_array(elements.len());
    // SAFETY: promised by the caller; the array is new and has the room.
    unsafe { append_moved(array, elements) };
    array
}

/// Creates an empty array; the caller owns the reference.
fn empty_array(capacity: usize) -> *mut TVMFFIObject {
    let tail_size = capacity.saturating_mul(size_of::<TVMFFIAny>());
    let object = new_object_with_tail(type_index::ARRAY, EMPTY, tail_size);
    // SAFETY: the object is new and ours; its tail is the elements' place and aligned to 8.
    unsafe {
        let place = object.cast::<ObjectCell<SeqBody>>();
        let cell = &raw mut (*place).body.cell;
        (*cell).data = place.add(1).cast();
        (*cell).capacity = capacity as i64;
    }
    object
}

/// The initial body, before it gets its buffer. A constant is written directly into a new object; a
/// value that is first assembled elsewhere would be read again before it is written, at a
/// measurable cost.
const EMPTY: SeqBody =
    SeqBody { cell: TVMFFISeqCell { data: core::ptr::null_mut(), size: 0, capacity: 0, data_deleter: None } };

/// Creates a list that owns `elements`; the caller owns the reference.
pub fn new_list(elements: Vec<TVMFFIAny>) -> *mut TVMFFIObject {
    let list = empty_list(elements.len());
    // SAFETY: the list is new and ours and has room for the elements, whose ownership moves into
    // it.
    unsafe { append_moved(list, &elements) };
    list
}

/// Creates a list of owned copies of views (a packed function's arguments); the caller owns the
/// reference.
///
/// # Errors
/// A view cannot be converted to an owned value: see [`to_owned`].
///
/// # Safety
/// As for [`new_array_of_views`].
pub unsafe fn new_list_of_views(views: &[TVMFFIAny]) -> Result<*mut TVMFFIObject, Failure> {
    // SAFETY: promised by the caller; the list is new and has the room.
    unsafe { append_views(empty_list(views.len()), views) }
}

/// Creates a list that owns second references to the elements of another owner; the caller owns the
/// reference.
///
/// # Safety
/// As for [`new_array_of_shared`].
pub unsafe fn new_list_of_shared(elements: &[TVMFFIAny]) -> *mut TVMFFIObject {
    let list = empty_list(elements.len());
    // SAFETY: promised by the caller; the list is new and has the room.
    unsafe { append_shared(list, elements) };
    list
}

/// Creates an empty list, with capacity for `capacity` and at least [`LIST_CAPACITY`] elements; the
/// caller owns the reference.
fn empty_list(capacity: usize) -> *mut TVMFFIObject {
    let capacity = capacity.max(LIST_CAPACITY);
    let Some(data) = allocate_buffer(capacity) else { out_of_memory(capacity) };
    let list = new_object(type_index::LIST, EMPTY);
    // SAFETY: the object is new and ours.
    unsafe {
        let cell = cell(list);
        (*cell).data = data.cast();
        (*cell).capacity = capacity as i64;
        (*cell).data_deleter = Some(free_buffer);
    }
    list
}

// SAFETY of the three functions: `seq` is a new sequence of ours that has room for the values.

unsafe fn append_moved(seq: *mut TVMFFIObject, values: &[TVMFFIAny]) {
    // SAFETY: see above; the caller's elements are plain data and not released by it.
    unsafe {
        let cell = cell(seq);
        let end = (*cell).data.cast::<TVMFFIAny>().add((*cell).size as usize);
        end.copy_from_nonoverlapping(values.as_ptr(), values.len());
        (*cell).size += values.len() as i64;
    }
}

unsafe fn append_shared(seq: *mut TVMFFIObject, values: &[TVMFFIAny]) {
    // SAFETY: see above; the caller keeps the values alive.
    unsafe {
        for value in values {
            retain(value);
        }
        append_moved(seq, values);
    }
}

/// Consumes the reference on failure.
unsafe fn append_views(seq: *mut TVMFFIObject, views: &[TVMFFIAny]) -> Result<*mut TVMFFIObject, Failure> {
    // SAFETY: see above; the caller promises valid views.
    unsafe {
        let cell = cell(seq);
        let data = (*cell).data.cast::<TVMFFIAny>();
        for (index, view) in views.iter().enumerate() {
            if is_owned_form(view) {
                data.add(index).write(retain(view));
                continue;
            }
            match to_owned(view) {
                Ok(value) => data.add(index).write(value),
                Err(failure) => {
                    (*cell).size = index as i64;
                    dec_ref(seq);
                    return Err(failure);
                }
            }
        }
        (*cell).size = views.len() as i64;
    }
    Ok(seq)
}

/// Returns `None` if there is not enough memory.
pub(super) fn allocate_buffer(capacity: usize) -> Option<*mut TVMFFIAny> {
    let size = capacity.checked_mul(size_of::<TVMFFIAny>())?;
    // SAFETY: `malloc` may be called with any size.
    let data = unsafe { libc::malloc(size) }.cast::<TVMFFIAny>();
    (!data.is_null()).then_some(data)
}

#[cold]
pub(super) fn out_of_memory(capacity: usize) -> ! {
    let layout = core::alloc::Layout::array::<TVMFFIAny>(capacity);
    std::alloc::handle_alloc_error(layout.unwrap_or(core::alloc::Layout::new::<TVMFFIAny>()))
}

unsafe fn slice<'a>(cell: &TVMFFISeqCell) -> &'a [TVMFFIAny] {
    if cell.size <= 0 || cell.data.is_null() {
        return &[];
    }
    // SAFETY: the caller promises that the cell's elements live for `'a`.
    unsafe { core::slice::from_raw_parts(cell.data.cast(), cell.size as usize) }
}

/// The elements of an array or list, borrowed.
///
/// # Safety
/// `seq` is a live array or list that stays alive and unchanged for `'a`.
#[inline]
pub unsafe fn elements<'a>(seq: *mut TVMFFIObject) -> &'a [TVMFFIAny] {
    // SAFETY: promised by the caller.
    unsafe { slice(body::<TVMFFISeqCell>(seq)) }
}

pub(super) unsafe fn cell(seq: *mut TVMFFIObject) -> *mut TVMFFISeqCell {
    // SAFETY: the caller passes an array or list, which has this cell behind its header.
    unsafe { &raw mut (*seq.cast::<ObjectCell<TVMFFISeqCell>>()).body }
}

/// The element at `index`, borrowed from the sequence.
///
/// # Errors
/// `IndexError`: there is no such element.
///
/// # Safety
/// `seq` is a live array or list that does not change meanwhile.
#[inline]
pub unsafe fn get(seq: *mut TVMFFIObject, index: i64) -> Result<TVMFFIAny, Failure> {
    // SAFETY: promised by the caller.
    unsafe { Ok(*element(&*cell(seq), index)?) }
}

/// Returns true if an element is equal to `value`, by the equality of map keys.
///
/// # Errors
/// An equality hook failed.
///
/// # Safety
/// As for [`get`]; `value` is a valid value or view.
pub unsafe fn contains(seq: *mut TVMFFIObject, value: &TVMFFIAny) -> Result<bool, Failure> {
    // SAFETY: promised by the caller. The cell is read again each time: a hook may have changed a
    // list.
    unsafe {
        let mut index = 0;
        while index < (*cell(seq)).size {
            if any_hash::equal(&*(*cell(seq)).data.cast::<TVMFFIAny>().add(index as usize), value)? {
                return Ok(true);
            }
            index += 1;
        }
    }
    Ok(false)
}

/// Removes the element at `index` and returns it; the caller owns it.
///
/// # Errors
/// `IndexError`: there is no such element.
///
/// # Safety
/// `seq` is a live array or list, no other code uses it during the call, and an array is not
/// shared.
pub unsafe fn remove(seq: *mut TVMFFIObject, index: i64) -> Result<TVMFFIAny, Failure> {
    // SAFETY: promised by the caller.
    unsafe {
        let cell = cell(seq);
        let place = element(&*cell, index)?;
        let value = place.read();
        place.copy_from(place.add(1), ((*cell).size - index - 1) as usize);
        (*cell).size -= 1;
        Ok(value)
    }
}

/// Replaces the element at `index` by an owned one; the caller owns the old element. On failure
/// `value` is released.
///
/// # Errors
/// `IndexError`: there is no such element.
///
/// # Safety
/// As for [`remove`]; the value's ownership moves.
pub unsafe fn replace(seq: *mut TVMFFIObject, index: i64, value: TVMFFIAny) -> Result<TVMFFIAny, Failure> {
    // SAFETY: promised by the caller.
    unsafe {
        match element(&*cell(seq), index) {
            Ok(place) => Ok(place.replace(value)),
            Err(failure) => {
                release(value);
                Err(failure)
            }
        }
    }
}

#[inline]
pub(super) unsafe fn element(cell: &TVMFFISeqCell, index: i64) -> Result<*mut TVMFFIAny, Failure> {
    if index < 0 || index >= cell.size {
        return Err(out_of_bounds(index, cell.size));
    }
    // SAFETY: the index is within the elements, which the caller keeps alive.
    Ok(unsafe { cell.data.cast::<TVMFFIAny>().add(index as usize) })
}

#[cold]
fn out_of_bounds(index: i64, size: i64) -> Failure {
    Failure::new("IndexError", format_args!("Index {index} out of bounds {size}"))
}

/// Releases all elements, in reverse order.
///
/// # Safety
/// As for [`remove`].
pub unsafe fn clear(seq: *mut TVMFFIObject) {
    // SAFETY: promised by the caller. Each element is out of the sequence before its destructor
    // runs, which may look at the sequence or change it.
    unsafe {
        let cell = cell(seq);
        release_elements(core::iter::from_fn(|| {
            if (*cell).size <= 0 {
                return None;
            }
            (*cell).size -= 1;
            Some((*cell).data.cast::<TVMFFIAny>().add((*cell).size as usize).read())
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::{dec_ref, inc_ref, new_string_object, strong_count};

    #[test]
    fn arrays_own_their_elements() {
        let text = new_string_object(b"element");
        // SAFETY: the test owns every reference that it gives up.
        unsafe {
            inc_ref(text);
            let array =
                new_array_with_capacity(vec![TVMFFIAny::int(1), TVMFFIAny::pointer(type_index::STR, text.cast())], 4);
            let cell = body::<TVMFFISeqCell>(array);
            assert_eq!((cell.size, cell.capacity), (2, 4));
            assert_eq!(cell.data.cast_const(), array.byte_add(56).cast_const().cast());
            assert!(cell.data_deleter.is_none());
            assert_eq!(strong_count(text), 2);
            dec_ref(array);
            assert_eq!(strong_count(text), 1);
            dec_ref(text);
            let empty = new_array(vec![]);
            assert!(elements(empty).is_empty());
            dec_ref(empty);
        }
    }
}
