//! What compiled functions call back for, beyond the C ABI: workspaces and parallel loops, with the signatures of Apache TVM's
//! `c_backend_api.h`.
//!
//! Compiled libraries reach these through context symbols ([`super::context`]): variables that the loader sets.

mod board;
mod launch;
mod progress;
mod signal;
mod sync;
mod thread_pool;
mod workspace;

use core::ffi::{CStr, c_int, c_void};
use core::ptr;

use self::launch::Launch;
use crate::function::caught;
use crate::value::Device;
use crate::{Error, Result};

/// What a task of a parallel launch is told.
#[repr(C)]
pub(crate) struct TVMParallelGroupEnv {
    /// For the barrier.
    sync_handle: *mut c_void,
    /// How many tasks there are.
    num_task: i32,
}

/// A task: its number, what it is told, and the data of the launch. 0, or another value with an error raised.
pub(crate) type Lambda =
    unsafe extern "C" fn(task_id: c_int, environment: *mut TVMParallelGroupEnv, data: *mut c_void) -> c_int;

/// The context symbols and their addresses.
pub(super) fn symbols() -> [(&'static CStr, *mut c_void); 4] {
    [
        (c"__TVMBackendAllocWorkspace", alloc_workspace as *mut c_void),
        (c"__TVMBackendFreeWorkspace", free_workspace as *mut c_void),
        (c"__TVMBackendParallelLaunch", parallel_launch as *mut c_void),
        (c"__TVMBackendParallelBarrier", parallel_barrier as *mut c_void),
    ]
}

/// `TVMBackendAllocWorkspace`: memory for a moment, aligned to 128 bytes. NULL with an error raised when there is none.
/// The hints say what it is for; nobody asks.
pub(crate) extern "C" fn alloc_workspace(
    device_type: c_int,
    device_id: c_int,
    nbytes: u64,
    _dtype_code_hint: c_int,
    _dtype_bits_hint: c_int,
) -> *mut c_void {
    match caught(|| workspace::allocate(Device::new(device_type, device_id), nbytes)) {
        Ok(block) => block.as_ptr().cast(),
        Err(error) => {
            error.raise();
            ptr::null_mut()
        }
    }
}

/// `TVMBackendFreeWorkspace`: takes back what this thread got from [`alloc_workspace`]. An unknown address is an error.
/// Other devices than the CPU may not notice.
///
/// # Safety
/// For another device than the CPU, the block came from [`alloc_workspace`] for it, and is not used any more.
pub(crate) unsafe extern "C" fn free_workspace(device_type: c_int, device_id: c_int, block: *mut c_void) -> c_int {
    // SAFETY: promised by the caller.
    status(caught(|| unsafe { workspace::free(Device::new(device_type, device_id), block.cast()) }))
}

/// `TVMBackendParallelLaunch`: runs `lambda` as `num_task` tasks, 0 for one on each thread of the pool. -1 with an error raised
/// when a task failed. Inside a task there is one task, whatever `num_task` says: what counts is the number that a task is told.
///
/// # Safety
/// `lambda` is NULL, or can be called with `data` for each task, on several threads at the same time.
pub(crate) unsafe extern "C" fn parallel_launch(lambda: Option<Lambda>, data: *mut c_void, num_task: c_int) -> c_int {
    status(match lambda {
        // SAFETY: promised by the caller.
        Some(lambda) => unsafe { thread_pool::launch(lambda, data, num_task) },
        None => Err(Error::value_error("a parallel launch needs a function")),
    })
}

/// How many threads a launch from here would have at most, the caller's own among them: 1 inside a task.
pub(crate) extern "C" fn parallel_threads() -> c_int {
    caught(|| Ok(thread_pool::threads())).unwrap_or(1)
}

/// `TVMBackendParallelBarrier`: waits until all tasks of the launch are here or have ended. -1 with an error raised when one
/// of them failed. A task that is alone waits for nobody.
///
/// # Safety
/// `environment` is NULL or what the calling task was given.
pub(crate) unsafe extern "C" fn parallel_barrier(_task_id: c_int, environment: *mut TVMParallelGroupEnv) -> c_int {
    // SAFETY: promised by the caller.
    let launch = unsafe { environment.as_ref().and_then(|environment| Launch::of_handle(environment.sync_handle)) };
    status(launch.map_or(Ok(()), Launch::barrier))
}

/// The status of a C function: raises what went wrong.
fn status(result: Result<()>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => {
            error.raise();
            -1
        }
    }
}
