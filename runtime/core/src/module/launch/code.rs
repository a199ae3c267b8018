use core::ffi::{CStr, c_void};

use super::LaunchConfig;
use crate::Result;
use crate::device::RawStream;
use crate::value::Device;

/// A kind of device code: CUDA, OpenCL, ...
///
/// All functions may be called from any thread, several at a time. Their errors only describe the
/// problem: callers add the kernel, the device and the launch configuration.
pub(crate) trait DeviceCode: Send + Sync + 'static {
    /// Kind of the devices that the code runs on, one of [`device_type`](crate::abi::device_type).
    fn device_type(&self) -> i32;

    /// Returns whether kernels accept pointers to memory of this device (CUDA: also managed and
    /// pinned CPU memory).
    #[inline]
    fn can_reach(&self, device: Device) -> bool {
        device.device_type() == self.device_type()
    }

    /// Returns whether a kernel can take tensor maps ([`KernelArg::TensorMap`]).
    #[inline]
    fn takes_tensor_maps(&self) -> bool {
        false
    }

    /// Returns the handle of a kernel on device `index`, which is not NULL; loads the image there
    /// at the first call (lazily, once, thread-safe). Called once for each kernel and device, by
    /// one thread at a time for a kernel, and again after an error.
    fn kernel(&self, index: i32, symbol: &CStr) -> Result<RawKernel>;

    /// Launches a kernel on device `index`.
    ///
    /// # Safety
    /// `kernel` came from [`DeviceCode::kernel`] for this device; the arguments match the kernel's
    /// types, and the memory that they point to stays valid until the work is done; the stream
    /// belongs to the device.
    unsafe fn launch(
        &self,
        index: i32,
        kernel: RawKernel,
        config: &LaunchConfig,
        args: &[KernelArg],
        stream: RawStream,
    ) -> Result<()>;
}

/// The API's handle of a kernel on a device: a `CUfunction`, a `cl_kernel`, ... A plain handle,
/// which lives as long as the [`DeviceCode`] that returned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawKernel(pub(crate) *mut c_void);

// SAFETY: handles of device APIs may be used from any thread; the API orders the operations on
// them.
unsafe impl Send for RawKernel {}
// SAFETY: as above.
unsafe impl Sync for RawKernel {}

/// An argument of a kernel, checked against the function table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum KernelArg {
    /// A buffer: the block in `data` (an address, or a handle such as a `cl_mem`), and the offset
    /// in bytes where the buffer starts. NULL for None. A plain pointer is treated as memory of the
    /// launch's device.
    Pointer {
        /// The block, as in DLPack's `data`.
        data: *mut c_void,
        /// Offset in bytes from the start of the block.
        byte_offset: u64,
        /// The device of the block.
        device: Device,
    },
    /// A number: `size` bytes (1, 2, 4 or 8), the lowest of `bits`; `bits` contains the number's
    /// bytes in little endian. Integers are extended to 64 bits.
    Number {
        /// The bits.
        bits: u64,
        /// Size of the parameter in bytes.
        size: usize,
    },
    /// A tensor map (`CUtensorMap`): 128 bytes in CPU memory, which the kernel takes by value.
    TensorMap {
        /// Address of the tensor map.
        address: *const c_void,
    },
}
