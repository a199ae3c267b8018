//! An object with the runtime's reference counts.

use loom::cell::UnsafeCell;

use crate::atomic::AtomicU64;
use crate::ref_count;
use crate::shared_ref::Counted;

/// An object whose content is written when it is made and when it is destroyed, and read through
/// every reference. Its storage is never freed, so that a late access is a failed assertion.
#[repr(align(16))]
pub(crate) struct Object {
    pub(crate) counts: AtomicU64,
    content: UnsafeCell<Content>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Alive,
    Destroyed,
    Freed,
}

impl Object {
    /// An object with one strong reference.
    pub(crate) fn new() -> *mut Self {
        let object =
            Self { counts: AtomicU64::new(ref_count::ONE_STRONG_ONE_WEAK), content: UnsafeCell::new(Content::Alive) };
        Box::into_raw(Box::new(object))
    }

    /// An operation that a strong reference allows.
    pub(crate) unsafe fn read(this: *mut Self) {
        // SAFETY: objects are never freed.
        let content = unsafe { (*this).content.with(|content| *content) };
        assert_eq!(content, Content::Alive);
    }

    /// An operation that only the owner of the one reference may do.
    pub(crate) unsafe fn write(this: *mut Self) {
        // SAFETY: objects are never freed.
        unsafe { (*this).become_(Content::Alive, Content::Alive) };
    }

    pub(crate) unsafe fn dec_ref(this: *mut Self) {
        // SAFETY: promised by the caller.
        unsafe { Self::give_up_references(this, 1) };
    }

    pub(crate) unsafe fn dec_weak(this: *mut Self) {
        // SAFETY: objects are never freed.
        unsafe {
            if ref_count::give_up_weak(&(*this).counts) {
                (*this).become_(Content::Destroyed, Content::Freed);
            }
        }
    }

    /// Returns whether the object was destroyed and its storage freed. To be called only after all
    /// threads have ended.
    pub(crate) unsafe fn is_freed(this: *mut Self) -> bool {
        // SAFETY: objects are never freed.
        unsafe { (*this).content.with(|content| *content) == Content::Freed }
    }

    /// Number of strong references. To be called only after all threads have ended.
    pub(crate) unsafe fn strong(this: *mut Self) -> u32 {
        // SAFETY: objects are never freed.
        ref_count::strong(unsafe { &(*this).counts })
    }

    fn become_(&self, from: Content, to: Content) {
        // SAFETY: loom reports a concurrent access.
        self.content.with_mut(|content| unsafe {
            assert_eq!(*content, from);
            *content = to;
        });
    }
}

// SAFETY: the object is destroyed with the last reference.
unsafe impl Counted for Object {
    unsafe fn add_references(this: *mut Self, number: u32) {
        // SAFETY: objects are never freed.
        ref_count::add_strong(unsafe { &(*this).counts }, number);
    }

    unsafe fn give_up_references(this: *mut Self, number: u32) {
        // SAFETY: objects are never freed.
        unsafe {
            if let Some(last) = ref_count::give_up_strong(&(*this).counts, number) {
                if last.is_last_of_all(&(*this).counts) {
                    (*this).become_(Content::Alive, Content::Freed);
                } else {
                    (*this).become_(Content::Alive, Content::Destroyed);
                    Self::dec_weak(this);
                }
            }
        }
    }
}

/// A pointer that may be sent to other threads.
#[derive(Clone, Copy)]
pub(crate) struct Shared(pub(crate) *mut Object);

// SAFETY: counts are atomic, and loom checks the content.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    pub(crate) fn get(self) -> *mut Object {
        self.0
    }
}
