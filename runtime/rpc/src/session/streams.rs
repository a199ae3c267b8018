use std::collections::HashMap;
use std::ptr;

use kernpack::device::{self, RawStream, Stream, current_stream};
use kernpack::{Device, Error, Result, bail, ensure, error, sys};

use crate::wire::Value;

/// The streams that a client created. A client refers to them by numbers; 0 is the current stream
/// of a device.
pub(super) struct Streams {
    next: u64,
    streams: HashMap<u64, Stream>,
}

impl Streams {
    pub(super) fn new() -> Self {
        Self { next: 1, streams: HashMap::new() }
    }

    /// The number of streams.
    pub(super) fn len(&self) -> usize {
        self.streams.len()
    }

    /// Creates a stream of a device.
    pub(super) fn create(&mut self, device: Device) -> Result<u64> {
        let stream = Stream::new(device)?;
        let number = self.next;
        self.next += 1;
        self.streams.insert(number, stream);
        Ok(number)
    }

    /// Destroys a stream.
    pub(super) fn free(&mut self, device: Device, number: u64) -> Result<()> {
        let raw = self.get(device, number)?.as_raw();
        if current_stream(device) == raw {
            set_current(device, RawStream::DEFAULT)?;
        }
        self.streams.remove(&number);
        Ok(())
    }

    /// Makes a stream the current one of its device.
    pub(super) fn set(&self, device: Device, number: u64) -> Result<()> {
        match number {
            0 => set_current(device, RawStream::DEFAULT),
            _ => set_current(device, self.get(device, number)?.as_raw()),
        }
    }

    /// The number of the current stream; 0 if it is the device's default one.
    pub(super) fn current(&self, device: Device) -> u64 {
        let raw = current_stream(device);
        let known = self.streams.iter().find(|(_, stream)| stream.device() == device && stream.as_raw() == raw);
        known.filter(|_| raw != RawStream::DEFAULT).map_or(0, |(number, _)| *number)
    }

    /// Waits for the work in a stream.
    pub(super) fn synchronize(&self, device: Device, number: u64) -> Result<()> {
        if number != 0 {
            return self.get(device, number)?.synchronize();
        }
        let api = device::api(device.device_type())?;
        // SAFETY: the thread's current stream is one of the device, or its default one.
        unsafe { api.synchronize(device.index(), current_stream(device)) }
    }

    /// Checks a stream in a request that does not need other treatment.
    pub(super) fn check(&self, device: Device, number: u64) -> Result<()> {
        if number == 0 { Ok(()) } else { self.get(device, number).map(drop) }
    }

    fn get(&self, device: Device, number: u64) -> Result<&Stream> {
        let stream = self.streams.get(&number);
        let stream = stream
            .ok_or_else(|| error!(ValueError, "no stream {number:#x} was made in this session, or it was freed"))?;
        ensure!(stream.device() == device, ValueError, "the stream is one of {}, not of {device}", stream.device());
        Ok(stream)
    }
}

fn set_current(device: Device, stream: RawStream) -> Result<()> {
    let api = sys::provider::api();
    // SAFETY: the stream is a live one of the device; `free` takes it out before it ends. The
    // previous stream is not requested.
    let status = unsafe { (api.env_set_stream)(device.device_type(), device.index(), stream.0, ptr::null_mut()) };
    Error::check(status)
}

/// Decodes the number of a stream in a request.
pub(super) fn number_of(value: &Value) -> Result<u64> {
    match value {
        Value::None => Ok(0),
        Value::Opaque(number) => Ok(*number),
        Value::Int(number) => Ok(number.cast_unsigned()),
        other => bail!(TypeError, "a stream is a pointer or None, got {}", other.kind()),
    }
}
