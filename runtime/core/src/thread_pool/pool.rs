//! The threads behind `TVMBackendParallelLaunch`: one pool per process, which grows to its size as
//! launches need it.
//!
//! A launch is offered to all workers, and its caller works on it, too: it never waits for a worker
//! that has not begun, so any number of threads can launch at the same time. Tasks that meet at a
//! barrier must run at the same time: if a task waits there and others are still unclaimed, because
//! every worker is busy or there are more tasks than workers, those tasks get their own threads. A
//! launch inside a task runs on the current thread, as one task.
//!
//! No existing crate does this: work-stealing pools do not guarantee that two tasks run at the same
//! time, which a barrier requires.

use core::ffi::{CStr, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use core::time::Duration;

use super::board::{Board, Joined};
use super::launch::{Launch, is_in_task};
use super::{Lambda, TVMParallelGroupEnv};
use crate::{Error, Result};

/// Time for which a thread spins, for new work or for the end of other threads' work, before it
/// sleeps. Longer than the pauses between a model's operators, because waking a thread takes some
/// 10 us.
const PATIENCE: Duration = Duration::from_millis(2);

/// Time for which a thread beyond the pool's size waits for work before it ends.
const LINGER: Duration = Duration::from_secs(1);

/// Upper limit of the environment variables.
const MOST_THREADS: u32 = 1 << 16;

/// Runs `lambda` as `num_task` tasks, or with 0 as one per thread of the pool, and returns when all
/// have ended.
///
/// # Errors
/// Returns the error that a task raised; see [`Launch::outcome`].
///
/// # Safety
/// `lambda` can be called with `data` for each task, on several threads at the same time.
pub(super) unsafe fn launch(lambda: Lambda, data: *mut c_void, num_task: i32) -> Result<()> {
    let Ok(tasks) = u32::try_from(num_task) else {
        return Err(crate::error!(ValueError, "the number of tasks of a parallel launch cannot be {num_task}"));
    };
    if is_in_task() {
        // SAFETY: promised by the caller.
        return unsafe { run_alone(lambda, data) };
    }
    // SAFETY: promised by the caller.
    unsafe { Pool::get().launch(lambda, data, tasks) }
}

/// Number of tasks of a launch from this thread that would run at the same time.
pub(super) fn threads() -> i32 {
    // The size came from a number of at most `MOST_THREADS`, or is the number of CPUs.
    if is_in_task() { 1 } else { Pool::get().size as i32 }
}

/// Runs `lambda` as the only task of a launch.
///
/// # Safety
/// `lambda` can be called with `data`.
unsafe fn run_alone(lambda: Lambda, data: *mut c_void) -> Result<()> {
    let mut environment = TVMParallelGroupEnv { sync_handle: ptr::null_mut(), num_task: 1 };
    // SAFETY: promised by the caller.
    match unsafe { lambda(0, &mut environment, data) } {
        0 => Ok(()),
        _ => Err(Error::take_raised()),
    }
}

/// The pool of the process; NULL until the first launch, and again in the child of a fork, which
/// does not have the threads.
static POOL: AtomicPtr<Pool> = AtomicPtr::new(ptr::null_mut());

/// The workers and the launches that are offered to them.
pub(super) struct Pool {
    board: Board<Launch>,
    /// Number of tasks that run at the same time: one on the caller's thread, the others on
    /// workers.
    size: u32,
    /// Maximum number of workers: `size - 1`, less if no more could be started.
    most_workers: AtomicU32,
    workers: AtomicU32,
    /// Zero if threads share CPUs: a spinning thread would then keep the others from working.
    patience: Duration,
}

impl Pool {
    fn get() -> &'static Self {
        let pool = POOL.load(Ordering::Acquire);
        if pool.is_null() {
            return Self::make();
        }
        // SAFETY: a pool lives forever.
        unsafe { &*pool }
    }

    #[cold]
    fn make() -> &'static Self {
        static WATCHES_FORKS: AtomicBool = AtomicBool::new(false);
        if !WATCHES_FORKS.swap(true, Ordering::Relaxed) {
            // SAFETY: the function may be called at any time; this artifact is never unloaded.
            #[cfg(unix)]
            unsafe {
                libc::pthread_atfork(None, None, Some(forget_pool));
            }
        }
        let cpus = cpus();
        let size = size(cpus, |name| {
            // SAFETY: the name is a C string; a concurrent change of the environment is a risk that
            // all C programs share.
            unsafe { libc::getenv(name.as_ptr()).as_ref().map(|value| CStr::from_ptr(value).to_bytes()) }
        });
        let patience = if size > cpus { Duration::ZERO } else { PATIENCE };
        let pool = Box::into_raw(Box::new(Self::new(size, patience)));
        match POOL.compare_exchange(ptr::null_mut(), pool, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: it is never freed from here on.
            Ok(_) => unsafe { &*pool },
            Err(theirs) => {
                // SAFETY: no other code has seen this thread's pool; the other thread's lives
                // forever.
                unsafe {
                    drop(Box::from_raw(pool));
                    &*theirs
                }
            }
        }
    }

    fn new(size: u32, patience: Duration) -> Self {
        Self { board: Board::new(), size, most_workers: AtomicU32::new(size - 1), workers: AtomicU32::new(0), patience }
    }

    /// Runs `lambda` as `tasks` tasks, or with 0 as one per thread, for a caller that is not in a
    /// task.
    ///
    /// # Safety
    /// As for [`launch`].
    unsafe fn launch(&'static self, lambda: Lambda, data: *mut c_void, tasks: u32) -> Result<()> {
        let tasks = if tasks == 0 { self.size } else { tasks };
        let Some(slot) = (if tasks > 1 { self.board.reserve() } else { None }) else {
            // SAFETY: promised by the caller.
            return unsafe { run_alone(lambda, data) };
        };
        let launch = Launch::new(lambda, data, tasks, self, slot);
        self.board.offer(slot, &launch);
        self.call_workers(tasks - 1);
        launch.run(0);
        launch.run_unclaimed();
        self.board.withdraw(slot, self.patience);
        launch.outcome()
    }

    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    pub(super) fn all_claimed(&self, slot: usize) {
        self.board.all_claimed(slot);
    }

    /// Makes up to `wanted` workers look at the launch that was just offered.
    fn call_workers(&'static self, wanted: u32) {
        let mut workers = self.workers.load(Ordering::Relaxed);
        while workers < wanted.min(self.most_workers.load(Ordering::Relaxed)) {
            match self.workers.compare_exchange(workers, workers + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Err(now) => workers = now,
                Ok(_) if start_thread(self, Role::Worker(workers)).is_ok() => workers += 1,
                // The system cannot start a thread: the running ones must suffice.
                Ok(_) => {
                    self.workers.fetch_sub(1, Ordering::Relaxed);
                    self.most_workers.fetch_min(workers, Ordering::Relaxed);
                }
            }
        }
        self.board.call(wanted);
    }

    /// Wakes up to `most` sleeping workers. Returns whether any were sleeping.
    pub(super) fn call_sleepers(&self, most: u32) -> bool {
        self.board.call(most)
    }

    /// Runs a claimed task of the launch in `slot` on its own thread.
    ///
    /// # Errors
    /// Returns the system's error number if no thread can be started; the task did not run then.
    ///
    /// # Safety
    /// The caller has joined the slot, or is its poster and has not withdrawn.
    #[cold]
    pub(super) unsafe fn run_on_new_thread(&'static self, slot: usize, task: u32) -> Result<(), i32> {
        // SAFETY: promised by the caller.
        let joined = unsafe { self.board.join_also(slot) };
        start_thread(self, Role::Extra(joined, task))
    }

    /// The loop of a worker: runs work, or waits for it. With a `linger`, it returns after waiting
    /// that long without work.
    fn work(&self, number: u32, linger: Option<Duration>) {
        loop {
            while let Some(joined) = self.board.join(number % u64::BITS) {
                joined.launch().run_unclaimed();
            }
            if !self.board.wait(self.patience, linger) {
                return;
            }
        }
    }
}

/// Runs in the child of a fork, whose first launch then creates a new pool. The old one's threads
/// do not exist there, and its state is arbitrary, so it is leaked.
unsafe extern "C" fn forget_pool() {
    POOL.store(ptr::null_mut(), Ordering::Release);
}

/// Returns the number of threads of a pool: `TVM_NUM_THREADS`, else `OMP_NUM_THREADS` (of a list,
/// the first), else one for each CPU that the thread may use. A variable that is not a positive
/// number is ignored.
fn size<'a>(cpus: u32, variable: impl Fn(&CStr) -> Option<&'a [u8]>) -> u32 {
    let asked = [c"TVM_NUM_THREADS", c"OMP_NUM_THREADS"].into_iter().find_map(|name| number(variable(name)?));
    asked.unwrap_or(cpus)
}

/// Returns the positive number at the start of a text.
fn number(text: &[u8]) -> Option<u32> {
    let text = text.trim_ascii();
    let (digits, rest) = text.split_at(text.iter().take_while(|byte| byte.is_ascii_digit()).count());
    if rest.first().is_some_and(|byte| *byte != b',') {
        return None;
    }
    let number =
        digits.iter().try_fold(0u32, |number, digit| number.checked_mul(10)?.checked_add(u32::from(digit - b'0')));
    number.filter(|number| (1..=MOST_THREADS).contains(number))
}

/// Number of CPUs that this thread, and the threads that it starts, may use.
#[cfg(not(target_os = "linux"))]
fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX))
}

/// Number of CPUs that this thread, and the threads that it starts, may use.
#[cfg(target_os = "linux")]
fn cpus() -> u32 {
    // SAFETY: the set is writable and has the given size; zeros are valid.
    let count = unsafe {
        let mut set: libc::cpu_set_t = core::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) == 0 {
            (0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &set)).count()
        } else {
            // The machine has more CPUs than the set has room for.
            libc::CPU_SETSIZE as usize
        }
    };
    count.max(1) as u32
}

/// The purpose of a new thread.
enum Role {
    /// A worker of the pool.
    Worker(u32),
    /// A thread that runs this task first, then helps as a worker as long as there is work.
    Extra(Joined<'static, Launch>, u32),
}

/// Starts a thread with the stack size of threads in C programs: compiled code may need more than
/// Rust's default. The error is the system's number.
#[cfg(not(unix))]
fn start_thread(pool: &'static Pool, role: Role) -> Result<(), i32> {
    // A failure without a system call is reported as -1.
    let start = Box::into_raw(Box::new((pool, role))).expose_provenance();
    let threads = std::thread::Builder::new().stack_size(8 << 20);
    // The thread takes ownership of the box. (If no thread starts, the box leaks, which is a few
    // bytes.)
    match threads.spawn(move || run_thread(core::ptr::with_exposed_provenance_mut(start)).addr()) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.raw_os_error().unwrap_or(-1)),
    }
}

/// Starts a thread, with the default stack size of C programs: compiled code may need more than
/// Rust's. The error is the system's number.
#[cfg(unix)]
fn start_thread(pool: &'static Pool, role: Role) -> Result<(), i32> {
    let start = Box::into_raw(Box::new((pool, role)));
    let mut thread = core::mem::MaybeUninit::uninit();
    // SAFETY: the function's type matches, and it takes ownership of the box; if no thread starts,
    // this function still owns it.
    unsafe {
        let status = libc::pthread_create(thread.as_mut_ptr(), ptr::null(), run_thread, start.cast());
        if status != 0 {
            drop(Box::from_raw(start));
            return Err(status);
        }
        libc::pthread_detach(thread.assume_init());
    }
    Ok(())
}

extern "C" fn run_thread(start: *mut c_void) -> *mut c_void {
    // SAFETY: `start_thread` transfers ownership of this box.
    let (pool, role) = *unsafe { Box::from_raw(start.cast::<(&'static Pool, Role)>()) };
    match role {
        Role::Worker(number) => {
            name_thread(&format!("kernpack-{}\0", number + 1));
            pool.work(number, None);
        }
        Role::Extra(joined, task) => {
            name_thread("kernpack-extra\0");
            joined.launch().run(task);
            joined.launch().run_unclaimed();
            drop(joined);
            pool.work(0, Some(LINGER));
        }
    }
    ptr::null_mut()
}

/// Names this thread for debuggers; `name` ends with a NUL and has at most 16 bytes.
fn name_thread(name: &str) {
    let Ok(name) = CStr::from_bytes_with_nul(name.as_bytes()) else { return };
    // SAFETY: the name is a C string, and the thread is this one.
    #[cfg(target_os = "linux")]
    unsafe {
        libc::pthread_setname_np(libc::pthread_self(), name.as_ptr());
    }
    // SAFETY: as above.
    #[cfg(target_vendor = "apple")]
    unsafe {
        libc::pthread_setname_np(name.as_ptr());
    }
    #[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
    let _ = name;
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use super::*;
    use crate::thread_pool::parallel_barrier;

    type Body<'a> = dyn Fn(u32, *mut TVMParallelGroupEnv) -> Result<()> + Sync + 'a;

    unsafe extern "C" fn call(task: i32, environment: *mut TVMParallelGroupEnv, data: *mut c_void) -> i32 {
        // SAFETY: the data is the reference that `run` passes.
        let body = unsafe { *data.cast::<&Body<'_>>() };
        crate::function::guard_nameless(|| body(task as u32, environment))
    }

    /// Runs a closure as `num_task` tasks.
    fn run(num_task: i32, body: &Body<'_>) -> Result<()> {
        // SAFETY: the closure can be called on several threads.
        unsafe { launch(call, (&raw const body).cast_mut().cast(), num_task) }
    }

    /// Like `run`, in a separate pool of this size.
    fn run_in(pool: &'static Pool, num_task: u32, body: &Body<'_>) -> Result<()> {
        // SAFETY: as above.
        unsafe { pool.launch(call, (&raw const body).cast_mut().cast(), num_task) }
    }

    fn pool(size: u32) -> &'static Pool {
        Box::leak(Box::new(Pool::new(size, PATIENCE)))
    }

    fn meet(environment: *mut TVMParallelGroupEnv) -> Result<()> {
        // SAFETY: it is the environment that the task received.
        Error::check(unsafe { parallel_barrier(0, environment) })
    }

    fn tasks(environment: *mut TVMParallelGroupEnv) -> u32 {
        // SAFETY: it is the environment that the task received.
        unsafe { (*environment).num_task as u32 }
    }

    #[test]
    fn sizes() {
        let check = |tvm: &'static str, omp: &'static str, expected| {
            let lookup = |name: &CStr| {
                let value = if name == c"TVM_NUM_THREADS" { tvm } else { omp };
                (value != "unset").then_some(value.as_bytes())
            };
            assert_eq!(size(6, lookup), expected, "TVM_NUM_THREADS={tvm} OMP_NUM_THREADS={omp}");
        };
        check("unset", "unset", 6);
        check("3", "unset", 3);
        check("3", "2", 3);
        check("unset", "2", 2);
        check("unset", " 8, 4,2", 8);
        check("", "", 6);
        check("0", "-1", 6);
        check("many", "2", 2);
        check("4x", "2", 2);
        check("4;2", ",3", 6);
        check("99999999999", "unset", 6);
    }

    #[test]
    fn every_task_runs_once() {
        for num_task in [1, 2, 3, 7, 100, 1000] {
            let seen = Mutex::new(Vec::new());
            run(num_task, &|task, environment| {
                assert_eq!(tasks(environment), num_task as u32);
                seen.lock().unwrap().push(task);
                Ok(())
            })
            .unwrap();
            let mut seen = seen.into_inner().unwrap();
            seen.sort_unstable();
            assert_eq!(seen, (0..num_task as u32).collect::<Vec<_>>());
        }
        let all = AtomicUsize::new(0);
        run(0, &|_, environment| {
            assert_eq!(tasks(environment), Pool::get().size);
            all.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
        .unwrap();
        assert_eq!(all.into_inner(), Pool::get().size as usize);
        let error = run(-1, &|_, _| Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "ValueError: the number of tasks of a parallel launch cannot be -1");
    }

    #[test]
    fn the_first_task_runs_on_the_caller() {
        let caller = thread::current().id();
        let threads = Mutex::new(HashSet::new());
        run(8, &|task, environment| {
            assert!(task != 0 || thread::current().id() == caller);
            // At the barrier, all eight run on their own threads.
            meet(environment)?;
            let name = std::fs::read_to_string("/proc/thread-self/comm")?;
            assert!(task == 0 || name.starts_with("kernpack-"), "{name}");
            threads.lock().unwrap().insert(thread::current().id());
            Ok(())
        })
        .unwrap();
        assert_eq!(threads.into_inner().unwrap().len(), 8);
    }

    #[test]
    fn the_barrier_keeps_phases_apart() {
        const PHASES: usize = 20;
        for size in [1, 2, 4, 9] {
            let pool = pool(size);
            for num_task in [0, 2, 3, 5, 16] {
                let arrived = AtomicUsize::new(0);
                run_in(pool, num_task, &|_, environment| {
                    for phase in 1..=PHASES {
                        arrived.fetch_add(1, Ordering::Relaxed);
                        meet(environment)?;
                        assert_eq!(arrived.load(Ordering::Relaxed), phase * tasks(environment) as usize);
                        meet(environment)?;
                    }
                    Ok(())
                })
                .unwrap();
            }
        }
    }

    #[test]
    fn the_barrier_does_not_wait_for_tasks_that_ended() {
        let met = AtomicUsize::new(0);
        run(6, &|task, environment| {
            // The odd ones leave one after the other; the last one never meets another task.
            for _ in 0..task {
                meet(environment)?;
                met.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(met.into_inner(), 1 + 2 + 3 + 4 + 5);
    }

    #[test]
    fn launches_inside_tasks_are_one_task() {
        let runs = AtomicUsize::new(0);
        run(3, &|_, _| {
            let outer = thread::current().id();
            run(5, &|task, environment| {
                assert_eq!((task, tasks(environment), thread::current().id()), (0, 1, outer));
                meet(environment)?;
                runs.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })
        })
        .unwrap();
        assert_eq!(runs.into_inner(), 3);
        let error = run(2, &|_, _| run(0, &|_, _| Err(Error::key_error("inside")))).unwrap_err();
        assert_eq!(error.to_string(), "KeyError: inside");
    }

    #[test]
    fn errors_reach_the_caller() {
        let kept = Error::with_backtrace("MyError", "task 3 says no", "  File \"k.c\", line 7, in f\n");
        let error = run(8, &|task, _| if task == 3 { Err(kept.clone()) } else { Ok(()) }).unwrap_err();
        assert_eq!((error.kind(), error.message()), ("MyError", "task 3 says no"));
        assert!(error.backtrace().starts_with(kept.backtrace()), "{error:?}");

        // An error that all tasks share is reported once.
        let error = run(64, &|_, _| Err(Error::value_error("n must be even"))).unwrap_err();
        assert_eq!(error.to_string(), "ValueError: n must be even");

        // Different errors: the lowest task's, and a few of the others.
        let fails = |task: u32, _: *mut TVMParallelGroupEnv| match task {
            2 | 5 => Err(crate::error!(ValueError, "at {task}")),
            7 => Err(crate::error!(TypeError, "seven")),
            _ => Ok(()),
        };
        assert_eq!(
            run(9, &fails).unwrap_err().to_string(),
            "ValueError: at 2\n(3 of 9 tasks failed; this was task 2, task 5 ValueError: at 5, task 7 TypeError: seven)"
        );
        let error = run(9, &|task, _| Err(crate::error!(ValueError, "at {task}"))).unwrap_err();
        assert_eq!(
            error.message(),
            "at 0\n(9 of 9 tasks failed; this was task 0, task 1 ValueError: at 1, task 2 ValueError: at 2, task 3 ValueError: at \
             3, ...)"
        );

        let error = run(4, &|_, _| panic!("a task panics")).unwrap_err();
        assert_eq!(error.kind(), "InternalError");
        assert!(error.message().ends_with("a task panics"), "{error}");
        run(4, &|_, _| Ok(())).unwrap();
    }

    #[test]
    fn a_failure_is_told_at_the_barrier() {
        let told = AtomicUsize::new(0);
        let error = run(5, &|task, environment| {
            if task == 1 {
                return Err(Error::value_error("one"));
            }
            let result = meet(environment);
            if let Err(error) = &result {
                assert_eq!(error.message(), "another task of this parallel launch failed");
                told.fetch_add(1, Ordering::Relaxed);
            }
            // Some tasks end with the error of the barrier, others ignore it.
            if task % 2 == 0 { result } else { Ok(()) }
        })
        .unwrap_err();
        assert_eq!((error.to_string(), told.into_inner()), ("ValueError: one".to_owned(), 4));
        let mut raised = ptr::null_mut();
        // SAFETY: the pointer is writable.
        unsafe { (crate::provider::api().error_move_from_raised)(&mut raised) };
        assert!(raised.is_null(), "nothing is left behind");
    }

    #[test]
    fn many_threads_launch_at_the_same_time() {
        const ROUNDS: i32 = 200;
        thread::scope(|scope| {
            for caller in 0..8 {
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let sum = AtomicUsize::new(0);
                        let num_task = 1 + (caller + round) % 5;
                        let has_barrier = (caller + round) % 3 == 0;
                        let outcome = run(num_task, &|task, environment| {
                            sum.fetch_add(1, Ordering::Relaxed);
                            if has_barrier {
                                meet(environment)?;
                                assert_eq!(sum.load(Ordering::Relaxed), num_task as usize);
                            }
                            crate::ensure!(round % 7 != 0 || task != 0, ValueError, "round {round} of {caller}");
                            Ok(())
                        });
                        assert_eq!(sum.into_inner(), num_task as usize);
                        match outcome {
                            Ok(()) => assert_ne!(round % 7, 0),
                            Err(error) => assert_eq!(error.message(), format!("round {round} of {caller}")),
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn more_launches_than_slots() {
        // Each caller is inside a task of its own launch until all are.
        let pool = pool(3);
        let inside = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..70 {
                scope.spawn(|| {
                    run_in(pool, 2, &|task, _| {
                        if task == 0 {
                            inside.fetch_add(1, Ordering::Relaxed);
                            while inside.load(Ordering::Relaxed) < 70 {
                                thread::yield_now();
                            }
                        }
                        Ok(())
                    })
                    .unwrap();
                });
            }
        });
    }

    #[test]
    fn threads_that_end_with_a_launch() {
        struct LaunchesAtEnd;
        impl Drop for LaunchesAtEnd {
            fn drop(&mut self) {
                run(3, &|_, _| Ok(())).unwrap();
            }
        }
        thread_local!(static LAST: LaunchesAtEnd = const { LaunchesAtEnd });
        thread::spawn(|| LAST.with(|_| ())).join().unwrap();
    }

    #[test]
    fn the_child_of_a_fork_has_a_pool_of_its_own() {
        run(4, &|_, environment| meet(environment)).unwrap();
        // SAFETY: the child only launches, and exits without destructors. The allocator's locks
        // survive a fork.
        unsafe {
            let child = libc::fork();
            assert!(child >= 0);
            if child == 0 {
                let done = AtomicUsize::new(0);
                let outcome = run(4, &|_, environment| {
                    done.fetch_add(1, Ordering::Relaxed);
                    meet(environment)
                });
                libc::_exit(if outcome.is_ok() && done.into_inner() == 4 { 42 } else { 1 });
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 42, "{status:x}");
        }
        run(4, &|_, environment| meet(environment)).unwrap();
    }
}
