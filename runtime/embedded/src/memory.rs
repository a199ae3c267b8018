//! Memory with a given alignment.

use core::ffi::c_void;

/// Allocates memory; NULL if there is not enough. The alignment is a power of two and a multiple of
/// a pointer's size.
#[cfg(unix)]
pub fn aligned(size: usize, alignment: usize) -> *mut c_void {
    let mut start = core::ptr::null_mut();
    // SAFETY: `start` is writable; for invalid sizes the function returns an error.
    let status = unsafe { libc::posix_memalign(&raw mut start, alignment, size) };
    if status == 0 { start } else { core::ptr::null_mut() }
}

/// Allocates memory; NULL if there is not enough. The alignment is a power of two and a multiple of
/// a pointer's size.
#[cfg(not(unix))]
pub fn aligned(size: usize, alignment: usize) -> *mut c_void {
    // SAFETY: a plain call; for invalid sizes it returns NULL.
    unsafe { libc::aligned_malloc(size, alignment) }
}

/// Frees memory from [`aligned`].
///
/// # Safety
/// It was allocated by [`aligned`], and is not used any more.
pub unsafe fn free_aligned(start: *mut c_void) {
    #[cfg(unix)]
    // SAFETY: promised by the caller.
    unsafe {
        libc::free(start);
    }
    #[cfg(not(unix))]
    // SAFETY: as above.
    unsafe {
        libc::aligned_free(start);
    }
}
