//! Values that do not change on their way through an `Any`: a tuple, a `bytearray`, and objects of
//! classes derived from those of texts, bytes and containers.
//!
//! Code of Rust reads such a value like all others. The word of its header that the ABI leaves
//! unused says what Python gets back: a tuple, a `bytearray`, or the original object, which the
//! value then keeps.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use kernpack_core::abi::deleter_flag::STRONG;
use kernpack_core::abi::{ObjectDeleter, TVMFFIObject};
use kernpack_core::container::TUPLE;
use kernpack_core::embedded;

use crate::cpython::capi::{Py, PyObject};
use crate::cpython::interpreter::with_lock;
use crate::cpython::object::Owned;

/// The word of an array that is a tuple, of Python or of Rust, and of bytes that were a
/// `bytearray`.
const OTHER_CLASS: u32 = TUPLE;
/// The word of the first value with an original object; the following ones are greater.
const FIRST: u32 = 2;

/// A value, with a weak reference to it, and its original object. [`delete`] calls the value's own
/// deleter.
struct Entry {
    value: usize,
    original: usize,
    deleter: Option<ObjectDeleter>,
}

/// The values with an original object; a free entry is in the second list.
struct Entries {
    all: Vec<Entry>,
    free: Vec<u32>,
}

static ENTRIES: Mutex<Entries> = Mutex::new(Entries { all: Vec::new(), free: Vec::new() });

/// Locks the entries. Meanwhile no Python code runs, and no object is freed.
fn entries() -> MutexGuard<'static, Entries> {
    ENTRIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The unused word of an object.
///
/// # Safety
/// `value` is alive for `'a`.
unsafe fn word<'a>(value: *mut TVMFFIObject) -> &'a AtomicU32 {
    // SAFETY: promised by the caller; the word is only accessed atomically.
    unsafe { AtomicU32::from_ptr(&raw mut (*value).padding) }
}

/// Marks an array as a tuple, or bytes as a `bytearray`.
///
/// # Safety
/// `value` is an array or bytes that was made of one, and no other thread refers to it yet.
pub(super) unsafe fn mark(value: *mut TVMFFIObject) {
    // SAFETY: promised by the caller.
    unsafe { word(value).store(OTHER_CLASS, Ordering::Relaxed) };
}

/// Returns true if an array is a tuple, or bytes were a `bytearray`.
///
/// # Safety
/// `value` is a live array or bytes.
#[inline]
pub(super) unsafe fn is_marked(value: *mut TVMFFIObject) -> bool {
    // SAFETY: promised by the caller.
    unsafe { word(value).load(Ordering::Relaxed) == OTHER_CLASS }
}

/// Lets a value keep its original object, which Python gets back. Does nothing for a value that has
/// one: a container that occurs several times is converted once.
///
/// # Safety
/// `value` is a text, bytes or container that was made of `original`, and no other thread refers to
/// it yet; `original` is alive.
pub(super) unsafe fn keep(py: Py, value: *mut TVMFFIObject, original: *mut PyObject) {
    // SAFETY: promised by the caller.
    if unsafe { word(value) }.load(Ordering::Relaxed) != 0 {
        return;
    }
    // SAFETY: promised by the caller; the entry has the new reference.
    unsafe {
        let original = Owned::share(py, original).into_ptr().expose_provenance();
        let entry = Entry { value: value.addr(), original, deleter: (*value).deleter };
        let mut entries = entries();
        let place = match entries.free.pop() {
            Some(place) => {
                entries.all[place as usize] = entry;
                place
            }
            None => {
                entries.all.push(entry);
                entries.all.len() as u32 - 1
            }
        };
        (*value).deleter = Some(delete);
        // With a weak reference no code changes the value in place, so it stays equal to the
        // original.
        embedded::inc_weak(value);
        word(value).store(FIRST + place, Ordering::Relaxed);
    }
}

/// The original object of a value, with a new reference.
///
/// # Safety
/// `value` is a live text, bytes or container.
#[inline]
pub(super) unsafe fn original(py: Py, value: *mut TVMFFIObject) -> Option<Owned> {
    // SAFETY: promised by the caller; the entry keeps the object as long as the value lives.
    unsafe {
        let place = word(value).load(Ordering::Relaxed).checked_sub(FIRST)?;
        let entries = entries();
        let entry = entries.all.get(place as usize).filter(|entry| entry.value == value.addr())?;
        Some(Owned::share(py, core::ptr::with_exposed_provenance_mut(entry.original)))
    }
}

/// The deleter of values with an original object.
unsafe extern "C" fn delete(this: *mut c_void, flags: i32) {
    let value = this.cast::<TVMFFIObject>();
    // SAFETY: the last strong reference to a value that `keep` changed is gone; its storage is
    // alive, because the entry has a weak one. Its own deleter is called from here on.
    unsafe {
        debug_assert!(flags & STRONG != 0, "a weak reference keeps the storage");
        let place = word(value).swap(0, Ordering::Relaxed) - FIRST;
        let (original, deleter) = {
            let mut entries = entries();
            let entry = &mut entries.all[place as usize];
            entry.value = 0;
            let taken = (entry.original, entry.deleter);
            entries.free.push(place);
            taken
        };
        (*value).deleter = deleter;
        // From any thread; after Python has ended, its objects are gone.
        with_lock(|py| py.Py_DecRef(core::ptr::with_exposed_provenance_mut(original)));
        if let Some(deleter) = deleter {
            deleter(this, flags);
        }
        embedded::dec_weak(value);
    }
}
