use std::time::Duration;

use crate::{Listen, Place};

/// The address that a proxy listens at, and its limits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProxyOptions {
    /// The address that it listens at, and the servers and clients that it accepts. A server behind
    /// the proxy that has a token asks the client for it, too. The proxy itself reads the content
    /// of TLS connections.
    pub listen: Listen,
    /// The tracker that assigns the servers to clients, each under its key. Clients then name a
    /// match key of the tracker, and nothing else.
    pub tracker: Option<Place>,
    /// The host that the tracker sends to clients; `None`: the host that the proxy connects from.
    pub tracker_host: Option<String>,
    /// The time that a client waits for a server of its key.
    pub wait: Duration,
    /// The most connections of servers and clients at the same time. Limited by the descriptors
    /// that the process may open (`ulimit -n`).
    pub connections: usize,
}

impl Default for ProxyOptions {
    /// The loopback address and port 9090; a client waits 10 minutes.
    fn default() -> Self {
        Self {
            listen: Listen::at(9090),
            tracker: None,
            tracker_host: None,
            wait: Duration::from_secs(600),
            connections: 1024,
        }
    }
}
