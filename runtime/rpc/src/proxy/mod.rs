//! The proxy: connects clients to servers behind a firewall.
//!
//! A server that clients cannot reach connects to the proxy, under its key, and waits there; a
//! client connects to the proxy, too, and names the key. The proxy forwards the bytes of both, and
//! reads only the handshake. With a tracker it offers its servers there, and clients name match
//! keys. Servers, clients and trackers may be those of Apache TVM.

mod options;
mod pair;
mod pool;

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kernpack::{Result, ensure, error};

pub use self::options::ProxyOptions;
use self::pool::{Pool, Waiting};
use crate::guests::{Guest, Guests, room};
use crate::line::Line;
use crate::listen::accept;
use crate::tracker::{Offer, Registration};
use crate::wire::proof::Relation;
use crate::wire::{Hello, Key, answer, hear, notice_when_gone};

/// The interval at which servers that have gone are removed.
const SWEEP: Duration = Duration::from_secs(2);

/// A proxy that listens. Dropping it ends all connections.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Closed to stop listening.
    wake: Option<UnixStream>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    options: ProxyOptions,
    /// The port that it listens at, for a tracker.
    port: u16,
    guests: Arc<Guests>,
    pool: Pool,
}

impl Proxy {
    /// Starts to listen, and returns at once.
    ///
    /// ```
    /// use kernpack_rpc::{Proxy, ProxyOptions};
    ///
    /// let mut options = ProxyOptions::default();
    /// options.listen.port = 0;
    /// let proxy = Proxy::start(options)?;
    /// assert!(proxy.address().ip().is_loopback());
    /// # Ok::<(), kernpack::Error>(())
    /// ```
    ///
    /// # Errors
    /// ValueError for invalid options, such as an address for other machines without TLS and a
    /// token, or `insecure`; RuntimeError when it cannot listen at the address.
    pub fn start(options: ProxyOptions) -> Result<Self> {
        ensure!(options.connections > 1, ValueError, "a proxy has two connections at a time at least");
        let (listener, address) = options.listen.bind("offer servers, and run any code on those of others")?;
        let failed = |problem: io::Error| error!(RuntimeError, "the proxy cannot start: {problem}");
        let (wake, woken) = UnixStream::pair().map_err(failed)?;
        // A session needs two more descriptors on each side.
        let guests = Arc::new(Guests::new(room(options.connections, options.listen.descriptors() + 2).max(2)));
        let shared = Arc::new(Shared { options, port: address.port(), guests, pool: Pool::default() });
        let (of_listener, of_sweeper) = (Arc::clone(&shared), Arc::clone(&shared));
        let mut threads = Vec::new();
        let listening = thread::Builder::new().name("rpc-proxy".to_owned()).spawn(move || {
            let welcome = |stream, peer| welcome(&of_listener, stream, peer);
            accept(&listener, None, &woken, welcome, || of_listener.guests.make_room());
        });
        threads.push(listening.map_err(failed)?);
        // From here on a failure stops what was started.
        let mut proxy = Self { address, shared, wake: Some(wake), threads };
        let sweeping = thread::Builder::new()
            .name("rpc-proxy-sweep".to_owned())
            .spawn(move || while of_sweeper.pool.sweep_after(SWEEP) {});
        proxy.threads.push(sweeping.map_err(failed)?);
        Ok(proxy)
    }

    /// The address that it listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of servers that wait for clients.
    pub fn waiting_servers(&self) -> usize {
        self.shared.pool.waiting()
    }

    /// The number of connections, of servers and clients.
    pub fn connections(&self) -> usize {
        self.shared.guests.count()
    }

    /// Waits as long as the proxy listens, that is, until the process ends.
    pub fn wait(mut self) {
        for thread in std::mem::take(&mut self.threads) {
            let _ = thread.join();
        }
    }

    /// Stops listening and ends all connections. [`Drop`] does the same.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.wake.take());
        self.shared.pool.stop();
        for thread in std::mem::take(&mut self.threads) {
            let _ = thread.join();
        }
        self.shared.guests.end();
    }
}

fn welcome(shared: &Arc<Shared>, stream: TcpStream, peer: SocketAddr) {
    let _ = stream.set_nodelay(true);
    notice_when_gone(&stream);
    // The protocol has no message for a full proxy: the connection is closed.
    let Some(guest) = shared.guests.enter(&stream, peer.ip()) else { return };
    let own = Arc::clone(shared);
    let thread = thread::Builder::new().name("rpc-guest".to_owned()).stack_size(256 << 10);
    let _ = thread.spawn(move || own.serve(guest, stream, peer));
}

impl Shared {
    fn say(&self, peer: SocketAddr, what: impl FnOnce() -> String) {
        self.options.listen.say("kernpack-rpc proxy", peer, what);
    }

    /// Serves a connection: a server until it waits, a client until it ends.
    fn serve(&self, guest: Guest, stream: TcpStream, peer: SocketAddr) {
        // Strangers do not get an answer, and are not logged.
        let listen = &self.options.listen;
        let begun = Instant::now();
        let Some(mut line) = listen.line(stream) else { return };
        let Ok(key) = hear(line.transport(), listen.left(begun)) else { return };
        let relation = match key.role.as_str() {
            "server" => Relation::ServerProxy,
            "client" => Relation::ClientProxy,
            _ => return,
        };
        if !listen.admit(line.transport(), &key, relation, begun) {
            return;
        }
        match listen.token {
            Some(_) => guest.is_known(),
            None => guest.is_unproved(),
        }
        match key.role.as_str() {
            "server" => {
                self.say(peer, || format!("a server of key '{}' waits", key.name));
                let server = Waiting { line, key, guest, registration: None };
                if let Err(problem) = self.pool.offer(server, |key| self.register(key)) {
                    self.say(peer, || format!("the server is not taken: {}", problem.message()));
                }
            }
            _ => {
                let name = key.name.clone();
                self.say(peer, || format!("a client asks for key '{name}'"));
                let ended = self.bring_together(line, key);
                self.say(peer, || format!("the client of key '{name}' {ended}"));
                drop(guest);
            }
        }
    }

    /// Offers a server at the tracker, if there is one.
    fn register(&self, key: &Key) -> Result<Option<Registration>> {
        let Some(tracker) = &self.options.tracker else { return Ok(None) };
        let registration = Registration::start(Offer {
            tracker: tracker.clone(),
            key: key.name.clone(),
            port: self.port,
            host: self.options.tracker_host.clone(),
            sessions: 1,
        })?;
        Ok(Some(registration.detached()))
    }

    /// Connects a client to a server of its key, or to the server of its match key, and returns
    /// when their session has ended, with the way it ended.
    fn bring_together(&self, mut line: Line, key: Key) -> &'static str {
        let within = self.options.listen.handshake_time;
        let deadline = Instant::now().checked_add(self.options.wait);
        loop {
            // The claim of a tracker's server is returned when the session has ended.
            let found = match self.options.tracker {
                Some(_) => self.pool.claim(&key.name).map(|(server, claim)| (server, Some(claim))),
                None => self.pool.take(&key.name, deadline, line.descriptor()).map(|server| (server, None)),
            };
            let Some((mut server, _claim)) = found else {
                let _ = answer(line.transport(), Hello::NoMatchingKey, &key, within);
                return "found no server";
            };
            // Options of a server's key are for the proxy only, and a match key for the proxy and
            // the tracker.
            let of_server = Key::server(server.key.name.as_str());
            // A server that asks for a token itself answers the client, if the client can prove
            // one.
            let answers = server.key.answers && key.nonce.is_some();
            // It gets the name that the client has sent, which is a part of the proof.
            let name = if answers { key.name.clone() } else { of_server.name.clone() };
            let of_client = Key { name, answers, proof: None, ..key.clone() };
            // A server that has gone meanwhile does not concern the client: the next one is tried.
            if answer(server.line.transport(), Hello::Welcome, &of_client, within).is_err() {
                continue;
            }
            if !answers && answer(line.transport(), Hello::Welcome, &of_server, within).is_err() {
                return "has gone";
            }
            return match pair::pass_on(line, server.line) {
                Ok(()) => "has ended its session",
                Err(_) => "could not be connected",
            };
        }
    }
}
