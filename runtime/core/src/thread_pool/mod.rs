//! The thread pool: what compiled functions call for parallel loops, with the signatures of Apache TVM's `c_backend_api.h`.
//!
//! Compiled libraries reach these functions through context symbols: variables that the loader sets.

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
    /// For the barrier.
    sync_handle: *mut c_void,
    /// Number of tasks.
    num_task: i32,
}

/// A task: its number, what it is told, and the data of the launch. 0, or another value with an error raised.
pub(crate) type Lambda =
    unsafe extern "C" fn(task_id: c_int, environment: *mut TVMParallelGroupEnv, data: *mut c_void) -> c_int;

/// `TVMBackendParallelLaunch`: runs `lambda` as `num_task` tasks, 0 for one on each thread of the pool. -1 with an error raised
/// when a task failed. Inside a task there is one task, whatever `num_task` says: what counts is the number that a task is told.
///
/// # Safety
/// `lambda` is NULL, or can be called with `data` for each task, on several threads at the same time.
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

/// `TVMBackendParallelBarrier`: waits until all tasks of the launch are here or have ended. -1 with an error raised when one
/// of them failed. A task that is alone does not wait.
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
