//! The memory behind `TVMBackendAllocWorkspace`: blocks that compiled functions use briefly and
//! repeatedly. Blocks of devices other than the CPU come from the device's API.
//!
//! On the CPU each thread has its own blocks, so no lock is needed. A freed block is kept for the
//! next request, up to a limit; when the thread ends, all of its blocks are freed, including those
//! that a failing function did not free.

use core::cell::RefCell;
use core::ffi::{c_int, c_void};
use core::ptr::NonNull;
use std::alloc::{Layout, alloc, dealloc};

use crate::abi::device_type;
use crate::function::{caught, guard_nameless};
use crate::value::Device;
use crate::{Error, Result, device};

/// Alignment of every block. Compiled code relies on 64 bytes; two cache lines keep the
/// prefetcher's pairs apart.
const ALIGNMENT: usize = 128;

/// Sizes are multiples of this, so that requests of about the same size share blocks.
const PAGE: usize = 4096;

/// Limits of the memory that a thread keeps for reuse.
const KEPT_BYTES: usize = 256 << 20;
const KEPT_BLOCKS: usize = 64;

/// A block is not used for a request of less than its size divided by this.
const LARGEST_WASTE: usize = 8;

/// Blocks up to this size are used for any request.
const SMALL: usize = 32 * PAGE;

thread_local! {
    static WORKSPACES: RefCell<Workspaces> = const { RefCell::new(Workspaces::new()) };
}

/// `TVMBackendAllocWorkspace`: allocates temporary memory, aligned to 128 bytes. Returns NULL with
/// an error raised if memory runs out. The hints about its use are ignored.
pub(crate) extern "C" fn alloc_workspace(
    device_type: c_int,
    device_id: c_int,
    nbytes: u64,
    _dtype_code_hint: c_int,
    _dtype_bits_hint: c_int,
) -> *mut c_void {
    match caught(|| allocate(Device::new(device_type, device_id), nbytes)) {
        Ok(block) => block.as_ptr().cast(),
        Err(error) => {
            error.raise();
            core::ptr::null_mut()
        }
    }
}

/// `TVMBackendFreeWorkspace`: frees a block that this thread got from [`alloc_workspace`]. An
/// unknown address is an error, which devices other than the CPU may not detect.
///
/// # Safety
/// For a device other than the CPU, the block came from [`alloc_workspace`] for it, and is not used
/// any more.
pub(crate) unsafe extern "C" fn free_workspace(device_type: c_int, device_id: c_int, block: *mut c_void) -> c_int {
    // SAFETY: promised by the caller.
    guard_nameless(|| unsafe { free(Device::new(device_type, device_id), block.cast()) })
}

/// Allocates a block of at least `size` bytes for this thread; its content is undefined.
///
/// # Errors
/// Returns an error if no API serves the device, if memory runs out, or if the thread is ending.
fn allocate(device: Device, size: u64) -> Result<NonNull<u8>> {
    if device.device_type() != device_type::CPU {
        return allocate_there(device, size);
    }
    let block = WORKSPACES.try_with(|workspaces| workspaces.borrow_mut().allocate(size));
    block
        .map_err(|_| thread_ends())?
        .ok_or_else(|| crate::error!(MemoryError, "no memory for a workspace of {size} bytes"))
}

/// Frees a block that this thread got from [`allocate`].
///
/// # Errors
/// Returns an error if the address is not such a block, or was freed before. Another device's API
/// may not detect this.
///
/// # Safety
/// For a device other than the CPU, the address is such a block, and not used any more.
unsafe fn free(device: Device, address: *mut u8) -> Result<()> {
    if device.device_type() != device_type::CPU {
        // SAFETY: promised by the caller.
        return unsafe { device::api_of_another(device.device_type())?.free_workspace(device.index(), address.cast()) };
    }
    if WORKSPACES.try_with(|workspaces| workspaces.borrow_mut().free(address)).map_err(|_| thread_ends())? {
        return Ok(());
    }
    Err(crate::error!(ValueError, "{address:?} is not a workspace that this thread has allocated and not yet freed"))
}

/// Allocates a block of another device. Never returns NULL, which would mean a failure.
fn allocate_there(device: Device, size: u64) -> Result<NonNull<u8>> {
    let api = device::api_of_another(device.device_type())?;
    let short = || crate::error!(MemoryError, "no memory for a workspace of {size} bytes on {device}");
    let bytes = usize::try_from(size).map_err(|_| short())?.max(1);
    NonNull::new(api.allocate_workspace(device.index(), bytes)?.cast()).ok_or_else(short)
}

#[cold]
fn thread_ends() -> Error {
    Error::runtime_error("the workspaces of this thread are gone: it is ending")
}

/// A block of memory aligned to [`ALIGNMENT`].
struct Block {
    address: NonNull<u8>,
    size: usize,
}

impl Block {
    fn new(size: usize) -> Option<Self> {
        let layout = Layout::from_size_align(size, ALIGNMENT).ok()?;
        // SAFETY: sizes are at least a page.
        NonNull::new(unsafe { alloc(layout) }).map(|address| Self { address, size })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: the block came from `alloc` with this layout, which was valid then.
        unsafe { dealloc(self.address.as_ptr(), Layout::from_size_align_unchecked(self.size, ALIGNMENT)) }
    }
}

/// A thread's blocks.
struct Workspaces {
    /// Blocks in use, in the order of allocation: functions free the last one first.
    used: Vec<Block>,
    /// Free blocks, sorted by size.
    kept: Vec<Block>,
    kept_bytes: usize,
}

impl Workspaces {
    const fn new() -> Self {
        Self { used: Vec::new(), kept: Vec::new(), kept_bytes: 0 }
    }

    fn allocate(&mut self, size: u64) -> Option<NonNull<u8>> {
        let size = usize::try_from(size).ok()?.max(1).checked_next_multiple_of(PAGE)?;
        let block = match self.take_kept(size) {
            Some(block) => block,
            None => Block::new(size)?,
        };
        let address = block.address;
        self.used.push(block);
        Some(address)
    }

    /// Takes the smallest kept block that is large enough and not much too large.
    fn take_kept(&mut self, size: usize) -> Option<Block> {
        let position = self.kept.partition_point(|block| block.size < size);
        match self.kept.get(position) {
            Some(block) if block.size <= SMALL || block.size / LARGEST_WASTE <= size => {
                Some(self.remove_kept(position))
            }
            Some(_) => None,
            None => {
                // Requests have grown: the new block will also serve those of the largest one.
                if let Some(largest) = self.kept.len().checked_sub(1) {
                    drop(self.remove_kept(largest));
                }
                None
            }
        }
    }

    fn remove_kept(&mut self, position: usize) -> Block {
        let block = self.kept.remove(position);
        self.kept_bytes -= block.size;
        block
    }

    /// Frees a block; returns false if the address is not a used block's.
    fn free(&mut self, address: *mut u8) -> bool {
        let Some(position) = self.used.iter().rposition(|block| block.address.as_ptr() == address) else {
            return false;
        };
        let block = self.used.remove(position);
        let position = self.kept.partition_point(|kept| kept.size < block.size);
        self.kept_bytes += block.size;
        self.kept.insert(position, block);
        while self.kept_bytes > KEPT_BYTES || self.kept.len() > KEPT_BLOCKS {
            drop(self.remove_kept(self.kept.len() - 1));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(blocks: &[Block]) -> Vec<usize> {
        blocks.iter().map(|block| block.size / PAGE).collect()
    }

    #[test]
    fn blocks_are_used_again() {
        let mut workspaces = Workspaces::new();
        let pages = |pages: usize| (pages * PAGE) as u64;
        let first = workspaces.allocate(0).unwrap().as_ptr();
        let second = workspaces.allocate(pages(2) - 5).unwrap().as_ptr();
        let third = workspaces.allocate(pages(4) + 1).unwrap().as_ptr();
        for address in [first, second, third] {
            assert_eq!(address as usize % ALIGNMENT, 0);
            // SAFETY: the block has at least a byte.
            unsafe { address.write(7) };
        }
        assert_eq!(sizes(&workspaces.used), [1, 2, 5]);
        for address in [third, first, second] {
            assert!(workspaces.free(address));
            assert!(!workspaces.free(address), "it is free already");
        }
        assert!(!workspaces.free(core::ptr::without_provenance_mut(64)));
        assert!(!workspaces.free(core::ptr::null_mut()));
        assert_eq!((sizes(&workspaces.kept), workspaces.kept_bytes), (vec![1, 2, 5], 8 * PAGE));
        // The best fit.
        assert_eq!(workspaces.allocate(pages(2)).unwrap().as_ptr(), second);
        assert_eq!(workspaces.allocate(pages(2)).unwrap().as_ptr(), third);
        // No block fits: the largest kept block is freed.
        workspaces.allocate(pages(9)).unwrap();
        assert_eq!((sizes(&workspaces.kept), sizes(&workspaces.used)), (vec![], vec![2, 5, 9]));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut workspaces = Workspaces::new();
        let allocate = |workspaces: &mut Workspaces, count: usize, size: usize| -> Vec<_> {
            (0..count).map(|_| workspaces.allocate(size as u64).unwrap().as_ptr()).collect()
        };
        for address in allocate(&mut workspaces, 2 * KEPT_BLOCKS, PAGE) {
            assert!(workspaces.free(address));
        }
        assert_eq!(workspaces.kept.len(), KEPT_BLOCKS);
        let mut workspaces = Workspaces::new();
        // They are never written to, so they do not occupy memory.
        for address in allocate(&mut workspaces, 3, KEPT_BYTES / 2) {
            assert!(workspaces.free(address));
        }
        assert_eq!((workspaces.kept.len(), workspaces.kept_bytes), (2, KEPT_BYTES));
        // A small request does not get a huge block.
        workspaces.allocate(1).unwrap();
        assert_eq!((workspaces.kept.len(), sizes(&workspaces.used)), (2, vec![1]));
    }

    #[test]
    fn requests_that_cannot_be_served() {
        for size in [u64::MAX, isize::MAX as u64, u64::MAX - PAGE as u64] {
            let error = allocate(Device::CPU, size).unwrap_err();
            assert_eq!(error.to_string(), format!("MemoryError: no memory for a workspace of {size} bytes"));
        }
        let metal = Device::new(device_type::METAL, 1);
        let error = allocate(metal, 64).unwrap_err();
        let problem = "RuntimeError: no library in this process provides metal devices; ";
        assert!(error.to_string().starts_with(problem), "{error}");
        // SAFETY: none of these addresses is a block, so nothing is freed.
        let free = |device, address| unsafe { free(device, address) };
        assert!(free(metal, core::ptr::null_mut()).unwrap_err().to_string().starts_with(problem));
        let block = allocate(Device::CPU, 64).unwrap().as_ptr();
        let elsewhere = block as usize;
        std::thread::spawn(move || free(Device::CPU, elsewhere as *mut u8).unwrap_err()).join().unwrap();
        free(Device::CPU, block).unwrap();
        let error = free(Device::CPU, block).unwrap_err();
        let problem = "is not a workspace that this thread has allocated and not yet freed";
        assert_eq!(error.to_string(), format!("ValueError: {block:?} {problem}"));
    }
}
