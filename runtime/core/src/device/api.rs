use core::ffi::c_void;
use core::ptr::null_mut;

use super::DeviceAttribute;
use crate::value::{Any, Device};
use crate::{Error, Result};

/// A stream (queue) of a device, as its API knows it: a `CUstream`, a `cl_command_queue`, ... NULL is the device's default one.
///
/// A plain handle: the creator of the stream ends it. [`Stream`](super::Stream) owns one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct RawStream(pub *mut c_void);

/// An event of a device, as its API knows it. A plain handle; [`Event`](super::Event) owns one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct RawEvent(pub *mut c_void);

impl RawStream {
    /// The device's default stream.
    pub const DEFAULT: Self = Self(null_mut());
}

// SAFETY: handles of device APIs may be used from any thread; what is done with them is the API's to order.
unsafe impl Send for RawStream {}
// SAFETY: as above.
unsafe impl Sync for RawStream {}
// SAFETY: as above.
unsafe impl Send for RawEvent {}
// SAFETY: as above.
unsafe impl Sync for RawEvent {}

/// A location in memory: a block of a device's memory, and an offset into it. `data` is DLPack's
/// `data` for the device: an address, or a handle such as a `cl_mem`, which does not support
/// pointer arithmetic; hence the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Place {
    /// The device.
    pub device: Device,
    /// The block, as [`DeviceApi::allocate`] returned it.
    pub data: *mut c_void,
    /// Bytes from the start of the block.
    pub byte_offset: u64,
}

impl Place {
    /// The address, where ordinary code can use it (CPU memory, CUDA memory).
    pub fn address(&self) -> *mut c_void {
        self.data.wrapping_byte_add(self.byte_offset as usize)
    }
}

/// A kind of device. All functions may be called from any thread, several at a time.
///
/// `index` is the number of the device among those of its kind; one that does not exist is an error that says how many there are.
/// Errors name the device; running out of memory is a MemoryError, after which everything else works on.
///
/// Work on a device is ordered by streams. A function that takes a stream puts its work into it; [`RawStream::DEFAULT`] is the
/// device's default stream.
pub trait DeviceApi: Send + Sync + 'static {
    /// Name of the kind, as in [`Device`]'s names: `cuda`.
    fn name(&self) -> &str;

    /// Number of devices.
    ///
    /// # Errors
    /// RuntimeError that says why there is none and what to do: no driver, no device, ...
    fn device_count(&self) -> Result<i32>;

    /// An attribute of a device; None when devices of this kind do not have it. [`DeviceAttribute::Exist`] never fails.
    ///
    /// # Errors
    /// RuntimeError when the device does not exist.
    fn attribute(&self, index: i32, attribute: DeviceAttribute) -> Result<Any>;

    /// Memory of a device; its content is undefined. `alignment` is a power of two; `size` may be 0.
    ///
    /// # Errors
    /// MemoryError when there is not enough.
    fn allocate(&self, index: i32, size: usize, alignment: usize) -> Result<*mut c_void>;

    /// Takes memory back. Work that was put into streams before may still use it: the API waits, or the memory stays until then.
    ///
    /// # Errors
    /// RuntimeError when the device fails.
    ///
    /// # Safety
    /// `data` came from [`DeviceApi::allocate`] for this device, and is not used any more.
    unsafe fn free(&self, index: i32, data: *mut c_void) -> Result<()>;

    /// Copies `size` bytes. At least one place is on a device of this kind; the other is too, or in CPU memory. Where one is in
    /// CPU memory, the copy is done when this returns; otherwise it is in the stream (of the target's device).
    ///
    /// # Errors
    /// RuntimeError when the device fails.
    ///
    /// # Safety
    /// Both places have `size` bytes, which stay until the copy is done, and do not overlap. The stream is one of this API.
    unsafe fn copy(&self, source: Place, target: Place, size: usize, stream: RawStream) -> Result<()>;

    /// A new stream of a device.
    ///
    /// # Errors
    /// RuntimeError when the device fails.
    fn create_stream(&self, index: i32) -> Result<RawStream>;

    /// Ends a stream, after the work in it.
    ///
    /// # Errors
    /// RuntimeError when the device fails.
    ///
    /// # Safety
    /// The stream came from [`DeviceApi::create_stream`] for this device, and is not used any more.
    unsafe fn free_stream(&self, index: i32, stream: RawStream) -> Result<()>;

    /// Waits for the work in a stream.
    ///
    /// # Errors
    /// RuntimeError when that work, or the device, failed.
    ///
    /// # Safety
    /// The stream is a live one of this device.
    unsafe fn synchronize(&self, index: i32, stream: RawStream) -> Result<()>;

    /// A new event of a device.
    ///
    /// # Errors
    /// RuntimeError when the device fails, or when the kind has no events.
    fn create_event(&self, index: i32) -> Result<RawEvent> {
        let _ = index;
        Err(no_events(self.name()))
    }

    /// Ends an event.
    ///
    /// # Errors
    /// RuntimeError when the device fails.
    ///
    /// # Safety
    /// The event came from [`DeviceApi::create_event`] for this device, and is not used any more.
    unsafe fn free_event(&self, index: i32, event: RawEvent) -> Result<()> {
        let _ = (index, event);
        Err(no_events(self.name()))
    }

    /// Puts the event behind the work that is in the stream now.
    ///
    /// # Errors
    /// RuntimeError when the device fails.
    ///
    /// # Safety
    /// Both are live ones of this device.
    unsafe fn record_event(&self, index: i32, event: RawEvent, stream: RawStream) -> Result<()> {
        let _ = (index, event, stream);
        Err(no_events(self.name()))
    }

    /// Lets work that comes into the stream from now on wait for what the event was recorded behind.
    ///
    /// # Errors
    /// RuntimeError when the device fails.
    ///
    /// # Safety
    /// The event and the stream are live ones of this kind; the stream belongs to the device `index`.
    unsafe fn wait_for_event(&self, index: i32, event: RawEvent, stream: RawStream) -> Result<()> {
        let _ = (index, event, stream);
        Err(no_events(self.name()))
    }

    /// Waits until the event's work is done; at once when it was never recorded.
    ///
    /// # Errors
    /// RuntimeError when the work, or the device, failed.
    ///
    /// # Safety
    /// The event is a live one of this device.
    unsafe fn synchronize_event(&self, index: i32, event: RawEvent) -> Result<()> {
        let _ = (index, event);
        Err(no_events(self.name()))
    }

    /// Time between two events, in seconds. Both were recorded, and their work is done.
    ///
    /// # Errors
    /// RuntimeError when the device fails, or does not measure time.
    ///
    /// # Safety
    /// Both are live events of this device.
    unsafe fn elapsed(&self, index: i32, start: RawEvent, end: RawEvent) -> Result<f64> {
        let _ = (index, start, end);
        Err(no_events(self.name()))
    }

    /// Memory for a moment, of which a thread needs a little many times: from a pool of the API's, if it has one.
    ///
    /// # Errors
    /// As for [`DeviceApi::allocate`].
    fn allocate_workspace(&self, index: i32, size: usize) -> Result<*mut c_void> {
        self.allocate(index, size, 128)
    }

    /// Takes back what [`DeviceApi::allocate_workspace`] gave.
    ///
    /// # Errors
    /// As for [`DeviceApi::free`].
    ///
    /// # Safety
    /// As for [`DeviceApi::free`]; called on the thread that allocated it.
    unsafe fn free_workspace(&self, index: i32, data: *mut c_void) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { self.free(index, data) }
    }

    /// A handle of the API beneath, for code that uses that API itself: `context`, `device` or `stream` (the default one). NULL when
    /// there is no such handle.
    ///
    /// # Errors
    /// RuntimeError when the device does not exist.
    fn native_handle(&self, index: i32, what: &str) -> Result<*mut c_void> {
        let _ = (index, what);
        Ok(null_mut())
    }
}

#[cold]
fn no_events(name: &str) -> Error {
    crate::error!(RuntimeError, "{name} devices have no events")
}
