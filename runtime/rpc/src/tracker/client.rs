//! Clients of a tracker: its state, and requests for a server of a key.

use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use kernpack::{Error, Result, ensure, error};
use serde_json::{Value, json};

use super::PORT;
use super::message::{Code, Line, shortened};
use super::summary::Summary;
use crate::Place;
use crate::client::{Connect, already_raised, are_pending};
use crate::wire::WireError;
use crate::wire::proof::Relation;

/// The longest time to reach a tracker, and the longest time until it answers a request for its
/// state.
const ANSWER: Duration = Duration::from_secs(10);

/// A tracker, by its address. Each request uses its own connection, so that the tracker may be
/// restarted in between.
#[derive(Clone, Debug)]
pub struct TrackerClient {
    place: Place,
    connect_timeout: Duration,
}

/// A server that a tracker has assigned: no other client gets it until the session that is opened
/// with it has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The address of the tracker: `host:port`.
    pub address: String,
    /// The key with which to connect, which is valid for one session.
    pub match_key: String,
}

impl Found {
    /// The options of a session with this server.
    pub fn connect(&self) -> Connect {
        crate::connect(self.address.clone()).key(self.match_key.clone())
    }
}

fn failed(address: &str, error: &WireError) -> Error {
    if matches!(error, WireError::Interrupted) {
        return already_raised();
    }
    let kind = if matches!(error, WireError::TimedOut { .. }) { "TimeoutError" } else { "ConnectionError" };
    Error::new(kind, format!("the tracker {address}: {error}"))
}

/// Connects to a tracker as a peer of this relation, and completes the handshake and the proof of
/// the token.
pub(super) fn open(place: &Place, relation: Relation, within: Duration) -> Result<Line> {
    let begun = Instant::now();
    let left = || within.saturating_sub(begun.elapsed()).max(Duration::from_millis(1));
    let stream = place.dial(PORT, "tracker", within)?;
    let mut outside = place.secure(stream, left())?;
    let (inside, channel) = (outside.for_session()?, outside.channel());
    if outside.needs_passing() {
        // A thread relays TLS; it ends with the connection.
        let thread = thread::Builder::new().name("rpc-tls".to_owned()).stack_size(256 << 10);
        let _detached = thread.spawn(move || outside.pass_on())?;
    }
    let failed = |error: WireError| failed(&place.address, &error);
    let mut line = Line::new(TcpStream::from(inside))?;
    line.set_channel(channel);
    line.greet(left()).map_err(failed)?;
    if let Some(token) = &place.token {
        line.prove(token, relation, left()).map_err(failed)?;
    }
    Ok(line)
}

impl From<Place> for TrackerClient {
    fn from(place: Place) -> Self {
        Self { place, connect_timeout: ANSWER }
    }
}

impl TrackerClient {
    /// Creates a client of the tracker at `host:port` (default port: 9190).
    pub fn new(address: impl Into<String>) -> Self {
        Place::new(address).into()
    }

    /// Sets the token of the tracker.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.place = self.place.token(token);
        self
    }

    /// Uses TLS, and verifies the tracker in this way.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, trust: crate::tls::Trust) -> Self {
        self.place = self.place.tls(trust);
        self
    }

    /// Sets the longest time to reach the tracker, and the longest time until it answers a request
    /// for its state; the default is 10 seconds.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    fn ask(&self, message: &Value, within: Duration) -> Result<Value> {
        let mut line = open(&self.place, Relation::ClientTracker, self.connect_timeout)?;
        line.set_interrupt(are_pending);
        line.ask(message, within).map_err(|error| failed(&self.place.address, &error))
    }

    /// The state of the tracker.
    ///
    /// # Errors
    /// ConnectionError and TimeoutError for a tracker that is not there or does not answer.
    pub fn summary(&self) -> Result<Summary> {
        let answer = self.ask(&json!([Code::Summary as i64]), self.connect_timeout)?;
        Summary::from_json(answer.get(1).unwrap_or(&Value::Null))
    }

    /// Waits for a server of a key: clients of higher `priority` are served first, then those that
    /// requested first.
    ///
    /// # Errors
    /// TimeoutError if none is free in time, with the tracker's state; else as for
    /// [`TrackerClient::summary`].
    pub fn request(&self, key: &str, priority: i64, within: Duration) -> Result<Found> {
        ensure!(
            !key.is_empty() && !key.contains(|letter: char| letter.is_whitespace() || letter.is_control()),
            ValueError,
            "a key is one word, not '{}'",
            key.escape_debug()
        );
        let begin = Instant::now();
        let answer = self.ask(&json!([Code::Request as i64, key, "", priority]), within);
        let answer = answer.map_err(|error| {
            if error.kind() == "TimeoutError" && begin.elapsed() >= within {
                self.none_free(key, within)
            } else {
                error
            }
        })?;
        let parts =
            answer.get(1).and_then(Value::as_array).filter(|_| answer.get(0).and_then(Value::as_i64) == Some(0));
        let found = parts.and_then(|parts| match &parts[..] {
            [host, port, match_key] => {
                let (host, port) = (host.as_str()?, u16::try_from(port.as_u64()?).ok()?);
                let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
                Some(Found { address, match_key: match_key.as_str()?.to_owned() })
            }
            _ => None,
        });
        found.ok_or_else(|| {
            let (tracker, answer) = (&self.place.address, shortened(&answer));
            error!(RuntimeError, "the tracker {tracker} answered a request with {answer}")
        })
    }

    fn none_free(&self, key: &str, within: Duration) -> Error {
        let known = match self.summary() {
            Err(_) => String::new(),
            Ok(summary) => match summary.keys.iter().find(|known| known.key == key).filter(|known| known.total > 0) {
                Some(known) => format!(
                    "; {} of {} servers with this key are busy, and {} clients wait",
                    known.total - known.free.min(known.total),
                    known.total,
                    known.waiting
                ),
                None => {
                    let mut keys: Vec<&str> = summary.servers.iter().map(|server| server.key.as_str()).collect();
                    keys.dedup();
                    let keys = if keys.is_empty() {
                        "it has no servers".to_owned()
                    } else {
                        format!("it has {}", keys.join(", "))
                    };
                    format!("; the tracker has no server with this key: {keys}")
                }
            },
        };
        let seconds = within.as_secs_f64();
        Error::new("TimeoutError", format!("no server of key '{key}' was free within {seconds} s{known}"))
    }
}
