//! Clients: what a tracker knows, and a server of a key.

use std::time::{Duration, Instant};

use kernpack::{Error, Result, ensure, error};
use serde_json::{Value, json};

use super::PORT;
use super::message::{Code, Line};
use super::summary::Summary;
use crate::client::{Connect, dial_to};
use crate::wire::WireError;

/// How long a tracker may take to answer what it knows.
const ANSWER: Duration = Duration::from_secs(10);

/// A tracker, by its address. Each question is a connection of its own, so that it may be restarted in between.
#[derive(Clone, Debug)]
pub struct TrackerClient {
    address: String,
    connect_timeout: Duration,
}

/// A server that a tracker has given: no other client gets it until the session that is opened with it has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where it is: `host:port`.
    pub address: String,
    /// The key to name, which is good for one session.
    pub match_key: String,
}

impl Found {
    /// The session that is to be opened with it.
    pub fn connect(&self) -> Connect {
        crate::connect(self.address.clone()).key(self.match_key.clone())
    }
}

pub(super) fn failed(address: &str, error: &WireError) -> Error {
    let kind = if matches!(error, WireError::TimedOut { .. }) { "TimeoutError" } else { "ConnectionError" };
    Error::new(kind, format!("the tracker {address}: {error}"))
}

pub(super) fn open(address: &str, within: Duration) -> Result<Line> {
    let stream = dial_to(address, PORT, "tracker", within)?;
    let mut line = Line::new(stream)?;
    line.greet().map_err(|error| failed(address, &error))?;
    Ok(line)
}

impl TrackerClient {
    /// The tracker at `host:port` (without a port: 9190).
    pub fn new(address: impl Into<String>) -> Self {
        Self { address: address.into(), connect_timeout: ANSWER }
    }

    /// How long it may take to reach the tracker; 10 seconds unless set.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    fn ask(&self, message: &Value, within: Duration) -> Result<Value> {
        let mut line = open(&self.address, self.connect_timeout)?;
        line.ask(message, within).map_err(|error| failed(&self.address, &error))
    }

    /// What the tracker knows.
    ///
    /// # Errors
    /// ConnectionError and TimeoutError for a tracker that is not there or does not answer.
    pub fn summary(&self) -> Result<Summary> {
        let answer = self.ask(&json!([Code::Summary as i64]), ANSWER)?;
        Summary::from_json(answer.get(1).unwrap_or(&Value::Null))
    }

    /// Waits for a server of a key: clients of higher `priority` are served first, then those that asked first.
    ///
    /// # Errors
    /// TimeoutError when none is free in time, with what the tracker has; else as for [`TrackerClient::summary`].
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
        found.ok_or_else(|| error!(RuntimeError, "the tracker {} answered a request with {answer}", self.address))
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
