use core::ffi::{CStr, c_void};
use core::ptr;
use std::ffi::CString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{CUjit_option, CUmodule};

use super::image::{Format, check};
use super::kernel::CudaKernel;
use super::nvrtc;
use crate::abi::device_type;
use crate::device::RawStream;
use crate::device::cuda::device::{CudaDevice, device};
use crate::module::device_image::{ImageCode, OwnedImage};
use crate::module::launch::{DeviceCode, KernelArg, LaunchConfig, RawKernel};
use crate::value::Device;
use crate::{Error, Result};

/// Size in bytes of the buffer for the log of the driver's compiler about PTX that it rejects.
const LOG_SIZE: usize = 8192;
/// Alignment in bytes that the driver may require of an image.
const IMAGE_ALIGNMENT: usize = 16;

/// The code of an image, and its state on each device.
pub(super) struct CudaCode {
    format: Format,
    code: ImageCode,
    /// The devices on which the code was requested.
    places: Mutex<Vec<Arc<Place>>>,
    /// NVRTC's output for the source, by architecture; locked during compilation.
    compiled: Mutex<Vec<Compiled>>,
}

/// An architecture, such as (9, 0), and NVRTC's output for it.
type Compiled = ((i32, i32), Arc<[u8]>);

/// An image on one device.
struct Place {
    device: &'static CudaDevice,
    /// Locked while the image is loaded, so that it is loaded once, independently on each device.
    loaded: Mutex<Option<Loaded>>,
}

/// A loaded image.
struct Loaded {
    device: &'static CudaDevice,
    module: ModuleHandle,
    /// The kernels that were requested, by name.
    kernels: Vec<(CString, Box<CudaKernel>)>,
}

/// A module of the driver.
struct ModuleHandle(CUmodule);

// SAFETY: the driver API may be called from any thread.
unsafe impl Send for ModuleHandle {}

impl CudaCode {
    /// The code of an image.
    ///
    /// # Errors
    /// Returns a RuntimeError for a format that CUDA does not have.
    #[inline]
    pub(super) fn new(image: &OwnedImage) -> Result<Self> {
        let format = Format::of(image.format())?;
        Ok(Self { format, code: image.code(), places: Mutex::default(), compiled: Mutex::default() })
    }

    #[inline]
    fn place(&self, device: &'static CudaDevice) -> Arc<Place> {
        let mut places = lock(&self.places);
        if let Some(place) = places.iter().find(|place| place.device.index() == device.index()) {
            return Arc::clone(place);
        }
        let place = Arc::new(Place { device, loaded: Mutex::default() });
        places.push(Arc::clone(&place));
        place
    }

    /// Loads the image on a device.
    #[inline]
    fn load(&self, device: &'static CudaDevice) -> Result<Loaded> {
        match self.format {
            Format::Source => load_image(device, &self.compiled(device)?),
            Format::Ptx => load_image(device, &[&self.code, &[0][..]].concat()),
            Format::Binary => {
                check(&self.code).map_err(|why| crate::error!(RuntimeError, "the image cannot be loaded: {why}"))?;
                if self.code.as_ptr().addr().is_multiple_of(IMAGE_ALIGNMENT) {
                    return load_image(device, &self.code);
                }
                let mut aligned = vec![0u128; self.code.len().div_ceil(size_of::<u128>())];
                // SAFETY: the words have room for the bytes, and any bytes are valid words.
                let bytes = unsafe {
                    ptr::copy_nonoverlapping(self.code.as_ptr(), aligned.as_mut_ptr().cast(), self.code.len());
                    core::slice::from_raw_parts(aligned.as_ptr().cast::<u8>(), self.code.len())
                };
                load_image(device, bytes)
            }
        }
    }

    /// Compiles the source for the device, or returns the cached output.
    #[inline]
    fn compiled(&self, device: &CudaDevice) -> Result<Arc<[u8]>> {
        let architecture = device.architecture()?;
        let mut compiled = lock(&self.compiled);
        if let Some((_, image)) = compiled.iter().find(|(known, _)| *known == architecture) {
            return Ok(Arc::clone(image));
        }
        let image: Arc<[u8]> = nvrtc::compile(&self.code, architecture)?.into();
        compiled.push((architecture, Arc::clone(&image)));
        Ok(image)
    }
}

/// Passes an image to the driver: a whole fat binary or cubin, or PTX that ends with NUL.
#[inline]
fn load_image(device: &'static CudaDevice, image: &[u8]) -> Result<Loaded> {
    let driver = device.driver();
    let _entered = device.enter()?;
    let mut log = vec![0u8; LOG_SIZE];
    let mut options = [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values = [log.as_mut_ptr().cast::<c_void>(), ptr::without_provenance_mut(LOG_SIZE - 1)];
    let mut module = ptr::null_mut();
    // SAFETY: the result is writable, a context is current, the image contains its own size (which
    // was checked) or ends with NUL, and the log has the size that the options declare.
    let status = unsafe {
        (driver.module_load)(&mut module, image.as_ptr().cast(), 2, options.as_mut_ptr(), values.as_mut_ptr())
    };
    if status == 0 {
        return Ok(Loaded { device, module: ModuleHandle(module), kernels: Vec::new() });
    }
    let error = driver.error(status, format_args!("the image cannot be loaded"));
    let needs = match device.architecture() {
        Ok((major, minor)) => format!("; cuda:{} needs code for sm_{major}{minor}", device.index()),
        Err(_) => String::new(),
    };
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(LOG_SIZE);
    let log = String::from_utf8_lossy(&log[..end]);
    let log = if log.trim().is_empty() { String::new() } else { format!(": {}", log.trim()) };
    Err(Error::new(error.kind(), format!("{}{needs}{log}", error.message())))
}

impl Loaded {
    /// Returns the kernel of that name; it does not move until the image is unloaded.
    #[inline]
    fn kernel(&mut self, symbol: &CStr) -> Result<&CudaKernel> {
        let position = match self.kernels.iter().position(|(name, _)| name.as_c_str() == symbol) {
            Some(position) => position,
            None => {
                let mut function = ptr::null_mut();
                let driver = self.device.driver();
                let _entered = self.device.enter()?;
                // SAFETY: the result is writable, the module is loaded, and the name ends with NUL.
                let status = unsafe { (driver.module_function)(&mut function, self.module.0, symbol.as_ptr()) };
                driver.check(status, format_args!("the image has no such kernel for cuda:{}", self.device.index()))?;
                self.kernels.push((symbol.to_owned(), Box::new(CudaKernel::new(self.device, function))));
                self.kernels.len() - 1
            }
        };
        Ok(&self.kernels[position].1)
    }
}

impl Drop for Loaded {
    #[inline]
    fn drop(&mut self) {
        // A kernel of the image may still be running. A failed device does not have anything to
        // unload.
        if self.device.synchronize().is_ok()
            && let Ok(_entered) = self.device.enter()
        {
            // SAFETY: the module is loaded, in this context; its kernels can no longer be launched.
            unsafe { (self.device.driver().module_unload)(self.module.0) };
        }
    }
}

impl DeviceCode for CudaCode {
    #[inline]
    fn device_type(&self) -> i32 {
        device_type::CUDA
    }

    #[inline]
    fn can_reach(&self, device: Device) -> bool {
        matches!(device.device_type(), device_type::CUDA | device_type::CUDA_HOST | device_type::CUDA_MANAGED)
    }

    #[inline]
    fn takes_tensor_maps(&self) -> bool {
        true
    }

    #[inline]
    fn kernel(&self, index: i32, symbol: &CStr) -> Result<RawKernel> {
        let place = self.place(device(index)?);
        let mut loaded = lock(&place.loaded);
        let loaded = match &mut *loaded {
            Some(loaded) => loaded,
            none => none.insert(self.load(place.device)?),
        };
        Ok(RawKernel(ptr::from_ref(loaded.kernel(symbol)?).cast_mut().cast()))
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
        // SAFETY: the caller promises a handle of `kernel`, which points to a kernel that lives as
        // long as this code does; the caller promises the rest as well.
        unsafe { (*kernel.0.cast::<CudaKernel>()).launch(config, args, stream) }
    }
}

#[inline]
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
