use std::time::{Duration, Instant};

use kernpack::{Error, Result, ensure};

use super::address::{dial, host_and_port};
use super::line::{Line, Times};
use super::session::Session;
use super::shared::Shared;
use crate::wire::{Code, Encoder, Key, Transport, VERSION, WireError, greet, greet_through_proxy};

/// The upper bound of the timeout of a small request, whatever the timeout of calls is.
const SERVER: Duration = Duration::from_secs(60);

/// The options of a session. [`connect`] creates them, [`Connect::open`] opens the session.
///
/// ```no_run
/// use std::time::{Duration, Instant};
/// let session = kernpack_rpc::connect("192.168.0.7:9090")
///     .key("pi")
///     .timeout(Duration::from_secs(20))
///     .open()?;
/// # Ok::<(), kernpack::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing happens before `open`"]
pub struct Connect {
    address: String,
    key: Key,
    timeout: Duration,
    connect_timeout: Duration,
    hops: Vec<Hop>,
    through_proxy: bool,
    #[cfg(feature = "tls")]
    tls: Option<crate::tls::Trust>,
}

/// A further server.
#[derive(Clone, Debug)]
struct Hop {
    address: String,
    key: String,
}

/// Begins a session with the RPC server at `host:port` (default port: 9090).
pub fn connect(address: impl Into<String>) -> Connect {
    Connect {
        address: address.into(),
        key: Key::client(""),
        timeout: Duration::from_secs(600),
        connect_timeout: Duration::from_secs(10),
        hops: Vec::new(),
        through_proxy: false,
        #[cfg(feature = "tls")]
        tls: None,
    }
}

impl Connect {
    /// Sets the key of the server; the default is no key.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key.name = key.into();
        self
    }

    /// Sets the token of the server. It is not sent: client and server prove to each other that
    /// they know it. Without TLS ([`Connect::tls`]), others in the network can read and change what
    /// follows, and can test guesses of a short token offline: use 32 random digits or more, as
    /// `cargo kernpack rpc keygen` does.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.key.token = Some(token.into());
        self
    }

    /// Declares that a [`Proxy`](crate::Proxy) is at the address, and the server behind it. This
    /// matters with a [`token`](Connect::token): it is proved to a proxy, and to a server through
    /// one, only if the user declares the proxy, because a proof that passes through another
    /// program is not tied to the connection.
    pub fn through_proxy(mut self) -> Self {
        self.through_proxy = true;
        self
    }

    /// Uses TLS, and verifies the server in this way.
    ///
    /// ```no_run
    /// use kernpack_rpc::tls::Trust;
    /// let fingerprint = "4a..".parse()?;
    /// let session = kernpack_rpc::connect("board:9090").tls(Trust::Fingerprint(fingerprint)).token("..").open()?;
    /// # Ok::<(), kernpack::Error>(())
    /// ```
    #[cfg(feature = "tls")]
    pub fn tls(mut self, trust: crate::tls::Trust) -> Self {
        self.tls = Some(trust);
        self
    }

    /// Sets the longest time that a call may take until its result arrives; the default is 10
    /// minutes. A call that takes longer fails with a TimeoutError and ends the session. Small
    /// requests (memory, attributes, frees) have the same timeout, but at most a minute.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the longest time that it may take to reach the server; the default is 10 seconds.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the longest total duration of the session: the server then ends it with an
    /// RPCSessionTimeoutError, also in the middle of a call.
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.key.timeout = Some(timeout);
        self
    }

    /// Connects from the server to another one, which only that server can reach: the session is
    /// then with the last server named.
    ///
    /// ```no_run
    /// // A board behind a gateway.
    /// let session = kernpack_rpc::connect("gateway:9090").hop("10.0.0.2:9090", "pi").open()?;
    /// # Ok::<(), kernpack::Error>(())
    /// ```
    pub fn hop(mut self, address: impl Into<String>, key: impl Into<String>) -> Self {
        self.hops.push(Hop { address: address.into(), key: key.into() });
        self
    }

    /// Opens the session.
    ///
    /// # Errors
    /// ValueError for an invalid address or key; ConnectionError when the server is not there, has
    /// another key, or does not speak this protocol; TimeoutError when it does not answer in time;
    /// RuntimeError when this process already has 32 sessions.
    pub fn open(self) -> Result<Session> {
        ensure!(
            !self.timeout.is_zero() && !self.connect_timeout.is_zero(),
            ValueError,
            "a timeout is longer than zero"
        );
        self.key.check()?;
        #[cfg(feature = "tls")]
        let nearby = self.tls.is_none();
        #[cfg(not(feature = "tls"))]
        let nearby = true;
        let begun = Instant::now();
        let stream = dial(&self.address, nearby, self.connect_timeout)?;
        #[cfg(feature = "tls")]
        if let Some(trust) = &self.tls {
            let (host, _) = host_and_port(&self.address)?;
            let stream = crate::tls::TlsConnector::new(trust)?.connect(host, stream, self.left(begun))?;
            return self.open_at(begun, Box::new(stream));
        }
        self.open_at(begun, Box::new(stream))
    }

    /// The rest of the time for reaching the server.
    fn left(&self, begun: Instant) -> Duration {
        self.connect_timeout.saturating_sub(begun.elapsed()).max(Duration::from_millis(1))
    }

    /// Opens the session over an existing connection: TLS, a pipe to a program, ... The address
    /// only names the server in messages.
    ///
    /// # Errors
    /// As for [`Connect::open`].
    pub fn open_over(self, transport: Box<dyn Transport>) -> Result<Session> {
        self.open_at(Instant::now(), transport)
    }

    /// Opens the session over a connection whose establishment began at `begun`.
    fn open_at(self, begun: Instant, mut transport: Box<dyn Transport>) -> Result<Session> {
        let mut body = (VERSION.len() as u64).to_le_bytes().to_vec();
        body.extend_from_slice(VERSION.as_bytes());
        self.constructor(&mut body)?;
        let meet = if self.through_proxy { greet_through_proxy } else { greet };
        let server = meet(&mut transport, &self.key, self.left(begun)).map_err(|error| self.refused(error))?;
        let peer = match self.hops.last() {
            None => self.address.clone(),
            Some(last) => format!("{} (through {})", last.address, self.address),
        };
        let times = Times { call: self.timeout, server: self.timeout.min(SERVER) };
        let mut line = Line::new(transport, times, peer.clone());
        line.request(super::line::Wait::Server, Code::InitServer, &body, &[])
            .map_err(|error| not_begun(&peer, &error))?;
        Ok(Session::new(Shared::new(line, peer, !self.hops.is_empty())?, server.name))
    }

    /// Encodes the arguments from which the server constructs its session: nothing, or the route to
    /// the next server.
    fn constructor(&self, body: &mut Vec<u8>) -> Result<()> {
        let mut encoder = Encoder::begin(body, 5 * self.hops.len());
        for hop in &self.hops {
            let (host, port) = host_and_port(&hop.address)?;
            // The arguments after the fourth are those from which that server constructs its
            // session.
            encoder.text("rpc.Connect").text(host).int(i64::from(port)).text(&hop.key).bool(false);
        }
        Ok(())
    }

    fn refused(&self, error: WireError) -> Error {
        let address = &self.address;
        match error {
            WireError::TimedOut { .. } => Error::new(
                "TimeoutError",
                format!(
                    "the server {address} took the connection, but sent nothing for {} s; stock servers serve one client at a time, so another \
                     one may be there",
                    self.connect_timeout.as_secs_f64()
                ),
            ),
            WireError::Closed | WireError::Cut => Error::new(
                "ConnectionError",
                format!(
                    "the server {address} closed the connection: it is not an RPC server, or wants a token, TLS, or another key"
                ),
            ),
            WireError::Content(problem) => {
                Error::new("ConnectionError", format!("no session with {address}: {problem}"))
            }
            other => Error::new("ConnectionError", format!("no session with {address}: {other}")),
        }
    }
}

/// The error of a server that does not begin a session. The usual reason is another version.
fn not_begun(peer: &str, error: &Error) -> Error {
    let kind = if error.kind() == "TimeoutError" { "TimeoutError" } else { "ConnectionError" };
    Error::new(
        kind,
        format!("{peer} did not begin the session: {error} (this client speaks version {VERSION} of the protocol)"),
    )
}
