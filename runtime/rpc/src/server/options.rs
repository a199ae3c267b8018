use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::limits::Limits;

/// How a server listens, and what it allows.
#[derive(Clone)]
#[non_exhaustive]
pub struct ServerOptions {
    /// The address to listen at: a name or a number. Others than those of this machine need `insecure`.
    pub host: String,
    /// The port; 0 is any that is free.
    pub port: u16,
    /// The key that clients must name; empty for none.
    pub key: String,
    /// What clients must prove to know; `None` lets all in.
    pub token: Option<String>,
    /// The tracker that gives the server to clients, by its key: `host:port`. Clients then come with match keys of the tracker, each good for one session.
    pub tracker: Option<String>,
    /// The host that the tracker tells clients; `None`: the one that it sees the server come from.
    pub tracker_host: Option<String>,
    /// The tracker's token.
    pub tracker_token: Option<String>,
    /// What is known of the tracker's certificate; `None` is without TLS.
    #[cfg(feature = "tls")]
    pub tracker_tls: Option<crate::tls::Trust>,
    /// A [`Proxy`](crate::Proxy) to wait for clients at, besides listening: `host:port`. Clients then name the server's key there.
    pub proxy: Option<String>,
    /// The proxy's token.
    pub proxy_token: Option<String>,
    /// What is known of the proxy's certificate; `None` is without TLS.
    #[cfg(feature = "tls")]
    pub proxy_tls: Option<crate::tls::Trust>,
    /// The certificate for TLS; `None` is without TLS.
    #[cfg(feature = "tls")]
    pub tls: Option<crate::tls::TlsAcceptor>,
    /// Listens for other machines without TLS and token: all that reaches the port can run any code here.
    pub insecure: bool,
    /// What each session may use.
    pub limits: Limits,
    /// Sessions at one time. With a tracker as many are offered: 1 gives a client the machine for itself.
    pub sessions: usize,
    /// How long a handshake may take.
    pub handshake_time: Duration,
    /// The program of a session with its first arguments; `None` is the program that the server is part of, which must call
    /// [`run_session_if_asked`](crate::run_session_if_asked). The server's own program serves as it was started, also when its file is
    /// replaced or removed meanwhile; one that is named must stay where it is.
    pub program: Option<(PathBuf, Vec<OsString>)>,
    /// What starts programs that clients run (with [`Limits::run`]), as the first words of their command lines: an emulator, where the system does not
    /// start programs of this one's kind. A server under an emulator needs a `program` that is started by it, too.
    pub emulator: Vec<OsString>,
    /// Where the folders of sessions are made; `None` is the system's folder for temporary files.
    pub folder: Option<PathBuf>,
    /// Says on stderr when sessions begin and end.
    pub verbose: bool,
}

impl ServerOptions {
    /// Whether strangers can neither use the server nor read what is sent.
    pub(super) fn is_guarded(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some() && self.token.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }
}

impl Default for ServerOptions {
    /// The loopback address and port 9090, without key and token.
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 9090,
            key: String::new(),
            token: None,
            tracker: None,
            tracker_host: None,
            tracker_token: None,
            #[cfg(feature = "tls")]
            tracker_tls: None,
            proxy: None,
            proxy_token: None,
            #[cfg(feature = "tls")]
            proxy_tls: None,
            #[cfg(feature = "tls")]
            tls: None,
            insecure: false,
            limits: Limits::default(),
            sessions: 64,
            handshake_time: Duration::from_secs(10),
            program: None,
            emulator: Vec::new(),
            folder: None,
            verbose: false,
        }
    }
}

impl fmt::Debug for ServerOptions {
    /// Without the token, which must not come into logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerOptions")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("key", &self.key)
            .field("token", &self.token.as_ref().map(|_| "..."))
            .field("insecure", &self.insecure)
            .field("limits", &self.limits)
            .field("sessions", &self.sessions)
            .finish_non_exhaustive()
    }
}
