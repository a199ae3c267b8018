//! Error objects.

use core::fmt::Write;
use std::sync::Mutex;

use crate::abi::{TVMFFIByteArray, TVMFFIErrorCell, TVMFFIObject, TVMFFIObjectHandle, backtrace_update, type_index};

use super::object::{ObjectCell, dec_ref, inc_ref, new_object_with_tail};

/// The ABI's cell, which points into the object's tail: `kind NUL message NUL backtrace NUL`.
#[repr(C)]
struct ErrorBody {
    cell: TVMFFIErrorCell,
    // Later backtraces; the cell's points into the last one. Readers may still hold the earlier ones, so they stay.
    backtraces: Mutex<Vec<Vec<u8>>>,
}

// SAFETY: everything that can change is behind the mutex; the cell's `backtrace` is written while it is held, and the
// ABI leaves it to callers not to update a backtrace while another thread reads it.
unsafe impl Send for ErrorBody {}
// SAFETY: as above.
unsafe impl Sync for ErrorBody {}

impl Drop for ErrorBody {
    fn drop(&mut self) {
        for handle in [self.cell.cause_chain, self.cell.extra_context] {
            if !handle.is_null() {
                // SAFETY: the cell owns these references.
                unsafe { dec_ref(handle) };
            }
        }
    }
}

/// Creates an error. `cause` and `extra` may be NULL; the error takes a new reference to each.
///
/// # Safety
/// `cause` and `extra` are NULL or live objects.
pub unsafe fn new_error(
    kind: &[u8],
    message: &[u8],
    backtrace: &[u8],
    cause: TVMFFIObjectHandle,
    extra: TVMFFIObjectHandle,
) -> *mut TVMFFIObject {
    for handle in [cause, extra] {
        if !handle.is_null() {
            // SAFETY: promised by the caller.
            unsafe { inc_ref(handle) };
        }
    }
    let cell = TVMFFIErrorCell {
        kind: TVMFFIByteArray::EMPTY,
        message: TVMFFIByteArray::EMPTY,
        backtrace: TVMFFIByteArray::EMPTY,
        update_backtrace: Some(update_backtrace),
        cause_chain: cause,
        extra_context: extra,
    };
    let size = kind.len() + message.len() + backtrace.len() + 3;
    let object = new_object_with_tail(type_index::ERROR, ErrorBody { cell, backtraces: Mutex::new(Vec::new()) }, size);
    // SAFETY: the object is new and ours; its tail has room for the texts and their NULs.
    unsafe {
        let error = object.cast::<ObjectCell<ErrorBody>>();
        let mut end = error.add(1).cast::<u8>();
        let mut store = |text: &[u8]| {
            end.copy_from_nonoverlapping(text.as_ptr(), text.len());
            end.add(text.len()).write(0);
            let stored = TVMFFIByteArray { data: end, size: text.len() };
            end = end.add(text.len() + 1);
            stored
        };
        let cell = &mut (*error).body.cell;
        cell.kind = store(kind);
        cell.message = store(message);
        cell.backtrace = store(backtrace);
    }
    object
}

unsafe extern "C" fn update_backtrace(this: TVMFFIObjectHandle, backtrace: *const TVMFFIByteArray, mode: i32) {
    if this.is_null() || backtrace.is_null() {
        return;
    }
    // SAFETY: this function is only reachable through an error that `new_error` made; the caller passes valid bytes.
    unsafe {
        let error = &raw mut (*this.cast::<ObjectCell<ErrorBody>>()).body;
        let addition = (*backtrace).as_slice();
        let Ok(mut backtraces) = (*error).backtraces.lock() else { return };
        let kept = match mode {
            backtrace_update::REPLACE => &[],
            _ => (*error).cell.backtrace.as_slice(),
        };
        let mut next = Vec::with_capacity(kept.len() + addition.len() + 1);
        next.extend_from_slice(kept);
        next.extend_from_slice(addition);
        next.push(0);
        (&raw mut (*error).cell.backtrace).write(TVMFFIByteArray::new(&next[..next.len() - 1]));
        backtraces.push(next);
    }
}

/// One line of a backtrace in the ABI's format.
pub fn backtrace_frame(file: &str, line: u32, function: &str) -> String {
    let mut frame = String::with_capacity(file.len() + function.len() + 32);
    // Writing to a string does not fail.
    let _ = writeln!(frame, "  File \"{file}\", line {line}, in {function}");
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::body;

    #[test]
    fn cell_points_at_own_copies_and_updates() {
        // SAFETY: no cause and no extra context; the one reference is released at the end.
        unsafe {
            let error = new_error(b"ValueError", b"too big", b"a\n", core::ptr::null_mut(), core::ptr::null_mut());
            let cell = body::<TVMFFIErrorCell>(error);
            assert_eq!(cell.kind.as_slice(), b"ValueError");
            assert_eq!(cell.message.as_slice(), b"too big");
            assert_eq!(*cell.message.data.add(cell.message.size), 0, "what() needs the NUL");
            let more = TVMFFIByteArray::new(b"b\n");
            (cell.update_backtrace.unwrap())(error, &more, backtrace_update::APPEND);
            assert_eq!(body::<TVMFFIErrorCell>(error).backtrace.as_slice(), b"a\nb\n");
            (cell.update_backtrace.unwrap())(error, &more, backtrace_update::REPLACE);
            assert_eq!(body::<TVMFFIErrorCell>(error).backtrace.as_slice(), b"b\n");
            dec_ref(error);
        }
    }
}
