//! The thread pool: the functions that compiled code calls for parallel loops, with the signatures
//! of Apache TVM's `c_backend_api.h`.
//!
//! Compiled libraries call these functions through context symbols: variables that the loader sets.

mod board;
mod launch;
mod pool;
mod progress;
mod signal;
mod sync;

use core::ffi::{c_int, c_void};

use self::launch::Launch;
use crate::function::caught;
use crate::{Error, Result};

/// The environment that a task of a parallel launch receives.
#[repr(C)]
pub(crate) struct TVMParallelGroupEnv {
    /// Handle for the barrier.
    sync_handle: *mut c_void,
    /// Number of tasks.
    num_task: i32,
}

/// A task: takes its number, its environment, and the data of the launch. Returns 0, or another
/// value with an error raised.
pub(crate) type Lambda =
    unsafe extern "C" fn(task_id: c_int, environment: *mut TVMParallelGroupEnv, data: *mut c_void) -> c_int;

/// `TVMBackendParallelLaunch`: runs `lambda` as `num_task` tasks, or with 0 as one per thread of
/// the pool. Returns -1 with an error raised if a task failed. Inside a task there is one task,
/// regardless of `num_task`: the number in the task's environment is the one that counts.
///
/// # Safety
/// `lambda` is NULL, or can be called with `data` for each task, on several threads at the same
/// time.
pub(crate) unsafe extern "C" fn parallel_launch(lambda: Option<Lambda>, data: *mut c_void, num_task: c_int) -> c_int {
    status(match lambda {
        // SAFETY: promised by the caller.
        Some(lambda) => unsafe { pool::launch(lambda, data, num_task) },
        None => Err(Error::value_error("a parallel launch needs a function")),
    })
}

/// Maximum number of threads of a launch from here, including the caller's own; 1 inside a task.
pub(crate) extern "C" fn parallel_threads() -> c_int {
    caught(|| Ok(pool::threads())).unwrap_or(1)
}

/// `TVMBackendParallelBarrier`: waits until all tasks of the launch are here or have ended. Returns
/// -1 with an error raised if one of them failed. A single task does not wait.
///
/// # Safety
/// `environment` is NULL or the one that the calling task received.
pub(crate) unsafe extern "C" fn parallel_barrier(_task_id: c_int, environment: *mut TVMParallelGroupEnv) -> c_int {
    // SAFETY: promised by the caller.
    let launch = unsafe { environment.as_ref().and_then(|environment| Launch::of_handle(environment.sync_handle)) };
    status(launch.map_or(Ok(()), Launch::barrier))
}

/// Converts a result to the status of a C function; raises the error.
fn status(result: Result<()>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => {
            error.raise();
            -1
        }
    }
}
