//! Clones of a shared reference while it is replaced.

use core::ptr::null_mut;

use loom::sync::Arc;
use loom::thread;

use crate::atomic::AtomicPtr;
use crate::counted::{Object, Shared};
use crate::shared_ref::SharedRef;
use crate::{check, check_with_interruptions};

type Reference = Arc<SharedRef<Object>>;

/// A reference that owns the only reference to a new object.
fn new_reference() -> (Reference, Shared) {
    // SAFETY: the word is NULL.
    let reference = unsafe { SharedRef::new(AtomicPtr::new(null_mut())) };
    let object = Object::new();
    // SAFETY: the object is new, and its reference is passed on.
    drop(unsafe { reference.replace(object) });
    (Arc::new(reference), Shared(object))
}

fn copy_and_use(reference: &Reference) -> bool {
    let object = reference.copy();
    if object.is_null() {
        return false;
    }
    // SAFETY: the reference is ours.
    unsafe {
        Object::read(object);
        Object::dec_ref(object);
    }
    true
}

/// # Safety
/// As for `SharedRef::replace`.
unsafe fn replace(reference: &Reference, object: *mut Object) {
    // SAFETY: promised by the caller.
    drop(unsafe { reference.replace(object) });
}

fn spawn_copying(reference: &Reference) -> thread::JoinHandle<()> {
    let reference = reference.clone();
    thread::spawn(move || {
        copy_and_use(&reference);
    })
}

/// A thread copies a reference that is being set: it gets nothing, or a complete object.
pub fn set() {
    check(|| {
        // SAFETY: the word is NULL.
        let reference = Arc::new(unsafe { SharedRef::new(AtomicPtr::new(null_mut())) });
        let thread = spawn_copying(&reference);
        let object = Object::new();
        // SAFETY: only this thread replaces. All threads have ended when the object is checked.
        unsafe {
            replace(&reference, object);
            thread.join().unwrap();
            replace(&reference, null_mut());
            assert!(Object::is_freed(object));
        }
    });
}

/// Two threads copy the reference while it is removed: their copies are alive, and nothing is
/// leaked.
pub fn removed() {
    check_with_interruptions(4, || {
        let (reference, object) = new_reference();
        let threads = [spawn_copying(&reference), spawn_copying(&reference)];
        // SAFETY: only this thread replaces. All threads have ended when the object is checked.
        unsafe {
            replace(&reference, null_mut());
            assert!(!copy_and_use(&reference));
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert!(Object::is_freed(object.get()));
        }
    });
}

/// One thread copies while another object replaces the first.
pub fn replaced() {
    check(|| {
        let (reference, first) = new_reference();
        let thread = spawn_copying(&reference);
        let second = Object::new();
        // SAFETY: as above.
        unsafe {
            replace(&reference, second);
            assert!(copy_and_use(&reference));
            thread.join().unwrap();
            assert!(Object::is_freed(first.get()));
            assert_eq!(Object::strong(second), 1);
            replace(&reference, null_mut());
            assert!(Object::is_freed(second));
        }
    });
}

/// The same object is removed and set again, with other threads between pin and unpin: counts are
/// right at the end.
pub fn comes_back() {
    check_with_interruptions(3, || {
        let (reference, object) = new_reference();
        let threads = [spawn_copying(&reference), spawn_copying(&reference)];
        // SAFETY: as above; the test has one more reference.
        unsafe {
            let mine = reference.copy();
            replace(&reference, null_mut());
            replace(&reference, mine);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(Object::strong(object.get()), 1);
            replace(&reference, null_mut());
            assert!(Object::is_freed(object.get()));
        }
    });
}

/// As [`comes_back`], with one other thread and in all interleavings; then the object is removed
/// for good while that thread runs.
pub fn comes_back_and_goes() {
    check(|| {
        let (reference, object) = new_reference();
        let thread = spawn_copying(&reference);
        // SAFETY: as above.
        unsafe {
            let mine = reference.copy();
            replace(&reference, mine);
            replace(&reference, null_mut());
            thread.join().unwrap();
            assert!(Object::is_freed(object.get()));
        }
    });
}
