use super::{DeviceApi, Place, RawStream, api, current_stream};
use crate::abi::device_type;
use crate::value::Device;
use crate::{Error, Result};

/// Size of the CPU buffer through which data is copied between two kinds of devices.
const PIECE: usize = 4 << 20;

/// Copies `size` bytes between any two places.
///
/// Two places of one kind of device, or of one remote session, are copied by that kind's API, in
/// the thread's current stream of the target's device, after the work in the current stream of the
/// source's device; the copy may still run when this returns. All other copies are complete when
/// this returns: host memory and a device use the device's API; two kinds of devices go through CPU
/// memory, a few MiB at a time.
///
/// ```
/// use kernpack::{Device, device::{self, DeviceMemory, Place}};
/// let (source, memory) = ([1u8, 2, 3, 4], DeviceMemory::new(Device::CPU, 4, 64)?);
/// let place = |data: *const u8| Place { device: Device::CPU, data: data.cast_mut().cast(), byte_offset: 0 };
/// // SAFETY: both places have four bytes.
/// unsafe { device::copy(place(source.as_ptr()), memory.place(), 4)? };
/// # Ok::<(), kernpack::Error>(())
/// ```
///
/// # Errors
/// Returns a RuntimeError if no API for one of the devices is registered, or if a device fails; a
/// MemoryError if there is not enough CPU memory for the buffer.
///
/// # Safety
/// Both places have `size` bytes, which stay valid until the copy is complete, and do not overlap.
/// The current streams are alive.
pub unsafe fn copy(source: Place, target: Place, size: usize) -> Result<()> {
    if size == 0 {
        return Ok(());
    }
    let (from, to) = (server(source.device), server(target.device));
    // SAFETY: promised by the caller; the API belongs to one place, and the other is of the same
    // kind or in CPU memory.
    unsafe {
        match (from, to) {
            (None, None) => {
                core::ptr::copy_nonoverlapping(source.address().cast::<u8>(), target.address().cast(), size);
                Ok(())
            }
            (Some(kind), None) => api(kind)?.copy(source, target, size, stream_of(source)),
            (None, Some(kind)) => api(kind)?.copy(source, target, size, stream_of(target)),
            (Some(kind), Some(other)) if kind == other => within(api(kind)?, source, target, size),
            // Two kinds of devices of one remote machine, which copies between them itself.
            (Some(kind), Some(_)) if is_one_session(source.device, target.device) => {
                within(api(kind)?, source, target, size)
            }
            (Some(from), Some(to)) => staged(api(from)?, source, api(to)?, target, size),
        }
    }
}

/// Returns the kind whose API copies from and to a device; None for CPU memory that no device
/// writes to on its own.
fn server(device: Device) -> Option<i32> {
    match device.device_type() {
        device_type::CPU | device_type::CUDA_HOST | device_type::ROCM_HOST => None,
        // The same API serves both, if there is one.
        device_type::CUDA_MANAGED if api(device_type::CUDA).is_ok() => Some(device_type::CUDA),
        kind => Some(kind),
    }
}

/// Returns whether both are devices of one remote session.
fn is_one_session(a: Device, b: Device) -> bool {
    a.session().is_some() && a.session() == b.session()
}

/// Returns the thread's current stream of the device of a place.
fn stream_of(place: Place) -> RawStream {
    match place.device.device_type() {
        device_type::CUDA_MANAGED => current_stream(Device::cuda(place.device.index())),
        _ => current_stream(place.device),
    }
}

/// # Safety
/// As for [`copy`]; both places are of the API's kind.
unsafe fn within(api: &'static dyn DeviceApi, source: Place, target: Place, size: usize) -> Result<()> {
    let stream = stream_of(target);
    if source.device != target.device {
        // SAFETY: promised by the caller.
        unsafe { order(api, source.device, stream_of(source), target.device, stream)? };
    }
    // SAFETY: promised by the caller.
    unsafe { api.copy(source, target, size, stream) }
}

/// Makes work that is enqueued in the second stream from now on wait for the work in the first one.
///
/// # Safety
/// Both are alive streams of these devices, which are of the API's kind.
unsafe fn order(
    api: &'static dyn DeviceApi,
    first: Device,
    before: RawStream,
    second: Device,
    after: RawStream,
) -> Result<()> {
    let Ok(event) = api.create_event(first.index()) else {
        // SAFETY: promised by the caller.
        return unsafe { api.synchronize(first.index(), before) };
    };
    // SAFETY: promised by the caller; the event is new, and not used after it was freed.
    unsafe {
        let ordered = api
            .record_event(first.index(), event, before)
            .and_then(|()| api.wait_for_event(second.index(), event, after));
        api.free_event(first.index(), event)?;
        ordered
    }
}

/// # Safety
/// As for [`copy`]; each place is of its API's kind.
unsafe fn staged(
    from: &'static dyn DeviceApi,
    source: Place,
    to: &'static dyn DeviceApi,
    target: Place,
    size: usize,
) -> Result<()> {
    let mut piece = Vec::<u8>::new();
    let room = size.min(PIECE);
    piece.try_reserve_exact(room).map_err(|_| {
        let (source, target) = (source.device, target.device);
        Error::new("MemoryError", format!("no {room} bytes of CPU memory to copy from {source} to {target} through"))
    })?;
    let staging = Place { device: Device::CPU, data: piece.as_mut_ptr().cast(), byte_offset: 0 };
    let mut done = 0usize;
    while done < size {
        let len = room.min(size - done);
        // SAFETY: promised by the caller; the piece has `room` bytes, and copies with CPU memory
        // are complete when they return.
        unsafe {
            from.copy(forward(source, done)?, staging, len, stream_of(source))?;
            to.copy(staging, forward(target, done)?, len, stream_of(target))?;
        }
        done += len;
    }
    Ok(())
}

/// Returns the place `bytes` further on.
fn forward(place: Place, bytes: usize) -> Result<Place> {
    let byte_offset = u64::try_from(bytes).ok().and_then(|bytes| place.byte_offset.checked_add(bytes));
    match byte_offset {
        Some(byte_offset) => Ok(Place { byte_offset, ..place }),
        None => Err(crate::error!(
            ValueError,
            "byte {} behind the offset {} is outside of all memory of {}",
            bytes,
            place.byte_offset,
            place.device
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_memory_to_host_memory() {
        let (source, mut target) = ([7u8, 8, 9], [0u8; 3]);
        let place = |data: *mut u8, byte_offset| Place { device: Device::CPU, data: data.cast(), byte_offset };
        let (from, to) = (place(source.as_ptr().cast_mut(), 1), place(target.as_mut_ptr(), 0));
        // SAFETY: both have two bytes.
        unsafe { copy(from, to, 2).unwrap() };
        assert_eq!(target, [8, 9, 0]);
        // SAFETY: nothing is copied.
        unsafe {
            copy(from, Place { device: Device::new(device_type::METAL, 0), ..to }, 0).unwrap();
            let error = copy(from, Place { device: Device::new(device_type::METAL, 0), ..to }, 2).unwrap_err();
            assert!(error.message().starts_with("no library in this process provides metal devices; "), "{error}");
        }
        assert!(forward(place(core::ptr::null_mut(), u64::MAX), 1).is_err());
    }
}
