//! An OpenCL program, built for one device.

use core::ffi::CStr;
use core::fmt;
use core::ptr::{self, null_mut};
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use opencl_sys::{
    CL_PROGRAM_BINARIES, CL_PROGRAM_BINARY_SIZES, CL_PROGRAM_BUILD_LOG, cl_command_queue, cl_context, cl_device_id,
    cl_program,
};

use kernpack_formats::device_image::opencl_options;

use super::kernel::Kernel;
use super::{BINARY_FORMATS, SOURCE_FORMAT};
use crate::abi::device_type;
use crate::device::opencl::info;
use crate::device::opencl::library::{Failure, Library, cl_call, cl_make};
use crate::device::{self, DeviceAttribute};
use crate::value::Device;
use crate::{Error, Result, bail, error_kind};

/// Maximum number of bytes of a compiler's log in a message.
const LOG: usize = 16 << 10;

/// A built program, and its kernels that were requested.
pub(super) struct Program {
    target: Target,
    program: cl_program,
    /// Boxed, so that kernels do not move.
    #[expect(clippy::vec_box, reason = "the addresses are handed out")]
    kernels: Mutex<Vec<Box<Kernel>>>,
}

/// A device with its OpenCL objects.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) library: &'static Library,
    pub(super) id: cl_device_id,
    pub(super) queue: cl_command_queue,
    context: cl_context,
    /// The name of the device: `opencl:0 (name)`.
    name: String,
}

// SAFETY: all functions of OpenCL except clSetKernelArg may be called from any thread, with the
// same objects.
unsafe impl Send for Target {}
// SAFETY: as above.
unsafe impl Sync for Target {}
// SAFETY: as above.
unsafe impl Send for Program {}
// SAFETY: as above; `kernels` is locked.
unsafe impl Sync for Program {}

impl Target {
    /// Returns the device with this index. Its context is shared in the process, regardless of the
    /// library that created it.
    #[inline]
    pub(super) fn find(index: i32) -> Result<Self> {
        let api = device::api(device_type::OPENCL)?;
        let id = api.native_handle(index, "device")?;
        let (context, queue) = (api.native_handle(index, "context")?, api.native_handle(index, "stream")?);
        let library = Library::get().map_err(Error::runtime_error)?;
        let name = api.attribute(index, DeviceAttribute::DeviceName)?.to::<String>()?;
        let name = format!("{} ({name})", Device::new(device_type::OPENCL, index));
        Ok(Self { library, id, queue, context, name })
    }

    /// Returns a numeric property of the device.
    #[inline]
    pub(super) fn number(&self, what: u32) -> Result<u64, Failure> {
        // SAFETY: the device belongs to the library.
        info::number(&unsafe { info::of_device(self.library, self.id, what) }?)
    }

    #[cold]
    #[inline]
    pub(super) fn failed(&self, what: fmt::Arguments<'_>, why: Failure) -> Error {
        let kind = if why.is_out_of_memory() { error_kind::MemoryError } else { error_kind::RuntimeError };
        Error::from_arguments(kind, format_args!("{what} on {}: {why}", self.name))
    }
}

impl Program {
    /// Builds code for device `index`.
    #[inline]
    pub(super) fn build(index: i32, format: &str, code: &[u8]) -> Result<Self> {
        let target = Target::find(index)?;
        let program = if format == SOURCE_FORMAT {
            target.load_source(code)?
        } else if BINARY_FORMATS.contains(&format) {
            target.load_binary(format, code)?
        } else {
            bail!(
                RuntimeError,
                "the image is in format '{format}', which OpenCL does not load; it loads {SOURCE_FORMAT} and {}",
                BINARY_FORMATS.join(", ")
            );
        };
        // From here on it is released in every case.
        let built = Self { target, program, kernels: Mutex::default() };
        let Target { library, id, name, .. } = &built.target;
        let options = if format == SOURCE_FORMAT { opencl_options(code) } else { "" };
        let options = CString::new(options).unwrap_or_default();
        // SAFETY: program and device are alive; there is no callback, so the build is complete on
        // return.
        let outcome = unsafe { cl_call!(library, clBuildProgram(program, 1, id, options.as_ptr(), None, null_mut())) };
        match outcome {
            Ok(()) => Ok(built),
            Err(why) => {
                let log = built.log();
                let says = if log.is_empty() { String::new() } else { format!("; its compiler says:\n{log}\n") };
                Err(crate::error!(RuntimeError, "the code cannot be built for {name}: {why}{says}"))
            }
        }
    }

    /// The compiler's log.
    #[inline]
    fn log(&self) -> String {
        let Target { library, id, .. } = self.target;
        // SAFETY: program and device are alive; `read` passes writable places.
        let log = info::read(|size, value, needed| unsafe {
            cl_call!(library, clGetProgramBuildInfo(self.program, id, CL_PROGRAM_BUILD_LOG, size, value, needed))
        });
        let mut log = info::text(&log.unwrap_or_default());
        if log.len() > LOG {
            let end = (0..=LOG).rev().find(|&end| log.is_char_boundary(end)).unwrap_or(0);
            log.truncate(end);
            log.push_str(" ...");
        }
        log
    }

    /// Returns a kernel, which lives as long as the program.
    #[inline]
    pub(super) fn kernel(&self, symbol: &CStr) -> Result<&Kernel> {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kernels.iter().position(|kernel| kernel.symbol() == symbol);
        let position = match known {
            Some(position) => position,
            None => {
                kernels.push(Box::new(Kernel::new(&self.target, self.program, symbol)?));
                kernels.len() - 1
            }
        };
        // SAFETY: boxed, and never removed before the program is dropped.
        Ok(unsafe { &*ptr::from_ref::<Kernel>(&kernels[position]) })
    }

    /// Returns the machine code from the device's compiler.
    #[inline]
    pub(super) fn binary(&self) -> Result<Vec<u8>> {
        let library = self.target.library;
        let failed = |why| self.target.failed(format_args!("the binary of a program cannot be read"), why);
        // SAFETY: the program is alive; `read` passes writable places.
        let size = info::read(|size, value, needed| unsafe {
            cl_call!(library, clGetProgramInfo(self.program, CL_PROGRAM_BINARY_SIZES, size, value, needed))
        });
        let size = size.and_then(|value| info::number(&value)).map_err(failed)?;
        if size == 0 {
            bail!(RuntimeError, "{} does not give away what its compiler makes", self.target.name);
        }
        let mut binary = vec![0u8; size as usize];
        let mut place = binary.as_mut_ptr();
        // SAFETY: the program has one device, for which there is one place of the reported size.
        let outcome = unsafe {
            let place = (&raw mut place).cast();
            cl_call!(
                library,
                clGetProgramInfo(self.program, CL_PROGRAM_BINARIES, size_of::<*mut u8>(), place, null_mut())
            )
        };
        outcome.map_err(failed)?;
        Ok(binary)
    }
}

impl Target {
    #[inline]
    fn load_source(&self, source: &[u8]) -> Result<cl_program> {
        let (mut text, size) = (source.as_ptr().cast(), source.len());
        // SAFETY: one text of this size, which OpenCL copies.
        let made = unsafe { cl_make!(self.library, clCreateProgramWithSource(self.context, 1, &mut text, &size)) };
        made.map_err(|why| self.failed(format_args!("the source cannot be loaded"), why))
    }

    #[inline]
    fn load_binary(&self, format: &str, code: &[u8]) -> Result<cl_program> {
        let (mut bytes, size, mut fits) = (code.as_ptr(), code.len(), 0);
        // SAFETY: one device and one binary of this size, which OpenCL copies.
        let made = unsafe {
            cl_make!(self.library, clCreateProgramWithBinary(self.context, 1, &self.id, &size, &mut bytes, &mut fits))
        };
        made.map_err(|why| match why {
            Failure::Status(opencl_sys::CL_INVALID_BINARY) => crate::error!(
                RuntimeError,
                "the code, in format '{format}', is not for {}, or not for the version of its driver: {why}",
                self.name
            ),
            why => self.failed(format_args!("the code cannot be loaded"), why),
        })
    }
}

impl Drop for Program {
    #[inline]
    fn drop(&mut self) {
        // Kernels first: they belong to the program.
        self.kernels.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
        // SAFETY: this object owns the reference; OpenCL keeps objects that queued work still
        // needs. A failure cannot be handled.
        let _ = unsafe { cl_call!(self.target.library, clReleaseProgram(self.program)) };
    }
}
