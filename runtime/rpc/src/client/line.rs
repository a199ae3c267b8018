use std::time::Duration;

use kernpack::{Error, Result};

use super::raised::{is_end_of_session, raised};
use super::signals;
use crate::wire::{Bounds, Code, Connection, Packet, Patience, Transport, Value, WireError};

/// The timeout class of a request: how long it waits for its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// A function call: the timeout that the user has set.
    Call,
    /// A small operation of the server itself.
    Server,
    /// The same, for a value that is dropped: there is no caller to report an interruption to.
    Drop,
}

/// The timeouts of a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// For a function's result.
    pub(super) call: Duration,
    /// For everything else: small requests, and the next bytes of a packet that has begun.
    pub(super) server: Duration,
}

impl Times {
    fn of(self, wait: Wait) -> Patience {
        let idle = match wait {
            Wait::Call => self.call,
            Wait::Server | Wait::Drop => self.server,
        };
        Patience { idle: Some(idle), stall: Some(self.server) }
    }
}

/// A connection as a session uses it: one request, one reply. It closes at the first failure, and
/// keeps the reason.
pub(super) struct Line {
    state: State,
    times: Times,
    wait: Option<Wait>,
    /// The name of the server in messages.
    peer: String,
}

enum State {
    Open(Connection<Box<dyn Transport>>),
    /// The session has ended; every further request fails with this error.
    Ended(Error),
}

/// The largest size of an exception's message or a returned text.
const BOUNDS: Bounds = Bounds { values: 16, dimensions: 64, text: 1 << 36 };

/// The largest size of a packet, in bytes: beyond the memory of any machine.
const LONGEST: u64 = 1 << 48;

impl Line {
    /// Creates the line over a connection whose handshake is done.
    pub(super) fn new(transport: Box<dyn Transport>, times: Times, peer: String) -> Self {
        let mut connection = Connection::new(transport, times.of(Wait::Call));
        connection.set_limit(LONGEST);
        connection.set_interrupt(signals::are_pending);
        Self { state: State::Open(connection), times, wait: Some(Wait::Call), peer }
    }

    /// Sends a request, and returns the values of its reply.
    pub(super) fn request(&mut self, wait: Wait, code: Code, body: &[u8], tail: &[u8]) -> Result<Vec<Value>> {
        self.exchange(
            wait,
            |connection| connection.send_with(code, tail, |output| output.extend_from_slice(body)),
            |connection, packet| match packet.code() {
                Some(Code::Return) => {
                    let values = connection.sequence(&BOUNDS)?;
                    connection.end()?;
                    Ok(values)
                }
                _ => Err(unexpected(packet)),
            },
        )
    }

    /// Sends a request whose reply is plain bytes, which `receive` reads.
    pub(super) fn fetch(
        &mut self,
        code: Code,
        body: &[u8],
        size: u64,
        receive: impl FnOnce(&mut Connection<Box<dyn Transport>>) -> Result<(), WireError>,
    ) -> Result<()> {
        self.exchange(
            Wait::Server,
            |connection| connection.send(code, |output| output.extend_from_slice(body)),
            |connection, packet| match packet.code() {
                Some(Code::CopyAck) if packet.length == size => receive(connection),
                Some(Code::CopyAck) => {
                    Err(WireError::Content(format!("the server sent {} bytes in place of {size}", packet.length)))
                }
                _ => Err(unexpected(packet)),
            },
        )
    }

    fn exchange<R>(
        &mut self,
        wait: Wait,
        send: impl FnOnce(&mut Connection<Box<dyn Transport>>) -> Result<(), WireError>,
        receive: impl FnOnce(&mut Connection<Box<dyn Transport>>, Packet) -> Result<R, WireError>,
    ) -> Result<R> {
        let times = self.times;
        let connection = match &mut self.state {
            State::Open(connection) => connection,
            State::Ended(reason) => return Err(reason.clone()),
        };
        if self.wait != Some(wait) {
            if self.wait.is_none_or(|before| times.of(before) != times.of(wait)) {
                connection.set_patience(times.of(wait));
            }
            connection.allow_interrupt(wait != Wait::Drop);
            self.wait = Some(wait);
        }
        let sent = send(connection);
        if let Err(problem @ WireError::Interrupted) = sent {
            return Err(self.fail(problem, wait));
        }
        if sent.is_err() {
            // A server that ends a session sends the reason before it closes; it can still be read.
            connection.set_patience(Patience { idle: Some(LAST_WORDS), stall: Some(LAST_WORDS) });
        }
        let answered = connection.next_packet().and_then(|packet| match packet.code() {
            Some(Code::Exception) => connection.exception(&BOUNDS).map(Err),
            _ if sent.is_err() => Err(unexpected(packet)),
            _ => receive(connection, packet).map(Ok),
        });
        match (sent, answered) {
            (Ok(()), Ok(Ok(value))) => Ok(value),
            (sent, Ok(Err(message))) => {
                let error = raised(&message);
                if sent.is_err() || is_end_of_session(&error) {
                    self.end(error.clone());
                }
                Err(error)
            }
            (Ok(()), Err(problem)) if problem.is_recoverable() => Err(problem.into()),
            (Err(problem), _) | (Ok(()), Err(problem)) => Err(self.fail(problem, wait)),
        }
    }

    /// Ends the session because of a failure of the connection.
    fn fail(&mut self, problem: WireError, wait: Wait) -> Error {
        let peer = &self.peer;
        let reason = match &problem {
            WireError::TimedOut { after, .. } => {
                let advice = match wait {
                    Wait::Call => "; `timeout` of the connection sets how long a call may take",
                    Wait::Server | Wait::Drop => "",
                };
                format!("the server sent nothing for {} s{advice}", after.as_secs_f64())
            }
            WireError::Closed | WireError::Cut => "the server closed the connection, or is gone".to_owned(),
            // Its reply may still arrive, and a later request could not distinguish it from its
            // own.
            WireError::Interrupted => "a request was interrupted before its reply came".to_owned(),
            other => other.to_string(),
        };
        let kind = if matches!(problem, WireError::TimedOut { .. }) { "TimeoutError" } else { "ConnectionError" };
        let error = Error::new(kind, format!("the session with {peer} has ended: {reason}"));
        self.end(error.clone());
        if matches!(problem, WireError::Interrupted) { signals::already_raised() } else { error }
    }

    /// Ends the connection; `reason` is the error of all further requests.
    pub(super) fn end(&mut self, reason: Error) {
        if let State::Open(connection) = std::mem::replace(&mut self.state, State::Ended(reason)) {
            connection.transport().close();
        }
    }

    /// Ends the session with the protocol's shutdown packet. Does not wait.
    pub(super) fn close(&mut self) {
        if let State::Open(connection) = &mut self.state {
            connection.set_patience(Patience { idle: Some(LAST_WORDS), stall: Some(LAST_WORDS) });
            connection.allow_interrupt(false);
            // If the server is gone, the packet is unnecessary.
            let _ = connection.send(Code::Shutdown, |_| {});
        }
        let reason = Error::new("ConnectionError", format!("the session with {} was closed", self.peer));
        self.end(reason);
    }

    /// Returns true if requests can still be sent, as far as this side knows.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }
}

/// The time to wait for a message that a server sends before it closes a connection.
const LAST_WORDS: Duration = Duration::from_millis(200);

fn unexpected(packet: Packet) -> WireError {
    match packet.code() {
        Some(code) => WireError::Protocol(format!("a packet {code:?} came in place of a reply")),
        None => WireError::Protocol(format!("a packet of the unknown code {} came in place of a reply", packet.number)),
    }
}
