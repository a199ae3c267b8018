//! One OpenCL device: its context and its default queue, made when the device is first used.

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

/// A device. What was opened stays open until the process ends, as tensors may do.
pub(super) struct OpenClDevice {
    library: &'static Library,
    index: i32,
    id: cl_device_id,
    name: String,
    /// Flags for creating buffers.
    flags: cl_mem_flags,
    opened: OnceLock<Opened>,
    /// Held while the device is opened.
    opening: Mutex<()>,
}

struct Opened {
    context: cl_context,
    queue: cl_command_queue,
}

// SAFETY: all functions of OpenCL except clSetKernelArg may be called from any thread, with the same objects.
unsafe impl Send for OpenClDevice {}
// SAFETY: as above.
unsafe impl Sync for OpenClDevice {}

impl OpenClDevice {
    pub(super) fn new(library: &'static Library, index: i32, id: cl_device_id, name: String) -> Self {
        // A CPU's memory is the host's. Asked for as such, it is there, or an error, at once; PoCL 3.1 aborts the process when it finds
        // only at the first use that there is none.
        // SAFETY: the device is one of the library.
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

    /// The device's own context: what one device does wrong does not end what another does.
    pub(super) fn context(&self) -> Result<cl_context> {
        Ok(self.open()?.context)
    }

    /// The queue behind a stream.
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
                // SAFETY: made above, and known to no other code. There is nothing to do about a failure.
                let _ = unsafe { cl_call!(library, clReleaseContext(context)) };
                Err(error)
            }
        }
    }

    /// An in-order queue that notes when commands begin and end, so that events measure time.
    fn new_queue(&self, context: cl_context) -> Result<cl_command_queue> {
        // clCreateCommandQueue is deprecated since 2.0, but the one that every version has.
        // SAFETY: the context is one of this device.
        let queue =
            unsafe { cl_make!(self.library, clCreateCommandQueue(context, self.id, CL_QUEUE_PROFILING_ENABLE)) };
        queue.map_err(|why| self.failed(format_args!("no queue can be made"), why))
    }

    /// Another queue.
    pub(super) fn create_stream(&self) -> Result<RawStream> {
        Ok(RawStream(self.new_queue(self.context()?)?))
    }

    /// A buffer; its content is undefined. OpenCL has no empty ones, so one of 0 bytes has one.
    pub(super) fn allocate(&self, size: usize) -> Result<cl_mem> {
        let context = self.context()?;
        // SAFETY: the context is alive; no CPU memory is involved.
        let made = unsafe { cl_make!(self.library, clCreateBuffer(context, self.flags, size.max(1), null_mut())) };
        made.map_err(|why| self.no_memory(size, why))
    }

    #[cold]
    fn no_memory(&self, size: usize, why: Failure) -> Error {
        // SAFETY: the device is one of the library.
        let largest = unsafe { info::of_device(self.library, self.id, CL_DEVICE_MAX_MEM_ALLOC_SIZE) };
        let hint = match largest.and_then(|value| info::number(&value)) {
            Ok(largest) if size as u64 > largest => format!("; a buffer of this device has at most {largest} bytes"),
            _ => String::new(),
        };
        let index = self.index;
        // Some drivers call it a lack of resources when memory runs out.
        match why {
            Failure::Status(opencl_sys::CL_INVALID_BUFFER_SIZE | opencl_sys::CL_OUT_OF_RESOURCES) => {}
            why if why.is_out_of_memory() => {}
            why => return self.failed(format_args!("a buffer of {size} bytes cannot be made"), why),
        }
        crate::error!(MemoryError, "opencl:{index}: no memory for a buffer of {size} bytes: {why}{hint}")
    }

    /// The error for what failed on this device; a MemoryError when memory ran out.
    #[cold]
    pub(super) fn failed(&self, what: fmt::Arguments<'_>, why: Failure) -> Error {
        let kind = if why.is_out_of_memory() { error_kind::MemoryError } else { error_kind::RuntimeError };
        Error::from_arguments(kind, format_args!("opencl:{}: {what}: {why}", self.index))
    }

    /// A handle of OpenCL, by its name.
    pub(super) fn native_handle(&self, what: &str) -> Result<*mut c_void> {
        Ok(match what {
            "context" => self.context()?,
            "device" => self.id,
            "stream" => self.queue(RawStream::DEFAULT)?,
            _ => null_mut(),
        })
    }
}
