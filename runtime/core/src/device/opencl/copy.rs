//! Copies from, to and between OpenCL devices.

use core::ffi::c_void;
use core::ptr::{self, null_mut};

use opencl_sys::{CL_MAP_READ, CL_TRUE, cl_command_queue};

use super::device::OpenClDevice;
use super::library::{Failure, cl_call, cl_make};
use crate::Result;
use crate::device::{Place, RawStream};

/// Maximum number of bytes that are mapped at a time for a copy between two devices.
const PIECE: usize = 64 << 20;

/// Copies CPU memory to a device; complete on return.
///
/// # Safety
/// Both places have `size` bytes; the stream belongs to the device.
pub(super) unsafe fn upload(
    source: Place,
    target: Place,
    device: &OpenClDevice,
    size: usize,
    stream: RawStream,
) -> Result<()> {
    let queue = device.queue(stream)?;
    // SAFETY: promised by the caller.
    unsafe { write(device, queue, source.address(), target, 0, size) }
        .map_err(|why| device.failed(format_args!("{size} bytes cannot be copied to it"), why))
}

/// Writes bytes at offset `at` of a place; blocking.
///
/// # Safety
/// There are `size` bytes at `bytes`, and after `at` bytes in the place; the queue belongs to the
/// device.
unsafe fn write(
    device: &OpenClDevice,
    queue: cl_command_queue,
    bytes: *const c_void,
    target: Place,
    at: usize,
    size: usize,
) -> Result<(), Failure> {
    let offset = target.byte_offset as usize + at;
    // SAFETY: promised by the caller; blocking, so the bytes are not used afterwards.
    unsafe {
        cl_call!(
            device.library(),
            clEnqueueWriteBuffer(queue, target.data, CL_TRUE, offset, size, bytes, 0, ptr::null(), null_mut())
        )
    }
}

/// Copies from a device to CPU memory; complete on return.
///
/// # Safety
/// Both places have `size` bytes; the stream belongs to the device.
pub(super) unsafe fn download(
    source: Place,
    target: Place,
    device: &OpenClDevice,
    size: usize,
    stream: RawStream,
) -> Result<()> {
    let queue = device.queue(stream)?;
    let offset = source.byte_offset as usize;
    // SAFETY: promised by the caller.
    let outcome = unsafe {
        cl_call!(
            device.library(),
            clEnqueueReadBuffer(
                queue,
                source.data,
                CL_TRUE,
                offset,
                size,
                target.address(),
                0,
                ptr::null(),
                null_mut()
            )
        )
    };
    outcome.map_err(|why| device.failed(format_args!("{size} bytes cannot be copied from it"), why))
}

/// Copies within a device, in the stream.
///
/// # Safety
/// Both places have `size` bytes, which do not overlap; the stream belongs to the device.
pub(super) unsafe fn within(
    source: Place,
    target: Place,
    device: &OpenClDevice,
    size: usize,
    stream: RawStream,
) -> Result<()> {
    let queue = device.queue(stream)?;
    let (from, to) = (source.byte_offset as usize, target.byte_offset as usize);
    // SAFETY: promised by the caller.
    let outcome = unsafe {
        cl_call!(
            device.library(),
            clEnqueueCopyBuffer(queue, source.data, target.data, from, to, size, 0, ptr::null(), null_mut())
        )
    };
    outcome.map_err(|why| device.failed(format_args!("{size} bytes cannot be copied within it"), why))
}

/// Copies between two devices. They have separate contexts, so the bytes go through CPU memory, in
/// pieces. The copy runs after the work in the default stream of the source's device, and is
/// complete on return.
///
/// # Safety
/// Both places have `size` bytes; the stream belongs to the target's device.
pub(super) unsafe fn between(
    source: Place,
    source_device: &OpenClDevice,
    target: Place,
    target_device: &OpenClDevice,
    size: usize,
    stream: RawStream,
) -> Result<()> {
    let library = source_device.library();
    let (from_queue, to_queue) = (source_device.queue(RawStream::DEFAULT)?, target_device.queue(stream)?);
    let mut done = 0;
    while done < size {
        let piece = PIECE.min(size - done);
        let offset = source.byte_offset as usize + done;
        // SAFETY: the source has these bytes.
        let mapped = unsafe {
            cl_make!(
                library,
                clEnqueueMapBuffer(
                    from_queue,
                    source.data,
                    CL_TRUE,
                    CL_MAP_READ,
                    offset,
                    piece,
                    0,
                    ptr::null(),
                    null_mut()
                )
            )
        };
        let mapped =
            mapped.map_err(|why| source_device.failed(format_args!("{piece} bytes cannot be copied from it"), why))?;
        // SAFETY: OpenCL mapped that many bytes, and the target has room for them.
        let written = unsafe { write(target_device, to_queue, mapped, target, done, piece) };
        // SAFETY: mapped above, and not used any more.
        let unmapped = unsafe {
            cl_call!(library, clEnqueueUnmapMemObject(from_queue, source.data, mapped, 0, ptr::null(), null_mut()))
        };
        written.map_err(|why| target_device.failed(format_args!("{piece} bytes cannot be copied to it"), why))?;
        unmapped.map_err(|why| source_device.failed(format_args!("{piece} bytes cannot be copied from it"), why))?;
        done += piece;
    }
    Ok(())
}
