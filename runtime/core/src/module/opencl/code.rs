//! The compiled programs of an image of OpenCL code, one per device.

use core::ffi::{CStr, c_void};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::kernel::Kernel;
use super::program::Program;
use crate::Result;
use crate::abi::device_type;
use crate::device::RawStream;
use crate::module::device_image::{ImageCode, OwnedImage};
use crate::module::launch::{DeviceCode, KernelArg, LaunchConfig, RawKernel};

/// The code of an image, and the program built from it on each device where it was used.
pub(super) struct OpenClCode {
    format: String,
    code: ImageCode,
    /// One slot per device: waiting for one compiler does not block other devices.
    programs: Mutex<HashMap<i32, Arc<Slot>>>,
}

#[derive(Default)]
struct Slot(Mutex<Option<Arc<Program>>>);

impl OpenClCode {
    #[inline]
    pub(super) fn new(image: &OwnedImage) -> Self {
        Self { format: image.format().to_owned(), code: image.code(), programs: Mutex::default() }
    }

    /// Returns the program on a device; it is built at the first call.
    #[inline]
    fn program(&self, index: i32) -> Result<Arc<Program>> {
        let slot = {
            let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(programs.entry(index).or_default())
        };
        let mut program = slot.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = &*program {
            return Ok(Arc::clone(program));
        }
        let built = Arc::new(Program::build(index, &self.format, &self.code)?);
        *program = Some(Arc::clone(&built));
        Ok(built)
    }
}

impl DeviceCode for OpenClCode {
    #[inline]
    fn device_type(&self) -> i32 {
        device_type::OPENCL
    }

    #[inline]
    fn kernel(&self, index: i32, symbol: &CStr) -> Result<RawKernel> {
        let program = self.program(index)?;
        Ok(RawKernel(core::ptr::from_ref(program.kernel(symbol)?).cast_mut().cast::<c_void>()))
    }

    #[inline]
    unsafe fn launch(
        &self,
        _index: i32,
        kernel: RawKernel,
        config: &LaunchConfig,
        args: &[KernelArg],
        stream: RawStream,
    ) -> Result<()> {
        // SAFETY: a kernel of one of this object's programs, as the caller promises; these live as
        // long as this object does.
        let kernel = unsafe { &*kernel.0.cast::<Kernel>() };
        // SAFETY: promised by the caller.
        unsafe { kernel.launch(config, args, stream) }
    }
}
