//! The device that a kernel runs on if its arguments do not determine one: the thread's current
//! device of its kind.
//!
//! CPU code compiled by Apache TVM passes plain pointers to kernels, and calls `__tvm_set_device`
//! before.

use core::cell::Cell;

use crate::value::Device;

/// Number of device kinds that are tracked; DLPack's numbers are smaller.
const KINDS: usize = 32;

thread_local! {
    static CURRENT: Cell<[i32; KINDS]> = const { Cell::new([0; KINDS]) };
}

/// Returns the index of this thread's current device of a kind; 0 if none was set.
#[inline]
pub(crate) fn get(kind: i32) -> i32 {
    let kind = usize::try_from(kind).unwrap_or(KINDS);
    // In a thread that is ending, the thread-local is gone.
    CURRENT.try_with(|current| current.get().get(kind).copied()).ok().flatten().unwrap_or(0)
}

/// Makes a device this thread's current one of its kind.
#[inline]
pub(crate) fn set(device: Device) {
    let _ = CURRENT.try_with(|current| {
        let mut all = current.get();
        if let Some(slot) = usize::try_from(device.device_type()).ok().and_then(|kind| all.get_mut(kind)) {
            *slot = device.index();
            current.set(all);
        }
    });
}
