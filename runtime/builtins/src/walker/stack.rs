//! The stack of a walk through one graph of objects, or through several at once.
//!
//! A walk borrows the values that it reads: its caller keeps the roots alive, and the object of a
//! frame keeps the objects of the frames above it alive, as long as it is not changed. Only hooks
//! change objects. So before a hook runs, a walk takes references to everything that it still
//! needs, once: the frames with references are always the lower part of the stack.

use core::ops::{Index, IndexMut};

use super::field_value::{Read, give_up};
use crate::abi::{TVMFFIAny, TVMFFIObject};
use crate::embedded;
use crate::embedded::release::{release, retain};
use crate::{Result, bail};

/// The nesting limit of walks with a limited depth.
pub(crate) const MAX_DEPTH: usize = 1 << 20;

/// An error when there is no room for another frame.
#[inline]
pub(crate) fn check_depth(frames: usize) -> Result<()> {
    if frames < MAX_DEPTH {
        return Ok(());
    }
    bail!(ValueError, "ObjectGraphDFS: maximum stack depth ({MAX_DEPTH}) exceeded");
}

/// One object of each graph, whose parts the walk visits, and the state of the walk for them.
pub(crate) struct Frame<const N: usize, S> {
    pub(crate) objects: [*mut TVMFFIObject; N],
    /// True if the frame holds references to the objects.
    owned: [bool; N],
    pub(crate) state: S,
}

/// Frames, the roots first. When it is dropped, the remaining frames release their references.
pub(crate) struct Stack<const N: usize, S> {
    frames: Vec<Frame<N, S>>,
    /// Number of the lowest frames that have references to all of their objects.
    retained: usize,
}

impl<const N: usize, S> Frame<N, S> {
    /// The objects with the frame's references.
    #[inline]
    pub(crate) fn parts(&self) -> [Read; N] {
        core::array::from_fn(|at| Read { value: TVMFFIAny::pointer(0, self.objects[at].cast()), owned: self.owned[at] })
    }

    /// Releases the references of the frame.
    ///
    /// # Safety
    /// They are not released elsewhere.
    #[inline]
    pub(crate) unsafe fn give_up(&self) {
        for part in self.parts() {
            // SAFETY: promised by the caller.
            unsafe { give_up(part) };
        }
    }
}

impl<const N: usize, S> Stack<N, S> {
    pub(crate) const fn new() -> Self {
        Self { frames: Vec::new(), retained: 0 }
    }

    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.frames.len()
    }

    /// Pushes a frame for objects, and takes over their references.
    #[inline]
    pub(crate) fn push(&mut self, parts: [Read; N], state: S) {
        // SAFETY: a walk has frames for objects alone.
        let objects = parts.map(|part| unsafe { part.value.payload.v_obj });
        self.frames.push(Frame { objects, owned: parts.map(|part| part.owned), state });
    }

    /// Pops the top frame, with its references.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Frame<N, S>> {
        let frame = self.frames.pop();
        self.retained = self.retained.min(self.frames.len());
        frame
    }

    /// Pops the frames from `base` on, the top frame first, and releases their references. `ended`
    /// gets each of them before that.
    pub(crate) fn truncate(&mut self, base: usize, mut ended: impl FnMut(&Frame<N, S>)) {
        while self.len() > base {
            let Some(frame) = self.pop() else { return };
            ended(&frame);
            // SAFETY: the frame is off the stack.
            unsafe { frame.give_up() };
        }
    }

    /// The frames from `base` on.
    pub(crate) fn from(&self, base: usize) -> &[Frame<N, S>] {
        &self.frames[base..]
    }

    /// The top frame.
    #[inline]
    pub(crate) fn last(&self) -> Option<&Frame<N, S>> {
        self.frames.last()
    }

    /// Takes references to all borrowed objects.
    ///
    /// # Safety
    /// They are alive: no hook has run since they were borrowed.
    pub(crate) unsafe fn retain_all(&mut self) {
        for frame in &mut self.frames[self.retained..] {
            for (object, owned) in frame.objects.iter().zip(&mut frame.owned) {
                if !core::mem::replace(owned, true) {
                    // SAFETY: promised by the caller.
                    unsafe { embedded::inc_ref(*object) };
                }
            }
        }
        self.retained = self.frames.len();
    }
}

impl<const N: usize, S> Index<usize> for Stack<N, S> {
    type Output = Frame<N, S>;

    #[inline]
    fn index(&self, index: usize) -> &Self::Output {
        &self.frames[index]
    }
}

impl<const N: usize, S> IndexMut<usize> for Stack<N, S> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut Self::Output {
        &mut self.frames[index]
    }
}

impl<const N: usize, S> Drop for Stack<N, S> {
    fn drop(&mut self) {
        for frame in self.frames.drain(..) {
            // SAFETY: the references are the frame's, which is not used any more.
            unsafe { frame.give_up() };
        }
    }
}

/// Values that the frames of a walk still need, with a word for each row of them: those of the maps
/// on the stack.
pub(crate) struct Waiting<W, const N: usize> {
    rows: Vec<(W, [TVMFFIAny; N])>,
    /// Number of the first rows that have references to their values.
    retained: usize,
}

impl<W, const N: usize> Waiting<W, N> {
    pub(crate) const fn new() -> Self {
        Self { rows: Vec::new(), retained: 0 }
    }

    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn reserve(&mut self, more: usize) {
        self.rows.reserve(more);
    }

    /// Adds a row of borrowed values.
    #[inline]
    pub(crate) fn push(&mut self, word: W, values: [TVMFFIAny; N]) {
        self.rows.push((word, values));
    }

    /// The rows from `first` on.
    #[inline]
    pub(crate) fn from(&self, first: usize) -> &[(W, [TVMFFIAny; N])] {
        &self.rows[first..]
    }

    /// Sorts the rows from `first` on, which are all borrowed.
    pub(crate) fn sort_from(&mut self, first: usize)
    where
        W: Ord + Copy,
    {
        debug_assert!(self.retained <= first);
        self.rows[first..].sort_unstable_by_key(|row| row.0);
    }

    /// Takes references to all borrowed values.
    ///
    /// # Safety
    /// They are valid: no hook has run since they were borrowed.
    pub(crate) unsafe fn retain_all(&mut self) {
        for value in self.rows[self.retained..].iter().flat_map(|row| &row.1) {
            // SAFETY: promised by the caller.
            unsafe { retain(value) };
        }
        self.retained = self.rows.len();
    }

    /// Removes the rows from `first` on.
    pub(crate) fn truncate(&mut self, first: usize) {
        for (_, values) in self.rows.drain(first..).take(self.retained.saturating_sub(first)) {
            // SAFETY: to the values of these rows there are references.
            values.into_iter().for_each(|value| unsafe { release(value) });
        }
        self.retained = self.retained.min(first);
    }
}

impl<W, const N: usize> Drop for Waiting<W, N> {
    fn drop(&mut self) {
        self.truncate(0);
    }
}
