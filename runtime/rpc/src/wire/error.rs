use std::io;
use std::time::Duration;
use std::{error, fmt};

/// The reason why communication with a peer failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum WireError {
    /// The peer closed the connection between two packets: the regular end.
    Closed,
    /// The connection ended inside a packet or a handshake.
    Cut,
    /// The peer was silent for too long.
    TimedOut {
        /// The awaited part: `the handshake`, `a reply`, `the rest of a packet`.
        awaited: &'static str,
        /// The time that was waited.
        after: Duration,
    },
    /// The peer violated the protocol; the connection cannot be used any more.
    Protocol(String),
    /// A packet with invalid content. The end of the packet is known, so the connection can
    /// continue after [`Connection::skip`](super::Connection::skip).
    Content(String),
    /// The wait was interrupted: see
    /// [`Connection::set_interrupt`](super::Connection::set_interrupt).
    Interrupted,
    /// The connection failed.
    Io(io::Error),
}

impl WireError {
    /// Returns true if the next packet can still be read.
    pub const fn is_recoverable(&self) -> bool {
        matches!(self, Self::Content(_))
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the peer closed the connection"),
            Self::Cut => f.write_str("the connection ended in the middle of a message"),
            Self::TimedOut { awaited, after } => {
                write!(
                    f,
                    "waited {} s for {awaited}; the peer or the network is too slow, or is gone",
                    after.as_secs_f64()
                )
            }
            Self::Protocol(problem) => write!(f, "the peer does not follow the RPC protocol: {problem}"),
            Self::Content(problem) => f.write_str(problem),
            Self::Interrupted => f.write_str("the wait was interrupted"),
            Self::Io(error) => write!(f, "the connection failed: {error}"),
        }
    }
}

impl error::Error for WireError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<WireError> for kernpack::Error {
    /// A TimeoutError, a ValueError for content, an InterruptedError, else a ConnectionError: the
    /// names of Python's classes.
    fn from(error: WireError) -> Self {
        let kind = match &error {
            WireError::TimedOut { .. } => "TimeoutError",
            WireError::Content(_) => "ValueError",
            WireError::Interrupted => "InterruptedError",
            _ => "ConnectionError",
        };
        Self::new(kind, error.to_string())
    }
}
