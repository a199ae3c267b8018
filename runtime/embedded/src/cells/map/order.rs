//! The order of insertion of a dense table: a doubly linked list through its items.

use super::blocks::{Item, NO_SLOT};
use super::dense::DenseTable;

// SAFETY of the methods: as in `dense`.
impl DenseTable {
    pub(super) unsafe fn unlink(&mut self, slot: u64) {
        // SAFETY: see the impl.
        unsafe {
            let Item { previous, next, .. } = *self.item(slot);
            self.link(previous, next);
        }
    }

    pub(super) unsafe fn push_back(&mut self, slot: u64) {
        // SAFETY: see the impl.
        unsafe {
            let tail = self.tail;
            self.link(tail, slot);
            self.link(slot, NO_SLOT);
        }
    }

    /// Makes the neighbours of `from` in the insertion order point to `to`, which has a copy of the
    /// item.
    pub(super) unsafe fn take_place(&mut self, from: u64, to: u64) {
        // SAFETY: see the impl.
        unsafe {
            let Item { previous, next, .. } = *self.item(from);
            self.link(previous, to);
            self.link(to, next);
        }
    }

    /// Makes two slots neighbours in the insertion order; [`NO_SLOT`] represents its ends.
    unsafe fn link(&mut self, previous: u64, next: u64) {
        // SAFETY: see the impl.
        unsafe {
            match previous {
                NO_SLOT => self.head = next,
                slot => (*self.item(slot)).next = next,
            }
            match next {
                NO_SLOT => self.tail = previous,
                slot => (*self.item(slot)).previous = previous,
            }
        }
    }
}
