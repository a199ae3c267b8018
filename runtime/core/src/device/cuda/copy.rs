//! Copies between two places, at least one of which is CUDA memory.

use super::device::{CudaDevice, device};
use crate::Result;
use crate::abi::device_type;
use crate::device::{Place, RawStream};

/// CUDA's classification of a location.
#[derive(Clone, Copy)]
enum Side {
    /// Memory of a device.
    Device(&'static CudaDevice),
    /// Ordinary or pinned CPU memory.
    Host,
    /// Managed memory, which both the CPU and devices can access.
    Managed,
}

impl Side {
    fn of(place: &Place) -> Result<Self> {
        match place.device.device_type() {
            device_type::CUDA => device(place.device.index()).map(Self::Device),
            device_type::CUDA_MANAGED => Ok(Self::Managed),
            _ if place.device.is_host_accessible() => Ok(Self::Host),
            _ => {
                Err(crate::error!(RuntimeError, "CUDA cannot copy to or from {}; copy by way of the CPU", place.device))
            }
        }
    }
}

/// Copies `size` bytes; complete when this returns if one place is in CPU memory, else enqueued in
/// the stream.
///
/// # Safety
/// As for [`DeviceApi::copy`](crate::device::DeviceApi::copy).
pub(super) unsafe fn copy(source: Place, target: Place, size: usize, stream: RawStream) -> Result<()> {
    let (from, to) = (Side::of(&source)?, Side::of(&target)?);
    if size == 0 {
        return Ok(());
    }
    // The device that the stream belongs to: the target's, else the source's, else that of managed
    // memory.
    let gpu = match (from, to) {
        (_, Side::Device(gpu)) | (Side::Device(gpu), _) => gpu,
        _ => {
            let managed =
                [target, source].into_iter().find(|place| place.device.device_type() == device_type::CUDA_MANAGED);
            device(managed.map_or(0, |place| place.device.index()))?
        }
    };
    let driver = gpu.driver();
    let queue = stream.0.cast();
    let (source_address, target_address) = (source.address(), target.address());
    let (source_number, target_number) =
        (source_address.expose_provenance() as u64, target_address.expose_provenance() as u64);
    // The source's context as well, before this device's becomes current.
    let peer = match (from, to) {
        (Side::Device(from), Side::Device(to)) if from.index() != to.index() => {
            from.set_has_peers();
            to.set_has_peers();
            Some((from.context()?, to.context()?))
        }
        _ => None,
    };
    let _entered = gpu.enter()?;
    // SAFETY: the caller promises the bytes and the stream; the device's context is current.
    let status = unsafe {
        match (from, to) {
            (Side::Device(_), Side::Device(_)) => match peer {
                None => (driver.copy_on_device)(target_number, source_number, size, queue),
                Some((from, to)) => (driver.copy_to_peer)(target_number, to, source_number, from, size, queue),
            },
            (Side::Host, Side::Device(_)) => (driver.copy_to_device)(target_number, source_address, size, queue),
            (Side::Device(_), Side::Host) => (driver.copy_from_device)(target_address, source_number, size, queue),
            // The driver knows the location of such memory.
            _ => (driver.copy_anywhere)(target_number, source_number, size, queue),
        }
    };
    let check = |status| {
        let (source, target) = (source.device, target.device);
        driver.check(status, format_args!("{size} bytes cannot be copied from {source} to {target}"))
    };
    check(status)?;
    if source.device.is_host_accessible() || target.device.is_host_accessible() {
        // SAFETY: as above.
        check(unsafe { (driver.stream_synchronize)(queue) })?;
    }
    Ok(())
}
