//! A kind of device that is part of two libraries, each with its own copy.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use kernpack::device::device_type;
use kernpack::device::{DeviceApi, DeviceAttribute, Place, RawStream};
use kernpack::{Any, Device, Result, bail, ensure};

/// The device.
pub const CANVAS: Device = Device::new(device_type::HEXAGON, 0);

static MADE: AtomicI64 = AtomicI64::new(0);

/// The number of times that this copy of the crate made the device.
pub fn made() -> i64 {
    MADE.load(Ordering::Relaxed)
}

/// The device's memory, behind handles.
#[derive(Default)]
struct Canvas(Mutex<HashMap<usize, Vec<u8>>>);

// SAFETY: memory consists of vectors of the requested size; copies check their bounds and have
// finished when they return.
kernpack::device_api!(unsafe device_type::HEXAGON, || {
    MADE.fetch_add(1, Ordering::Relaxed);
    Canvas::default()
});

impl Canvas {
    fn blocks(&self) -> MutexGuard<'_, HashMap<usize, Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DeviceApi for Canvas {
    fn name(&self) -> &str {
        "hexagon"
    }

    fn device_count(&self) -> Result<i32> {
        Ok(1)
    }

    fn attribute(&self, index: i32, attribute: DeviceAttribute) -> Result<Any> {
        Ok(match attribute {
            DeviceAttribute::Exist => Any::from(i64::from(index == 0)),
            DeviceAttribute::DeviceName => Any::from("a canvas"),
            _ => Any::default(),
        })
    }

    fn allocate(&self, _: i32, size: usize, _: usize) -> Result<*mut c_void> {
        ensure!(size < 1 << 20, MemoryError, "a canvas has no {size} bytes");
        let mut blocks = self.blocks();
        let handle = blocks.keys().max().map_or(1, |last| last + 1);
        blocks.insert(handle, vec![0; size]);
        Ok(std::ptr::without_provenance_mut(handle))
    }

    unsafe fn free(&self, _: i32, data: *mut c_void) -> Result<()> {
        ensure!(self.blocks().remove(&(data as usize)).is_some(), ValueError, "{data:?} is not a canvas");
        Ok(())
    }

    unsafe fn copy(&self, source: Place, target: Place, size: usize, _: RawStream) -> Result<()> {
        let mut blocks = self.blocks();
        let mut block = |place: Place| {
            let start = place.byte_offset as usize;
            let block = blocks.get_mut(&(place.data as usize)).and_then(|block| block.get_mut(start..start + size));
            block.map(<[u8]>::as_mut_ptr).ok_or_else(|| kernpack::error!(ValueError, "{place:?} is not a canvas"))
        };
        let is_here = |place: Place| place.device.device_type() == CANVAS.device_type();
        let from = if is_here(source) { block(source)? } else { source.address().cast() };
        let to = if is_here(target) { block(target)? } else { target.address().cast() };
        // SAFETY: checked here, or promised by the caller.
        unsafe { std::ptr::copy(from, to, size) };
        Ok(())
    }

    fn create_stream(&self, _: i32) -> Result<RawStream> {
        bail!(RuntimeError, "a canvas has no streams")
    }

    unsafe fn free_stream(&self, _: i32, _: RawStream) -> Result<()> {
        Ok(())
    }

    unsafe fn synchronize(&self, _: i32, _: RawStream) -> Result<()> {
        Ok(())
    }

    fn native_handle(&self, _: i32, what: &str) -> Result<*mut c_void> {
        match what {
            "blocks" => Ok(std::ptr::without_provenance_mut(self.blocks().len())),
            "panic" => panic!("a canvas on purpose"),
            _ => bail!(LookupError, "a canvas has no '{what}'"),
        }
    }
}
