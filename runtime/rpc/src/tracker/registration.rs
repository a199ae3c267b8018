//! The registration of a server at a tracker, which is renewed whenever it is lost.

use std::collections::HashMap;
use std::io::Read;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kernpack::{Result, ensure, error};
use serde_json::{Value, json};

use super::client::open;
use super::message::{Code, Line, shortened};
use crate::Place;
use crate::log::say;
use crate::wire::WireError;
use crate::wire::proof::Relation;

/// The interval at which a server asks which of its match keys are still registered.
const ROUND: Duration = Duration::from_secs(2);

/// The longest time that a client may take to connect after it has received a match key; then
/// another key is offered.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest time between two attempts to reach a tracker.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The key and the address that a server offers.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The tracker.
    pub tracker: Place,
    /// The key that clients ask for.
    pub key: String,
    /// The port of the server.
    pub port: u16,
    /// The host that clients get; `None`: the host that the tracker sees the server's connection
    /// come from.
    pub host: Option<String>,
    /// The most sessions at the same time. With 1 a client has the machine exclusively.
    pub sessions: usize,
}

/// Keeps an [`Offer`] at a tracker, also across restarts of it. Dropping it withdraws the offer.
pub struct Registration {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    offer: Offer,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Match keys that a client may name.
    keys: HashMap<String, Key>,
    /// The number of sessions that have begun with one.
    claimed: usize,
    /// The connection to the tracker, to end it from elsewhere.
    connection: Option<Line>,
    is_stopped: bool,
}

/// A match key.
struct Key {
    /// The time at which the tracker assigned it; `None` while it is not assigned.
    taken: Option<Instant>,
}

/// The claim of a session. When it is dropped the server is free again.
pub struct Claim {
    shared: Arc<Shared>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.shared.lock().claimed -= 1;
        self.shared.changed.notify_all();
    }
}

impl Registration {
    /// Begins to offer a server, in its own thread. The tracker may be started later. Dropping the
    /// registration waits for that thread, which may take some seconds if it is about to connect.
    ///
    /// # Errors
    /// ValueError for a key that is not one word or has more than 200 bytes, and for zero sessions.
    pub fn start(offer: Offer) -> Result<Self> {
        ensure!(
            !offer.key.is_empty() && !offer.key.contains(|letter: char| letter.is_whitespace() || letter.is_control()),
            ValueError,
            "a tracker gives servers by key: name one, in one word, with --key"
        );
        // A match key is longer, and trackers accept 256 bytes.
        ensure!(offer.key.len() <= 200, ValueError, "a key has at most 200 bytes, not {}", offer.key.len());
        ensure!(offer.sessions > 0, ValueError, "a server has at least one session at a time");
        let shared = Arc::new(Shared { offer, state: Mutex::default(), changed: Condvar::new() });
        let own = Arc::clone(&shared);
        let thread = thread::Builder::new().name("rpc-offer".to_owned()).stack_size(256 << 10);
        let thread = thread.spawn(move || own.run());
        let thread = thread.map_err(|problem| error!(RuntimeError, "no thread for the tracker: {problem}"))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// The same, but dropping it does not wait for its thread.
    pub(crate) fn detached(mut self) -> Self {
        self.thread = None;
        self
    }

    /// Returns true if the tracker has the offer now.
    pub fn is_connected(&self) -> bool {
        self.shared.lock().connection.is_some()
    }

    /// Withdraws the offer: its keys become invalid. Does not wait for the thread, unlike [`Drop`].
    pub fn stop(&self) {
        let mut state = self.shared.lock();
        state.is_stopped = true;
        state.keys.clear();
        if let Some(connection) = state.connection.take() {
            connection.close();
        }
        self.shared.changed.notify_all();
    }

    /// Claims the session of a client that names this key; `None` if the key is unknown or was used
    /// already.
    pub fn claim(&self, match_key: &str) -> Option<Claim> {
        let mut state = self.shared.lock();
        let _ = state.keys.remove(match_key)?;
        state.claimed += 1;
        Some(Claim { shared: Arc::clone(&self.shared) })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A key that cannot be guessed: 16 random bytes.
fn random_key(key: &str) -> std::io::Result<String> {
    let mut bytes = [0_u8; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{key}:{digits}"))
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits; returns true unless the registration is stopped.
    fn pause(&self, time: Duration) -> bool {
        let state = self.lock();
        if state.is_stopped {
            return false;
        }
        let state = self.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0;
        !state.is_stopped
    }

    fn run(&self) {
        let mut pause = Duration::from_millis(250);
        let mut told = String::new();
        loop {
            // A tracker that cannot be reached, was restarted or violates the protocol: try again.
            let begin = Instant::now();
            if let Err(WireError::Protocol(problem)) = self.offer_until_it_ends()
                && problem != told
            {
                // A tracker that refuses the offer will refuse it again.
                say(format_args!("kernpack-rpc: {}: {problem}", self.offer.tracker.address));
                told = problem;
            }
            {
                let mut state = self.lock();
                state.connection = None;
                // The tracker's offers are gone with the connection; clients that have already
                // received a key may still connect.
                state.keys.retain(|_, key| key.taken.is_some_and(|taken| taken.elapsed() < PATIENCE));
            }
            if begin.elapsed() > LONGEST_PAUSE {
                pause = Duration::from_millis(250);
            }
            if !self.pause(pause) {
                return;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn offer_until_it_ends(&self) -> Result<(), WireError> {
        let offer = &self.offer;
        let gone = |problem: String| WireError::Content(problem);
        let mut line =
            open(&offer.tracker, Relation::ServerTracker, ROUND * 2).map_err(|error| gone(error.to_string()))?;
        let info = json!({"key": format!("server:{}", offer.key), "addr": [offer.host, offer.port]});
        expect_success(&line.ask(&json!([Code::UpdateInfo as i64, info]), ROUND * 5)?)?;
        {
            let mut state = self.lock();
            if state.is_stopped {
                return Ok(());
            }
            state.connection = Some(line.share());
        }
        loop {
            self.offer_free(&mut line)?;
            if !self.pause(ROUND) {
                return Ok(());
            }
            let pending = line.ask(&json!([Code::Pending as i64]), ROUND * 5)?;
            let pending: Vec<&str> = pending.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let mut state = self.lock();
            for (name, key) in &mut state.keys {
                if key.taken.is_none() && !pending.contains(&name.as_str()) {
                    key.taken = Some(Instant::now());
                }
            }
            // Clients that have not connected in time are given up.
            state.keys.retain(|_, key| key.taken.is_none_or(|taken| taken.elapsed() < PATIENCE));
        }
    }

    /// Offers as many sessions as are free and not offered yet.
    fn offer_free(&self, line: &mut Line) -> Result<(), WireError> {
        loop {
            let match_key = {
                let mut state = self.lock();
                if state.keys.len() + state.claimed >= self.offer.sessions {
                    return Ok(());
                }
                let match_key = random_key(&self.offer.key).map_err(WireError::Io)?;
                // Before the tracker can assign it.
                let _ = state.keys.insert(match_key.clone(), Key { taken: None });
                match_key
            };
            let message = json!([Code::Put as i64, self.offer.key, [self.offer.port, match_key], self.offer.host]);
            expect_success(&line.ask(&message, ROUND * 5)?)?;
        }
    }
}

fn expect_success(answer: &Value) -> Result<(), WireError> {
    match answer.as_i64() {
        Some(0) => Ok(()),
        _ => Err(WireError::Protocol(format!("the tracker answered {}", shortened(answer)))),
    }
}
