//! The progress of the tasks of one parallel launch: which are claimed, which have ended, which
//! wait at the barrier.

use core::time::Duration;

use super::signal::Signal;
use super::sync::{AtomicU32, AtomicU64, Ordering, spin};

/// Time for which a barrier waits for workers that are awake.
const HASTE: Duration = Duration::from_micros(100);

/// Time for which a barrier waits for sleeping workers to arrive: longer than they need, unless
/// they are called elsewhere.
const GRACE: Duration = Duration::from_millis(5);

/// One task, in both halves of [`Progress::standing`].
const ONE: u64 = (1 << 32) | 1;

/// The tasks of a launch, by number. Every task is claimed once, and the claiming thread runs it to
/// its end.
pub(super) struct Progress {
    tasks: u32,
    /// The lowest unclaimed task number.
    next: AtomicU32,
    standing: Standing,
    /// Advances when the barrier opens.
    opened: Signal,
}

/// Upper half: number of tasks that have not ended. Lower half: number of those that are not at the
/// barrier. On its own cache line, because all tasks change it while those at the barrier watch the
/// signal.
#[repr(align(64))]
struct Standing(AtomicU64);

/// A claimed task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    /// Number of the task.
    pub(super) task: u32,
    /// True if this is the last task.
    pub(super) is_last: bool,
}

impl Progress {
    /// Creates the progress of `tasks` tasks. Task 0 is already claimed, for the creator.
    pub(super) fn new(tasks: u32) -> Self {
        Self {
            tasks,
            next: AtomicU32::new(1),
            standing: Standing(AtomicU64::new(ONE * u64::from(tasks))),
            opened: Signal::new(),
        }
    }

    pub(super) fn tasks(&self) -> u32 {
        self.tasks
    }

    /// Claims the next task.
    pub(super) fn claim(&self) -> Option<Claim> {
        // Checking first keeps the counter from growing without limit.
        if !self.has_unclaimed() {
            return None;
        }
        let task = self.next.fetch_add(1, Ordering::Relaxed);
        (task < self.tasks).then_some(Claim { task, is_last: task == self.tasks - 1 })
    }

    pub(super) fn has_unclaimed(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.tasks
    }

    /// Records that a claimed task has ended. The barrier does not wait for it from now on.
    pub(super) fn end(&self) {
        let before = self.standing.0.fetch_sub(ONE, Ordering::AcqRel);
        let left = before - ONE;
        if left != 0 && left as u32 == 0 {
            self.open(left);
        }
    }

    /// The barrier: returns when every task has arrived or has ended. As long as some are
    /// unclaimed, other threads must run them: `call_others` returns whether other threads may
    /// come, and `run_unclaimed` must ensure that all tasks run.
    pub(super) fn meet(&self, patience: Duration, call_others: &dyn Fn() -> bool, run_unclaimed: &dyn Fn()) {
        let seen = self.opened.count();
        let left = self.standing.0.fetch_sub(1, Ordering::AcqRel) - 1;
        if left as u32 == 0 {
            return self.open(left);
        }
        let is_open = || self.opened.count() != seen;
        if self.has_unclaimed() && !spin(patience.min(HASTE), &is_open) && self.has_unclaimed() {
            let is_met = call_others() && self.opened.wait(Duration::ZERO, Some(GRACE), &is_open);
            if !is_met {
                run_unclaimed();
            }
        }
        self.opened.wait(patience, None, &is_open);
    }

    /// Opens the barrier. All tasks that have not ended are at it, so no other thread changes
    /// `standing` until the signal advances.
    fn open(&self, standing: u64) {
        let here = standing & !u64::from(u32::MAX);
        self.standing.0.store(here | here >> 32, Ordering::Relaxed);
        self.opened.advance();
    }
}
