use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr;

use super::{DeviceApi, Event, RawStream, api};
use crate::embedded::notice::notice;
use crate::function::caught;
use crate::value::Device;
use crate::{Error, Result, ensure, provider};

/// A stream (queue) of a device: its work runs in order, concurrently with that of other streams.
/// Destroyed after its work when dropped.
///
/// Operations that are enqueued (copies, kernels) go into the thread's current stream;
/// [`Stream::scope`] makes this stream the current one.
///
/// ```
/// use kernpack::{Device, Tensor, device::Stream};
/// let stream = Stream::new(Device::CPU)?;
/// let there = stream.scope(|| Tensor::from_slice(&[1.0f32, 2.0], &[2])?.to(Device::CPU))?;
/// stream.synchronize()?;
/// assert_eq!(there.view::<f32>()?.to_vec(), [1.0, 2.0]);
/// # Ok::<(), kernpack::Error>(())
/// ```
pub struct Stream {
    device: Device,
    raw: RawStream,
    api: &'static dyn DeviceApi,
}

impl Stream {
    /// Creates a stream of a device.
    ///
    /// # Errors
    /// Returns a RuntimeError if there is no such device, or if it fails.
    pub fn new(device: Device) -> Result<Self> {
        let api = api(device.device_type())?;
        Ok(Self { device, raw: api.create_stream(device.index())?, api })
    }

    /// The device of the stream.
    pub fn device(&self) -> Device {
        self.device
    }

    /// Takes ownership of a stream that the device's API created ([`DeviceApi::create_stream`]); it
    /// is freed when this value is dropped.
    ///
    /// # Errors
    /// Returns a RuntimeError if there is no such device; the caller then still owns the stream.
    ///
    /// # Safety
    /// `raw` is a stream of this device, created by its API and not freed, and the caller was its
    /// only owner.
    pub unsafe fn from_raw(device: Device, raw: RawStream) -> Result<Self> {
        Ok(Self { device, raw, api: api(device.device_type())? })
    }

    /// Returns the stream without freeing it: the receiver must free it
    /// ([`DeviceApi::free_stream`]).
    #[must_use = "the stream is never given back unless the receiver does it"]
    pub fn into_raw(self) -> RawStream {
        ManuallyDrop::new(self).raw
    }

    /// The API's own handle, which lives as long as this stream.
    pub fn as_raw(&self) -> RawStream {
        self.raw
    }

    /// Waits for the work that is in the stream.
    ///
    /// # Errors
    /// Returns a RuntimeError if that work, or the device, failed.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream is alive and of this device.
        unsafe { self.api.synchronize(self.device.index(), self.raw) }
    }

    /// Records the event in the stream, after the work that is in it now.
    ///
    /// # Errors
    /// Returns a ValueError for an event of another device, and a RuntimeError if the device fails.
    pub fn record(&self, event: &Event) -> Result<()> {
        let (device, of) = (self.device, event.device());
        ensure!(device == of, ValueError, "an event of {of} cannot be recorded in a stream of {device}");
        // SAFETY: both are alive and of this device.
        unsafe { self.api.record_event(device.index(), event.as_raw(), self.raw) }
    }

    /// Makes work that is enqueued in this stream from now on wait for the work before the event's
    /// record, in any stream of this kind of device. The caller does not wait.
    ///
    /// # Errors
    /// Returns a ValueError for an event of another kind of device, and a RuntimeError if the
    /// device fails.
    pub fn wait(&self, event: &Event) -> Result<()> {
        let (device, of) = (self.device, event.device());
        ensure!(
            device.device_type() == of.device_type(),
            ValueError,
            "a stream of {device} cannot wait for an event of {of}; use Event::synchronize"
        );
        // SAFETY: both are alive and of this kind; the stream is of this device.
        unsafe { self.api.wait_for_event(device.index(), event.as_raw(), self.raw) }
    }

    /// Makes this the thread's current stream of its device while `work` runs, for all code that
    /// uses the environment's stream: copies, kernels, and functions in other languages. The
    /// previous stream is restored afterwards, even if `work` panics.
    pub fn scope<R>(&self, work: impl FnOnce() -> R) -> R {
        let before = set_current(self.device, self.raw);
        let _restore = Restore { device: self.device, stream: before };
        work()
    }
}

/// Sets the thread's current stream of a device and returns the previous one.
fn set_current(device: Device, stream: RawStream) -> RawStream {
    let mut before = ptr::null_mut();
    // SAFETY: the stream belongs to this device and stays alive until another one is set; `before`
    // is writable.
    let status =
        unsafe { (provider::api().env_set_stream)(device.device_type(), device.index(), stream.0, &raw mut before) };
    if status != 0 {
        // Hosts do not fail here: setting the stream stores two numbers and a pointer.
        notice(format_args!("kernpack: the current stream of {device}: {}", Error::take_raised()));
    }
    RawStream(before)
}

/// Restores the previous current stream when it is dropped. Never returned to callers, so that it
/// cannot be leaked.
struct Restore {
    device: Device,
    stream: RawStream,
}

impl Drop for Restore {
    fn drop(&mut self) {
        set_current(self.device, self.stream);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: created in `new`; no other code has it.
        let freed = caught(|| unsafe { self.api.free_stream(self.device.index(), self.raw) });
        if let Err(error) = freed {
            notice(format_args!("kernpack: a stream of {} could not be ended: {error}", self.device));
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({}, {:?})", self.device, self.raw.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::device_type;
    use crate::device::current_stream;

    #[test]
    fn the_stream_before_comes_back() {
        // The CPU's streams do not have a handle; this test is about the environment.
        let cpu = api(device_type::CPU).unwrap();
        let handle = |number| RawStream(ptr::without_provenance_mut(number));
        let streams = [16, 32].map(|number| Stream { device: Device::CPU, raw: handle(number), api: cpu });
        let current = || current_stream(Device::CPU);
        streams[0].scope(|| {
            assert_eq!(current(), handle(16));
            let panicking = || streams[1].scope(|| panic!("in {:?}", current()));
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(panicking));
            assert!(panicked.unwrap_err().downcast::<String>().unwrap().contains("0x20"));
            assert_eq!(current(), handle(16));
            std::thread::scope(|threads| {
                threads.spawn(|| assert_eq!(current(), RawStream::DEFAULT));
            });
        });
        assert_eq!(current(), RawStream::DEFAULT);
    }
}
