//! Repeated parts of a nested value. A conversion converts them once, so that shared parts stay
//! shared, and the time for a value with as many paths as a tree of exponential size depends only
//! on its parts.

use core::ffi::c_void;
use std::collections::HashMap;

use kernpack_core::value::TypeSchema;

use crate::cpython::capi::Py;
use crate::cpython::object::{PyResult, Raised};

/// The number of items converted between two checks for signals.
const BETWEEN_LOOKS: usize = 1 << 14;

/// The results of conversions, by address and declared type of the origin. The origins are kept
/// alive, so that no other object gets the address of one of them meanwhile.
type ByOrigin<Origin, Made> = HashMap<(usize, usize), (Origin, Made)>;

/// The results of one conversion so far, and their origins.
pub(crate) struct Parts<Origin, Made> {
    made: Option<Box<ByOrigin<Origin, Made>>>,
    items: usize,
}

impl<Origin, Made> Parts<Origin, Made> {
    #[inline]
    pub(crate) const fn new() -> Self {
        Self { made: None, items: 0 }
    }

    /// The result of converting an object for a place of this type.
    #[inline]
    pub(crate) fn get(&self, origin: *const c_void, ty: &TypeSchema) -> Option<&Made> {
        Some(&self.made.as_ref()?.get(&key(origin, ty))?.1)
    }

    /// Records the result of converting an object, which is kept alive.
    pub(crate) fn note(&mut self, origin: *const c_void, ty: &TypeSchema, kept: Origin, made: Made) {
        self.made.get_or_insert_default().insert(key(origin, ty), (kept, made));
    }

    /// Counts items, and occasionally lets Python handle pending signals, so that Ctrl+C ends a
    /// long conversion.
    #[inline]
    pub(crate) fn count(&mut self, py: Py, items: usize) -> PyResult<()> {
        self.items += items;
        if self.items < BETWEEN_LOOKS { Ok(()) } else { self.look_at_signals(py) }
    }

    #[cold]
    fn look_at_signals(&mut self, py: Py) -> PyResult<()> {
        self.items = 0;
        // SAFETY: the lock is held.
        match unsafe { py.PyErr_CheckSignals() } {
            0 => Ok(()),
            _ => Err(Raised),
        }
    }
}

fn key(origin: *const c_void, ty: &TypeSchema) -> (usize, usize) {
    (origin.addr(), core::ptr::from_ref(ty).addr())
}
