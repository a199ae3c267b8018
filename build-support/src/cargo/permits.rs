//! Limits the number of tools that run at a time to the number that cargo allows.
//!
//! A process that cargo starts may run one task for free. Each further task needs a token from the
//! jobserver that cargo shares with all its processes. Without a jobserver, `NUM_JOBS` is the
//! limit.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jobserver::{Acquired, Client, HelperThread};

/// A limit on the number of running tools, with one permit for each tool.
pub(crate) struct Permits {
    shared: Arc<Shared>,
    /// Requests tokens from the jobserver without blocking this thread. `None` if there is no
    /// jobserver.
    helper: Option<Mutex<HelperThread>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Permits that need no token and are unused.
    free: usize,
    /// Tokens that were received and are unused.
    tokens: VecDeque<Acquired>,
    waiting: usize,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a token from the jobserver. If the jobserver fails, all steps share the one permit that
    /// needs no token.
    fn token(&self, token: io::Result<Acquired>) {
        let Ok(token) = token else { return };
        let mut state = self.state();
        // If no thread is waiting any more, dropping the token returns it.
        if state.waiting > 0 {
            state.tokens.push_back(token);
        }
        drop(state);
        self.changed.notify_all();
    }
}

impl Permits {
    /// Uses the jobserver that cargo passed to this process, or the limit `jobs` without one.
    pub(crate) fn of_process(jobs: usize) -> Self {
        // SAFETY: cargo passes the descriptors of its jobserver to build scripts, and nothing else
        // in this process opens descriptors of these numbers. Nothing is read or written before the
        // first request.
        let client = unsafe { Client::from_env() };
        match client {
            Some(client) => Self::of_jobserver(client, jobs),
            None => Self::of_number(jobs),
        }
    }

    /// Allows at most `jobs` tools at a time.
    pub(crate) fn of_number(jobs: usize) -> Self {
        let shared = Arc::new(Shared::default());
        shared.state().free = jobs.max(1);
        Self { shared, helper: None }
    }

    fn of_jobserver(client: Client, jobs: usize) -> Self {
        let shared = Arc::new(Shared::default());
        // The one permit that this process has without a token.
        shared.state().free = 1;
        let sink = Arc::clone(&shared);
        match client.into_helper_thread(move |token| sink.token(token)) {
            Ok(helper) => Self { shared, helper: Some(Mutex::new(helper)) },
            Err(_) => Self::of_number(jobs),
        }
    }

    /// Waits until a tool may run.
    pub(crate) fn acquire(&self) -> Permit<'_> {
        loop {
            // The jobserver may have no token for as long as other builds run.
            if let Some(permit) = self.acquire_within(Duration::from_secs(3600)) {
                return permit;
            }
        }
    }

    /// Returns up to `count` permits that are available immediately.
    pub(crate) fn try_acquire(&self, count: usize) -> Vec<Permit<'_>> {
        // Not every system allows a non-blocking request to the jobserver, but an available token
        // arrives quickly.
        std::iter::from_fn(|| self.acquire_within(Duration::from_millis(5))).take(count).collect()
    }

    fn acquire_within(&self, limit: Duration) -> Option<Permit<'_>> {
        let end = Instant::now() + limit;
        let mut state = self.shared.state();
        if let Some(permit) = self.take(&mut state) {
            return Some(permit);
        }
        state.waiting += 1;
        if let Some(helper) = &self.helper {
            helper.lock().unwrap_or_else(PoisonError::into_inner).request_token();
        }
        let permit = loop {
            let left = end.saturating_duration_since(Instant::now());
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            match self.take(&mut state) {
                None if Instant::now() < end => {}
                permit => break permit,
            }
        };
        state.waiting -= 1;
        if state.waiting == 0 {
            // Dropping the tokens returns them.
            state.tokens.clear();
        }
        permit
    }

    fn take(&self, state: &mut State) -> Option<Permit<'_>> {
        if state.free > 0 {
            state.free -= 1;
            return Some(Permit { permits: self, token: None });
        }
        state.tokens.pop_front().map(|token| Permit { permits: self, token: Some(token) })
    }
}

/// A permit to run one tool while this value is alive.
pub(crate) struct Permit<'a> {
    permits: &'a Permits,
    token: Option<Acquired>,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut state = self.permits.shared.state();
        match self.token.take() {
            None => state.free += 1,
            Some(token) if state.waiting > 0 => state.tokens.push_back(token),
            // Dropping the token returns it to the jobserver.
            Some(_) => {}
        }
        drop(state);
        self.permits.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    /// Returns the maximum number of permits in use at a time when eight threads take ten each.
    fn most_at_a_time(permits: &Permits) -> usize {
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let _permit = permits.acquire();
                        most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        thread::sleep(Duration::from_millis(1));
                        running.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        most.into_inner()
    }

    /// Calls `attempt` until its result satisfies `wanted`, and returns that result.
    fn until<T>(attempt: impl Fn() -> T, wanted: impl Fn(&T) -> bool) -> T {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let found = attempt();
            if wanted(&found) {
                return found;
            }
            assert!(Instant::now() < end);
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn never_more_than_cargo_allows() {
        assert_eq!(most_at_a_time(&Permits::of_number(1)), 1);
        assert!(most_at_a_time(&Permits::of_number(3)) <= 3);
        // Two tokens and the permit that every process has.
        let client = Client::new(2).unwrap();
        let permits = Permits::of_jobserver(client.clone(), 8);
        assert!(most_at_a_time(&permits) <= 3);
        drop(permits);
        assert_eq!(client.available().unwrap(), 2, "every token is back");
    }

    #[test]
    fn more_permits_without_waiting() {
        let permits = Permits::of_number(3);
        let one = permits.acquire();
        assert_eq!(permits.try_acquire(8).len(), 2);
        drop(one);
        let client = Client::new(2).unwrap();
        let permits = Permits::of_jobserver(client.clone(), 8);
        let one = permits.acquire();
        // On a busy machine the jobserver's response takes longer than an attempt. A token that
        // arrives too late is returned.
        let more = until(|| permits.try_acquire(1), |more| more.len() == 1);
        until(|| client.available().unwrap(), |left| *left == 1);
        drop((one, more));
        until(|| client.available().unwrap(), |left| *left == 2);
    }
}
