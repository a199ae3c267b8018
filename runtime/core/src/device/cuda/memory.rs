//! CUDA's three kinds of memory: on the device, pinned on the CPU, and managed (moved by the driver
//! on access).

use core::ffi::c_void;
use core::ptr;

use super::device::{CudaDevice, device, devices};
use super::driver::OUT_OF_MEMORY;
use crate::Result;

/// Alignment of every allocation of the driver, in bytes.
const ALIGNMENT: usize = 256;
/// `CU_MEMHOSTALLOC_PORTABLE`: pinned for every device, not only the current one.
const PORTABLE: u32 = 1;
/// `CU_MEM_ATTACH_GLOBAL`: every stream of every device may use it.
const ATTACH_GLOBAL: u32 = 1;

/// A kind of memory; each is a separate device kind in DLPack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// `cuda`.
    Device,
    /// `cuda_host`: CPU memory that devices can access; there is one such device.
    Pinned,
    /// `cuda_managed`: moves between the CPU and the devices; allocated on behalf of a device.
    Managed,
}

impl Memory {
    /// Name of the kind of device.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Device => "cuda",
            Self::Pinned => "cuda_host",
            Self::Managed => "cuda_managed",
        }
    }

    /// Returns the GPU of the device `index` of this kind.
    pub(super) fn gpu(self, index: i32) -> Result<&'static CudaDevice> {
        match self {
            Self::Pinned if index != 0 => {
                // Without a GPU there is no such device either, and the error should be the missing
                // GPU.
                devices()?;
                Err(crate::error!(RuntimeError, "cuda_host:{index} does not exist; the only one is cuda_host:0"))
            }
            _ => device(index),
        }
    }

    pub(super) fn allocate(self, index: i32, size: usize, alignment: usize) -> Result<*mut c_void> {
        if alignment > ALIGNMENT {
            return Err(crate::error!(
                ValueError,
                "{}:{index}: the alignment must be at most {ALIGNMENT} bytes, got {alignment}",
                self.name()
            ));
        }
        let gpu = self.gpu(index)?;
        let driver = gpu.driver();
        let _entered = gpu.enter()?;
        // The driver rejects 0 bytes, but DLPack requires an address.
        let bytes = size.max(1);
        let (mut address, mut pointer) = (0, ptr::null_mut());
        // SAFETY: the results are writable and a context is current.
        let status = unsafe {
            match self {
                Self::Device => (driver.memory_allocate)(&mut address, bytes),
                Self::Managed => (driver.memory_allocate_managed)(&mut address, bytes, ATTACH_GLOBAL),
                Self::Pinned => (driver.memory_allocate_host)(&mut pointer, bytes, PORTABLE),
            }
        };
        match status {
            0 if self == Self::Pinned => Ok(pointer),
            0 => Ok(ptr::with_exposed_provenance_mut(address as usize)),
            OUT_OF_MEMORY if self == Self::Device => {
                let state = match gpu.memory() {
                    Ok((free, total)) => format!("; {free} of {total} bytes are free"),
                    Err(_) => String::new(),
                };
                let error = driver.error(status, format_args!("cuda:{index}: {size} bytes cannot be allocated"));
                Err(crate::error!(MemoryError, "{}{state}", error.message()))
            }
            _ => Err(driver.error(status, format_args!("{}:{index}: {size} bytes cannot be allocated", self.name()))),
        }
    }

    /// # Safety
    /// As for [`DeviceApi::free`](crate::device::DeviceApi::free).
    pub(super) unsafe fn free(self, index: i32, data: *mut c_void) -> Result<()> {
        let gpu = self.gpu(index)?;
        let driver = gpu.driver();
        // The driver waits for the work of the device before it frees its memory. Other devices may
        // also have work with this memory: all of them with host and managed memory, peers with a
        // device's memory.
        let everywhere = self != Self::Device;
        for other in devices()?.iter().filter(|other| other.is_in_use()) {
            if everywhere || (gpu.has_peers() && other.has_peers() && other.index() != gpu.index()) {
                other.synchronize()?;
            }
        }
        let _entered = gpu.enter()?;
        // SAFETY: the caller promises that it came from `allocate`.
        let status = unsafe {
            match self {
                Self::Device | Self::Managed => (driver.memory_free)(data.expose_provenance() as u64),
                Self::Pinned => (driver.memory_free_host)(data),
            }
        };
        driver.check(status, format_args!("{}:{index}: memory cannot be freed", self.name()))
    }
}
