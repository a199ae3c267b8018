//! Launches of the thread pool: a thread that joins a launch has finished with it before the caller
//! continues, no thread sleeps through a call, and the barrier separates phases.

use core::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use self::board::Board;
use self::progress::Progress;
use crate::check_with_interruptions;

#[path = "../../../runtime/core/src/thread_pool/board.rs"]
mod board;
#[path = "../../../runtime/core/src/thread_pool/progress.rs"]
mod progress;
#[path = "../../../runtime/core/src/thread_pool/signal.rs"]
mod signal;

/// The counterpart of `runtime/core/src/thread_pool/sync.rs`.
mod sync {
    use core::time::Duration;

    use loom::sync::{Condvar, Mutex};

    pub(super) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

    pub(super) const SLOTS: usize = 1;

    loom::lazy_static! {
        /// The kernel's lock, and the sleeping threads.
        static ref KERNEL: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    /// The patience affects only time.
    pub(super) fn spin(_patience: Duration, is_so: &dyn Fn() -> bool) -> bool {
        is_so()
    }

    /// Timeouts expire immediately.
    pub(super) fn sleep(word: &AtomicU32, seen: u32, timeout: Option<Duration>) -> bool {
        if timeout.is_some() {
            return false;
        }
        let (lock, sleepers) = &*KERNEL;
        let guard = lock.lock().unwrap();
        if word.load(Ordering::Relaxed) == seen {
            drop(sleepers.wait(guard).unwrap());
        }
        true
    }

    pub(super) fn wake(_word: &AtomicU32, _most: u32) {
        let (lock, sleepers) = &*KERNEL;
        drop(lock.lock().unwrap());
        sleepers.notify_all();
    }
}

/// A launch whose tasks write one cell each. After it, its caller writes all cells.
struct Launch {
    progress: Progress,
    cells: Vec<UnsafeCell<u32>>,
}

// SAFETY: loom reports unordered accesses.
unsafe impl Sync for Launch {}

impl Launch {
    fn new(tasks: u32) -> Self {
        Self { progress: Progress::new(tasks), cells: (0..tasks).map(|_| UnsafeCell::new(0)).collect() }
    }

    fn write(&self, task: u32, value: u32) {
        // SAFETY: as above.
        self.cells[task as usize].with_mut(|cell| unsafe { *cell = value });
    }

    fn read(&self, task: u32) -> u32 {
        // SAFETY: as above.
        self.cells[task as usize].with(|cell| unsafe { *cell })
    }

    /// Waits at the barrier for tasks that others must claim.
    fn meet(&self) {
        self.progress.meet(Duration::ZERO, &|| false, &|| ());
    }

    /// Claims and runs tasks, as workers and the caller do.
    fn run_unclaimed(&self, board: &Board<Self>, slot: usize) {
        while let Some(claim) = self.progress.claim() {
            if claim.is_last {
                board.all_claimed(slot);
            }
            self.write(claim.task, 1);
            self.progress.end();
        }
    }
}

/// Offers a launch of some tasks in the only slot, works on it, and writes all cells when it is
/// over. Does nothing if the slot is taken.
fn launch(board: &Board<Launch>, tasks: u32) {
    let launch = Launch::new(tasks);
    let Some(slot) = board.reserve() else { return };
    board.offer(slot, &launch);
    board.call(tasks - 1);
    launch.write(0, 1);
    launch.progress.end();
    launch.run_unclaimed(board, slot);
    board.withdraw(slot, Duration::ZERO);
    for task in 0..tasks {
        assert_eq!(launch.read(task), 1);
        launch.write(task, 2);
    }
}

/// A worker looks for work while its caller offers several launches in the same slot.
pub fn launches_and_a_worker() {
    check_with_interruptions(3, || {
        let board = Arc::new(Board::<Launch>::new());
        let worker = thread::spawn({
            let board = Arc::clone(&board);
            move || {
                for _ in 0..2 {
                    if let Some(joined) = board.join(0) {
                        joined.launch().run_unclaimed(&board, 0);
                    }
                }
            }
        });
        launch(&board, 2);
        launch(&board, 2);
        worker.join().unwrap();
    });
}

/// Two workers and a caller share the tasks.
pub fn a_launch_and_two_workers() {
    check_with_interruptions(2, || {
        let board = Arc::new(Board::<Launch>::new());
        let workers = [1, 2].map(|_| {
            let board = Arc::clone(&board);
            thread::spawn(move || {
                if let Some(joined) = board.join(0) {
                    joined.launch().run_unclaimed(&board, 0);
                }
            })
        });
        launch(&board, 3);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

/// Two callers use the slot one after the other, if they do not run at once, while a worker looks
/// for work.
pub fn two_callers_and_a_worker() {
    check_with_interruptions(2, || {
        let board = Arc::new(Board::<Launch>::new());
        let worker = thread::spawn({
            let board = Arc::clone(&board);
            move || {
                if let Some(joined) = board.join(0) {
                    joined.launch().run_unclaimed(&board, 0);
                }
            }
        });
        let caller = thread::spawn({
            let board = Arc::clone(&board);
            move || launch(&board, 2)
        });
        launch(&board, 2);
        caller.join().unwrap();
        worker.join().unwrap();
    });
}

/// A worker sleeps, or is about to, when a launch needs it: the caller waits for it at the barrier.
pub fn a_worker_that_sleeps() {
    check_with_interruptions(3, || {
        let board = Arc::new(Board::<Launch>::new());
        let worker = thread::spawn({
            let board = Arc::clone(&board);
            move || {
                assert!(board.wait(Duration::ZERO, None));
                let joined = board.join(0).expect("no other code takes the task");
                let launch = joined.launch();
                let claim = launch.progress.claim().expect("as above");
                board.all_claimed(0);
                launch.write(claim.task, 1);
                launch.meet();
                assert_eq!(launch.read(0), 1);
                launch.progress.end();
            }
        });
        let launch = Launch::new(2);
        let slot = board.reserve().expect("the slot is free");
        board.offer(slot, &launch);
        board.call(1);
        launch.write(0, 1);
        launch.meet();
        assert_eq!(launch.read(1), 1);
        launch.progress.end();
        board.withdraw(slot, Duration::ZERO);
        launch.write(0, 2);
        launch.write(1, 2);
        worker.join().unwrap();
    });
}

/// Tasks write, meet at the barrier, read what the others wrote, meet, and write again.
pub fn phases() {
    check_with_interruptions(2, || {
        let launch = Arc::new(Launch::new(2));
        let task = |launch: &Launch, task: u32| {
            for phase in 1..3 {
                launch.write(task, phase);
                launch.meet();
                assert_eq!(launch.read(1 - task), phase);
                launch.meet();
            }
            launch.progress.end();
        };
        let other = thread::spawn({
            let launch = Arc::clone(&launch);
            move || task(&launch, 1)
        });
        task(&launch, 0);
        other.join().unwrap();
    });
}

/// One of three tasks ends without reaching the barrier: the others meet, and see its writes.
pub fn a_task_that_ends_early() {
    check_with_interruptions(2, || {
        let launch = Arc::new(Launch::new(3));
        let meets = |launch: &Launch, task: u32| {
            launch.write(task, 1);
            launch.meet();
            assert_eq!(launch.read(2), 1);
            launch.progress.end();
        };
        let threads = [
            thread::spawn({
                let launch = Arc::clone(&launch);
                move || meets(&launch, 1)
            }),
            thread::spawn({
                let launch = Arc::clone(&launch);
                move || {
                    launch.write(2, 1);
                    launch.progress.end();
                }
            }),
        ];
        meets(&launch, 0);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
