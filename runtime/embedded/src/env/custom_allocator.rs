//! The process-wide allocator that a frontend may install for the objects that it wants to track.
//!
//! Nothing in the ABI's 0.1 series allocates through it yet, including our own objects; it is
//! stored for frontends that request it.

use core::ffi::c_void;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::abi::{TVMFFICustomAllocator, TVMFFIObjectAllocHeader};

/// The minimum number of bytes before a body: room for the header, with the alignment of `malloc`.
const PREFIX: usize = 16;

struct Builtin(TVMFFICustomAllocator);

// SAFETY: the allocator is never changed and its function may be called from any thread.
unsafe impl Sync for Builtin {}

static BUILTIN: Builtin = Builtin(TVMFFICustomAllocator { allocate: Some(allocate), context: core::ptr::null_mut() });

/// NULL represents the builtin allocator.
static CURRENT: AtomicPtr<TVMFFICustomAllocator> = AtomicPtr::new(core::ptr::null_mut());

/// The current allocator, never NULL.
pub fn current() -> *mut TVMFFICustomAllocator {
    let current = CURRENT.load(Ordering::Acquire);
    if current.is_null() { (&raw const BUILTIN.0).cast_mut() } else { current }
}

/// Installs an allocator, which must live as long as the process; NULL installs the builtin one
/// again.
pub fn install(allocator: *mut TVMFFICustomAllocator) {
    CURRENT.store(allocator, Ordering::Release);
}

/// The distance of the body from the start of the block and the ABI's header precede the body.
unsafe extern "C" fn allocate(size: usize, alignment: usize, _type_index: i32, _context: *mut c_void) -> *mut c_void {
    let distance = alignment.max(PREFIX);
    if !distance.is_power_of_two() {
        return failed(size, alignment);
    }
    let Some(total) = size.checked_add(distance) else { return failed(size, alignment) };
    let start = crate::memory::aligned(total, distance);
    if start.is_null() {
        return failed(size, alignment);
    }
    // SAFETY: the block has `distance` bytes, at least 16, in front of the body.
    unsafe {
        let body = start.byte_add(distance);
        body.cast::<usize>().sub(2).write(distance);
        body.cast::<TVMFFIObjectAllocHeader>().sub(1).write(TVMFFIObjectAllocHeader { delete_space: Some(free) });
        body
    }
}

#[cold]
fn failed(size: usize, alignment: usize) -> *mut c_void {
    let message = format!("cannot allocate {size} bytes aligned to {alignment}");
    crate::tables::raised::raise(b"MemoryError", message.as_bytes(), b"");
    core::ptr::null_mut()
}

unsafe extern "C" fn free(body: *mut c_void) {
    // SAFETY: only reachable through a header that `allocate` wrote, next to the distance.
    unsafe {
        let distance = body.cast::<usize>().sub(2).read();
        crate::memory::free_aligned(body.byte_sub(distance));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::dec_ref;
    use crate::tables::raised;

    #[test]
    fn builtin_and_installed() {
        // SAFETY: the builtin allocator may be called with anything; its blocks are freed through
        // their headers.
        unsafe {
            let builtin = current();
            let allocate = (*builtin).allocate.unwrap();
            for alignment in [1, 8, 16, 64, 4096] {
                let body = allocate(100, alignment, 128, (*builtin).context);
                assert!(body.addr().is_multiple_of(alignment.max(16)));
                body.cast::<u8>().write_bytes(0xaa, 100);
                let header = body.cast::<TVMFFIObjectAllocHeader>().sub(1).read();
                (header.delete_space.unwrap())(body);
            }
            assert!(allocate(usize::MAX - 8, 8, 128, core::ptr::null_mut()).is_null());
            dec_ref(raised::take_raised());
            let mut other = *builtin;
            install(&raw mut other);
            assert_eq!(current(), &raw mut other);
            install(core::ptr::null_mut());
            assert_eq!(current(), builtin);
        }
    }
}
