use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::RawKernel;
use crate::Result;

/// Number of devices whose handles are found without a lock.
const INLINE: usize = 16;

/// The handles of one kernel, by device. Reading an existing one does not take a lock, for the
/// first [`INLINE`] devices.
pub(super) struct Handles {
    inline: [AtomicPtr<c_void>; INLINE],
    /// Handles on further devices. Locked while a handle is created, so that each is created once.
    making: Mutex<HashMap<i32, RawKernel>>,
}

impl Handles {
    #[inline]
    pub(super) fn new() -> Self {
        Self { inline: [const { AtomicPtr::new(null_mut()) }; INLINE], making: Mutex::default() }
    }

    /// Returns the handle on device `index`, which `make` creates at the first call.
    #[inline]
    pub(super) fn get(&self, index: i32, make: impl FnOnce() -> Result<RawKernel>) -> Result<RawKernel> {
        if let Some(slot) = self.slot(index) {
            let handle = slot.load(Ordering::Acquire);
            if !handle.is_null() {
                return Ok(RawKernel(handle));
            }
        }
        self.make(index, make)
    }

    #[inline]
    fn slot(&self, index: i32) -> Option<&AtomicPtr<c_void>> {
        usize::try_from(index).ok().and_then(|index| self.inline.get(index))
    }

    #[cold]
    #[inline]
    fn make(&self, index: i32, make: impl FnOnce() -> Result<RawKernel>) -> Result<RawKernel> {
        let mut others = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(slot) = self.slot(index) else {
            if let Some(handle) = others.get(&index) {
                return Ok(*handle);
            }
            let handle = make()?;
            others.insert(index, handle);
            return Ok(handle);
        };
        let handle = slot.load(Ordering::Acquire);
        if !handle.is_null() {
            return Ok(RawKernel(handle));
        }
        let handle = make()?;
        slot.store(handle.0, Ordering::Release);
        Ok(handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    #[test]
    fn each_is_made_once_and_errors_are_not_kept() {
        let handles = Handles::new();
        let made = Cell::new(0);
        let make = || {
            made.set(made.get() + 1);
            Ok(RawKernel(core::ptr::without_provenance_mut(100 + made.get())))
        };
        for index in [0, 15, 16, 1000, -3] {
            assert!(handles.get(index, || Err(crate::Error::runtime_error("no"))).is_err());
            let first = handles.get(index, make).unwrap();
            assert_eq!(handles.get(index, make).unwrap(), first, "{index}");
        }
        assert_eq!(made.get(), 5);
    }
}
