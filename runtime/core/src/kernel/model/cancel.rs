//! Ends a run of a compiled model from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::{Error, ErrorKind, Tensor};

/// The mark in front of the temporary memory of a cancelled run: `kpcancel`. Memory of a caller
/// may contain anything else.
pub const CANCEL_MARK: i64 = 0x6b70_6361_6e63_656c;
/// The number of bytes between the aligned start of a state and its temporary memory, and the
/// alignment of both.
pub const CANCEL_BYTES: usize = 64;

/// Ends runs of a model in one `State`: `state.canceller()` makes it. Clones cancel the same state,
/// on any thread.
///
/// A run looks for the request before each kernel. It ends with an error of the kind
/// `CancelledError`, its outputs are incomplete, and the state can be used again. A request that
/// arrives between runs ends the next one, unless it is withdrawn. With `Threads::Region` a run
/// only looks for it when it begins.
#[derive(Clone, Debug)]
pub struct Canceller(Arc<Flag>);

#[derive(Debug)]
struct Flag(Tensor);

impl Flag {
    #[inline]
    fn word(&self) -> Option<&AtomicI64> {
        let tensor = self.0.dl_tensor();
        let start = tensor.data.cast::<u8>();
        let skipped = start.align_offset(CANCEL_BYTES);
        if self.0.len() < skipped.saturating_add(CANCEL_BYTES) {
            return None;
        }
        // SAFETY: the aligned word is in the tensor, which this value keeps alive. Compiled code
        // and this type only access it atomically.
        Some(unsafe { &*start.add(skipped).cast::<AtomicI64>() })
    }

    #[inline]
    fn set(&self, mark: i64) {
        if let Some(word) = self.word() {
            word.store(mark, Ordering::Relaxed);
        }
    }
}

impl Drop for Flag {
    #[inline]
    fn drop(&mut self) {
        // The memory may become that of another run.
        self.set(0);
    }
}

impl Canceller {
    /// The kind of the error of a cancelled run.
    pub const KIND: ErrorKind = ErrorKind::new("CancelledError");

    /// Creates the canceller of a state with this memory.
    #[inline]
    pub fn new(memory: &Tensor) -> Self {
        let flag = Flag(memory.clone());
        flag.set(0);
        Self(Arc::new(flag))
    }

    /// Ends the current run, or the next one if the state is not in use.
    #[inline]
    pub fn cancel(&self) {
        self.0.set(CANCEL_MARK);
    }

    /// Withdraws a request that has not ended a run.
    #[inline]
    pub fn withdraw(&self) {
        self.0.set(0);
    }

    /// Returns the error of a run. After a cancelled run, the state can be used again.
    #[doc(hidden)]
    #[inline]
    pub fn ended(&self, error: Error) -> Error {
        if error.kind() == Self::KIND {
            self.withdraw();
        }
        error
    }
}
