//! The stack of a traversal: one frame for each value whose children are being visited. It is on
//! the heap, so that a chain of any length is visited on a small native stack, and its memory is
//! reused by the next traversal of the thread.

use std::cell::Cell;
use std::thread::LocalKey;

use crate::Error;

/// The nesting limit. Deeper values are an error: most likely a list contains itself.
pub(super) const MAX_DEPTH: usize = 1 << 21;

/// The largest stack, in frames, whose memory is kept.
const MAX_KEPT: usize = 1 << 12;

/// The storage in which a thread keeps the memory of its last stack.
pub(super) type Spare<T> = LocalKey<Cell<Vec<T>>>;

/// A stack of frames.
pub(super) struct Frames<T: 'static> {
    frames: Vec<T>,
    spare: &'static Spare<T>,
}

impl<T> Frames<T> {
    /// Creates an empty stack.
    #[inline]
    pub(super) const fn new(spare: &'static Spare<T>) -> Self {
        Self { frames: Vec::new(), spare }
    }

    /// Returns true if there is no room for another frame.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.frames.len() >= MAX_DEPTH
    }

    /// Adds a frame.
    #[inline]
    pub(super) fn push(&mut self, frame: T) {
        // SAFETY: it is written.
        unsafe { self.push_with(|place| place.write(frame)) }
    }

    /// Adds a frame that is constructed in place, because frames are large.
    ///
    /// # Safety
    /// `make` writes a frame.
    #[inline]
    pub(super) unsafe fn push_with(&mut self, make: impl FnOnce(*mut T)) {
        if self.frames.len() == self.frames.capacity() {
            self.grow();
        }
        // SAFETY: there is room for one more.
        unsafe {
            make(self.frames.as_mut_ptr().add(self.frames.len()));
            self.frames.set_len(self.frames.len() + 1);
        }
    }

    #[cold]
    fn grow(&mut self) {
        if self.frames.capacity() == 0 {
            self.frames = self.spare.try_with(Cell::take).unwrap_or_default();
        }
        self.frames.reserve(1);
    }

    /// The top frame.
    #[inline]
    pub(super) fn last(&mut self) -> Option<&mut T> {
        self.frames.last_mut()
    }

    /// Removes the top frame.
    #[inline]
    pub(super) fn drop_last(&mut self) {
        self.frames.truncate(self.frames.len().wrapping_sub(1));
    }
}

impl<T> Drop for Frames<T> {
    fn drop(&mut self) {
        if (1..=MAX_KEPT).contains(&self.frames.capacity()) {
            let mut frames = core::mem::take(&mut self.frames);
            frames.clear();
            let _ = self.spare.try_with(|spare| spare.set(frames));
        }
    }
}

/// The error for values that are nested too deeply.
#[cold]
pub(super) fn too_deep() -> Error {
    crate::error!(
        RecursionError,
        "maximum recursion depth exceeded: values are nested deeper than {MAX_DEPTH} levels; does a list or dict contain itself?"
    )
}
