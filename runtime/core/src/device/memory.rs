use core::ffi::c_void;
use core::fmt;

use super::{DeviceApi, Place, api};
use crate::embedded::notice::notice;
use crate::function::caught;
use crate::value::Device;
use crate::{Error, Result};

/// A block of a device's memory, freed when dropped. Its content is undefined until data is copied
/// there.
///
/// Work that was enqueued in streams before the drop may still use the block: the device keeps it
/// until then.
///
/// ```
/// use kernpack::{Device, device::DeviceMemory};
/// let memory = DeviceMemory::new(Device::CPU, 1024, 64)?;
/// assert_eq!((memory.device(), memory.size()), (Device::CPU, 1024));
/// # Ok::<(), kernpack::Error>(())
/// ```
pub struct DeviceMemory {
    device: Device,
    data: *mut c_void,
    size: usize,
    api: &'static dyn DeviceApi,
}

// SAFETY: the block belongs to this value alone, and device APIs may be used from any thread.
unsafe impl Send for DeviceMemory {}
// SAFETY: a shared reference only reads the handle.
unsafe impl Sync for DeviceMemory {}

impl DeviceMemory {
    /// Allocates a block of `size` bytes; `alignment` is a power of two.
    ///
    /// # Errors
    /// Returns a MemoryError if the device does not have enough memory, and a RuntimeError if there
    /// is no such device.
    pub fn new(device: Device, size: usize, alignment: usize) -> Result<Self> {
        let api = api(device.device_type())?;
        let data = api.allocate(device.index(), size, alignment)?;
        if data.is_null() && size > 0 {
            return Err(Error::runtime_error(format!("{device} gave no address for {size} bytes")));
        }
        Ok(Self { device, data, size, api })
    }

    /// The device of the memory.
    pub fn device(&self) -> Device {
        self.device
    }

    /// Size in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// An address or a handle, like DLPack's `data` for the device; it lives as long as this value.
    pub fn data(&self) -> *mut c_void {
        self.data
    }

    /// The start of the block.
    pub fn place(&self) -> Place {
        Place { device: self.device, data: self.data, byte_offset: 0 }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new`; no other code frees it.
        let freed = caught(|| unsafe { self.api.free(self.device.index(), self.data) });
        if let Err(error) = freed {
            notice(format_args!("kernpack: {} bytes of {} could not be freed: {error}", self.size, self.device));
        }
    }
}

impl fmt::Debug for DeviceMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceMemory({}, {} bytes)", self.device, self.size)
    }
}
