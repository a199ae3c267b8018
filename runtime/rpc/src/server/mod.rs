//! The server: it listens, accepts clients, and starts a process for each session.

mod folder;
mod options;
mod outward;
mod program;
mod sessions;

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use kernpack::{Result, bail, ensure, error};

pub use self::options::ServerOptions;
use self::program::Program;
use self::sessions::Sessions;
use crate::listen::accept;
use crate::tracker::{Offer, Registration};
use crate::wire::notice_when_gone;
use crate::{Place, process};

/// A server that listens. Dropping it ends all sessions.
pub struct Server {
    address: SocketAddr,
    sessions: Arc<Sessions>,
    /// Closed to stop listening.
    wake: Option<UnixStream>,
    listener: Option<JoinHandle<()>>,
    /// Waits for clients at a proxy.
    outward: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts to listen, and returns at once.
    ///
    /// ```
    /// use kernpack_rpc::{Server, ServerOptions};
    ///
    /// kernpack_rpc::run_session_if_asked();
    /// let mut options = ServerOptions::default();
    /// options.listen.host = "0.0.0.0".to_owned();
    /// let error = Server::start(options).err().unwrap();
    /// assert!(error.message().contains("--insecure"));
    /// ```
    ///
    /// # Errors
    /// ValueError for options that do not go together, such as an address for other machines, or a
    /// proxy on one, without TLS and a token, or `insecure`; RuntimeError when it cannot listen at
    /// the address, or when there is no program for sessions.
    pub fn start(options: ServerOptions) -> Result<Self> {
        ensure!(options.sessions > 0, ValueError, "a server has at least one session at a time");
        ensure!(
            options.listen.token.is_some() || !options.limits.run,
            ValueError,
            "a server that runs programs for clients needs a token that they know: --allow-run goes with --token-file"
        );
        ensure!(
            options.program.is_some() || process::was_asked(),
            RuntimeError,
            "the server starts this program once more for each session: call kernpack_rpc::run_session_if_asked() first in `main`, or \
             name another program in ServerOptions::program"
        );
        if let Some(proxy) = &options.proxy {
            check_proxy(&options, proxy)?;
        }
        let (listener, address) = options.listen.bind("run any code here")?;
        let failed = |problem: io::Error| error!(RuntimeError, "the server cannot start: {problem}");
        let (wake, woken) = UnixStream::pair().map_err(failed)?;
        let program = Program::new(options.program.clone()).map_err(failed)?;
        let registration = match &options.tracker {
            None => None,
            Some(tracker) => Some(Registration::start(Offer {
                tracker: tracker.clone(),
                key: options.key.clone(),
                port: address.port(),
                host: options.tracker_host.clone(),
                sessions: options.sessions,
            })?),
        };
        let sessions = Arc::new(Sessions::new(options, program, registration));
        let shared = Arc::clone(&sessions);
        let nearby = shared.options.listen.bind_nearby(address);
        let listening = thread::Builder::new().name("rpc-listen".to_owned()).spawn(move || {
            let welcome = |stream, peer| welcome(&shared, stream, peer);
            accept(&listener, nearby.as_ref(), &woken, welcome, || shared.make_room());
        });
        let mut server =
            Self { address, sessions, wake: Some(wake), listener: Some(listening.map_err(failed)?), outward: None };
        if let Some(proxy) = server.sessions.options.proxy.clone() {
            let own = Arc::clone(&server.sessions);
            let waiting =
                thread::Builder::new().name("rpc-outward".to_owned()).spawn(move || outward::run(&own, &proxy));
            server.outward = Some(waiting.map_err(failed)?);
        }
        Ok(server)
    }

    /// The address that it listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of sessions.
    pub fn session_count(&self) -> usize {
        self.sessions.count()
    }

    /// Returns true if its tracker has its registration now; false without a tracker.
    pub fn is_registered(&self) -> bool {
        self.sessions.is_registered()
    }

    /// Waits as long as the server listens, that is, until the process ends.
    pub fn wait(mut self) {
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }

    /// Stops listening and ends all sessions; their clients are notified. [`Drop`] does the same.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // First of all: a session that ends now must not make room for a client of a proxy.
        self.sessions.stop();
        drop(self.wake.take());
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
        self.sessions.end();
        if let Some(outward) = self.outward.take() {
            let _ = outward.join();
        }
    }
}

/// Checks the options for a proxy. The process at a proxy's address sends clients to the server, so
/// the rules for listening apply to it, too.
///
/// # Errors
/// ValueError for a proxy of another machine without TLS, or without a token, unless all clients
/// are allowed.
fn check_proxy(options: &ServerOptions, proxy: &Place) -> Result<()> {
    let has_token = proxy.token.is_some() || options.listen.token.is_some();
    if options.listen.insecure || proxy.is_loopback() || proxy.has_tls() && has_token {
        return Ok(());
    }
    let address = &proxy.address;
    let missing =
        if proxy.has_tls() { "a token (--token-file, or --proxy-token-file)" } else { "TLS (--proxy-fingerprint)" };
    bail!(
        ValueError,
        "the proxy {address} is on another machine, and a client that comes from there can run any code here: use {missing}, connect \
         through a tunnel at 127.0.0.1 (for example `ssh -L`), or say --insecure if all machines on the way may do that"
    )
}

fn welcome(sessions: &Arc<Sessions>, stream: TcpStream, peer: SocketAddr) {
    let _ = stream.set_nodelay(true);
    notice_when_gone(&stream);
    let Some(ticket) = sessions.enter(&stream, peer.ip()) else { return };
    let shared = Arc::clone(sessions);
    let thread = thread::Builder::new().name("rpc-session".to_owned()).stack_size(256 << 10);
    // Without memory for a thread the connection is closed, and the ticket returned.
    let _ = thread.spawn(move || shared.serve(ticket, stream, peer));
}
