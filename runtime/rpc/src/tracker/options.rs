use std::fmt;

use super::PORT;
use crate::Listen;

/// The address that a tracker listens at, and its limits.
#[derive(Clone)]
#[non_exhaustive]
pub struct TrackerOptions {
    /// The address that it listens at, and the peers that it accepts. Peers of Apache TVM cannot
    /// send a token.
    pub listen: Listen,
    /// The key that a peer must send to end the tracker; with `None` no peer can.
    pub stop_key: Option<String>,
    /// Allows servers to name hosts other than those that they connect from, as
    /// [`ServerOptions::tracker_host`](crate::ServerOptions) does behind a router. Each server can
    /// then send clients to any address.
    pub any_host: bool,
    /// The most connections at the same time: each server has one, and each client that sends a
    /// request or waits. Limited by the descriptors that the process may open (`ulimit -n`).
    pub connections: usize,
}

impl Default for TrackerOptions {
    /// The loopback address and port 9190.
    fn default() -> Self {
        Self { listen: Listen::at(PORT), stop_key: None, any_host: false, connections: 4096 }
    }
}

impl fmt::Debug for TrackerOptions {
    /// Omits the stop key, which must not appear in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrackerOptions")
            .field("listen", &self.listen)
            .field("stop_key", &self.stop_key.as_ref().map(|_| ".."))
            .field("any_host", &self.any_host)
            .field("connections", &self.connections)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stop_key_is_not_shown() {
        let options = TrackerOptions { stop_key: Some("c2VjcmV0".to_owned()), ..TrackerOptions::default() };
        let text = format!("{options:?}");
        assert!(!text.contains("c2Vj") && text.contains("connections: 4096"), "{text}");
    }
}
