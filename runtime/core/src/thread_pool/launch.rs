//! One parallel launch: its tasks, and the errors of those that failed.

use core::cell::Cell;
use core::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use super::pool::Pool;
use super::progress::Progress;
use super::sync::{AtomicBool, Ordering};
use super::{Lambda, TVMParallelGroupEnv};
use crate::{Error, Result};

/// Maximum number of distinct errors of one launch in its message.
const ERRORS_KEPT: usize = 4;

/// The activity of this thread.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doing {
    Nothing,
    /// The thread runs a task of a launch.
    Task,
    /// The thread runs a task to which the barrier has reported another task's failure: an error of
    /// this task is a consequence.
    ToldTask,
}

thread_local! {
    static DOING: Cell<Doing> = const { Cell::new(Doing::Nothing) };
}

/// Returns whether this thread runs a task of a launch.
pub(super) fn is_in_task() -> bool {
    DOING.get() != Doing::Nothing
}

/// A launch. It is stored on its caller's stack until every task has ended.
pub(super) struct Launch {
    lambda: Lambda,
    data: *mut c_void,
    pool: &'static Pool,
    /// Slot of the board in which the launch is offered.
    slot: usize,
    progress: Progress,
    has_failed: AtomicBool,
    failures: Mutex<Failures>,
}

// SAFETY: the launching code promises that the lambda may run on several threads with this data.
unsafe impl Sync for Launch {}

#[derive(Default)]
struct Failures {
    count: usize,
    /// The errors with the lowest task numbers, in ascending order.
    first: Vec<(u32, Error)>,
}

impl Launch {
    pub(super) fn new(lambda: Lambda, data: *mut c_void, tasks: u32, pool: &'static Pool, slot: usize) -> Self {
        Self {
            lambda,
            data,
            pool,
            slot,
            progress: Progress::new(tasks),
            has_failed: AtomicBool::new(false),
            failures: Mutex::default(),
        }
    }

    /// Returns the launch whose barrier has this handle; `None` for a lambda that runs alone.
    ///
    /// # Safety
    /// `handle` is the `sync_handle` that a task of this pool received, and the task is still
    /// running.
    pub(super) unsafe fn of_handle<'a>(handle: *mut c_void) -> Option<&'a Self> {
        // SAFETY: promised by the caller: the launch stays in place until its tasks have ended.
        unsafe { handle.cast::<Self>().as_ref() }
    }

    /// Runs tasks as long as there are unclaimed ones.
    pub(super) fn run_unclaimed(&self) {
        while let Some(task) = self.claim() {
            self.run(task);
        }
    }

    fn claim(&self) -> Option<u32> {
        let claim = self.progress.claim()?;
        if claim.is_last {
            self.pool.all_claimed(self.slot);
        }
        Some(claim.task)
    }

    /// Runs a claimed task.
    pub(super) fn run(&self, task: u32) {
        let handle = core::ptr::from_ref(self).cast_mut().cast();
        // The number of tasks was a positive `i32` originally.
        let mut environment = TVMParallelGroupEnv { sync_handle: handle, num_task: self.progress.tasks() as i32 };
        let before = DOING.replace(Doing::Task);
        // SAFETY: the launching code promises that the lambda can be called with this data, for
        // each task.
        let status = unsafe { (self.lambda)(task as i32, &mut environment, self.data) };
        let is_told = DOING.replace(before) == Doing::ToldTask;
        if is_told || status != 0 {
            let error = Error::take_raised();
            if !is_told {
                self.fail(task, error);
            }
        }
        self.progress.end();
    }

    #[cold]
    fn fail(&self, task: u32, error: Error) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.count += 1;
        let position = failures.first.partition_point(|(earlier, _)| *earlier < task);
        failures.first.insert(position, (task, error));
        failures.first.truncate(ERRORS_KEPT);
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// The barrier, called by a running task: waits for the other tasks that have not ended.
    ///
    /// # Errors
    /// Returns an error if another task failed: its work before the barrier may be missing.
    pub(super) fn barrier(&self) -> Result<()> {
        let call_others = || self.pool.call_sleepers(self.progress.tasks());
        self.progress.meet(self.pool.patience(), &call_others, &|| self.run_elsewhere());
        if !self.has_failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        DOING.set(Doing::ToldTask);
        Err(Error::runtime_error("another task of this parallel launch failed"))
    }

    /// Runs each unclaimed task on its own thread: the tasks at the barrier wait for it, and
    /// possibly no worker becomes free.
    #[cold]
    fn run_elsewhere(&self) {
        while let Some(task) = self.claim() {
            // SAFETY: the caller runs a task, so it has joined this launch or is its poster.
            if let Err(errno) = unsafe { self.pool.run_on_new_thread(self.slot, task) } {
                let tasks = self.progress.tasks();
                let error = crate::error!(
                    RuntimeError,
                    "the {tasks} tasks of a parallel launch meet at a barrier, so each needs a thread, but no more can be \
                     started (errno {errno}); set TVM_NUM_THREADS to a smaller number"
                );
                self.fail(task, error);
                self.progress.end();
            }
        }
    }

    /// The result of the launch, after every task has ended.
    pub(super) fn outcome(self) -> Result<()> {
        let failures = self.failures.into_inner().unwrap_or_else(PoisonError::into_inner);
        if failures.first.is_empty() { Ok(()) } else { Err(failures.join(self.progress.tasks())) }
    }
}

impl Failures {
    /// Returns the error of the lowest task. If other tasks failed with different errors, its
    /// message includes them.
    #[cold]
    fn join(self, tasks: u32) -> Error {
        let mut failures = self.first.into_iter();
        let Some((lowest, error)) = failures.next() else { return Error::internal_error("no task failed") };
        let text = error.to_string();
        let mut others = String::new();
        for (task, other) in failures {
            let other = other.to_string();
            if other != text {
                others.push_str(&format!(", task {task} {other}"));
            }
        }
        if others.is_empty() {
            return error;
        }
        let more = if self.count > ERRORS_KEPT { ", ..." } else { "" };
        let count = self.count;
        let message =
            format!("{}\n({count} of {tasks} tasks failed; this was task {lowest}{others}{more})", error.message());
        Error::with_backtrace(error.kind(), &message, error.backtrace())
    }
}
