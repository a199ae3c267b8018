//! Array and list cells.
//!
//! An array's elements are inside the object; a list's are in a buffer of their own, which C++ code replaces through
//! `operator new` without changing `data_deleter`, so that it must come from `malloc` and be freed by `free`.

use core::ffi::c_void;

use crate::abi::{TVMFFIAny, TVMFFIObject, TVMFFISeqCell, type_index};

use super::failure::Failure;
use super::release::{release, release_elements};
use super::{ObjectCell, body, new_object, new_object_with_tail};

#[repr(C)]
struct SeqBody {
    cell: TVMFFISeqCell,
}

impl Drop for SeqBody {
    fn drop(&mut self) {
        // C++ may have moved elements out, so the size is what the cell says now.
        // SAFETY: the cell owns the elements that it counts, and nobody else uses a dying object.
        unsafe {
            release_elements(slice(&self.cell).iter().copied());
            if let Some(deleter) = self.cell.data_deleter {
                deleter(self.cell.data);
            }
        }
    }
}

unsafe extern "C" fn free_buffer(data: *mut c_void) {
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
    let capacity = capacity.max(elements.len());
    let cell = TVMFFISeqCell {
        data: core::ptr::null_mut(),
        size: elements.len() as i64,
        capacity: capacity as i64,
        data_deleter: None,
    };
    let tail_size = capacity.saturating_mul(size_of::<TVMFFIAny>());
    let object = new_object_with_tail(type_index::ARRAY, SeqBody { cell }, tail_size);
    // SAFETY: the object is new and ours; its tail has room for the elements and is aligned to 8. The vector's elements
    // are plain data, so copying moves their ownership into the array.
    unsafe {
        let cell = object.cast::<ObjectCell<SeqBody>>();
        let tail = cell.add(1).cast::<TVMFFIAny>();
        tail.copy_from_nonoverlapping(elements.as_ptr(), elements.len());
        (&raw mut (*cell).body.cell.data).write(tail.cast());
    }
    object
}

/// Creates a list that owns `elements`; the caller owns the reference.
pub fn new_list(elements: Vec<TVMFFIAny>) -> *mut TVMFFIObject {
    let data = allocate_buffer(elements.len());
    // SAFETY: the buffer has room for the elements, whose ownership moves into it.
    unsafe { data.copy_from_nonoverlapping(elements.as_ptr(), elements.len()) };
    let cell = TVMFFISeqCell {
        data: data.cast(),
        size: elements.len() as i64,
        capacity: elements.len() as i64,
        data_deleter: Some(free_buffer),
    };
    new_object(type_index::LIST, SeqBody { cell })
}

/// NULL for no elements, as `copy` and `free` allow.
fn allocate_buffer(capacity: usize) -> *mut TVMFFIAny {
    if capacity == 0 {
        return core::ptr::null_mut::<TVMFFIAny>();
    }
    let size = capacity.saturating_mul(size_of::<TVMFFIAny>());
    // SAFETY: `malloc` may be called with any size.
    let data = unsafe { libc::malloc(size) }.cast::<TVMFFIAny>();
    if data.is_null() {
        let layout = core::alloc::Layout::array::<TVMFFIAny>(capacity);
        std::alloc::handle_alloc_error(layout.unwrap_or(core::alloc::Layout::new::<TVMFFIAny>()));
    }
    data
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

unsafe fn cell(seq: *mut TVMFFIObject) -> *mut TVMFFISeqCell {
    // SAFETY: the caller passes an array or list, which has this cell behind its header.
    unsafe { &raw mut (*seq.cast::<ObjectCell<TVMFFISeqCell>>()).body }
}

/// Makes room in a list for `capacity` elements. Does nothing when there is room.
///
/// # Safety
/// `list` is a live list (not an array), and nobody else uses it during the call.
pub unsafe fn reserve_list(list: *mut TVMFFIObject, capacity: usize) {
    // SAFETY: promised by the caller; elements are moved as plain data, and the old buffer is freed by its own deleter.
    unsafe {
        let cell = cell(list);
        if capacity as i64 <= (*cell).capacity {
            return;
        }
        let data = allocate_buffer(capacity);
        data.copy_from_nonoverlapping(slice(&*cell).as_ptr(), (*cell).size.max(0) as usize);
        let old = (*cell).data;
        let old_deleter = (*cell).data_deleter.replace(free_buffer);
        (*cell).data = data.cast();
        (*cell).capacity = capacity as i64;
        if let Some(deleter) = old_deleter {
            deleter(old);
        }
    }
}

/// Inserts an owned element into a list, before position `index`.
///
/// # Safety
/// As for [`reserve_list`]; the value's ownership moves into the list (on failure it is released).
pub unsafe fn insert_into_list(list: *mut TVMFFIObject, index: i64, value: TVMFFIAny) -> Result<(), Failure> {
    // SAFETY: promised by the caller; after `reserve_list` there is room for one more element.
    unsafe {
        let cell = cell(list);
        let size = (*cell).size;
        if index < 0 || index > size {
            release(value);
            return Err(Failure::new("IndexError", format!("Index {index} out of bounds [0, {size}]")));
        }
        if size == (*cell).capacity {
            reserve_list(list, (size as usize * 2).max(4));
        }
        let place = (*cell).data.cast::<TVMFFIAny>().add(index as usize);
        place.copy_to(place.add(1), (size - index) as usize);
        place.write(value);
        (*cell).size = size + 1;
    }
    Ok(())
}

/// Appends an owned element to a list.
///
/// # Safety
/// As for [`insert_into_list`].
pub unsafe fn push_to_list(list: *mut TVMFFIObject, value: TVMFFIAny) {
    // SAFETY: promised by the caller.
    let appended = unsafe { insert_into_list(list, (*cell(list)).size, value) };
    debug_assert!(appended.is_ok());
}

/// Takes the element at `index` out; the caller owns it.
///
/// # Safety
/// `seq` is a live array or list, nobody else uses it during the call, and an array is not shared.
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

/// Exchanges the element at `index` for an owned one; the caller owns the old element. On failure `value` is released.
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

unsafe fn element(cell: &TVMFFISeqCell, index: i64) -> Result<*mut TVMFFIAny, Failure> {
    if index < 0 || index >= cell.size {
        return Err(Failure::new("IndexError", format!("Index {index} out of bounds {}", cell.size)));
    }
    // SAFETY: the index is within the elements, which the caller keeps alive.
    Ok(unsafe { cell.data.cast::<TVMFFIAny>().add(index as usize) })
}

/// Releases all elements.
///
/// # Safety
/// As for [`remove`].
pub unsafe fn clear(seq: *mut TVMFFIObject) {
    // SAFETY: promised by the caller. The elements are copied out first: their destructors may look at the sequence.
    unsafe {
        let cell = cell(seq);
        let elements = slice(&*cell).to_vec();
        (*cell).size = 0;
        release_elements(elements);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::{dec_ref, inc_ref, new_string_object, strong_count};

    fn ints(seq: *mut TVMFFIObject) -> Vec<i64> {
        // SAFETY: the tests pass live sequences of integers.
        unsafe { elements(seq).iter().map(|value| value.payload.v_int64).collect() }
    }

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

    #[test]
    fn lists_grow_and_shrink() {
        let list = new_list(vec![]);
        // SAFETY: the test owns the list.
        unsafe {
            assert!(body::<TVMFFISeqCell>(list).data_deleter.is_some(), "also without a buffer");
            for i in 0..10 {
                push_to_list(list, TVMFFIAny::int(i));
            }
            insert_into_list(list, 0, TVMFFIAny::int(-1)).unwrap();
            assert_eq!(remove(list, 5).unwrap().bits(), 4);
            assert_eq!(replace(list, 1, TVMFFIAny::int(100)).unwrap().bits(), 0);
            assert_eq!(ints(list), [-1, 100, 1, 2, 3, 5, 6, 7, 8, 9]);
            let error = remove(list, 10).err().unwrap();
            assert_eq!((error.kind().as_str(), error.message().as_str()), ("IndexError", "Index 10 out of bounds 10"));
            assert!(insert_into_list(list, 11, TVMFFIAny::NONE).is_err());
            assert!(replace(list, -1, TVMFFIAny::NONE).is_err());
            clear(list);
            assert!(ints(list).is_empty());
            dec_ref(list);
        }
    }
}
