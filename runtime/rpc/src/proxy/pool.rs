//! Servers that wait for clients, and clients that wait for servers, by key; each in order of
//! arrival. If a tracker assigns the servers to clients, clients do not wait: a client names a
//! match key, and the server of that key is either present or not.

use std::collections::{HashMap, VecDeque};
use std::os::fd::RawFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kernpack::Result;

use crate::guests::Guest;
use crate::line::Line;
use crate::tracker::{Claim, Registration};
use crate::wire::{Key, is_hung_up};

/// The interval at which the proxy checks that a waiting client is still there.
const LOOK: Duration = Duration::from_secs(1);

/// A server that waits for a client.
pub(super) struct Waiting {
    pub(super) line: Line,
    pub(super) key: Key,
    /// Dropped with the server.
    #[expect(dead_code, reason = "held as long as the server")]
    pub(super) guest: Guest,
    /// Its offer at a tracker.
    pub(super) registration: Option<Registration>,
}

/// The waiting servers and clients.
#[derive(Default)]
pub(super) struct Pool {
    state: Mutex<State>,
    /// Notified when a server comes, or a client goes.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_stopped: bool,
    servers: HashMap<String, VecDeque<Waiting>>,
    /// The numbers of the waiting clients of each key.
    clients: HashMap<String, VecDeque<u64>>,
    next: u64,
}

impl State {
    /// Returns a server of a key that is still connected.
    fn server(&mut self, key: &str) -> Option<Waiting> {
        let servers = self.servers.get_mut(key)?;
        let found = loop {
            match servers.pop_front() {
                Some(server) if is_hung_up(server.line.descriptor()) => drop(server),
                other => break other,
            }
        };
        if servers.is_empty() {
            let _ = self.servers.remove(key);
        }
        found
    }

    fn forget_client(&mut self, key: &str, client: u64) {
        if let Some(clients) = self.clients.get_mut(key) {
            clients.retain(|other| *other != client);
            if clients.is_empty() {
                let _ = self.clients.remove(key);
            }
        }
    }
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn waiting(&self) -> usize {
        self.lock().servers.values().map(VecDeque::len).sum()
    }

    /// Adds a waiting server; `register` begins to offer it at a tracker, whose clients then find
    /// it here.
    pub(super) fn offer(
        &self,
        mut server: Waiting,
        register: impl FnOnce(&Key) -> Result<Option<Registration>>,
    ) -> Result<()> {
        let mut state = self.lock();
        if !state.is_stopped {
            server.registration = register(&server.key)?;
            state.servers.entry(server.key.name.clone()).or_default().push_back(server);
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Returns a server of a key for a client; `None` when there is none in time, the client has
    /// gone, or the proxy stops. Without a deadline the wait is unlimited.
    pub(super) fn take(&self, key: &str, deadline: Option<Instant>, client: RawFd) -> Option<Waiting> {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.clients.entry(key.to_owned()).or_default().push_back(number);
        let found = loop {
            let is_first = state.clients.get(key).and_then(VecDeque::front) == Some(&number);
            if state.is_stopped {
                break None;
            }
            if is_first && let Some(server) = state.server(key) {
                break Some(server);
            }
            let left = deadline.map_or(LOOK, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() || is_hung_up(client) {
                break None;
            }
            state = self.changed.wait_timeout(state, left.min(LOOK)).unwrap_or_else(PoisonError::into_inner).0;
        };
        state.forget_client(key, number);
        // The next client may be served now.
        self.changed.notify_all();
        found
    }

    /// Returns the server that a tracker has assigned to a client under a match key, and the
    /// client's claim.
    pub(super) fn claim(&self, match_key: &str) -> Option<(Waiting, Claim)> {
        let mut state = self.lock();
        let (name, _) = match_key.rsplit_once(':')?;
        let servers = state.servers.get_mut(name)?;
        let claimed = servers.iter().enumerate().find_map(|(index, server)| {
            let claim = server.registration.as_ref()?.claim(match_key)?;
            Some((index, claim))
        });
        let (index, claim) = claimed?;
        let server = servers.remove(index)?;
        if servers.is_empty() {
            let _ = state.servers.remove(name);
        }
        (!is_hung_up(server.line.descriptor())).then_some((server, claim))
    }

    /// Waits, then removes servers that have gone; returns true unless the proxy stops.
    pub(super) fn sweep_after(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut state = self.lock();
        loop {
            if state.is_stopped {
                return false;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.servers.retain(|_, servers| {
            servers.retain(|server| !is_hung_up(server.line.descriptor()));
            !servers.is_empty()
        });
        true
    }

    /// Ends all waits, and the connections of waiting servers.
    pub(super) fn stop(&self) {
        let mut state = self.lock();
        state.is_stopped = true;
        state.servers.clear();
        self.changed.notify_all();
    }
}
