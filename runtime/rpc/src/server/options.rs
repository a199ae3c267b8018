use std::ffi::OsString;
use std::path::PathBuf;

use crate::{Limits, Listen, Place};

/// The address that a server listens at, and its limits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerOptions {
    /// The address that it listens at, and the clients that it accepts. The token also applies to
    /// clients that come through a proxy.
    pub listen: Listen,
    /// The key that clients must name; empty for none.
    pub key: String,
    /// The tracker that assigns the server to clients, by its key. Clients then connect with match
    /// keys of the tracker, each valid for one session.
    pub tracker: Option<Place>,
    /// The host that the tracker sends to clients; `None`: the host that the server connects from.
    pub tracker_host: Option<String>,
    /// A [`Proxy`](crate::Proxy) at which to wait for clients, in addition to listening. Clients
    /// then name the server's key there.
    pub proxy: Option<Place>,
    /// The limits of each session.
    pub limits: Limits,
    /// The most sessions at the same time. With a tracker, the same number is offered: 1 gives a
    /// client exclusive use of the machine.
    pub sessions: usize,
    /// The program of a session with its first arguments; `None` is the program that the server is
    /// part of, which must call [`run_session_if_asked`](crate::run_session_if_asked). The server's
    /// own program is used as it was started, even if its file is replaced or removed meanwhile; a
    /// named program must stay in its place.
    pub program: Option<(PathBuf, Vec<OsString>)>,
    /// The command that starts programs of clients (with [`Limits::run`]), as the first words of
    /// their command lines: an emulator, if the system does not start programs of this one's kind.
    /// A server that itself runs under an emulator also needs a `program` that the emulator starts.
    pub emulator: Vec<OsString>,
    /// The folder in which the folders of sessions are created; `None` is the system's folder for
    /// temporary files.
    pub folder: Option<PathBuf>,
}

impl Default for ServerOptions {
    /// The loopback address and port 9090, without key and token.
    fn default() -> Self {
        Self {
            listen: Listen::at(9090),
            key: String::new(),
            tracker: None,
            tracker_host: None,
            proxy: None,
            limits: Limits::default(),
            sessions: 64,
            program: None,
            emulator: Vec::new(),
            folder: None,
        }
    }
}
