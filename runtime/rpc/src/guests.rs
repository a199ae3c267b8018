//! The connections of a tracker or proxy: how many there are, and which of them have not said yet who they are.

use std::collections::{HashMap, VecDeque};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Handshakes at one time. A new connection takes the place of the one that has waited longest.
const HANDSHAKES: usize = 256;

/// How long connections may take to end when it stops.
const STOP: Duration = Duration::from_secs(10);

/// The connections.
pub(crate) struct Guests {
    most: usize,
    state: Mutex<State>,
    /// Notified when a connection ends.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_stopped: bool,
    next: u64,
    sockets: HashMap<u64, TcpStream>,
    /// Those in the handshake, the oldest first.
    strangers: VecDeque<u64>,
}

/// A connection that is counted until this is dropped.
pub(crate) struct Guest {
    number: u64,
    guests: Arc<Guests>,
}

impl Guests {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().sockets.len()
    }

    /// Counts a new connection; `None` when there is no room for it.
    pub(crate) fn enter(self: &Arc<Self>, stream: &TcpStream) -> Option<Guest> {
        let handle = stream.try_clone().ok()?;
        let mut state = self.lock();
        let is_full = state.sockets.len() >= self.most;
        if state.is_stopped || is_full && state.strangers.is_empty() {
            return None;
        }
        if is_full || state.strangers.len() >= HANDSHAKES {
            // Its thread sees the end.
            if let Some(oldest) = state.strangers.pop_front().and_then(|number| state.sockets.get(&number)) {
                let _ = oldest.shutdown(Shutdown::Both);
            }
        }
        let number = state.next;
        state.next += 1;
        let _ = state.sockets.insert(number, handle);
        state.strangers.push_back(number);
        Some(Guest { number, guests: Arc::clone(self) })
    }

    /// Ends all connections; their threads see it.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_stopped = true;
        for socket in state.sockets.values() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Ends all connections, and waits for that.
    pub(crate) fn end(&self) {
        self.close();
        let mut state = self.lock();
        let deadline = Instant::now() + STOP;
        while !state.sockets.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Guest {
    /// Its number, which no other connection has had.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Its handshake is done: it gives way to no other one.
    pub(crate) fn is_known(&self) {
        self.guests.lock().strangers.retain(|number| *number != self.number);
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut state = self.guests.lock();
        state.strangers.retain(|number| *number != self.number);
        let _ = state.sockets.remove(&self.number);
        self.guests.changed.notify_all();
    }
}
