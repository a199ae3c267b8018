//! Allocation and reference counting. Every object that Kernpack creates is allocated here.
//!
//! Storage is `[header, 24 bytes][body][tail]` from `malloc`, preceded by a vtable pointer for
//! polymorphic C++ classes. Only an object's own deleter depends on that: it frees the storage.

use core::ffi::c_void;
use core::sync::atomic::AtomicU64;

use crate::abi::{TVMFFIObject, deleter_flag};

use super::release;
use crate::sync::ref_count::{self, LastStrong, ONE_STRONG_ONE_WEAK};
use crate::sync::shared_ref::Counted;

/// Bytes in front of an object's body.
pub const HEADER_SIZE: usize = size_of::<TVMFFIObject>();

/// A polymorphic C++ class begins with a pointer to its vtable.
const VTABLE_SIZE: usize = 8;

/// The memory layout of an object: the ABI's header, then the body.
#[repr(C)]
pub struct ObjectCell<T> {
    /// The header.
    pub header: TVMFFIObject,
    /// The type's own data, at offset 24 (bodies are aligned to at most 8 bytes).
    pub body: T,
}

/// Allocates an object that owns `body`. The caller owns the one strong reference.
///
/// `body` is dropped when the last strong reference goes; the storage is freed when the last weak
/// one does.
#[inline]
pub fn new_object<T>(type_index: i32, body: T) -> *mut TVMFFIObject {
    new_object_with_tail(type_index, body, 0)
}

/// Like [`new_object`], with `tail` uninitialized bytes after the body (at
/// `size_of::<ObjectCell<T>>()`).
#[inline]
pub fn new_object_with_tail<T>(type_index: i32, body: T, tail: usize) -> *mut TVMFFIObject {
    const { assert!(align_of::<T>() <= 8, "object bodies are aligned to at most 8 bytes") };
    let Some(size) = size_of::<ObjectCell<T>>().checked_add(tail) else {
        out_of_memory(usize::MAX);
    };
    let cell = allocate(size).cast::<ObjectCell<T>>();
    // SAFETY: `allocate` returned `size` fresh bytes, aligned to 16, that no other code knows.
    unsafe {
        (&raw mut (*cell).header).write(TVMFFIObject {
            combined_ref_count: ONE_STRONG_ONE_WEAK,
            type_index,
            padding: 0,
            deleter: Some(delete::<T>),
        });
        (&raw mut (*cell).body).write(body);
    }
    cell.cast()
}

/// Like [`new_object`], for a type whose C++ class is polymorphic (`ffi.Module`): `vtable` is
/// stored 8 bytes before the header.
///
/// # Safety
/// `vtable` is the address that the class's C++ vtable pointer must have, and lives forever.
pub unsafe fn new_polymorphic_object<T>(type_index: i32, vtable: *const c_void, body: T) -> *mut TVMFFIObject {
    const { assert!(align_of::<T>() <= 8, "object bodies are aligned to at most 8 bytes") };
    let start = allocate(VTABLE_SIZE + size_of::<ObjectCell<T>>());
    // SAFETY: `allocate` returned that many fresh bytes that no other code knows.
    unsafe {
        start.cast::<*const c_void>().write(vtable);
        let cell = start.byte_add(VTABLE_SIZE).cast::<ObjectCell<T>>();
        (&raw mut (*cell).header).write(TVMFFIObject {
            combined_ref_count: ONE_STRONG_ONE_WEAK,
            type_index,
            padding: 0,
            deleter: Some(delete_polymorphic::<T>),
        });
        (&raw mut (*cell).body).write(body);
        cell.cast()
    }
}

/// The only allocation function for objects; returns the address of the storage, which begins with
/// the object's header or, for a polymorphic one, with its vtable pointer.
#[inline]
fn allocate(size: usize) -> *mut c_void {
    // SAFETY: `malloc` may be called with any size.
    let start = unsafe { libc::malloc(size) };
    if start.is_null() {
        out_of_memory(size);
    }
    start
}

#[cold]
fn out_of_memory(size: usize) -> ! {
    let layout = core::alloc::Layout::from_size_align(size.min(isize::MAX as usize / 2), 1);
    std::alloc::handle_alloc_error(layout.unwrap_or(core::alloc::Layout::new::<u8>()))
}

/// Frees storage that `allocate` returned; for deleters of objects without a vtable pointer also
/// outside this file.
///
/// # Safety
/// `start` was returned by `allocate`, and is not used any more.
#[inline]
pub unsafe fn free_storage(start: *mut c_void) {
    // SAFETY: promised by the caller.
    unsafe { libc::free(start) }
}

/// The deleter of objects with this body.
pub fn deleter_of<T>() -> unsafe extern "C" fn(*mut c_void, i32) {
    delete::<T>
}

unsafe extern "C" fn delete<T>(this: *mut c_void, flags: i32) {
    // SAFETY: the deleter of an object whose storage begins at its header.
    unsafe { delete_object(this, this, flags, delete::<T>, drop_body::<T>()) }
}

unsafe extern "C" fn delete_polymorphic<T>(this: *mut c_void, flags: i32) {
    // SAFETY: the deleter of an object whose storage begins with a vtable pointer.
    unsafe { delete_object(this, this.byte_sub(VTABLE_SIZE), flags, delete_polymorphic::<T>, drop_body::<T>()) }
}

/// Drops the body of an object.
type DropBody = unsafe fn(*mut c_void);

/// The function that drops a `T` in an object; `None` if a `T` needs no drop.
const fn drop_body<T>() -> Option<DropBody> {
    unsafe fn drop_body<T>(this: *mut c_void) {
        // SAFETY: the last strong reference was released, so the body is exclusively ours, and it
        // is dropped once.
        unsafe { (&raw mut (*this.cast::<ObjectCell<T>>()).body).drop_in_place() }
    }
    if core::mem::needs_drop::<T>() { Some(drop_body::<T>) } else { None }
}

/// `start` is what `allocate` returned.
#[inline]
unsafe fn delete_object(
    this: *mut c_void,
    start: *mut c_void,
    flags: i32,
    deleter: unsafe extern "C" fn(*mut c_void, i32),
    drop_body: Option<DropBody>,
) {
    // SAFETY: promised by the caller.
    unsafe {
        match drop_body {
            Some(drop_body) => delete_with_body(this, start, flags, deleter, drop_body),
            None => free_at_last(start, flags),
        }
    }
}

/// One function for all types: each library has a dozen of them, and a user's library one more for
/// each of its own.
#[inline(never)]
unsafe fn delete_with_body(
    this: *mut c_void,
    start: *mut c_void,
    flags: i32,
    deleter: unsafe extern "C" fn(*mut c_void, i32),
    drop_body: DropBody,
) {
    if flags & deleter_flag::STRONG != 0 {
        // A long chain of objects must not need a deep stack.
        // SAFETY: the last strong reference is gone; the same call is made again later if it is
        // deferred.
        let Some(_level) = (unsafe { release::descend(this, flags, deleter) }) else { return };
        // A panicking destructor must not unwind into foreign code; `extern "C"` turns it into an
        // abort, so catch it here.
        // SAFETY: the last strong reference is gone.
        let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| unsafe { drop_body(this) }));
        if let Err(payload) = dropped {
            discard_panic(payload);
        }
    }
    // SAFETY: promised by the caller.
    unsafe { free_at_last(start, flags) }
}

#[inline]
unsafe fn free_at_last(start: *mut c_void, flags: i32) {
    if flags & deleter_flag::WEAK != 0 {
        // SAFETY: `allocate` returned this, and there are no references to it any more.
        unsafe { free_storage(start) }
    }
}

/// Drops a panic's payload. Its drop may panic, too; the payload of that second panic is leaked.
pub fn discard_panic(payload: Box<dyn core::any::Any + Send>) {
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(payload)));
    if let Err(second) = dropped {
        core::mem::forget(second);
    }
}

/// The body of an object.
///
/// # Safety
/// `object` is the header of a live object whose body is a `T`, and stays alive for `'a`.
#[inline]
pub unsafe fn body<'a, T>(object: *mut TVMFFIObject) -> &'a T {
    // SAFETY: promised by the caller.
    unsafe { &(*object.cast::<ObjectCell<T>>()).body }
}

/// The address of an object's body.
///
/// # Safety
/// `object` is the header of a live object whose body is a `T`.
#[inline]
pub unsafe fn body_ptr<T>(object: *mut TVMFFIObject) -> *mut T {
    // SAFETY: promised by the caller; no reference is made.
    unsafe { &raw mut (*object.cast::<ObjectCell<T>>()).body }
}

#[inline]
pub(super) unsafe fn counts<'a>(object: *mut TVMFFIObject) -> &'a AtomicU64 {
    // SAFETY: the caller passes a live object; its count is only ever accessed atomically, by all
    // languages.
    unsafe { AtomicU64::from_ptr(&raw mut (*object).combined_ref_count) }
}

/// Adds a strong reference. Ends the process if there are more than could ever be in use.
///
/// # Safety
/// `object` is alive.
#[inline]
pub unsafe fn inc_ref(object: *mut TVMFFIObject) {
    // SAFETY: promised by the caller.
    ref_count::add_strong(unsafe { counts(object) }, 1);
}

/// Adds a strong reference, in the total order of all sequentially consistent accesses.
///
/// # Safety
/// `object` is alive.
#[inline]
pub unsafe fn inc_ref_in_order(object: *mut TVMFFIObject) {
    // SAFETY: promised by the caller.
    ref_count::add_strong_in_order(unsafe { counts(object) });
}

/// [`is_unique`] in the total order of all sequentially consistent accesses.
///
/// # Safety
/// `object` is alive.
#[inline]
pub unsafe fn is_unique_in_order(object: *mut TVMFFIObject) -> bool {
    // SAFETY: promised by the caller.
    ref_count::is_unique_in_order(unsafe { counts(object) })
}

/// Adds a weak reference.
///
/// # Safety
/// `object`'s storage is alive.
#[inline]
pub unsafe fn inc_weak(object: *mut TVMFFIObject) {
    // SAFETY: promised by the caller.
    ref_count::add_weak(unsafe { counts(object) });
}

/// Releases a strong reference.
///
/// # Safety
/// The caller owns a strong reference and does not use it afterwards.
#[inline]
pub unsafe fn dec_ref(object: *mut TVMFFIObject) {
    // SAFETY: promised by the caller.
    unsafe { Counted::give_up_references(object, 1) }
}

// SAFETY: an object's deleter is called with the last reference, and not earlier.
unsafe impl Counted for TVMFFIObject {
    #[inline]
    unsafe fn add_references(this: *mut Self, number: u32) {
        // SAFETY: promised by the caller.
        ref_count::add_strong(unsafe { counts(this) }, number);
    }

    #[inline]
    unsafe fn give_up_references(this: *mut Self, number: u32) {
        // SAFETY: promised by the caller.
        if let Some(last) = ref_count::give_up_strong(unsafe { counts(this) }, number) {
            // SAFETY: that were the last strong references.
            unsafe { last_strong_gone(this, last) };
        }
    }
}

#[cold]
#[inline(never)]
unsafe fn last_strong_gone(object: *mut TVMFFIObject, last: LastStrong) {
    // SAFETY: the caller gave up the last strong reference; the weak reference of the strong ones
    // keeps the storage.
    unsafe {
        let deleter = (*object).deleter;
        if last.is_last_of_all(counts(object)) {
            if let Some(deleter) = deleter {
                deleter(object.cast(), deleter_flag::BOTH);
            }
            return;
        }
        if let Some(deleter) = deleter {
            deleter(object.cast(), deleter_flag::STRONG);
        }
        dec_weak(object);
    }
}

/// Releases a weak reference.
///
/// # Safety
/// The caller owns a weak reference and does not use it afterwards.
#[inline]
pub unsafe fn dec_weak(object: *mut TVMFFIObject) {
    // SAFETY: promised by the caller.
    if ref_count::give_up_weak(unsafe { counts(object) }) {
        // SAFETY: there is no reference of either kind.
        unsafe {
            if let Some(deleter) = (*object).deleter {
                deleter(object.cast(), deleter_flag::WEAK);
            }
        }
    }
}

/// Creates an additional strong reference from a weak one; returns false if the object is already
/// destroyed.
///
/// # Safety
/// The caller owns a weak reference.
pub unsafe fn try_promote(object: *mut TVMFFIObject) -> bool {
    // SAFETY: promised by the caller.
    ref_count::try_promote(unsafe { counts(object) })
}

/// Returns true if exactly one strong and no weak reference exists: the condition for changing an
/// object in place.
///
/// # Safety
/// `object` is alive.
#[inline]
pub unsafe fn is_unique(object: *mut TVMFFIObject) -> bool {
    // SAFETY: promised by the caller.
    ref_count::is_unique(unsafe { counts(object) })
}

/// Number of strong references; other threads may change it at any time.
///
/// # Safety
/// `object`'s storage is alive.
#[inline]
pub unsafe fn strong_count(object: *mut TVMFFIObject) -> u32 {
    // SAFETY: promised by the caller.
    ref_count::strong(unsafe { counts(object) })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    static DROPS: AtomicUsize = AtomicUsize::new(0);
    struct Counted;
    impl Drop for Counted {
        fn drop(&mut self) {
            DROPS.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn strong_and_weak_lifetimes() {
        let object = new_object(128, (7u64, Counted));
        // SAFETY: the test owns each reference that it gives up.
        unsafe {
            assert!(is_unique(object));
            assert_eq!(body::<(u64, Counted)>(object).0, 7);
            inc_ref(object);
            assert_eq!(strong_count(object), 2);
            inc_weak(object);
            dec_ref(object);
            assert!(!is_unique(object), "a weak reference makes it shared");
            assert_eq!(DROPS.load(Ordering::Relaxed), 0);
            assert!(try_promote(object));
            dec_ref(object);
            dec_ref(object);
            assert_eq!(DROPS.load(Ordering::Relaxed), 1, "destroyed with the last strong reference");
            assert!(!try_promote(object));
            dec_weak(object);
            assert_eq!(DROPS.load(Ordering::Relaxed), 1);
        }
    }
}
