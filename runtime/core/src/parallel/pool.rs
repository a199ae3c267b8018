//! The threads of parallel loops: one pool per process, regardless of the number of Kernpack
//! libraries in it. The same pool serves the parallel loops of the libraries that we load
//! ([`thread_pool`]).

use core::ffi::{c_int, c_void};

use crate::process_table::ProcessTable;
use crate::thread_pool::{self, Lambda};
use crate::{Error, Result};

/// The pool's interface, which libraries built from different versions share.
#[repr(C)]
struct PoolTable {
    /// Maximum number of threads of a launch from here, including the caller's own; 1 inside a
    /// task.
    threads: extern "C" fn() -> c_int,
    /// Like `TVMBackendParallelLaunch`: runs the function as `num_task` tasks and returns when all
    /// have ended; inside a task, as one task.
    launch: unsafe extern "C" fn(lambda: Option<Lambda>, data: *mut c_void, num_task: c_int) -> c_int,
}

static OWN: PoolTable = PoolTable { threads: thread_pool::parallel_threads, launch: thread_pool::parallel_launch };

// SAFETY: only libraries of this project register the name, with a table of this version's layout;
// they are never unloaded.
static TABLE: ProcessTable<PoolTable> =
    unsafe { ProcessTable::new("kernpack.parallel_pool_v1", &OWN, |_theirs, _own| {}) };

/// Number of threads that would run a loop that starts here, including the caller's own; 1 inside a
/// loop.
#[inline]
pub(super) fn threads() -> usize {
    usize::try_from((TABLE.get().threads)()).unwrap_or(1).max(1)
}

/// Runs `lambda` as up to `tasks` tasks, on this thread and on idle workers, and returns when all
/// have ended. It never waits for a worker that has not begun.
///
/// # Errors
/// Returns the pool's error: a task failed.
///
/// # Safety
/// `lambda` can be called with `data` for each task, on several threads at the same time.
#[inline]
pub(super) unsafe fn launch(lambda: Lambda, data: *mut c_void, tasks: usize) -> Result<()> {
    let tasks = c_int::try_from(tasks).unwrap_or(c_int::MAX);
    // SAFETY: promised by the caller.
    Error::check(unsafe { (TABLE.get().launch)(Some(lambda), data, tasks) })
}
