use std::fmt;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use kernpack::Result;

use crate::client::dial_to;
use crate::line::Line;

/// The address of a tracker or a proxy, and what its peers need to connect: its token and
/// certificate.
///
/// ```
/// let mut options = kernpack_rpc::ServerOptions::default();
/// options.tracker = Some(kernpack_rpc::Place::new("tracker:9190").token("c2VjcmV0IHRva2Vu"));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Place {
    /// `host:port`, or the host alone for the usual port: 9190 of a tracker, 9090 of a proxy.
    pub address: String,
    /// The token that it was started with.
    pub token: Option<String>,
    /// The way to verify its certificate; `None` is without TLS.
    #[cfg(feature = "tls")]
    pub tls: Option<crate::tls::Trust>,
}

impl Place {
    /// Creates an address without token and TLS.
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            token: None,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    /// Sets the token that it was started with.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Uses TLS, and verifies its certificate in this way.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, trust: crate::tls::Trust) -> Self {
        self.tls = Some(trust);
        self
    }

    /// Connects, before TLS; `usual` is the default port, `what` names the peer in messages.
    pub(crate) fn dial(&self, usual: u16, what: &str, within: Duration) -> Result<TcpStream> {
        dial_to(&self.address, usual, what, within)
    }

    /// Returns true if the connection uses TLS.
    pub(crate) fn has_tls(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }

    /// Returns true if it is on this machine: all addresses of its name are loopback addresses.
    /// False for a name that cannot be resolved now.
    pub(crate) fn is_loopback(&self) -> bool {
        let found = crate::client::host_and_port(&self.address).and_then(|address| Ok(address.to_socket_addrs()?));
        found.is_ok_and(|mut found| found.all(|address| address.ip().to_canonical().is_loopback()))
    }

    /// Begins TLS on a connection, if it is configured.
    #[cfg(feature = "tls")]
    pub(crate) fn secure(&self, stream: TcpStream, within: Duration) -> Result<Line> {
        let Some(trust) = &self.tls else { return Ok(Line::Plain(stream)) };
        let (host, _) = crate::client::host_and_port(&self.address)?;
        Ok(Line::over(crate::tls::TlsConnector::new(trust)?.connect(host, stream, within)?))
    }

    #[cfg(not(feature = "tls"))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "with TLS it needs both")]
    pub(crate) fn secure(&self, stream: TcpStream, _: Duration) -> Result<Line> {
        Ok(Line::Plain(stream))
    }
}

impl fmt::Debug for Place {
    /// Omits the token, which must not appear in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}
