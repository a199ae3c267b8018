//! Listening sockets of servers, trackers and proxies.

use std::fmt::{self, Display};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use kernpack::{Result, bail, ensure, error};

use crate::line::Line;
use crate::log;
use crate::token;
use crate::wire::proof::Relation;
use crate::wire::{Key, Transport, challenge};

/// The address that a server, a tracker or a proxy listens at, and the peers that it accepts.
#[derive(Clone)]
#[non_exhaustive]
pub struct Listen {
    /// The address to listen at: a name or a number. Addresses that other machines can reach need
    /// TLS and a token, or `insecure`.
    pub host: String,
    /// The port; 0 selects a free one.
    pub port: u16,
    /// The token that peers must prove to know; `None` accepts all peers. At least 8 letters,
    /// without white space.
    pub token: Option<String>,
    /// The certificate for TLS; `None` is without TLS.
    #[cfg(feature = "tls")]
    pub tls: Option<crate::tls::TlsAcceptor>,
    /// Allows to listen for other machines without TLS and token: everyone who can reach the port
    /// has the rights of a peer.
    pub insecure: bool,
    /// The longest duration of a handshake.
    pub handshake_time: Duration,
    /// Logs events to stderr.
    pub verbose: bool,
}

impl Listen {
    /// The loopback address and a port, with 10 seconds for a handshake.
    pub(crate) fn at(port: u16) -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port,
            token: None,
            #[cfg(feature = "tls")]
            tls: None,
            insecure: false,
            handshake_time: Duration::from_secs(10),
            verbose: false,
        }
    }

    /// Listens beside the port for clients of this machine, if possible; TLS clients use the port.
    #[cfg(target_os = "linux")]
    pub(crate) fn bind_nearby(&self, address: SocketAddr) -> Option<UnixListener> {
        #[cfg(feature = "tls")]
        if self.tls.is_some() {
            return None;
        }
        crate::nearby::listen(address)
    }

    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unused_self, reason = "on Linux it needs it")]
    pub(crate) fn bind_nearby(&self, _: SocketAddr) -> Option<UnixListener> {
        None
    }

    /// Returns true if strangers can neither connect nor read the traffic.
    fn is_guarded(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some() && self.token.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }

    /// Listens. `can` describes the rights of peers, for the error message if the address is not
    /// allowed.
    ///
    /// # Errors
    /// ValueError for an invalid token, a host without an address, or a host that other machines
    /// can reach unless that is allowed; RuntimeError when the system refuses.
    pub(crate) fn bind(&self, can: &str) -> Result<(TcpListener, SocketAddr)> {
        ensure!(
            self.token.as_deref().is_none_or(token::is_good),
            ValueError,
            "a token has at least 8 letters and no white space"
        );
        ensure!(!self.handshake_time.is_zero(), ValueError, "a handshake takes more than 0 s");
        let Self { host, port, .. } = self;
        let addresses = (host.as_str(), *port).to_socket_addrs();
        let addresses: Vec<SocketAddr> = addresses
            .map_err(|problem| error!(ValueError, "'{host}' is not an address of this machine: {problem}"))?
            .collect();
        let is_allowed = self.insecure || self.is_guarded();
        if !is_allowed && addresses.iter().any(|address| !address.ip().is_loopback()) {
            bail!(
                ValueError,
                "{host} can be reached from other machines, and a client can {can}: listen at 127.0.0.1 (through a tunnel, for \
                 example `ssh -L`), use TLS and a token (--tls-cert, --tls-key, --token-file), or say --insecure if all machines that \
                 reach port {port} may do that"
            );
        }
        let listener = TcpListener::bind(&addresses[..]).map_err(|problem| {
            let advice = match problem.kind() {
                io::ErrorKind::AddrInUse => {
                    "; another program listens there: choose another --port, or 0 for one that is free"
                }
                io::ErrorKind::PermissionDenied => "; ports below 1024 are for root: choose another --port",
                io::ErrorKind::AddrNotAvailable => "; no network of this machine has that address",
                _ => "",
            };
            error!(RuntimeError, "cannot listen at {host}:{port}: {problem}{advice}")
        })?;
        let address = listener.local_addr().map_err(|problem| error!(RuntimeError, "no address: {problem}"))?;
        Ok((listener, address))
    }

    /// Begins TLS with a peer, if it is configured; `None` if the peer does not speak it.
    #[cfg(feature = "tls")]
    pub(crate) fn line(&self, stream: TcpStream) -> Option<Line> {
        Line::accept(stream, self.tls.as_ref(), self.handshake_time)
    }

    #[cfg(not(feature = "tls"))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "with TLS it needs both")]
    pub(crate) fn line(&self, stream: TcpStream) -> Option<Line> {
        Some(Line::Plain(stream))
    }

    /// The largest number of descriptors of this process that a connection takes.
    pub(crate) fn descriptors(&self) -> u64 {
        #[cfg(feature = "tls")]
        return if self.tls.is_some() { 4 } else { 2 };
        #[cfg(not(feature = "tls"))]
        2
    }

    /// The rest of the time of a handshake that began at `begun`.
    pub(crate) fn left(&self, begun: Instant) -> Duration {
        self.handshake_time.saturating_sub(begun.elapsed())
    }

    /// Lets a peer prove that it knows the token, and proves the same to it. Returns false, without
    /// an answer to the peer, if it does not know it.
    pub(crate) fn admit(&self, transport: &mut dyn Transport, key: &Key, relation: Relation, begun: Instant) -> bool {
        match (&self.token, &key.nonce) {
            (Some(token), Some(nonce)) => {
                challenge(transport, (key, nonce), relation, token, self.left(begun)).unwrap_or(false)
            }
            // Peers of Apache TVM send the token in plain text.
            _ => self.lets_in(key.token.as_deref()),
        }
    }

    /// Returns true if a peer that gives this token is accepted.
    pub(crate) fn lets_in(&self, given: Option<&str>) -> bool {
        self.token.as_deref().is_none_or(|expected| token::is_same(expected, given.unwrap_or_default()))
    }

    /// Logs an event if `verbose` is set; `who` is the part of the program that reports it.
    pub(crate) fn say(&self, who: &str, peer: impl Display, what: impl FnOnce() -> String) {
        if self.verbose {
            log::say(format_args!("{who}: {peer}: {}", what()));
        }
    }
}

impl fmt::Debug for Listen {
    /// Omits the token, which must not appear in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Listen");
        fields.field("host", &self.host).field("port", &self.port);
        fields.field("token", &self.token.as_ref().map(|_| ".."));
        #[cfg(feature = "tls")]
        fields.field("tls", &self.tls.is_some());
        fields.field("insecure", &self.insecure).field("handshake_time", &self.handshake_time);
        fields.field("verbose", &self.verbose).finish()
    }
}

/// The time between two attempts to accept a connection when the system refuses, at first and at
/// most.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(320)];

/// Accepts connections until `woken` is closed at its other end; each is returned in blocking mode.
/// `nearby` is the listener beside the port, if any; `make_room` ends a connection when the system
/// has no descriptors for a new one.
pub(crate) fn accept(
    listener: &TcpListener,
    nearby: Option<&UnixListener>,
    woken: &UnixStream,
    welcome: impl Fn(TcpStream, SocketAddr),
    make_room: impl Fn(),
) {
    // A connection that is gone before it is accepted must not block.
    if listener.set_nonblocking(true).is_err() {
        return;
    }
    let Ok(own) = listener.local_addr() else { return };
    let mut pause = PAUSES[0];
    loop {
        // `poll` ignores negative descriptors.
        let of_nearby = nearby.map_or(-1, AsRawFd::as_raw_fd);
        let mut poll = [listener.as_raw_fd(), woken.as_raw_fd(), of_nearby].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        // SAFETY: descriptors that are open as long as the references are, in an array of as many.
        unsafe { libc::poll(poll.as_mut_ptr(), 3, -1) };
        if poll[1].revents != 0 {
            return;
        }
        // One of each in a round: neither kind waits for the other to become idle.
        #[cfg(target_os = "linux")]
        let beside = nearby.filter(|_| poll[2].revents != 0).map(|nearby| Ok((crate::nearby::accept(nearby)?, own)));
        #[cfg(not(target_os = "linux"))]
        let beside: Option<io::Result<(TcpStream, SocketAddr)>> = None;
        let of_port = (poll[0].revents != 0).then(|| listener.accept());
        for taken in [beside, of_port].into_iter().flatten() {
            match taken {
                Ok((stream, peer)) => {
                    pause = PAUSES[0];
                    let _ = stream.set_nonblocking(false);
                    welcome(stream, peer);
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                // A connection that ended before it was accepted.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                // The system or the process has no descriptors or memory left: the next attempt
                // waits until there are some.
                Err(_) => {
                    make_room();
                    // SAFETY: the second descriptor of the array, which is open.
                    unsafe { libc::poll(&raw mut poll[1], 1, pause.as_millis() as libc::c_int) };
                    pause = (pause * 2).min(PAUSES[1]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused() {
        for (host, port, token, problem) in [
            (
                "0.0.0.0",
                0,
                None,
                "0.0.0.0 can be reached from other machines, and a client can look: listen at 127.0.0.1",
            ),
            ("::", 0, Some("12345678"), ":: can be reached from other machines"),
            ("127.0.0.1", 0, Some("short"), "a token has at least 8 letters and no white space"),
            ("127.0.0.1", 0, Some("two words"), "a token has at least 8 letters and no white space"),
            ("", 0, None, "'' is not an address of this machine: "),
        ] {
            let mut listen = Listen::at(port);
            (listen.host, listen.token) = (host.to_owned(), token.map(str::to_owned));
            let error = listen.bind("look").unwrap_err();
            assert!(error.message().starts_with(problem), "{error}");
        }
        let (_taken, address) = Listen::at(0).bind("look").unwrap();
        let error = Listen::at(address.port()).bind("look").unwrap_err();
        assert!(error.message().contains("another program listens there: choose another --port"), "{error}");
    }

    #[test]
    fn tokens_are_not_shown() {
        let listen = Listen { token: Some("c2VjcmV0".to_owned()), ..Listen::at(1) };
        assert!(!format!("{listen:?}").contains("c2Vj"));
        assert!(listen.lets_in(Some("c2VjcmV0")) && !listen.lets_in(Some("c2VjcmV1")) && !listen.lets_in(None));
        assert!(Listen::at(1).lets_in(None) && Listen::at(1).lets_in(Some("any")));
        let place = crate::Place::new("tracker:9190").token("c2VjcmV0");
        assert_eq!(format!("{place:?}"), "tracker:9190");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_port_is_served_beside_the_socket_of_this_machine() {
        let listen = Listen::at(0);
        let (listener, address) = listen.bind("look").unwrap();
        let nearby = listen.bind_nearby(address).unwrap();
        let near: Vec<TcpStream> = (0..20).map(|_| crate::nearby::dial(address).unwrap()).collect();
        let far: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
        let (wake, woken) = UnixStream::pair().unwrap();
        let order = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|threads| {
            let _ = threads.spawn(|| {
                let welcome = |_: TcpStream, peer: SocketAddr| order.lock().unwrap().push(peer == address);
                accept(&listener, Some(&nearby), &woken, welcome, || ());
            });
            let end = Instant::now() + Duration::from_secs(30);
            while order.lock().unwrap().len() < near.len() + far.len() {
                assert!(Instant::now() < end);
                std::thread::sleep(Duration::from_millis(1));
            }
            drop(wake);
        });
        assert_eq!(order.lock().unwrap()[..6], [true, false, true, false, true, false], "in turns");
    }
}
