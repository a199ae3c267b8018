//! The functions of the OpenCL library, found at run time in `libOpenCL.so.1`, and their errors.
//! Source of names, types and numbers: the crate `opencl-sys`, generated from Khronos' headers of
//! OpenCL 3.0.

use core::ffi::{CStr, c_void};
use core::fmt;
use std::ffi::CString;
use std::sync::OnceLock;

use opencl_sys::cl_function_types as ty;
use opencl_sys::cl_int;

use crate::embedded::dynamic_linker::{Scope, flags};

/// Environment variable with the path of the library to load instead of the system's.
const LIBRARY_VARIABLE: &str = "KERNPACK_OPENCL_LIBRARY";

#[cfg(target_os = "macos")]
const LIBRARY: &CStr = c"/System/Library/Frameworks/OpenCL.framework/OpenCL";
#[cfg(not(target_os = "macos"))]
const LIBRARY: &CStr = c"libOpenCL.so.1";

/// The reason that a function of OpenCL failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The status code that the function returned.
    Status(cl_int),
    /// The library does not have a function of this name.
    Missing(&'static str),
}

macro_rules! opencl_functions {
    ($($name:ident: $type:ident,)*) => {
        /// The functions of the OpenCL library that are used here; None if the library lacks one.
        #[expect(non_snake_case, reason = "these are OpenCL's own names")]
        pub(crate) struct Library {
            $(pub(crate) $name: ty::$type,)*
        }

        impl Library {
            /// Looks up all functions.
            ///
            /// # Safety
            /// `library` is an OpenCL library that stays loaded.
            unsafe fn look_up(library: Scope) -> Self {
                Self {
                    $($name: {
                        const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                            Ok(name) => name,
                            Err(_) => unreachable!(),
                        };
                        let symbol = library.symbol(NAME);
                        // SAFETY: OpenCL defines the type of the function of this name; NULL is
                        // None.
                        unsafe { core::mem::transmute::<*mut c_void, ty::$type>(symbol) }
                    },)*
                }
            }
        }
    };
}

opencl_functions! {
    clBuildProgram: clBuildProgram_t,
    clCreateBuffer: clCreateBuffer_t,
    clCreateCommandQueue: clCreateCommandQueue_t,
    clCreateContext: clCreateContext_t,
    clCreateKernel: clCreateKernel_t,
    clCreateProgramWithBinary: clCreateProgramWithBinary_t,
    clCreateProgramWithSource: clCreateProgramWithSource_t,
    clCreateSubBuffer: clCreateSubBuffer_t,
    clEnqueueBarrierWithWaitList: clEnqueueBarrierWithWaitList_t,
    clEnqueueCopyBuffer: clEnqueueCopyBuffer_t,
    clEnqueueMapBuffer: clEnqueueMapBuffer_t,
    clEnqueueMarkerWithWaitList: clEnqueueMarkerWithWaitList_t,
    clEnqueueNDRangeKernel: clEnqueueNDRangeKernel_t,
    clEnqueueReadBuffer: clEnqueueReadBuffer_t,
    clEnqueueUnmapMemObject: clEnqueueUnmapMemObject_t,
    clEnqueueWriteBuffer: clEnqueueWriteBuffer_t,
    clFinish: clFinish_t,
    clFlush: clFlush_t,
    clGetDeviceIDs: clGetDeviceIDs_t,
    clGetDeviceInfo: clGetDeviceInfo_t,
    clGetEventInfo: clGetEventInfo_t,
    clGetEventProfilingInfo: clGetEventProfilingInfo_t,
    clGetKernelInfo: clGetKernelInfo_t,
    clGetKernelWorkGroupInfo: clGetKernelWorkGroupInfo_t,
    clGetMemObjectInfo: clGetMemObjectInfo_t,
    clGetPlatformIDs: clGetPlatformIDs_t,
    clGetPlatformInfo: clGetPlatformInfo_t,
    clGetProgramBuildInfo: clGetProgramBuildInfo_t,
    clGetProgramInfo: clGetProgramInfo_t,
    clReleaseCommandQueue: clReleaseCommandQueue_t,
    clReleaseContext: clReleaseContext_t,
    clReleaseEvent: clReleaseEvent_t,
    clReleaseKernel: clReleaseKernel_t,
    clReleaseMemObject: clReleaseMemObject_t,
    clReleaseProgram: clReleaseProgram_t,
    clRetainEvent: clRetainEvent_t,
    clSetKernelArg: clSetKernelArg_t,
    clWaitForEvents: clWaitForEvents_t,
}

/// Calls a function that returns a status.
macro_rules! cl_call {
    ($library:expr, $name:ident($($argument:expr),* $(,)?)) => {
        match $library.$name {
            Some(function) => $crate::device::opencl::library::Failure::check(function($($argument),*)),
            None => Err($crate::device::opencl::library::Failure::Missing(stringify!($name))),
        }
    };
}
pub(crate) use cl_call;

/// Calls a function that returns an object and writes the status to its last parameter, which the
/// macro adds.
macro_rules! cl_make {
    ($library:expr, $name:ident($($argument:expr),* $(,)?)) => {
        match $library.$name {
            Some(function) => {
                let mut status = 0;
                let made = function($($argument,)* &mut status);
                $crate::device::opencl::library::Failure::check(status).map(|()| made)
            }
            None => Err($crate::device::opencl::library::Failure::Missing(stringify!($name))),
        }
    };
}
pub(crate) use cl_make;

impl Library {
    /// Returns the library of this process, loaded once; it is never unloaded. The error says what
    /// to install.
    pub(crate) fn get() -> Result<&'static Self, &'static str> {
        static LOADED: OnceLock<Result<Library, String>> = OnceLock::new();
        LOADED.get_or_init(Self::load).as_ref().map_err(String::as_str)
    }

    fn load() -> Result<Self, String> {
        let configured = std::env::var(LIBRARY_VARIABLE).ok().filter(|path| !path.is_empty());
        let configured = configured.map(CString::new).transpose();
        let configured = configured.map_err(|_| format!("{LIBRARY_VARIABLE} contains a NUL byte"))?;
        let name = configured.as_deref().unwrap_or(LIBRARY);
        // SAFETY: loading the OpenCL library runs its constructors; it stays loaded.
        if let Some(library) = unsafe { Scope::open(name, flags::NOW | flags::LOCAL) } {
            // SAFETY: it is the OpenCL library, by its name or by the user's setting.
            return Ok(unsafe { Self::look_up(library) });
        }
        let name = name.to_string_lossy();
        Err(match &configured {
            Some(_) => format!("the OpenCL library '{name}' that {LIBRARY_VARIABLE} names cannot be loaded"),
            None => format!(
                "there is no OpenCL on this machine ({name} was not found); install the loader (Debian and Ubuntu: \
                 ocl-icd-libopencl1) and the driver of the device (for the CPU: pocl-opencl-icd), or name the library in \
                 {LIBRARY_VARIABLE}"
            ),
        })
    }
}

impl Failure {
    /// Converts the status of a function: 0 is success.
    pub(crate) fn check(status: cl_int) -> Result<(), Self> {
        if status == opencl_sys::CL_SUCCESS { Ok(()) } else { Err(Self::Status(status)) }
    }

    /// Returns whether memory ran out, on the device or on the CPU.
    pub(crate) fn is_out_of_memory(self) -> bool {
        use opencl_sys::{CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_HOST_MEMORY};
        matches!(self, Self::Status(CL_MEM_OBJECT_ALLOCATION_FAILURE | CL_OUT_OF_HOST_MEMORY))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Missing(name) => write!(f, "the OpenCL library has no {name}; install a newer one"),
            Self::Status(status) => match NAMES.iter().find(|(number, _)| *number == status) {
                Some((_, name)) => write!(f, "{name} ({status})"),
                None => write!(f, "OpenCL error {status}"),
            },
        }
    }
}

macro_rules! names {
    ($($name:ident)*) => { &[$((opencl_sys::$name, stringify!($name)),)*] };
}

/// Status codes that the functions above may return.
static NAMES: &[(cl_int, &str)] = names! {
    CL_DEVICE_NOT_FOUND CL_DEVICE_NOT_AVAILABLE CL_COMPILER_NOT_AVAILABLE CL_MEM_OBJECT_ALLOCATION_FAILURE CL_OUT_OF_RESOURCES
    CL_OUT_OF_HOST_MEMORY CL_PROFILING_INFO_NOT_AVAILABLE CL_MEM_COPY_OVERLAP CL_BUILD_PROGRAM_FAILURE CL_MAP_FAILURE
    CL_MISALIGNED_SUB_BUFFER_OFFSET CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST CL_COMPILE_PROGRAM_FAILURE
    CL_LINKER_NOT_AVAILABLE CL_LINK_PROGRAM_FAILURE CL_INVALID_VALUE CL_INVALID_DEVICE_TYPE CL_INVALID_PLATFORM
    CL_INVALID_DEVICE CL_INVALID_CONTEXT CL_INVALID_QUEUE_PROPERTIES CL_INVALID_COMMAND_QUEUE CL_INVALID_HOST_PTR
    CL_INVALID_MEM_OBJECT CL_INVALID_BINARY CL_INVALID_BUILD_OPTIONS CL_INVALID_PROGRAM CL_INVALID_PROGRAM_EXECUTABLE
    CL_INVALID_KERNEL_NAME CL_INVALID_KERNEL_DEFINITION CL_INVALID_KERNEL CL_INVALID_ARG_INDEX CL_INVALID_ARG_VALUE
    CL_INVALID_ARG_SIZE CL_INVALID_KERNEL_ARGS CL_INVALID_WORK_DIMENSION CL_INVALID_WORK_GROUP_SIZE
    CL_INVALID_WORK_ITEM_SIZE CL_INVALID_GLOBAL_OFFSET CL_INVALID_EVENT_WAIT_LIST CL_INVALID_EVENT CL_INVALID_OPERATION
    CL_INVALID_BUFFER_SIZE CL_INVALID_GLOBAL_WORK_SIZE CL_INVALID_PROPERTY CL_PLATFORM_NOT_FOUND_KHR
};
