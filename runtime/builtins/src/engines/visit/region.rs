//! Definition regions: whether the variables in a traversal are definitions or uses.

use core::sync::atomic::{AtomicI32, Ordering};

use crate::abi::{TVMFFIObject, field_flag};

/// Variables are uses.
pub(super) const NONE: i32 = 0;
/// Variables anywhere below are definitions. Entering another region inside this one has no effect.
pub(super) const PATTERN: i32 = 1;
/// Variables are definitions; variables inside them are uses.
pub(super) const SIMPLE: i32 = 2;

/// The offset of the region in a visitor or mutator: C++ code reads and writes it, too.
const OFFSET: usize = 32;

/// The region of a visitor or mutator.
#[derive(Clone, Copy)]
pub(super) struct Region(*mut i32);

/// The region to restore after a region that was entered. Does not implement `Drop`, so that frames
/// can hold many of them.
#[derive(Clone, Copy)]
pub(super) struct Scope(Option<i32>);

impl Scope {
    /// No region was entered.
    pub(super) const NONE: Self = Self(None);
}

impl Region {
    /// The region of a visitor or mutator.
    ///
    /// # Safety
    /// `traversal` is one of both, and lives as long as the region is used.
    #[inline]
    pub(super) const unsafe fn of(traversal: *mut TVMFFIObject) -> Self {
        // SAFETY: promised by the caller; both have at least 40 bytes.
        Self(unsafe { traversal.byte_add(OFFSET).cast() })
    }

    fn cell(&self) -> &AtomicI32 {
        // SAFETY: the creator of the region promised that the object is alive; the cell is aligned
        // to 8.
        unsafe { AtomicI32::from_ptr(self.0) }
    }

    /// The current region.
    #[inline]
    pub(super) fn get(self) -> i32 {
        self.cell().load(Ordering::Relaxed)
    }

    /// Enters a region.
    #[inline]
    pub(super) fn enter(self, kind: i32) -> Scope {
        let old = self.get();
        if old == PATTERN {
            return Scope::NONE;
        }
        self.cell().store(kind, Ordering::Relaxed);
        Scope(Some(old))
    }

    /// Enters the region that a field opens, if any.
    #[inline]
    pub(super) fn enter_field(self, flags: i64) -> Scope {
        if flags & (field_flag::SEQ_HASH_DEF_SIMPLE | field_flag::SEQ_HASH_DEF_PATTERN) == 0 {
            return Scope::NONE;
        }
        self.enter(if flags & field_flag::SEQ_HASH_DEF_SIMPLE != 0 { SIMPLE } else { PATTERN })
    }

    /// Restores the previous region.
    #[inline]
    pub(super) fn leave(self, scope: Scope) {
        if let Scope(Some(old)) = scope {
            self.cell().store(old, Ordering::Relaxed);
        }
    }
}
