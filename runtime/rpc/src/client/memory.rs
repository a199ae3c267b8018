//! Memory of servers that local tensors refer to.
//!
//! A tensor's `data` is a number that this table assigns, never an address: a number from elsewhere
//! (a stale tensor, one of another RPC implementation in the process) is not found, and is an
//! error. The numbers are odd, so that none is an aligned address by chance.

use core::ffi::c_void;
use core::ptr::without_provenance_mut;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use kernpack::{Device, Result, error};

use super::shared::{Free, Shared, lock};

/// A block of a server's memory. It keeps its session alive, and is freed with its last reference.
pub(super) struct Block {
    pub(super) shared: Arc<Shared>,
    /// The server's address of the block.
    pub(super) address: u64,
    /// The device that holds the block, as the server numbers its devices.
    pub(super) device: Device,
    free: Free,
}

static BLOCKS: LazyLock<Mutex<HashMap<usize, Arc<Block>>>> = LazyLock::new(Mutex::default);

impl Block {
    /// Registers a block that was allocated for this process; returns its number.
    pub(super) fn allocated(shared: &Arc<Shared>, device: Device, address: u64) -> *mut c_void {
        Self { shared: shared.clone(), address, device, free: Free::Memory(device, address) }.keep()
    }

    /// Registers the memory of a tensor of the server, which has the handle `tensor`; returns its
    /// number.
    pub(super) fn of_tensor(shared: &Arc<Shared>, device: Device, address: u64, tensor: u64) -> *mut c_void {
        Self { shared: shared.clone(), address, device, free: Free::Handle(tensor) }.keep()
    }

    fn keep(self) -> *mut c_void {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let number = NEXT.fetch_add(2, Ordering::Relaxed);
        lock(&BLOCKS).insert(number, Arc::new(self));
        without_provenance_mut(number)
    }

    /// Returns the block with a number.
    ///
    /// # Errors
    /// ValueError when there is none.
    pub(super) fn of(data: *mut c_void) -> Result<Arc<Self>> {
        lock(&BLOCKS).get(&data.addr()).cloned().ok_or_else(|| {
            error!(ValueError, "the tensor's memory is not known to this RPC client: the tensor was freed, or is one of another RPC implementation")
        })
    }

    /// Removes a number. The memory is freed when nothing uses it any more.
    pub(super) fn forget(data: *mut c_void) -> bool {
        // Outside the lock: freeing sends a request to the server.
        let block = lock(&BLOCKS).remove(&data.addr());
        block.is_some()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.shared.free(self.free);
    }
}
