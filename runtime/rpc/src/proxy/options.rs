use std::fmt;
use std::time::Duration;

/// How a proxy listens, and what it allows.
#[derive(Clone)]
#[non_exhaustive]
pub struct ProxyOptions {
    /// The address to listen at: a name or a number. Others than those of this machine need TLS and a token, or `insecure`.
    pub host: String,
    /// The port; 0 is any that is free.
    pub port: u16,
    /// What servers and clients must prove to know; `None` lets all in. A server behind the proxy gets the client's token, too.
    pub token: Option<String>,
    /// The certificate for TLS; `None` is without TLS. The proxy itself reads what is sent.
    #[cfg(feature = "tls")]
    pub tls: Option<crate::tls::TlsAcceptor>,
    /// Listens for other machines without TLS and token: all that reach the port can run code on all servers behind it.
    pub insecure: bool,
    /// How long a client waits for a server of its key.
    pub wait: Duration,
    /// How long a handshake may take.
    pub handshake_time: Duration,
    /// Connections of servers and clients at one time.
    pub connections: usize,
    /// Says on stderr who comes and goes.
    pub verbose: bool,
}

impl ProxyOptions {
    /// Whether strangers can neither use the proxy nor read what is sent.
    pub(super) fn is_guarded(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some() && self.token.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }
}

impl Default for ProxyOptions {
    /// The loopback address and port 9090; a client waits 10 minutes.
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 9090,
            token: None,
            #[cfg(feature = "tls")]
            tls: None,
            insecure: false,
            wait: Duration::from_secs(600),
            handshake_time: Duration::from_secs(10),
            connections: 1024,
            verbose: false,
        }
    }
}

impl fmt::Debug for ProxyOptions {
    /// Without the token, which must not come into logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyOptions")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("token", &self.token.as_ref().map(|_| "..."))
            .field("insecure", &self.insecure)
            .field("wait", &self.wait)
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}
