//! OpenCL devices (Cargo feature `opencl`).
//!
//! The OpenCL loader is opened when a device is first requested; neither building nor starting
//! requires OpenCL.
//!
//! - Devices of all platforms are numbered together: GPUs, accelerators, CPUs, others.
//!   `KERNPACK_OPENCL_DEVICES` selects and orders them: `PLATFORM` or `PLATFORM:DEVICE`, separated
//!   by commas, each a number or a part of the name: `nvidia,portable:0`. `KERNPACK_OPENCL_LIBRARY`
//!   is the library to load instead of `libOpenCL.so.1`.
//! - A device is opened when it is first used, with its own context and default queue. Streams are
//!   additional in-order queues.
//! - Memory is a `cl_mem`, which is `data` in tensors and in DLPack; the byte offset of a view is
//!   its start. The alignment of a buffer is the device's own, which is sufficient for every type
//!   of OpenCL C.
//! - OpenCL keeps memory until the work in queues that uses it is done, so freeing it early is
//!   safe.
//! - OpenCL may detect a lack of memory only at the first use; the MemoryError is raised then.
//! - Copies between two devices go through CPU memory, and a stream that should wait for another
//!   device's event waits on the calling thread: OpenCL objects cannot be used across contexts.

mod attribute;
mod copy;
mod device;
mod devices;
mod event;
pub(crate) mod info;
pub(crate) mod library;

use core::ffi::c_void;
use std::sync::OnceLock;

use self::device::OpenClDevice;
use self::library::{Library, cl_call};
use super::{DeviceApi, DeviceAttribute, DeviceKindInfo, Place, RawEvent, RawStream};
use crate::abi::device_type;
use crate::value::{Any, IntoAny};
use crate::{Error, Result};

/// The devices of this process, found once.
#[derive(Default)]
pub(crate) struct OpenCl {
    found: OnceLock<Result<Vec<OpenClDevice>, String>>,
}

/// The device kind of this module.
pub(super) static KINDS: [DeviceKindInfo; 1] =
    // SAFETY: OpenCL allocates buffers of the requested size, checks that copies stay inside, and
    // keeps memory, queues and events until the work that uses them is done.
    unsafe { [DeviceKindInfo::new(device_type::OPENCL, || Box::new(OpenCl::default()))] };

impl OpenCl {
    fn devices(&self) -> Result<&[OpenClDevice]> {
        let found = self.found.get_or_init(|| Library::get().map_err(str::to_owned).and_then(devices::find));
        match found {
            Ok(devices) => Ok(devices),
            Err(why) => Err(Error::runtime_error(format!("opencl: {why}"))),
        }
    }

    fn device(&self, index: i32) -> Result<&OpenClDevice> {
        let devices = self.devices()?;
        usize::try_from(index).ok().and_then(|index| devices.get(index)).ok_or_else(|| no_device(index, devices))
    }
}

#[cold]
fn no_device(index: i32, devices: &[OpenClDevice]) -> Error {
    let names: Vec<String> =
        devices.iter().enumerate().map(|(index, device)| format!("opencl:{index} ({})", device.name())).collect();
    crate::error!(RuntimeError, "there is no opencl:{index}; this machine has {}", names.join(", "))
}

impl DeviceApi for OpenCl {
    fn name(&self) -> &str {
        "opencl"
    }

    fn device_count(&self) -> Result<i32> {
        Ok(i32::try_from(self.devices()?.len()).unwrap_or(i32::MAX))
    }

    fn attribute(&self, index: i32, attribute: DeviceAttribute) -> Result<Any> {
        match self.device(index) {
            Ok(device) => attribute::attribute(device, attribute),
            Err(_) if attribute == DeviceAttribute::Exist => Ok(0i64.into_any()),
            Err(error) => Err(error),
        }
    }

    fn allocate(&self, index: i32, size: usize, _alignment: usize) -> Result<*mut c_void> {
        self.device(index)?.allocate(size)
    }

    unsafe fn free(&self, index: i32, data: *mut c_void) -> Result<()> {
        let device = self.device(index)?;
        // SAFETY: promised by the caller; OpenCL keeps the memory until queued work is done with
        // it.
        let outcome = unsafe { cl_call!(device.library(), clReleaseMemObject(data)) };
        outcome.map_err(|why| device.failed(format_args!("memory cannot be freed"), why))
    }

    unsafe fn copy(&self, source: Place, target: Place, size: usize, stream: RawStream) -> Result<()> {
        if size == 0 {
            return Ok(());
        }
        let device = |place: Place| {
            let is_ours = place.device.device_type() == device_type::OPENCL;
            is_ours.then(|| self.device(place.device.index())).transpose()
        };
        let (from, to) = (device(source)?, device(target)?);
        // SAFETY: promised by the caller.
        unsafe {
            match (from, to) {
                (None, Some(device)) if source.device.is_host_accessible() => {
                    copy::upload(source, target, device, size, stream)
                }
                (Some(device), None) if target.device.is_host_accessible() => {
                    copy::download(source, target, device, size, stream)
                }
                (Some(from), Some(to)) if core::ptr::eq(from, to) => copy::within(source, target, to, size, stream),
                (Some(from), Some(to)) => copy::between(source, from, target, to, size, stream),
                _ => {
                    let (from, to) = (source.device, target.device);
                    Err(crate::error!(RuntimeError, "OpenCL cannot copy from {from} to {to}; copy through the CPU"))
                }
            }
        }
    }

    fn create_stream(&self, index: i32) -> Result<RawStream> {
        self.device(index)?.create_stream()
    }

    unsafe fn free_stream(&self, index: i32, stream: RawStream) -> Result<()> {
        let device = self.device(index)?;
        // SAFETY: promised by the caller; OpenCL destroys the queue when its work is done.
        let outcome = unsafe { cl_call!(device.library(), clReleaseCommandQueue(stream.0)) };
        outcome.map_err(|why| device.failed(format_args!("a stream cannot be ended"), why))
    }

    unsafe fn synchronize(&self, index: i32, stream: RawStream) -> Result<()> {
        let device = self.device(index)?;
        let queue = device.queue(stream)?;
        // SAFETY: promised by the caller.
        let outcome = unsafe { cl_call!(device.library(), clFinish(queue)) };
        outcome.map_err(|why| device.failed(format_args!("the work in a stream failed"), why))
    }

    fn create_event(&self, index: i32) -> Result<RawEvent> {
        self.device(index)?;
        Ok(event::create())
    }

    unsafe fn free_event(&self, index: i32, event: RawEvent) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { event::free(self.device(index)?, event) };
        Ok(())
    }

    unsafe fn record_event(&self, index: i32, event: RawEvent, stream: RawStream) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { event::record(self.device(index)?, event, stream) }
    }

    unsafe fn wait_for_event(&self, index: i32, event: RawEvent, stream: RawStream) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { event::wait(self.device(index)?, event, stream) }
    }

    unsafe fn synchronize_event(&self, index: i32, event: RawEvent) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { event::synchronize(self.device(index)?, event) }
    }

    unsafe fn elapsed(&self, index: i32, start: RawEvent, end: RawEvent) -> Result<f64> {
        // SAFETY: promised by the caller.
        unsafe { event::elapsed(self.device(index)?, start, end) }
    }

    fn native_handle(&self, index: i32, what: &str) -> Result<*mut c_void> {
        self.device(index)?.native_handle(what)
    }
}
