//! A connection of a peer, with or without TLS, before it is served.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
#[cfg(feature = "tls")]
use std::os::unix::net::UnixStream;
#[cfg(feature = "tls")]
use std::time::Duration;

#[cfg(feature = "tls")]
use crate::tls::{TlsAcceptor, TlsStream, relay};
use crate::wire::Transport;

/// A connection that will be served by a session.
pub(crate) enum Line {
    /// The session gets the socket itself.
    Plain(TcpStream),
    /// The session gets one end of a pair of sockets; this process relays between the other end and
    /// the peer.
    #[cfg(feature = "tls")]
    Tls { outside: Box<TlsStream>, inside: Option<UnixStream> },
}

impl Line {
    /// Begins TLS as the server side; `None` if the peer does not speak it.
    #[cfg(feature = "tls")]
    pub(crate) fn accept(stream: TcpStream, acceptor: Option<&TlsAcceptor>, within: Duration) -> Option<Self> {
        match acceptor {
            Some(acceptor) => acceptor.accept(stream, within).ok().map(Self::over),
            None => Some(Self::Plain(stream)),
        }
    }

    /// Creates a line over an established TLS connection.
    #[cfg(feature = "tls")]
    pub(crate) fn over(stream: TlsStream) -> Self {
        Self::Tls { outside: Box::new(stream), inside: None }
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            #[cfg(feature = "tls")]
            Self::Tls { outside, .. } => outside.socket(),
        }
    }

    /// Another handle of the socket, to end the connection from elsewhere.
    pub(crate) fn handle(&self) -> io::Result<TcpStream> {
        self.socket().try_clone()
    }

    /// The socket's descriptor.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.socket().as_raw_fd()
    }

    pub(crate) fn transport(&mut self) -> &mut dyn Transport {
        match self {
            Self::Plain(stream) => stream,
            #[cfg(feature = "tls")]
            Self::Tls { outside, .. } => &mut **outside,
        }
    }

    /// The value to which proofs on this connection are bound, with TLS.
    pub(crate) fn channel(&self) -> Option<[u8; 32]> {
        match self {
            Self::Plain(stream) => stream.channel(),
            #[cfg(feature = "tls")]
            Self::Tls { outside, .. } => outside.channel(),
        }
    }

    pub(crate) fn into_transport(self) -> Box<dyn Transport> {
        match self {
            Self::Plain(stream) => Box::new(stream),
            #[cfg(feature = "tls")]
            Self::Tls { outside, .. } => outside,
        }
    }

    /// The descriptor that a session's process gets.
    pub(crate) fn for_session(&mut self) -> io::Result<OwnedFd> {
        match self {
            Self::Plain(stream) => Ok(stream.try_clone()?.into()),
            #[cfg(feature = "tls")]
            Self::Tls { inside, .. } => {
                let (own, other) = UnixStream::pair()?;
                *inside = Some(own);
                Ok(other.into())
            }
        }
    }

    /// Returns true if [`Line::pass_on`] has work to do.
    pub(crate) fn needs_passing(&self) -> bool {
        !matches!(self, Self::Plain(_))
    }

    /// Hands the connection over to the session. With TLS this returns when either side has ended.
    pub(crate) fn pass_on(self) {
        match self {
            // Only the session's process has the socket now.
            Self::Plain(_) => {}
            #[cfg(feature = "tls")]
            Self::Tls { outside, inside } => {
                if let Some(inside) = inside {
                    // A connection that fails ends for both sides; the session reports what it was
                    // doing.
                    let _ = relay(*outside, inside);
                }
            }
        }
    }
}
