//! The device API of `ext_dev`: memory and copies. Its code runs on the CPU, so its memory is
//! ordinary memory, and all work is done when a function returns. Still, only the device's own code
//! reads that memory: tensor views require CPU memory.
//!
//! Kernpack does not dereference addresses of a device's memory, so driver handles would work as
//! well.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kernpack::device::device_type;
use kernpack::device::{DeviceApi, DeviceAttribute, Place, RawStream};
use kernpack::{Any, Result, ensure};

/// The size of the device's memory.
const MEMORY: usize = 64 << 20;

/// The allocated blocks, by address. Static, so that this library can count them; the process has
/// one device.
static BLOCKS: Mutex<Option<HashMap<usize, Layout>>> = Mutex::new(None);

/// The device.
struct ExtDev;

// SAFETY: memory comes from the allocator, with the requested size; copies stay inside and are done
// when they return.
kernpack::device_api!(unsafe device_type::EXT_DEV, || ExtDev);

fn blocks() -> MutexGuard<'static, Option<HashMap<usize, Layout>>> {
    BLOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bytes that are allocated now.
pub(crate) fn in_use() -> i64 {
    blocks().iter().flatten().map(|(_, layout)| layout.size() as i64).sum()
}

fn check_index(index: i32) -> Result<()> {
    ensure!(index == 0, RuntimeError, "there is no ext_dev:{index}; there is one, ext_dev:0");
    Ok(())
}

impl DeviceApi for ExtDev {
    fn name(&self) -> &str {
        "ext_dev"
    }

    fn device_count(&self) -> Result<i32> {
        Ok(1)
    }

    fn attribute(&self, index: i32, attribute: DeviceAttribute) -> Result<Any> {
        if attribute == DeviceAttribute::Exist {
            return Ok(Any::from(i64::from(index == 0)));
        }
        check_index(index)?;
        Ok(match attribute {
            DeviceAttribute::DeviceName => Any::from("the extension's device"),
            DeviceAttribute::TotalGlobalMemory => Any::from(MEMORY as i64),
            DeviceAttribute::AvailableGlobalMemory => Any::from(MEMORY as i64 - in_use()),
            _ => Any::default(),
        })
    }

    fn allocate(&self, index: i32, size: usize, alignment: usize) -> Result<*mut c_void> {
        check_index(index)?;
        let mut blocks = blocks();
        let blocks = blocks.get_or_insert_default();
        let used: usize = blocks.values().map(Layout::size).sum();
        ensure!(
            size <= MEMORY.saturating_sub(used),
            MemoryError,
            "out of memory: ext_dev:0 has {} of {MEMORY} bytes left, not {size}",
            MEMORY.saturating_sub(used)
        );
        let layout = Layout::from_size_align(size.max(1), alignment)
            .map_err(|_| kernpack::error!(ValueError, "{size} bytes cannot be aligned to {alignment}"))?;
        // SAFETY: the size is not 0.
        let data = unsafe { alloc(layout) };
        ensure!(!data.is_null(), MemoryError, "out of memory: no {size} bytes for ext_dev:0");
        blocks.insert(data as usize, layout);
        Ok(data.cast())
    }

    unsafe fn free(&self, _: i32, data: *mut c_void) -> Result<()> {
        let layout = blocks().as_mut().and_then(|blocks| blocks.remove(&(data as usize)));
        let Some(layout) = layout else {
            kernpack::bail!(ValueError, "{data:?} is not memory of ext_dev:0");
        };
        // SAFETY: allocated with this layout, and the caller promises that it is not used.
        unsafe { dealloc(data.cast(), layout) };
        Ok(())
    }

    unsafe fn copy(&self, source: Place, target: Place, size: usize, _: RawStream) -> Result<()> {
        // SAFETY: the caller promises `size` bytes in both places. One is on this device and the
        // other on it or in CPU memory, so both are ordinary memory.
        unsafe { ptr::copy(source.address().cast::<u8>(), target.address().cast(), size) };
        Ok(())
    }

    fn create_stream(&self, index: i32) -> Result<RawStream> {
        check_index(index)?;
        Ok(RawStream::DEFAULT)
    }

    unsafe fn free_stream(&self, index: i32, _: RawStream) -> Result<()> {
        check_index(index)
    }

    unsafe fn synchronize(&self, index: i32, _: RawStream) -> Result<()> {
        check_index(index)
    }
}
