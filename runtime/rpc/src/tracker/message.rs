//! Messages between a tracker and its peers: a length, and JSON of that length.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::wire::WireError;
use crate::wire::proof::{Relation, Side, Terms, is_digits, nonce, proof, proves};

/// The first number of a connection, in both directions.
const MAGIC: i32 = 0x2F271;

/// The largest size of a message, in bytes.
pub(super) const MOST: usize = 1 << 20;

/// The largest size of a message to a tracker: a peer's texts there are short, and JSON takes more
/// memory as values than as text.
pub(super) const MOST_TO_TRACKER: usize = 8 << 10;

/// The longest time between the first and the last byte of a message.
pub(super) const MESSAGE_TIME: Duration = Duration::from_secs(10);

/// The kind of a message: the first element of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i64)]
pub(super) enum Code {
    Fail = -1,
    Success = 0,
    Ping = 1,
    Stop = 2,
    Put = 3,
    Request = 4,
    UpdateInfo = 5,
    Summary = 6,
    Pending = 7,
    /// Specific to Kernpack, before any other message if the tracker has a token: a nonce and the
    /// role of the peer, then the proof that it knows the token.
    Token = 100,
}

impl Code {
    /// The code of a message from a peer.
    pub(super) fn of(message: &Value) -> Option<Self> {
        let all = [
            Self::Ping,
            Self::Stop,
            Self::Put,
            Self::Request,
            Self::UpdateInfo,
            Self::Summary,
            Self::Pending,
            Self::Token,
        ];
        let code = message.get(0)?.as_i64()?;
        all.into_iter().find(|known| *known as i64 == code)
    }
}

/// A connection to a tracker, or to a peer of one.
pub(super) struct Line {
    /// Shared by all handles: a tracker has one descriptor for each peer.
    stream: Arc<TcpStream>,
    /// The largest size of a message that is read, in bytes.
    most: usize,
    /// Returns true if a wait for an answer has to end before its time.
    interrupt: Option<fn() -> bool>,
    /// The TLS connection to which proofs are bound.
    channel: Option<[u8; 32]>,
}

/// The interval at which an interruptible wait checks for interruption.
const SLICE: Duration = Duration::from_millis(100);

fn late(awaited: &'static str, after: Duration) -> WireError {
    WireError::TimedOut { awaited, after }
}

impl Line {
    /// Creates a line over a connection, or over an end of a socket pair that represents a TLS
    /// connection.
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_write_timeout(Some(MESSAGE_TIME))?;
        Ok(Self { stream: Arc::new(stream), most: MOST, interrupt: None, channel: None })
    }

    /// Binds proofs to the TLS connection that the messages come through.
    pub(super) fn set_channel(&mut self, channel: Option<[u8; 32]>) {
        self.channel = channel;
    }

    /// Limits the size of received messages.
    pub(super) fn set_most(&mut self, bytes: usize) {
        self.most = bytes;
    }

    /// Sets a function that is polled while the line waits for an answer; if it returns true, the
    /// wait ends with [`WireError::Interrupted`].
    pub(super) fn set_interrupt(&mut self, is_interrupted: fn() -> bool) {
        self.interrupt = Some(is_interrupted);
    }

    /// Tracker: reads a peer's magic number, and answers it. A peer that sends anything else gets
    /// no answer.
    pub(super) fn answer(&mut self, within: Duration) -> Result<(), WireError> {
        self.expect_magic("a peer of a tracker", within)?;
        self.write(&MAGIC.to_le_bytes())
    }

    /// Peer: sends the magic number, and reads the answer.
    pub(super) fn greet(&mut self, within: Duration) -> Result<(), WireError> {
        self.write(&MAGIC.to_le_bytes())?;
        self.expect_magic("a tracker", within)
    }

    fn expect_magic(&mut self, who: &str, within: Duration) -> Result<(), WireError> {
        let mut bytes = [0; 4];
        self.read(&mut bytes, "the handshake", within)?;
        let magic = i32::from_le_bytes(bytes);
        if magic == MAGIC {
            return Ok(());
        }
        let hint = if magic == crate::wire::MAGIC { "; that is the number of an RPC server" } else { "" };
        Err(WireError::Protocol(format!("{who} begins with {MAGIC:#x}, not with {magic:#x}{hint}")))
    }

    /// Another handle of the same connection, to write to it from elsewhere.
    pub(super) fn share(&self) -> Self {
        Self { stream: Arc::clone(&self.stream), most: self.most, interrupt: None, channel: self.channel }
    }

    /// Closes the connection; its reader notices the end.
    pub(super) fn close(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }

    /// Writes within [`MESSAGE_TIME`], however few bytes the peer reads at a time.
    fn write(&mut self, mut bytes: &[u8]) -> Result<(), WireError> {
        let begun = Instant::now();
        while !bytes.is_empty() {
            match (&*self.stream).write(bytes) {
                Ok(0) => return Err(WireError::Cut),
                Ok(count) if count == bytes.len() => return Ok(()),
                Ok(count) if begun.elapsed() < MESSAGE_TIME => bytes = &bytes[count..],
                Ok(_) => return Err(late("the peer to read", MESSAGE_TIME)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Err(late("the peer to read", MESSAGE_TIME));
                }
                Err(error) => return Err(WireError::Io(error)),
            }
        }
        Ok(())
    }

    /// Sends a message.
    pub(super) fn send(&mut self, message: &Value) -> Result<(), WireError> {
        let text = message.to_string();
        if text.len() > MOST {
            return Err(WireError::Content(format!("a message of {} bytes; the most is {MOST}", text.len())));
        }
        let mut bytes = (text.len() as i32).to_le_bytes().to_vec();
        bytes.extend_from_slice(text.as_bytes());
        self.write(&bytes)
    }

    fn read(&mut self, target: &mut [u8], awaited: &'static str, within: Duration) -> Result<(), WireError> {
        self.read_until(target, awaited, Instant::now().checked_add(within), within)
    }

    /// `within` is the time that the error message reports after the deadline.
    fn read_until(
        &mut self,
        mut target: &mut [u8],
        awaited: &'static str,
        deadline: Option<Instant>,
        within: Duration,
    ) -> Result<(), WireError> {
        while !target.is_empty() {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(late(awaited, within));
            }
            self.stream.set_read_timeout(left).map_err(WireError::Io)?;
            match (&*self.stream).read(target) {
                Ok(0) => return Err(WireError::Cut),
                Ok(count) => target = &mut target[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Err(late(awaited, within));
                }
                Err(error) => return Err(WireError::Io(error)),
            }
        }
        Ok(())
    }

    /// Receives the next message; `within` is the longest time until it begins, `None` is as long
    /// as the connection lasts.
    pub(super) fn receive(&mut self, within: Option<Duration>) -> Result<Value, WireError> {
        self.receive_in(within, MESSAGE_TIME)
    }

    /// The same; `rest_time` is the longest time from the message's first byte to its last.
    fn receive_in(&mut self, within: Option<Duration>, rest_time: Duration) -> Result<Value, WireError> {
        let mut length = [0; 4];
        let end = within.and_then(|within| Instant::now().checked_add(within));
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)));
            let slice = if self.interrupt.is_some() { Some(left.map_or(SLICE, |left| left.min(SLICE))) } else { left };
            self.stream.set_read_timeout(slice).map_err(WireError::Io)?;
            let problem = match (&*self.stream).read(&mut length[..1]) {
                Ok(0) => return Err(WireError::Closed),
                Ok(_) => break,
                Err(problem) => problem,
            };
            match problem.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    if problem.raw_os_error() != Some(libc::ETIMEDOUT) =>
                {
                    if end.is_some_and(|end| Instant::now() >= end) {
                        return Err(late("an answer", within.unwrap_or_default()));
                    }
                }
                _ => return Err(WireError::Io(problem)),
            }
            if self.interrupt.is_some_and(|is_interrupted| is_interrupted()) {
                return Err(WireError::Interrupted);
            }
        }
        let (rest, deadline) = ("the rest of a message", Instant::now().checked_add(rest_time));
        self.read_until(&mut length[1..], rest, deadline, rest_time)?;
        let length = i32::from_le_bytes(length);
        let Some(length) = usize::try_from(length).ok().filter(|length| *length <= self.most) else {
            return Err(WireError::Protocol(format!("a message of {length} bytes; the most is {}", self.most)));
        };
        // Memory grows with the received bytes, not with the announced length.
        let mut bytes = Vec::new();
        while bytes.len() < length {
            let begin = bytes.len();
            bytes.resize(length.min(begin + (1 << 16)), 0);
            self.read_until(&mut bytes[begin..], rest, deadline, rest_time)?;
        }
        serde_json::from_slice(&bytes)
            .map_err(|error| WireError::Protocol(format!("a message that is not JSON: {error}")))
    }

    /// Tracker: lets a peer prove that it knows the token, within this time; it gets the tracker's
    /// proof. Returns the relation of the peer.
    pub(super) fn challenge(&mut self, token: &str, within: Duration) -> Result<Relation, WireError> {
        let begun = Instant::now();
        let stranger = || WireError::Protocol("a peer without the token".to_owned());
        let said = |line: &mut Self| {
            let left = within.saturating_sub(begun.elapsed());
            let message = line.receive_in(Some(left), left)?;
            let text = message.get(1).and_then(Value::as_str).filter(|_| Code::of(&message) == Some(Code::Token));
            let text = text.filter(|text| is_digits(text)).ok_or_else(stranger)?.to_owned();
            Ok::<_, WireError>((text, message))
        };
        let (caller, message) = said(self)?;
        let role = message.get(2).and_then(Value::as_str);
        let known = [Relation::ClientTracker, Relation::ServerTracker];
        let relation = known.into_iter().find(|known| role == Some(role_of(*known))).ok_or_else(stranger)?;
        let own = nonce().map_err(WireError::Io)?;
        self.send(&json!([Code::Success as i64, own]))?;
        let (given, _) = said(self)?;
        let terms = Terms { relation, name: "", channel: self.channel, caller: &caller, listener: &own };
        if !proves(&given, token, Side::Caller, &terms) {
            return Err(stranger());
        }
        self.send(&json!([Code::Success as i64, proof(token, Side::Listener, &terms)]))?;
        Ok(relation)
    }

    /// Peer: proves to a tracker that it knows the token, and has the tracker prove the same.
    pub(super) fn prove(&mut self, token: &str, relation: Relation, within: Duration) -> Result<(), WireError> {
        let begun = Instant::now();
        let told = |line: &mut Self, message: Value| {
            line.send(&message)?;
            let left = within.saturating_sub(begun.elapsed());
            let answer = line.receive_in(Some(left), left)?;
            let text =
                answer.get(1).and_then(Value::as_str).filter(|_| answer.get(0).and_then(Value::as_i64) == Some(0));
            text.map(ToOwned::to_owned)
                .ok_or_else(|| WireError::Protocol("it wants no token, or is not a tracker of Kernpack".to_owned()))
        };
        let own = nonce().map_err(WireError::Io)?;
        let asked = told(self, json!([Code::Token as i64, own, role_of(relation)]))?;
        let terms = Terms { relation, name: "", channel: self.channel, caller: &own, listener: &asked };
        let given = told(self, json!([Code::Token as i64, proof(token, Side::Caller, &terms)]))?;
        match proves(&given, token, Side::Listener, &terms) {
            true => Ok(()),
            false => {
                Err(WireError::Content("it does not prove that it knows the token: it is another tracker".to_owned()))
            }
        }
    }

    /// Sends a message and reads the answer.
    pub(super) fn ask(&mut self, message: &Value, within: Duration) -> Result<Value, WireError> {
        self.send(message)?;
        self.receive(Some(within))
    }
}

/// The name by which a peer of a tracker refers to itself.
const fn role_of(relation: Relation) -> &'static str {
    if matches!(relation, Relation::ServerTracker) { "server" } else { "client" }
}

/// A message shortened for a log, to at most one line.
pub(super) fn shortened(message: &Value) -> String {
    let text = message.to_string();
    let short: String = text.chars().take(100).collect();
    if short.len() < text.len() { short + ".." } else { short }
}

#[cfg(test)]
mod tests;
