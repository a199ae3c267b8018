use core::ffi::c_void;
use core::ptr::null_mut;

use super::DeviceAttribute;
use crate::value::{Any, Device};
use crate::{Error, Result};

/// The API's handle of a stream (queue) of a device: a `CUstream`, a `cl_command_queue`, ... NULL
/// is the device's default stream.
///
/// A plain handle: the creator of the stream destroys it. [`Stream`](super::Stream) owns one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct RawStream(pub *mut c_void);

/// The API's handle of an event of a device. A plain handle; [`Event`](super::Event) owns one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct RawEvent(pub *mut c_void);

impl RawStream {
    /// The device's default stream.
    pub const DEFAULT: Self = Self(null_mut());
}

// SAFETY: handles of device APIs may be used from any thread; the API orders the operations on
// them.
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
    /// The block that [`DeviceApi::allocate`] returned.
    pub data: *mut c_void,
    /// Offset in bytes from the start of the block.
    pub byte_offset: u64,
}

impl Place {
    /// Returns the address, for devices whose `data` is an address (CPU memory, CUDA memory).
    pub fn address(&self) -> *mut c_void {
        self.data.wrapping_byte_add(self.byte_offset as usize)
    }
}

/// A kind of device. All functions may be called from any thread, several at a time.
///
/// `index` is the number of the device among those of its kind. For a device that does not exist,
/// functions return an error that contains the number of devices. Errors contain the device;
/// running out of memory is a MemoryError, after which everything else still works.
///
/// Work on a device is ordered by streams. A function that takes a stream enqueues its work there;
/// [`RawStream::DEFAULT`] is the device's default stream.
pub trait DeviceApi: Send + Sync + 'static {
    /// Name of the kind, as in [`Device`]'s names: `cuda`.
    fn name(&self) -> &str;

    /// Number of devices.
    ///
    /// # Errors
    /// Returns a RuntimeError with the reason that there is none and the remedy: no driver, no
    /// device, ...
    fn device_count(&self) -> Result<i32>;

    /// Returns an attribute of a device; None if devices of this kind do not have it.
    /// [`DeviceAttribute::Exist`] never fails.
    ///
    /// # Errors
    /// Returns a RuntimeError if the device does not exist.
    fn attribute(&self, index: i32, attribute: DeviceAttribute) -> Result<Any>;

    /// Allocates memory of a device; its content is undefined. `alignment` is a power of two;
    /// `size` may be 0.
    ///
    /// # Errors
    /// Returns a MemoryError if there is not enough memory.
    fn allocate(&self, index: i32, size: usize, alignment: usize) -> Result<*mut c_void>;

    /// Frees memory. Work that was enqueued before may still use it: the API waits, or keeps the
    /// memory until then.
    ///
    /// # Errors
    /// Returns a RuntimeError if the device fails.
    ///
    /// # Safety
    /// `data` came from [`DeviceApi::allocate`] for this device, and is not used any more.
    unsafe fn free(&self, index: i32, data: *mut c_void) -> Result<()>;

    /// Copies `size` bytes. At least one place is on a device of this kind; the other is too, or is
    /// in CPU memory. If one is in CPU memory, the copy is complete when this returns; otherwise it
    /// is enqueued in the stream (of the target's device).
    ///
    /// # Errors
    /// Returns a RuntimeError if the device fails.
    ///
    /// # Safety
    /// Both places have `size` bytes, which stay valid until the copy is complete, and do not
    /// overlap. The stream belongs to this API.
    unsafe fn copy(&self, source: Place, target: Place, size: usize, stream: RawStream) -> Result<()>;

    /// Creates a stream of a device.
    ///
    /// # Errors
    /// Returns a RuntimeError if the device fails.
    fn create_stream(&self, index: i32) -> Result<RawStream>;

    /// Destroys a stream after its work.
    ///
    /// # Errors
    /// Returns a RuntimeError if the device fails.
    ///
    /// # Safety
    /// The stream came from [`DeviceApi::create_stream`] for this device, and is not used any more.
    unsafe fn free_stream(&self, index: i32, stream: RawStream) -> Result<()>;

    /// Waits for the work in a stream.
    ///
    /// # Errors
    /// Returns a RuntimeError if that work, or the device, failed.
    ///
    /// # Safety
    /// The stream is alive and belongs to this device.
    unsafe fn synchronize(&self, index: i32, stream: RawStream) -> Result<()>;

    /// Creates an event of a device.
    ///
    /// # Errors
    /// Returns a RuntimeError if the device fails, or if the kind does not have events.
    fn create_event(&self, index: i32) -> Result<RawEvent> {
        let _ = index;
        Err(no_events(self.name()))
    }

    /// Destroys an event.
    ///
    /// # Errors
    /// Returns a RuntimeError if the device fails.
    ///
    /// # Safety
    /// The event came from [`DeviceApi::create_event`] for this device, and is not used any more.
    unsafe fn free_event(&self, index: i32, event: RawEvent) -> Result<()> {
        let _ = (index, event);
        Err(no_events(self.name()))
    }

    /// Records the event in the stream, after the work that is in it now.
    ///
    /// # Errors
    /// Returns a RuntimeError if the device fails.
    ///
    /// # Safety
    /// Both are alive and belong to this device.
    unsafe fn record_event(&self, index: i32, event: RawEvent, stream: RawStream) -> Result<()> {
        let _ = (index, event, stream);
        Err(no_events(self.name()))
    }

    /// Makes work that is enqueued in the stream from now on wait for the work before the event's
    /// last record.
    ///
    /// # Errors
    /// Returns a RuntimeError if the device fails.
    ///
    /// # Safety
    /// The event and the stream are alive and of this kind; the stream belongs to the device
    /// `index`.
    unsafe fn wait_for_event(&self, index: i32, event: RawEvent, stream: RawStream) -> Result<()> {
        let _ = (index, event, stream);
        Err(no_events(self.name()))
    }

    /// Waits until the event's work is complete; returns immediately if it was never recorded.
    ///
    /// # Errors
    /// Returns a RuntimeError if the work, or the device, failed.
    ///
    /// # Safety
    /// The event is alive and belongs to this device.
    unsafe fn synchronize_event(&self, index: i32, event: RawEvent) -> Result<()> {
        let _ = (index, event);
        Err(no_events(self.name()))
    }

    /// Returns the time between two events in seconds. Both were recorded, and their work is
    /// complete.
    ///
    /// # Errors
    /// Returns a RuntimeError if the device fails, or does not measure time.
    ///
    /// # Safety
    /// Both are alive events of this device.
    unsafe fn elapsed(&self, index: i32, start: RawEvent, end: RawEvent) -> Result<f64> {
        let _ = (index, start, end);
        Err(no_events(self.name()))
    }

    /// Allocates small temporary memory, which a thread needs many times: from a pool of the API,
    /// if it has one.
    ///
    /// # Errors
    /// As for [`DeviceApi::allocate`].
    fn allocate_workspace(&self, index: i32, size: usize) -> Result<*mut c_void> {
        self.allocate(index, size, 128)
    }

    /// Frees memory of [`DeviceApi::allocate_workspace`].
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

    /// Returns a handle of the underlying API, for code that uses that API itself: `context`,
    /// `device` or `stream` (the default one). NULL if there is no such handle.
    ///
    /// # Errors
    /// Returns a RuntimeError if the device does not exist.
    fn native_handle(&self, index: i32, what: &str) -> Result<*mut c_void> {
        let _ = (index, what);
        Ok(null_mut())
    }
}

#[cold]
fn no_events(name: &str) -> Error {
    crate::error!(RuntimeError, "{name} devices have no events")
}
