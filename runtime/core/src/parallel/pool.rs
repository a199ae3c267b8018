//! The threads that parallel loops run on: one pool for the process, whatever number of libraries made with Kernpack it has, and the one that
//! serves the parallel loops of the libraries that we load ([`backend`]).
//!
//! The first artifact that needs it offers its own pool as the global function [`TABLE_FUNCTION`]; the others find it there.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::embedded::notice::notice;
use crate::function::Function;
use crate::module::backend::{self, Lambda};
use crate::{Error, Result, host};

/// The global function that returns the address of the process's [`PoolTable`].
const TABLE_FUNCTION: &str = "kernpack.parallel_pool_v1";

/// A pool as libraries built from different versions share it.
#[repr(C)]
struct PoolTable {
    /// How many threads a launch from here would have at most, the caller's own among them; 1 inside a task.
    threads: extern "C" fn() -> c_int,
    /// As `TVMBackendParallelLaunch`: runs the function as so many tasks and returns when all have ended; inside a task as one.
    launch: unsafe extern "C" fn(lambda: Option<Lambda>, data: *mut c_void, num_task: c_int) -> c_int,
}

/// This artifact's own pool, which serves until and unless another one is found.
static OWN: PoolTable = PoolTable { threads: backend::parallel_threads, launch: backend::parallel_launch };
static SHARED: AtomicPtr<PoolTable> = AtomicPtr::new(ptr::null_mut());

/// How many threads would work on a loop that starts here, the caller's own among them: 1 inside a loop.
pub(super) fn threads() -> usize {
    usize::try_from((table().threads)()).unwrap_or(1).max(1)
}

/// Runs `lambda` as up to `tasks` tasks, on this thread and on workers that have nothing else to do, and returns when all have ended.
/// It never waits for a worker that has not begun.
///
/// # Errors
/// What the pool reports: a task that failed.
///
/// # Safety
/// `lambda` can be called with `data` for each task, on several threads at the same time.
pub(super) unsafe fn launch(lambda: Lambda, data: *mut c_void, tasks: usize) -> Result<()> {
    let tasks = c_int::try_from(tasks).unwrap_or(c_int::MAX);
    // SAFETY: promised by the caller.
    Error::check(unsafe { (table().launch)(Some(lambda), data, tasks) })
}

fn table() -> &'static PoolTable {
    let shared = SHARED.load(Ordering::Acquire);
    if shared.is_null() {
        return find_table();
    }
    // SAFETY: only the address of a static of this layout is stored; libraries are never unloaded.
    unsafe { &*shared }
}

/// The process's pool, at the first loop after this artifact was bound; before that there is nobody to share with.
#[cold]
#[inline(never)]
fn find_table() -> &'static PoolTable {
    if host::bound().is_null() {
        return &OWN;
    }
    let address = share().unwrap_or_else(|error| {
        notice(format_args!("kernpack: {TABLE_FUNCTION}: {}", error.message()));
        ptr::from_ref(&OWN).cast_mut()
    });
    SHARED.store(address, Ordering::Release);
    // SAFETY: our own table, or that of another library, which is never unloaded.
    unsafe { &*address }
}

/// Finds the process's pool, or offers our own as it.
fn share() -> Result<*mut PoolTable> {
    let offered = match Function::get_global(TABLE_FUNCTION)? {
        Some(theirs) => theirs,
        None => {
            let ours = Function::from_fn(|| ptr::from_ref(&OWN).cast_mut().cast::<c_void>());
            // Another library may be quicker; then its pool is the one.
            let _ = Function::register_global(TABLE_FUNCTION, &ours);
            Function::global(TABLE_FUNCTION)?
        }
    };
    let address: *mut c_void = offered.call_as(())?;
    match address.is_null() {
        true => Err(crate::error!(RuntimeError, "the function returned NULL")),
        false => Ok(address.cast()),
    }
}
