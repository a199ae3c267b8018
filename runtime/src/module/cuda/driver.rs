//! The few functions of the CUDA driver API that a launch needs, found at run time in `libcuda.so.1`.
//! Source of names and numbers: the CUDA Driver API reference, version 13.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::fmt;
use core::ptr;
use std::sync::OnceLock;

/// A status of the driver API; 0 is success.
pub(super) type Status = c_int;
/// A context, module, function or stream of the driver.
pub(super) type Handle = *mut c_void;

/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
const MAX_DYNAMIC_SHARED_SIZE_BYTES: c_int = 8;
/// `CUDA_ERROR_NO_DEVICE`.
const NO_DEVICE: Status = 100;

macro_rules! driver_functions {
    ($($field:ident $symbol:literal ($($arg:ty),*);)*) => {
        /// The driver's functions.
        pub(super) struct Driver {
            $($field: unsafe extern "C" fn($($arg),*) -> Status,)*
        }

        impl Driver {
            fn load() -> Result<Self, String> {
                // SAFETY: loading NVIDIA's driver library runs its constructors; it stays loaded.
                let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
                if library.is_null() {
                    return Err("there is no CUDA driver on this machine (libcuda.so.1 was not found); run it where an NVIDIA \
                                GPU and its driver are installed".to_owned());
                }
                Ok(Self {
                    $($field: {
                        // SAFETY: a plain lookup; the literal ends with NUL.
                        let symbol = unsafe { libc::dlsym(library, concat!($symbol, "\0").as_ptr().cast()) };
                        if symbol.is_null() {
                            return Err(concat!("the CUDA driver lacks ", $symbol, "; install a newer one").to_owned());
                        }
                        // SAFETY: the driver API fixes the type of the function of this name.
                        unsafe { core::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) -> Status>(symbol) }
                    },)*
                })
            }
        }
    };
}

driver_functions! {
    init "cuInit" (c_uint);
    error_name "cuGetErrorName" (Status, *mut *const c_char);
    error_string "cuGetErrorString" (Status, *mut *const c_char);
    device_get "cuDeviceGet" (*mut c_int, c_int);
    retain_primary "cuDevicePrimaryCtxRetain" (*mut Handle, c_int);
    push_current "cuCtxPushCurrent_v2" (Handle);
    pop_current "cuCtxPopCurrent_v2" (*mut Handle);
    module_load "cuModuleLoadData" (*mut Handle, *const c_void);
    module_function "cuModuleGetFunction" (*mut Handle, Handle, *const c_char);
    set_attribute "cuFuncSetAttribute" (Handle, c_int, c_int);
    launch "cuLaunchKernel" (
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void);
}

impl Driver {
    /// The driver of this process, loaded and initialized once.
    pub(super) fn get() -> Result<&'static Self, String> {
        static DRIVER: OnceLock<Result<Driver, String>> = OnceLock::new();
        let driver = DRIVER.get_or_init(|| {
            let driver = Driver::load()?;
            // SAFETY: any thread may initialize the driver; the flags must be 0.
            match unsafe { (driver.init)(0) } {
                0 => Ok(driver),
                NO_DEVICE => Err("the CUDA driver finds no GPU on this machine".to_owned()),
                status => Err(format!("the CUDA driver can not be initialized: {}", driver.describe(status))),
            }
        });
        driver.as_ref().map_err(Clone::clone)
    }

    fn check(&self, status: Status, what: fmt::Arguments<'_>) -> Result<(), String> {
        if status == 0 { Ok(()) } else { Err(format!("{what}: {}", self.describe(status))) }
    }

    /// Name and meaning of a status.
    fn describe(&self, status: Status) -> String {
        let text = |ask: unsafe extern "C" fn(Status, *mut *const c_char) -> Status| {
            let mut text = ptr::null();
            // SAFETY: `text` is writable; the driver's strings live forever.
            unsafe {
                let known = ask(status, &mut text) == 0 && !text.is_null();
                known.then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
            }
        };
        match (text(self.error_name), text(self.error_string)) {
            (Some(name), Some(meaning)) => format!("{name} ({meaning})"),
            (Some(name), None) => name,
            _ => format!("CUDA error {status}"),
        }
    }

    /// The primary context of a device; never released, as in the CUDA runtime.
    pub(super) fn primary_context(&self, device: i32) -> Result<Handle, String> {
        let (mut number, mut context) = (0, ptr::null_mut());
        // SAFETY: both results are writable; the driver checks the device's number.
        unsafe {
            self.check((self.device_get)(&mut number, device), format_args!("cuda:{device} is not available"))?;
            self.check((self.retain_primary)(&mut context, number), format_args!("cuda:{device} can not be used"))?;
        }
        Ok(context)
    }

    /// Runs `work` with `context` current on this thread.
    pub(super) fn within<T>(&self, context: Handle, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        // SAFETY: the context is alive; it is popped again below, whatever `work` returns.
        unsafe { self.check((self.push_current)(context), format_args!("the CUDA context can not be made current"))? };
        let result = work();
        let mut popped = ptr::null_mut();
        // SAFETY: the result is writable; the context pushed above is on top.
        unsafe { (self.pop_current)(&mut popped) };
        result
    }

    /// Loads an image (fatbin, cubin or NUL-terminated PTX) into the current context; never unloaded.
    pub(super) fn load_module(&self, image: &[u8]) -> Result<Handle, String> {
        let mut module = ptr::null_mut();
        // SAFETY: the result is writable; the image carries its own size or ends with NUL.
        unsafe {
            self.check(
                (self.module_load)(&mut module, image.as_ptr().cast()),
                format_args!("the image can not be loaded"),
            )?
        };
        Ok(module)
    }

    /// A kernel of a loaded module.
    pub(super) fn function(&self, module: Handle, name: &CStr) -> Result<Handle, String> {
        let mut function = ptr::null_mut();
        // SAFETY: the result is writable, the module is loaded, the name is a C string.
        unsafe {
            self.check(
                (self.module_function)(&mut function, module, name.as_ptr()),
                format_args!("the image has no such kernel for this device"),
            )?;
        }
        Ok(function)
    }

    /// Allows a kernel more dynamic shared memory than the 48 KiB that every kernel may have.
    pub(super) fn allow_shared_memory(&self, function: Handle, bytes: u32) -> Result<(), String> {
        let bytes = c_int::try_from(bytes).map_err(|_| format!("{bytes} bytes of shared memory are too many"))?;
        // SAFETY: the function belongs to a loaded module.
        let status = unsafe { (self.set_attribute)(function, MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes) };
        self.check(status, format_args!("the device does not have {bytes} bytes of shared memory"))
    }

    /// Starts a kernel on a stream.
    ///
    /// # Safety
    /// `params` points to one pointer for each of the kernel's parameters, each to a value of the parameter's type.
    pub(super) unsafe fn launch(
        &self,
        function: Handle,
        grid: [u32; 3],
        block: [u32; 3],
        shared_memory: u32,
        stream: Handle,
        params: &mut [*mut c_void],
    ) -> Result<(), String> {
        // SAFETY: promised by the caller; the driver copies the parameters before it returns.
        let status = unsafe {
            (self.launch)(
                function,
                grid[0],
                grid[1],
                grid[2],
                block[0],
                block[1],
                block[2],
                shared_memory,
                stream,
                params.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        self.check(status, format_args!("the launch failed"))
    }
}
