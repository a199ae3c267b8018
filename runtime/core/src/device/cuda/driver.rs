//! The functions of the CUDA driver API that Kernpack calls, found at run time.
//!
//! cudarc finds the driver's library and defines the types of its functions; our types are compared
//! with them at compile time. Calls go to the library itself and not through cudarc's wrappers, for
//! two reasons: a wrapper panics if the driver lacks its function, and it converts the status to an
//! enum, of which a newer status would be an invalid value. Source of names and numbers: the CUDA
//! Driver API reference, version 13.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::fmt;
use core::ptr;
use std::sync::OnceLock;

use cudarc::driver::sys;
use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction, CUfunction_attribute, CUjit_option,
    CUlaunchConfig, CUmodule, CUstream,
};

use crate::{Error, Result};

/// A status of the driver API; 0 is success.
pub(crate) type Status = u32;

const SUCCESS: Status = 0;
/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub(crate) const OUT_OF_MEMORY: Status = 2;
/// `CUDA_ERROR_NO_DEVICE`.
const NO_DEVICE: Status = 100;

/// The oldest supported driver, as reported by `cuDriverGetVersion`: CUDA 12.0.
const OLDEST: c_int = 12000;

macro_rules! driver_functions {
    ($($(#[$doc:meta])* $field:ident: $symbol:literal like $typed:ident($($argument:ty),*);)*) => {
        /// The driver's functions.
        pub(crate) struct Driver {
            $($(#[$doc])* pub(crate) $field: unsafe extern "C" fn($($argument),*) -> Status,)*
            error_name: unsafe extern "C" fn(Status, *mut *const c_char) -> Status,
            error_string: unsafe extern "C" fn(Status, *mut *const c_char) -> Status,
        }

        $(const _: unsafe fn($($argument),*) -> sys::CUresult = sys::$typed;)*

        impl Driver {
            /// Looks up every function.
            ///
            /// # Safety
            /// The driver's library is present.
            unsafe fn find() -> Result<Self> {
                // SAFETY: the driver API defines these types for the names.
                unsafe {
                    Ok(Self {
                        $($field: symbol($symbol)?,)*
                        error_name: symbol("cuGetErrorName")?,
                        error_string: symbol("cuGetErrorString")?,
                    })
                }
            }
        }
    };
}

driver_functions! {
    init: "cuInit" like cuInit(c_uint);
    device_count: "cuDeviceGetCount" like cuDeviceGetCount(*mut c_int);
    device_get: "cuDeviceGet" like cuDeviceGet(*mut CUdevice, c_int);
    device_name: "cuDeviceGetName" like cuDeviceGetName(*mut c_char, c_int, CUdevice);
    device_attribute: "cuDeviceGetAttribute" like cuDeviceGetAttribute(*mut c_int, CUdevice_attribute, CUdevice);
    device_total_memory: "cuDeviceTotalMem_v2" like cuDeviceTotalMem_v2(*mut usize, CUdevice);
    primary_context_retain: "cuDevicePrimaryCtxRetain" like cuDevicePrimaryCtxRetain(*mut CUcontext, CUdevice);
    context_get_current: "cuCtxGetCurrent" like cuCtxGetCurrent(*mut CUcontext);
    context_set_current: "cuCtxSetCurrent" like cuCtxSetCurrent(CUcontext);
    context_synchronize: "cuCtxSynchronize" like cuCtxSynchronize();
    memory_info: "cuMemGetInfo_v2" like cuMemGetInfo_v2(*mut usize, *mut usize);
    memory_allocate: "cuMemAlloc_v2" like cuMemAlloc_v2(*mut CUdeviceptr, usize);
    memory_allocate_host: "cuMemHostAlloc" like cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
    memory_allocate_managed: "cuMemAllocManaged" like cuMemAllocManaged(*mut CUdeviceptr, usize, c_uint);
    memory_free: "cuMemFree_v2" like cuMemFree_v2(CUdeviceptr);
    memory_free_host: "cuMemFreeHost" like cuMemFreeHost(*mut c_void);
    copy_to_device: "cuMemcpyHtoDAsync_v2" like cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, CUstream);
    copy_from_device: "cuMemcpyDtoHAsync_v2" like cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, CUstream);
    copy_on_device: "cuMemcpyDtoDAsync_v2" like cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, usize, CUstream);
    copy_to_peer: "cuMemcpyPeerAsync" like
        cuMemcpyPeerAsync(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, usize, CUstream);
    copy_anywhere: "cuMemcpyAsync" like cuMemcpyAsync(CUdeviceptr, CUdeviceptr, usize, CUstream);
    stream_create: "cuStreamCreate" like cuStreamCreate(*mut CUstream, c_uint);
    stream_destroy: "cuStreamDestroy_v2" like cuStreamDestroy_v2(CUstream);
    stream_synchronize: "cuStreamSynchronize" like cuStreamSynchronize(CUstream);
    stream_wait_event: "cuStreamWaitEvent" like cuStreamWaitEvent(CUstream, CUevent, c_uint);
    event_create: "cuEventCreate" like cuEventCreate(*mut CUevent, c_uint);
    event_destroy: "cuEventDestroy_v2" like cuEventDestroy_v2(CUevent);
    event_record: "cuEventRecord" like cuEventRecord(CUevent, CUstream);
    event_synchronize: "cuEventSynchronize" like cuEventSynchronize(CUevent);
    event_elapsed: "cuEventElapsedTime" like cuEventElapsedTime_v2(*mut f32, CUevent, CUevent);
    module_load: "cuModuleLoadDataEx" like
        cuModuleLoadDataEx(*mut CUmodule, *const c_void, c_uint, *mut CUjit_option, *mut *mut c_void);
    module_unload: "cuModuleUnload" like cuModuleUnload(CUmodule);
    module_function: "cuModuleGetFunction" like cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char);
    function_set_attribute: "cuFuncSetAttribute" like cuFuncSetAttribute(CUfunction, CUfunction_attribute, c_int);
    function_attribute: "cuFuncGetAttribute" like cuFuncGetAttribute(*mut c_int, CUfunction_attribute, CUfunction);
    launch: "cuLaunchKernel" like cuLaunchKernel(
        CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void, *mut *mut c_void);
    launch_with_attributes: "cuLaunchKernelEx" like
        cuLaunchKernelEx(*const CUlaunchConfig, CUfunction, *mut *mut c_void, *mut *mut c_void);
}

/// Looks up a function of the driver.
///
/// # Safety
/// The driver's library is present, and `F` is the type of a pointer to the function `name`.
unsafe fn symbol<F: Copy>(name: &str) -> Result<F> {
    // SAFETY: promised by the caller.
    match unsafe { sys::culib().get::<F>(name.as_bytes()) } {
        Ok(function) => Ok(*function),
        Err(_) => Err(crate::error!(
            RuntimeError,
            "the NVIDIA driver of this machine lacks the function {name}; install a newer driver"
        )),
    }
}

impl Driver {
    /// The driver of this process, loaded and initialized once.
    ///
    /// # Errors
    /// Returns a RuntimeError, always the same: there is no driver, it is too old, it does not find
    /// a GPU, or it cannot be initialized.
    pub(crate) fn get() -> Result<&'static Self> {
        static DRIVER: OnceLock<Result<Driver>> = OnceLock::new();
        DRIVER.get_or_init(Self::load).as_ref().map_err(Clone::clone)
    }

    #[cold]
    fn load() -> Result<Self> {
        // SAFETY: loading NVIDIA's library runs its constructors.
        if !unsafe { sys::is_culib_present() } {
            return Err(crate::error!(
                RuntimeError,
                "there is no CUDA driver on this machine (libcuda.so.1 was not found); run it where an NVIDIA GPU and its driver \
                 are installed"
            ));
        }
        let mut version = 0;
        // SAFETY: the library is present; the function's type is the driver API's, and the result
        // is writable.
        let driver = unsafe {
            let get_version: unsafe extern "C" fn(*mut c_int) -> Status = symbol("cuDriverGetVersion")?;
            // A driver that does not report its version is checked by its functions and by
            // `cuInit`.
            if get_version(&mut version) == SUCCESS && version < OLDEST {
                return Err(crate::error!(
                    RuntimeError,
                    "the NVIDIA driver of this machine is too old: it supports CUDA {}.{}, but CUDA {}.{} is needed; install a \
                     newer driver",
                    version / 1000,
                    version % 1000 / 10,
                    OLDEST / 1000,
                    OLDEST % 1000 / 10
                ));
            }
            Self::find()?
        };
        // SAFETY: any thread may initialize the driver; the flags must be 0.
        match unsafe { (driver.init)(0) } {
            SUCCESS => Ok(driver),
            NO_DEVICE => Err(crate::error!(
                RuntimeError,
                "the CUDA driver finds no GPU on this machine; check `nvidia-smi` and CUDA_VISIBLE_DEVICES"
            )),
            status => Err(driver.error(status, format_args!("the CUDA driver cannot be initialized"))),
        }
    }

    /// Returns `Ok` for success, else the error for `status`; `what` describes the failed
    /// operation.
    #[inline]
    pub(crate) fn check(&self, status: Status, what: fmt::Arguments<'_>) -> Result<()> {
        if status == SUCCESS { Ok(()) } else { Err(self.error(status, what)) }
    }

    /// Creates the error for a status: `WHAT: NAME (meaning)`. A MemoryError if memory ran out,
    /// else a RuntimeError.
    #[cold]
    pub(crate) fn error(&self, status: Status, what: fmt::Arguments<'_>) -> Error {
        let kind = if status == OUT_OF_MEMORY { "MemoryError" } else { "RuntimeError" };
        Error::new(kind, format!("{what}: {}", self.describe(status)))
    }

    /// Returns the driver's name and description of a status.
    pub(crate) fn describe(&self, status: Status) -> String {
        let text = |ask: unsafe extern "C" fn(Status, *mut *const c_char) -> Status| {
            let mut text = ptr::null();
            // SAFETY: `text` is writable; the driver's strings live forever.
            unsafe {
                let known = ask(status, &mut text) == SUCCESS && !text.is_null();
                known.then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
            }
        };
        match (text(self.error_name), text(self.error_string)) {
            (Some(name), Some(meaning)) => format!("{name} ({meaning})"),
            (Some(name), None) => name,
            _ => format!("CUDA error {status}"),
        }
    }
}

/// Returns the version of CUDA that the driver supports: 13000 for 13.0.
pub(crate) fn version() -> Result<i32> {
    let driver = Driver::get()?;
    let mut version = 0;
    // SAFETY: the driver is present, the type is the driver API's, and the result is writable.
    unsafe {
        let get_version: unsafe extern "C" fn(*mut c_int) -> Status = symbol("cuDriverGetVersion")?;
        driver.check(get_version(&mut version), format_args!("the driver's version"))?;
    }
    Ok(version)
}
