//! Events: markers in queues.

use core::ptr::{self, null_mut};
use std::sync::{Mutex, PoisonError};

use opencl_sys::{CL_EVENT_COMMAND_EXECUTION_STATUS, CL_EVENT_CONTEXT, CL_PROFILING_COMMAND_END, cl_event};

use super::device::OpenClDevice;
use super::info;
use super::library::{Failure, Library, cl_call};
use crate::Result;
use crate::device::{RawEvent, RawStream};

/// The target of a [`RawEvent`] of OpenCL: the marker of the latest record. NULL without one.
struct Event(Mutex<cl_event>);

/// A marker with a reference that this value owns.
struct Marker {
    library: &'static Library,
    event: cl_event,
}

impl Drop for Marker {
    fn drop(&mut self) {
        // SAFETY: this value owns the reference. A failure cannot be handled.
        let _ = unsafe { cl_call!(self.library, clReleaseEvent(self.event)) };
    }
}

/// Creates an event that was never recorded.
pub(super) fn create() -> RawEvent {
    RawEvent(Box::into_raw(Box::new(Event(Mutex::new(null_mut())))).cast())
}

/// Destroys an event.
///
/// # Safety
/// The event came from [`create`], and is not used any more.
pub(super) unsafe fn free(device: &OpenClDevice, event: RawEvent) {
    // SAFETY: promised by the caller.
    let event = unsafe { Box::from_raw(event.0.cast::<Event>()) };
    let event = event.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !event.is_null() {
        drop(Marker { library: device.library(), event });
    }
}

/// Records the event in the stream, after the work that is in it now.
///
/// # Safety
/// The event came from [`create`] and is alive; the stream belongs to the device.
pub(super) unsafe fn record(device: &OpenClDevice, event: RawEvent, stream: RawStream) -> Result<()> {
    let (library, queue) = (device.library(), device.queue(stream)?);
    let mut made = null_mut();
    // SAFETY: the queue is alive.
    let outcome = unsafe { cl_call!(library, clEnqueueMarkerWithWaitList(queue, 0, ptr::null(), &mut made)) };
    outcome.map_err(|why| device.failed(format_args!("an event cannot be recorded"), why))?;
    let before = {
        // SAFETY: promised by the caller.
        let mut slot = unsafe { &*event.0.cast::<Event>() }.0.lock().unwrap_or_else(PoisonError::into_inner);
        core::mem::replace(&mut *slot, made)
    };
    if !before.is_null() {
        drop(Marker { library, event: before });
    }
    // Another queue may only wait for commands that have been submitted to the device.
    // SAFETY: the queue is alive.
    let flushed = unsafe { cl_call!(library, clFlush(queue)) };
    flushed.map_err(|why| device.failed(format_args!("an event cannot be recorded"), why))
}

/// Returns the marker of the latest record.
///
/// # Safety
/// The event came from [`create`] and is alive.
unsafe fn marker(device: &OpenClDevice, event: RawEvent) -> Result<Option<Marker>> {
    // SAFETY: promised by the caller.
    let slot = unsafe { &*event.0.cast::<Event>() }.0.lock().unwrap_or_else(PoisonError::into_inner);
    if slot.is_null() {
        return Ok(None);
    }
    let (library, event) = (device.library(), *slot);
    // SAFETY: the slot holds a reference, and is locked.
    let retained = unsafe { cl_call!(library, clRetainEvent(event)) };
    retained.map_err(|why| device.failed(format_args!("an event cannot be used"), why))?;
    Ok(Some(Marker { library, event }))
}

/// Makes work that is enqueued in the stream from now on wait for the event. For an event of
/// another device, this function itself waits: OpenCL events do not work across contexts.
///
/// # Safety
/// The event came from [`create`] and is alive; the stream belongs to the device.
pub(super) unsafe fn wait(device: &OpenClDevice, event: RawEvent, stream: RawStream) -> Result<()> {
    // SAFETY: promised by the caller.
    let Some(marker) = (unsafe { marker(device, event) })? else { return Ok(()) };
    let (library, queue, context) = (device.library(), device.queue(stream)?, device.context()?);
    // SAFETY: the marker is alive.
    let own = info::read(|size, value, needed| unsafe {
        cl_call!(library, clGetEventInfo(marker.event, CL_EVENT_CONTEXT, size, value, needed))
    });
    let own = own.and_then(|value| info::number(&value));
    let own = own.map_err(|why| device.failed(format_args!("an event cannot be waited for"), why))?;
    if own != context.addr() as u64 {
        return finish(device, &marker);
    }
    // SAFETY: queue and event are alive and belong to one context.
    let outcome = unsafe { cl_call!(library, clEnqueueBarrierWithWaitList(queue, 1, &marker.event, null_mut())) };
    outcome.map_err(|why| device.failed(format_args!("an event cannot be waited for"), why))
}

/// Waits until the event's work is done.
///
/// # Safety
/// The event came from [`create`] and is alive.
pub(super) unsafe fn synchronize(device: &OpenClDevice, event: RawEvent) -> Result<()> {
    // SAFETY: promised by the caller.
    let Some(marker) = (unsafe { marker(device, event) })? else { return Ok(()) };
    finish(device, &marker)
}

/// Waits until the marker's work is done.
fn finish(device: &OpenClDevice, marker: &Marker) -> Result<()> {
    let library = device.library();
    // SAFETY: the marker is alive.
    let outcome = unsafe { cl_call!(library, clWaitForEvents(1, &marker.event)) };
    outcome.map_err(|why| {
        // SAFETY: as above.
        let status = info::read(|size, value, needed| unsafe {
            cl_call!(library, clGetEventInfo(marker.event, CL_EVENT_COMMAND_EXECUTION_STATUS, size, value, needed))
        });
        let status = status.and_then(|value| info::number(&value)).map(|status| status as i32);
        let why = status.ok().filter(|status| *status < 0).map_or(why, Failure::Status);
        device.failed(format_args!("the work before an event failed"), why)
    })
}

/// Returns the seconds between the completion of the work before one event and of the work before
/// another.
///
/// # Safety
/// Both came from [`create`] and are alive.
pub(super) unsafe fn elapsed(device: &OpenClDevice, start: RawEvent, end: RawEvent) -> Result<f64> {
    let time = |event: RawEvent| -> Result<u64> {
        // SAFETY: promised by the caller.
        let Some(marker) = (unsafe { marker(device, event) })? else {
            return Err(crate::error!(RuntimeError, "opencl: time is asked of an event that was never recorded"));
        };
        // SAFETY: the marker is alive.
        let value = info::read(|size, value, needed| unsafe {
            let library = device.library();
            cl_call!(library, clGetEventProfilingInfo(marker.event, CL_PROFILING_COMMAND_END, size, value, needed))
        });
        let value = value.and_then(|value| info::number(&value));
        value.map_err(|why| device.failed(format_args!("the time of an event cannot be read"), why))
    };
    let (start, end) = (time(start)?, time(end)?);
    let nanoseconds = end as f64 - start as f64;
    Ok(nanoseconds * 1e-9)
}
