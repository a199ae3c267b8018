//! Queries of OpenCL objects: byte strings, read as numbers and texts.

use core::ffi::c_void;
use core::ptr::null_mut;

use opencl_sys::{cl_device_id, cl_int, cl_platform_id};

use super::library::{Failure, Library, cl_call};

/// Reads a value of unknown size: calls `ask(size, value, size_needed)` for the size first, then
/// for the value.
pub(crate) fn read(
    mut ask: impl FnMut(usize, *mut c_void, *mut usize) -> Result<(), Failure>,
) -> Result<Vec<u8>, Failure> {
    let mut size = 0;
    ask(0, null_mut(), &mut size)?;
    let mut value = vec![0u8; size];
    if size > 0 {
        ask(size, value.as_mut_ptr().cast(), null_mut())?;
    }
    Ok(value)
}

/// Reads a number of 4 or 8 bytes (or a handle).
pub(crate) fn number(value: &[u8]) -> Result<u64, Failure> {
    match *value {
        [a, b, c, d] => Ok(u32::from_ne_bytes([a, b, c, d]).into()),
        [a, b, c, d, e, f, g, h] => Ok(u64::from_ne_bytes([a, b, c, d, e, f, g, h])),
        _ => Err(Failure::Status(opencl_sys::CL_INVALID_VALUE)),
    }
}

/// Reads a text without the NUL at its end, and without surrounding spaces.
pub(crate) fn text(value: &[u8]) -> String {
    let end = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).trim().to_owned()
}

/// Queries a device.
///
/// # Safety
/// `device` is a device of the OpenCL library.
pub(crate) unsafe fn of_device(library: &Library, device: cl_device_id, what: u32) -> Result<Vec<u8>, Failure> {
    // SAFETY: promised by the caller; `read` passes writable places.
    read(|size, value, needed| unsafe { cl_call!(library, clGetDeviceInfo(device, what, size, value, needed)) })
}

/// Queries a platform.
///
/// # Safety
/// `platform` is a platform of the OpenCL library.
pub(crate) unsafe fn of_platform(library: &Library, platform: cl_platform_id, what: u32) -> Result<Vec<u8>, Failure> {
    // SAFETY: promised by the caller; `read` passes writable places.
    read(|size, value, needed| unsafe { cl_call!(library, clGetPlatformInfo(platform, what, size, value, needed)) })
}

/// Returns the handles of a list function: queries their number first, then the handles. A status
/// of `none` means an empty list.
pub(super) fn handles(
    none: cl_int,
    mut ask: impl FnMut(u32, *mut *mut c_void, *mut u32) -> Result<(), Failure>,
) -> Result<Vec<*mut c_void>, Failure> {
    let mut count = 0;
    match ask(0, null_mut(), &mut count) {
        Err(Failure::Status(status)) if status == none => return Ok(Vec::new()),
        outcome => outcome?,
    }
    let mut handles = vec![null_mut(); count as usize];
    if count > 0 {
        ask(count, handles.as_mut_ptr(), null_mut())?;
    }
    Ok(handles)
}
