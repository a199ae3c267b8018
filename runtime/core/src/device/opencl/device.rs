//! An OpenCL device: its context and its default queue, created when the device is first used.

use core::ffi::c_void;
use core::fmt;
use core::ptr::null_mut;
use std::sync::{Mutex, OnceLock, PoisonError};

use opencl_sys::{
    CL_DEVICE_MAX_MEM_ALLOC_SIZE, CL_DEVICE_TYPE, CL_DEVICE_TYPE_CPU, CL_MEM_ALLOC_HOST_PTR, CL_MEM_READ_WRITE,
    CL_QUEUE_PROFILING_ENABLE, cl_command_queue, cl_context, cl_device_id, cl_mem, cl_mem_flags,
};

use super::info;
use super::library::{Failure, Library, cl_call, cl_make};
use crate::device::RawStream;
use crate::{Error, Result, error_kind};

/// An OpenCL device. Objects that were opened stay open until the process ends, because tensors may
/// live that long.
pub(super) struct OpenClDevice {
    library: &'static Library,
    index: i32,
    id: cl_device_id,
    name: String,
    /// Flags for creating buffers.
    flags: cl_mem_flags,
    opened: OnceLock<Opened>,
    /// Locked while the device is opened.
    opening: Mutex<()>,
}

struct Opened {
    context: cl_context,
    queue: cl_command_queue,
}

// SAFETY: all functions of OpenCL except clSetKernelArg may be called from any thread, with the
// same objects.
unsafe impl Send for OpenClDevice {}
// SAFETY: as above.
unsafe impl Sync for OpenClDevice {}

impl OpenClDevice {
    pub(super) fn new(library: &'static Library, index: i32, id: cl_device_id, name: String) -> Self {
        // A CPU device uses host memory. Requested as such, it is allocated immediately, or the
        // request fails; PoCL 3.1 aborts the process if memory runs out only at the first use.
        // SAFETY: the device belongs to the library.
        let kind = unsafe { info::of_device(library, id, CL_DEVICE_TYPE) }.and_then(|value| info::number(&value));
        let is_cpu = kind.is_ok_and(|kind| kind & CL_DEVICE_TYPE_CPU != 0);
        let flags = if is_cpu { CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR } else { CL_MEM_READ_WRITE };
        Self { library, index, id, name, flags, opened: OnceLock::new(), opening: Mutex::new(()) }
    }

    pub(super) fn library(&self) -> &'static Library {
        self.library
    }

    pub(super) fn id(&self) -> cl_device_id {
        self.id
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the device's own context: an error of one device does not affect the others.
    pub(super) fn context(&self) -> Result<cl_context> {
        Ok(self.open()?.context)
    }

    /// Returns the queue of a stream.
    pub(super) fn queue(&self, stream: RawStream) -> Result<cl_command_queue> {
        if stream == RawStream::DEFAULT { Ok(self.open()?.queue) } else { Ok(stream.0) }
    }

    fn open(&self) -> Result<&Opened> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let _guard = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let library = self.library;
        // SAFETY: one device of the library, no properties, no callback.
        let context = unsafe { cl_make!(library, clCreateContext(core::ptr::null(), 1, &self.id, None, null_mut())) };
        let context = context.map_err(|why| self.failed(format_args!("it cannot be opened"), why))?;
        match self.new_queue(context) {
            Ok(queue) => Ok(self.opened.get_or_init(|| Opened { context, queue })),
            Err(error) => {
                // SAFETY: created above, and not shared with other code. A failure cannot be
                // handled.
                let _ = unsafe { cl_call!(library, clReleaseContext(context)) };
                Err(error)
            }
        }
    }

    /// Creates an in-order queue that records when commands begin and end, so that events measure
    /// time.
    fn new_queue(&self, context: cl_context) -> Result<cl_command_queue> {
        // clCreateCommandQueue is deprecated since 2.0, but every version has it.
        // SAFETY: the context belongs to this device.
        let queue =
            unsafe { cl_make!(self.library, clCreateCommandQueue(context, self.id, CL_QUEUE_PROFILING_ENABLE)) };
        queue.map_err(|why| self.failed(format_args!("no queue can be made"), why))
    }

    /// Creates an additional queue.
    pub(super) fn create_stream(&self) -> Result<RawStream> {
        Ok(RawStream(self.new_queue(self.context()?)?))
    }

    /// Creates a buffer; its content is undefined. OpenCL does not have empty buffers, so one of 0
    /// bytes has one byte.
    pub(super) fn allocate(&self, size: usize) -> Result<cl_mem> {
        let context = self.context()?;
        // SAFETY: the context is alive; no CPU memory is involved.
        let made = unsafe { cl_make!(self.library, clCreateBuffer(context, self.flags, size.max(1), null_mut())) };
        made.map_err(|why| self.no_memory(size, why))
    }

    #[cold]
    fn no_memory(&self, size: usize, why: Failure) -> Error {
        // SAFETY: the device belongs to the library.
        let largest = unsafe { info::of_device(self.library, self.id, CL_DEVICE_MAX_MEM_ALLOC_SIZE) };
        let hint = match largest.and_then(|value| info::number(&value)) {
            Ok(largest) if size as u64 > largest => format!("; a buffer of this device has at most {largest} bytes"),
            _ => String::new(),
        };
        let index = self.index;
        // Some drivers report a lack of memory as a lack of resources.
        match why {
            Failure::Status(opencl_sys::CL_INVALID_BUFFER_SIZE | opencl_sys::CL_OUT_OF_RESOURCES) => {}
            why if why.is_out_of_memory() => {}
            why => return self.failed(format_args!("a buffer of {size} bytes cannot be made"), why),
        }
        crate::error!(MemoryError, "opencl:{index}: no memory for a buffer of {size} bytes: {why}{hint}")
    }

    /// Creates the error for a failed operation on this device; a MemoryError if memory ran out.
    #[cold]
    pub(super) fn failed(&self, what: fmt::Arguments<'_>, why: Failure) -> Error {
        let kind = if why.is_out_of_memory() { error_kind::MemoryError } else { error_kind::RuntimeError };
        Error::from_arguments(kind, format_args!("opencl:{}: {what}: {why}", self.index))
    }

    /// Returns a handle of OpenCL by its name.
    pub(super) fn native_handle(&self, what: &str) -> Result<*mut c_void> {
        Ok(match what {
            "context" => self.context()?,
            "device" => self.id,
            "stream" => self.queue(RawStream::DEFAULT)?,
            _ => null_mut(),
        })
    }
}
