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
    /// Servers may say that they are at other hosts than they connect from, as [`ServerOptions::tracker_host`](crate::ServerOptions) does
    /// behind a router. Each of them can send clients anywhere then.
    pub any_host: bool,
    /// Connections at one time: each server has one, and each client that asks or waits. Not more than the process may have descriptors for
    /// (`ulimit -n`).
    pub connections: usize,
}

impl Default for TrackerOptions {
    /// The loopback address and port 9190.
    fn default() -> Self {
        Self { listen: Listen::at(PORT), stop_key: None, any_host: false, connections: 4096 }
    }
}

impl fmt::Debug for TrackerOptions {
    /// Without the stop key, which must not come into logs.
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
