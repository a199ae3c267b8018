//! The device that a kernel runs on when its arguments do not say: the thread's current one of its kind.
//!
//! CPU code that Apache TVM compiled passes plain pointers to kernels, and calls `__tvm_set_device` before.

use core::cell::Cell;

use crate::value::Device;

/// Kinds of devices that are remembered; DLPack's numbers are smaller.
const KINDS: usize = 32;

thread_local! {
    static CURRENT: Cell<[i32; KINDS]> = const { Cell::new([0; KINDS]) };
}

/// Index of this thread's current device of a kind; 0 when none was set.
#[inline]
pub(crate) fn get(kind: i32) -> i32 {
    let kind = usize::try_from(kind).unwrap_or(KINDS);
    // In a thread that ends, there is none any more.
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
