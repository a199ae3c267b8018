use core::ffi::{CStr, c_void};
use std::sync::{Mutex, PoisonError};

use super::driver::{Driver, Handle};
use crate::abi::device_type;
use crate::device::RawStream;
use crate::module::device_image::{ImageCode, OwnedImage};
use crate::module::launch::{DeviceCode, KernelArg, LaunchConfig, RawKernel};
use crate::value::Device;
use crate::{Error, Result};

/// Dynamic shared memory that a kernel may have without asking.
const PLAIN_SHARED_MEMORY: u32 = 48 * 1024;

/// An image, and where it has been loaded.
pub(super) struct CudaCode {
    code: ImageCode,
    /// Context and module on each device.
    loaded: Mutex<Vec<(i32, Address, Address)>>,
}

/// A handle of the driver, which may be used from any thread.
#[derive(Clone, Copy)]
struct Address(Handle);

// SAFETY: the driver API is thread-safe.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

impl CudaCode {
    pub(super) fn new(image: &OwnedImage) -> Self {
        Self { code: image.code(), loaded: Mutex::default() }
    }

    /// Context and module on a device; loads the image there at first.
    fn on_device(&self, driver: &Driver, device: i32) -> Result<(Handle, Handle), String> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, context, module)) = loaded.iter().find(|entry| entry.0 == device) {
            return Ok((context.0, module.0));
        }
        let mut code = self.code.to_vec();
        // The driver finds the end of PTX by its NUL.
        code.push(0);
        let context = driver.primary_context(device)?;
        let module = driver.within(context, || driver.load_module(&code))?;
        loaded.push((device, Address(context), Address(module)));
        Ok((context, module))
    }
}

impl DeviceCode for CudaCode {
    fn device_type(&self) -> i32 {
        device_type::CUDA
    }

    fn can_reach(&self, device: Device) -> bool {
        matches!(device.kind(), device_type::CUDA | device_type::CUDA_MANAGED | device_type::CUDA_HOST)
    }

    fn kernel(&self, index: i32, symbol: &CStr) -> Result<RawKernel> {
        let find = || {
            let driver = Driver::get()?;
            let (context, module) = self.on_device(driver, index)?;
            driver.within(context, || driver.function(module, symbol))
        };
        find().map(RawKernel).map_err(Error::runtime_error)
    }

    unsafe fn launch(
        &self,
        index: i32,
        kernel: RawKernel,
        config: &LaunchConfig,
        args: &[KernelArg],
        stream: RawStream,
    ) -> Result<()> {
        let start = || {
            let driver = Driver::get()?;
            let (context, _) = self.on_device(driver, index)?;
            let mut values: Vec<u64> = args
                .iter()
                .map(|arg| match arg {
                    KernelArg::Pointer { data, byte_offset, .. } => (*data as u64).wrapping_add(*byte_offset),
                    KernelArg::Number { bits, .. } => *bits,
                    KernelArg::TensorMap { address } => *address as u64,
                })
                .collect();
            let mut params: Vec<*mut c_void> =
                values.iter_mut().map(|value| core::ptr::from_mut(value).cast()).collect();
            driver.within(context, || {
                if config.dynamic_shared_memory >= PLAIN_SHARED_MEMORY {
                    driver.allow_shared_memory(kernel.0, config.dynamic_shared_memory)?;
                }
                let LaunchConfig { grid, block, dynamic_shared_memory, .. } = *config;
                // SAFETY: one value for each parameter of the function table, at least as large as the parameter, little
                // endian.
                unsafe { driver.launch(kernel.0, grid, block, dynamic_shared_memory, stream.0, &mut params) }
            })
        };
        start().map_err(Error::runtime_error)
    }
}
