//! A client's connection, with TLS or without it.

use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
#[cfg(feature = "tls")]
use std::os::unix::net::UnixStream;

use super::ServerOptions;
#[cfg(feature = "tls")]
use crate::tls::{TlsStream, relay};
use crate::wire::Transport;

/// A connection on its way to a session.
pub(super) enum Line {
    /// The session gets the socket itself.
    Plain(TcpStream),
    /// The session gets one end of a pair of sockets; the other end is passed on here.
    #[cfg(feature = "tls")]
    Tls { outside: Box<TlsStream>, inside: Option<UnixStream> },
}

impl Line {
    /// Begins TLS, if that is wanted; `None`: the peer does not speak it.
    pub(super) fn new(stream: TcpStream, options: &ServerOptions) -> Option<Self> {
        #[cfg(feature = "tls")]
        if let Some(acceptor) = &options.tls {
            let outside = acceptor.accept(stream, options.handshake_time).ok()?;
            return Some(Self::Tls { outside: Box::new(outside), inside: None });
        }
        let _ = options;
        Some(Self::Plain(stream))
    }

    pub(super) fn transport(&mut self) -> &mut dyn Transport {
        match self {
            Self::Plain(stream) => stream,
            #[cfg(feature = "tls")]
            Self::Tls { outside, .. } => &mut **outside,
        }
    }

    pub(super) fn into_transport(self) -> Box<dyn Transport> {
        match self {
            Self::Plain(stream) => Box::new(stream),
            #[cfg(feature = "tls")]
            Self::Tls { outside, .. } => outside,
        }
    }

    /// What a session's process gets.
    pub(super) fn for_session(&mut self) -> io::Result<OwnedFd> {
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

    /// Lets the session have the connection. With TLS this takes as long as one of both is there.
    pub(super) fn pass_on(self) {
        match self {
            // The session's process has the only socket now.
            Self::Plain(_) => {}
            #[cfg(feature = "tls")]
            Self::Tls { outside, inside } => {
                if let Some(inside) = inside {
                    // A connection that fails ends for both; the session says what it was doing.
                    let _ = relay(*outside, inside);
                }
            }
        }
    }
}
