use core::fmt;
use core::mem::ManuallyDrop;
use std::time::Duration;

use super::{DeviceApi, RawEvent, api};
use crate::embedded::notice::notice;
use crate::function::caught;
use crate::value::Device;
use crate::{Result, ensure};

/// A marker in a stream: other streams and the host can wait for it, and two of them measure time.
///
/// ```
/// use kernpack::{Device, device::{Event, Stream}};
/// let stream = Stream::new(Device::CPU)?;
/// let (start, end) = (Event::new(Device::CPU)?, Event::new(Device::CPU)?);
/// stream.record(&start)?;
/// // ... work ...
/// stream.record(&end)?;
/// end.synchronize()?;
/// assert!(start.elapsed(&end)?.as_secs() < 60);
/// # Ok::<(), kernpack::Error>(())
/// ```
pub struct Event {
    device: Device,
    raw: RawEvent,
    api: &'static dyn DeviceApi,
}

impl Event {
    /// Creates an event of a device; [`Stream::record`](super::Stream::record) records it in a
    /// stream.
    ///
    /// # Errors
    /// Returns a RuntimeError if there is no such device, or if its kind does not have events.
    pub fn new(device: Device) -> Result<Self> {
        let api = api(device.device_type())?;
        Ok(Self { device, raw: api.create_event(device.index())?, api })
    }

    /// The device of the event.
    pub fn device(&self) -> Device {
        self.device
    }

    /// Takes ownership of an event that the device's API created ([`DeviceApi::create_event`]); it
    /// is freed when this value is dropped.
    ///
    /// # Errors
    /// Returns a RuntimeError if there is no such device; the caller then still owns the event.
    ///
    /// # Safety
    /// `raw` is an event of this device, created by its API and not freed, and the caller was its
    /// only owner.
    pub unsafe fn from_raw(device: Device, raw: RawEvent) -> Result<Self> {
        Ok(Self { device, raw, api: api(device.device_type())? })
    }

    /// Returns the event without freeing it: the receiver must free it ([`DeviceApi::free_event`]).
    #[must_use = "the event is never given back unless the receiver does it"]
    pub fn into_raw(self) -> RawEvent {
        ManuallyDrop::new(self).raw
    }

    /// The API's own handle, which lives as long as this event.
    pub fn as_raw(&self) -> RawEvent {
        self.raw
    }

    /// Waits until the work before the event's record is complete; returns immediately if it was
    /// never recorded.
    ///
    /// # Errors
    /// Returns a RuntimeError if that work, or the device, failed.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the event is alive and of this device.
        unsafe { self.api.synchronize_event(self.device.index(), self.raw) }
    }

    /// Returns the time from this event to `end`, by the device's clock. Waits for both; 0 if `end`
    /// comes first.
    ///
    /// # Errors
    /// Returns a ValueError for an event of another device, and a RuntimeError if an event was not
    /// recorded, or if the device does not measure time.
    pub fn elapsed(&self, end: &Self) -> Result<Duration> {
        let (device, of) = (self.device, end.device);
        ensure!(device == of, ValueError, "there is no time between events of {device} and {of}");
        self.synchronize()?;
        end.synchronize()?;
        // SAFETY: both are alive and of this device.
        let seconds = unsafe { self.api.elapsed(device.index(), self.raw, end.raw)? };
        Ok(Duration::try_from_secs_f64(seconds).unwrap_or_default())
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created in `new`; no other code has it.
        let freed = caught(|| unsafe { self.api.free_event(self.device.index(), self.raw) });
        if let Err(error) = freed {
            notice(format_args!("kernpack: an event of {} could not be ended: {error}", self.device));
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({}, {:?})", self.device, self.raw.0)
    }
}
