//! Strong and weak references of one object.

use loom::thread;

use crate::check;
use crate::counted::{Object, Shared};
use crate::ref_count;
use crate::shared_ref::Counted;

/// Threads drop strong references; the last one destroys the object after all others have used it.
pub fn strong_references() {
    check(|| {
        let object = Shared(Object::new());
        // SAFETY: every thread owns the references that it drops.
        unsafe {
            Object::add_references(object.get(), 2);
            let other = move || {
                Object::read(object.get());
                Object::dec_ref(object.get());
            };
            let threads = [thread::spawn(other), thread::spawn(other)];
            other();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert!(Object::is_freed(object.get()));
        }
    });
}

/// The last strong reference is dropped while others drop weak ones: the object is destroyed once
/// and freed once, in this order.
pub fn weak_references() {
    check(|| {
        let object = Shared(Object::new());
        // SAFETY: as above.
        unsafe {
            ref_count::add_weak(&(*object.get()).counts);
            ref_count::add_weak(&(*object.get()).counts);
            let other = move || Object::dec_weak(object.get());
            let threads = [thread::spawn(other), thread::spawn(other)];
            Object::read(object.get());
            Object::dec_ref(object.get());
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert!(Object::is_freed(object.get()));
        }
    });
}

/// A weak reference is promoted while the last strong one is dropped: the promotion succeeds with a
/// live object, or fails.
pub fn promotion() {
    check(|| {
        let object = Shared(Object::new());
        // SAFETY: as above.
        unsafe {
            ref_count::add_weak(&(*object.get()).counts);
            ref_count::add_weak(&(*object.get()).counts);
            let other = move || {
                if ref_count::try_promote(&(*object.get()).counts) {
                    Object::read(object.get());
                    Object::dec_ref(object.get());
                }
                Object::dec_weak(object.get());
            };
            let threads = [thread::spawn(other), thread::spawn(other)];
            Object::read(object.get());
            Object::dec_ref(object.get());
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert!(Object::is_freed(object.get()));
        }
    });
}

/// The holder of the only reference may change the object: no other code holds it or is still
/// reading it.
pub fn uniqueness() {
    check(|| {
        let object = Shared(Object::new());
        // SAFETY: as above.
        unsafe {
            Object::add_references(object.get(), 1);
            let other = thread::spawn(move || {
                Object::read(object.get());
                Object::dec_ref(object.get());
            });
            if ref_count::is_unique(&(*object.get()).counts) {
                Object::write(object.get());
            }
            Object::read(object.get());
            Object::dec_ref(object.get());
            other.join().unwrap();
            assert!(Object::is_freed(object.get()));
        }
    });
}

/// Threads change an object under its lock, while others clone and drop references: one at a time,
/// and each sees the changes of the one before; the last reference still destroys the object.
pub fn lock() {
    check(|| {
        let object = Shared(Object::new());
        // SAFETY: every thread owns the references that it drops, and holds the lock when it
        // writes.
        unsafe {
            Object::add_references(object.get(), 1);
            let change = move || {
                let counts = &(*object.get()).counts;
                if ref_count::try_lock(counts) {
                    Object::write(object.get());
                    assert!(ref_count::is_locked(counts));
                    ref_count::unlock(counts);
                }
                Object::dec_ref(object.get());
            };
            let other = thread::spawn(change);
            ref_count::add_weak(&(*object.get()).counts);
            change();
            other.join().unwrap();
            Object::dec_weak(object.get());
            assert!(Object::is_freed(object.get()));
        }
    });
}
