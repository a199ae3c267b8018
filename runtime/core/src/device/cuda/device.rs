//! The CUDA devices of this process and their primary contexts, which all users share: PyTorch, the
//! CUDA runtime, cudarc.

use core::ffi::{c_char, c_int};
use core::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use cudarc::driver::sys::{CUcontext, CUdevice, CUdevice_attribute};

use super::driver::Driver;
use crate::{Error, Result};

/// A CUDA device.
pub(crate) struct CudaDevice {
    index: i32,
    handle: CUdevice,
    driver: &'static Driver,
    context: OnceLock<Context>,
    /// Locked while the context is created.
    making: Mutex<()>,
    /// True if the device took part in a copy between two devices.
    has_peers: AtomicBool,
}

/// A primary context; retained once and kept until the process ends, as in the CUDA runtime.
#[derive(Clone, Copy)]
struct Context(CUcontext);

// SAFETY: the driver API may be called from any thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// All devices, in the driver's order (`CUDA_VISIBLE_DEVICES`).
///
/// # Errors
/// As for [`Driver::get`].
pub(crate) fn devices() -> Result<&'static [CudaDevice]> {
    static DEVICES: OnceLock<Result<Box<[CudaDevice]>>> = OnceLock::new();
    DEVICES.get_or_init(find).as_deref().map_err(Clone::clone)
}

#[cold]
fn find() -> Result<Box<[CudaDevice]>> {
    let driver = Driver::get()?;
    let mut count = 0;
    // SAFETY: the result is writable.
    driver.check(unsafe { (driver.device_count)(&mut count) }, format_args!("the CUDA devices cannot be counted"))?;
    (0..count)
        .map(|index| {
            let mut handle = 0;
            // SAFETY: the result is writable.
            let status = unsafe { (driver.device_get)(&mut handle, index) };
            driver.check(status, format_args!("cuda:{index} is not available"))?;
            let (context, making, has_peers) = (OnceLock::new(), Mutex::new(()), AtomicBool::new(false));
            Ok(CudaDevice { index, handle, driver, context, making, has_peers })
        })
        .collect()
}

/// Returns the device with this number.
///
/// # Errors
/// Returns a RuntimeError if it does not exist: no driver, no GPU, or fewer GPUs.
#[inline]
pub(crate) fn device(index: i32) -> Result<&'static CudaDevice> {
    let devices = devices()?;
    usize::try_from(index).ok().and_then(|index| devices.get(index)).ok_or_else(|| missing(index, devices.len()))
}

#[cold]
fn missing(index: i32, count: usize) -> Error {
    match count {
        1 => crate::error!(RuntimeError, "cuda:{index} does not exist; the only CUDA device is cuda:0"),
        count => crate::error!(
            RuntimeError,
            "cuda:{index} does not exist; there are {count} CUDA devices, cuda:0 to cuda:{}",
            count as i64 - 1
        ),
    }
}

/// Keeps a device's context current on this thread while it lives.
pub(crate) struct Entered {
    driver: &'static Driver,
    /// The context that was current before, if it was another one.
    previous: CUcontext,
}

impl CudaDevice {
    /// Number of the device.
    pub(crate) fn index(&self) -> i32 {
        self.index
    }

    /// The driver's handle of the device.
    pub(crate) fn handle(&self) -> CUdevice {
        self.handle
    }

    /// The driver.
    pub(crate) fn driver(&self) -> &'static Driver {
        self.driver
    }

    /// Returns the primary context.
    ///
    /// # Errors
    /// Returns a RuntimeError if the device cannot be used; the next call tries again.
    #[inline]
    pub(crate) fn context(&self) -> Result<CUcontext> {
        match self.context.get() {
            Some(context) => Ok(context.0),
            None => self.make_context(),
        }
    }

    #[cold]
    fn make_context(&self) -> Result<CUcontext> {
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(context) = self.context.get() {
            return Ok(context.0);
        }
        let mut context = ptr::null_mut();
        // SAFETY: the result is writable and the handle is the driver's.
        let status = unsafe { (self.driver.primary_context_retain)(&mut context, self.handle) };
        self.driver.check(status, format_args!("cuda:{} cannot be used", self.index))?;
        Ok(self.context.get_or_init(|| Context(context)).0)
    }

    /// Makes the context current on this thread, which most functions of the driver require.
    ///
    /// If no context was current, ours stays current, as with the CUDA runtime: the next call then
    /// does not need to switch. If another context was current, it is restored when the result is
    /// dropped.
    ///
    /// # Errors
    /// As for [`CudaDevice::context`].
    #[inline]
    pub(crate) fn enter(&self) -> Result<Entered> {
        let context = self.context()?;
        let mut current = ptr::null_mut();
        // SAFETY: the result is writable.
        let status = unsafe { (self.driver.context_get_current)(&mut current) };
        if status == 0 && current == context {
            return Ok(Entered { driver: self.driver, previous: ptr::null_mut() });
        }
        self.driver.check(status, format_args!("cuda:{}: the thread's context cannot be read", self.index))?;
        // SAFETY: primary contexts are never released here.
        let status = unsafe { (self.driver.context_set_current)(context) };
        self.driver.check(status, format_args!("cuda:{}: its context cannot be made current", self.index))?;
        Ok(Entered { driver: self.driver, previous: current })
    }

    /// Waits for all work on the device.
    ///
    /// # Errors
    /// Returns a RuntimeError if the work failed.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: a context is current.
        let status = unsafe { (self.driver.context_synchronize)() };
        self.driver.check(status, format_args!("cuda:{}: its work failed", self.index))
    }

    /// Returns whether any code in this process has used the device through this library.
    pub(crate) fn is_in_use(&self) -> bool {
        self.context.get().is_some()
    }

    /// Records that the device takes part in a copy between two devices.
    pub(crate) fn set_has_peers(&self) {
        self.has_peers.store(true, Ordering::Relaxed);
    }

    /// Returns whether the device took part in a copy between two devices.
    pub(crate) fn has_peers(&self) -> bool {
        self.has_peers.load(Ordering::Relaxed)
    }

    /// Returns a numeric attribute of the device from the driver.
    ///
    /// # Errors
    /// Returns a RuntimeError if the driver does not provide it.
    pub(crate) fn number(&self, attribute: CUdevice_attribute) -> Result<c_int> {
        let mut value = 0;
        // SAFETY: the result is writable and the handle is the driver's.
        let status = unsafe { (self.driver.device_attribute)(&mut value, attribute, self.handle) };
        self.driver.check(status, format_args!("cuda:{}: {attribute:?} cannot be read", self.index))?;
        Ok(value)
    }

    /// Returns the major and minor version of the instruction set: (9, 0) for sm_90.
    ///
    /// # Errors
    /// Returns a RuntimeError if the driver does not provide it.
    pub(crate) fn architecture(&self) -> Result<(c_int, c_int)> {
        Ok((
            self.number(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            self.number(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ))
    }

    /// Returns the name of the device: `NVIDIA H100`.
    ///
    /// # Errors
    /// Returns a RuntimeError if the driver does not provide it.
    pub(crate) fn name(&self) -> Result<String> {
        let mut text = [0u8; 256];
        // SAFETY: the buffer is writable and has the given length; the last byte stays NUL.
        let status = unsafe {
            (self.driver.device_name)(text.as_mut_ptr().cast::<c_char>(), text.len() as c_int - 1, self.handle)
        };
        self.driver.check(status, format_args!("cuda:{}: its name cannot be read", self.index))?;
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        Ok(String::from_utf8_lossy(&text[..end]).into_owned())
    }

    /// Returns the free and the total memory in bytes.
    ///
    /// # Errors
    /// Returns a RuntimeError if the driver does not provide it.
    pub(crate) fn memory(&self) -> Result<(usize, usize)> {
        let _entered = self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: both results are writable and a context is current.
        let status = unsafe { (self.driver.memory_info)(&mut free, &mut total) };
        self.driver.check(status, format_args!("cuda:{}: its memory cannot be read", self.index))?;
        Ok((free, total))
    }
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        if !self.previous.is_null() {
            // SAFETY: it was current before, and its owner keeps it alive. A failure is reported at
            // the owner's next call.
            unsafe { (self.driver.context_set_current)(self.previous) };
        }
    }
}
