//! The tracker itself: it listens, and has a thread for each connection.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use kernpack::{Result, ensure, error};
use serde_json::{Value, json};

use super::host::address_of;
use super::message::{Code, Line, MOST_TO_TRACKER, shortened};
use super::options::TrackerOptions;
use super::queue::{Free, Queue};
use super::summary::{KeyStatus, Summary};
use crate::guests::{Guest, Guests, room};
use crate::listen::accept;
use crate::token::is_same;
use crate::wire::proof::Relation;
use crate::wire::{WireError, notice_when_gone};

/// The most servers of one connection at the same time, and the most requests: stock clients have
/// one, and wait for its answer.
const MOST_OF_PEER: usize = 1024;
const MOST_REQUESTS: usize = 64;

/// The largest size of a key, a match key and a host name, in bytes.
const MOST_OF_TEXT: usize = 256;

/// A tracker that listens. Dropping it ends all connections.
pub struct Tracker {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

struct Shared {
    options: TrackerOptions,
    guests: Arc<Guests>,
    state: Mutex<State>,
    /// Closed to stop listening.
    wake: Mutex<Option<UnixStream>>,
}

#[derive(Default)]
struct State {
    queue: Queue,
    peers: HashMap<u64, Peer>,
}

struct Peer {
    /// Used to answer the peer, and to assign it a server while its own thread reads.
    writer: Arc<Mutex<Line>>,
    /// A server's information about itself.
    info: Option<Value>,
    /// The proven relation of the peer to the tracker, if any.
    relation: Option<Relation>,
}

impl Tracker {
    /// Starts to listen, and returns at once.
    ///
    /// # Errors
    /// ValueError for an address of other machines without TLS and a token or `insecure`, for an
    /// invalid token, and for zero connections; RuntimeError when it cannot listen at the address.
    pub fn start(options: TrackerOptions) -> Result<Self> {
        ensure!(options.connections > 0, ValueError, "a tracker has at least one connection at a time");
        let (listener, address) =
            options.listen.bind("offer servers that run its own code, and take those of others")?;
        let failed = |problem: io::Error| error!(RuntimeError, "the tracker cannot start: {problem}");
        let (wake, woken) = UnixStream::pair().map_err(failed)?;
        let guests = Arc::new(Guests::new(room(options.connections, options.listen.descriptors())));
        let shared = Arc::new(Shared { options, guests, state: Mutex::default(), wake: Mutex::new(Some(wake)) });
        let own = Arc::clone(&shared);
        let listening = thread::Builder::new().name("rpc-tracker".to_owned()).spawn(move || {
            let welcome = |stream, peer| welcome(&own, stream, peer);
            accept(&listener, None, &woken, welcome, || own.guests.make_room());
        });
        Ok(Self { address, shared, listener: Some(listening.map_err(failed)?) })
    }

    /// The address that it listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits as long as the tracker listens: until a peer sends the stop key, or the process ends.
    pub fn wait(mut self) {
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }

    /// Stops listening and ends all connections. [`Drop`] does the same.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Tracker {
    fn drop(&mut self) {
        self.shared.stop();
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
        self.shared.guests.end();
    }
}

fn welcome(shared: &Arc<Shared>, stream: TcpStream, peer: SocketAddr) {
    let _ = stream.set_nodelay(true);
    notice_when_gone(&stream);
    // The protocol has no message for a full tracker: the connection is closed.
    let Some(guest) = shared.guests.enter(&stream, peer.ip()) else { return };
    let own = Arc::clone(shared);
    let thread = thread::Builder::new().name("rpc-peer".to_owned()).stack_size(256 << 10);
    let _ = thread.spawn(move || own.serve(&guest, stream, peer));
}

/// A key, match key or host of a peer: one word without control characters.
fn word(value: &Value) -> Option<&str> {
    let text = value.as_str().filter(|text| !text.is_empty() && text.len() <= MOST_OF_TEXT)?;
    (!text.contains(|letter: char| letter.is_control() || letter.is_whitespace())).then_some(text)
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, peer: SocketAddr, what: impl FnOnce() -> String) {
        self.options.listen.say("kernpack-rpc tracker", peer, what);
    }

    fn stop(&self) {
        drop(self.wake.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.guests.close();
    }

    fn forget(&self, number: u64) {
        let mut state = self.lock();
        let _ = state.peers.remove(&number);
        state.queue.forget(number);
    }

    /// Serves a connection until it ends.
    fn serve(&self, guest: &Guest, stream: TcpStream, peer: SocketAddr) {
        let ended = self.talk(guest, stream, peer);
        self.forget(guest.number());
        if let Err(error) = ended
            && !matches!(error, WireError::Closed)
        {
            self.say(peer, || format!("connection ended: {error}"));
        }
    }

    fn talk(&self, guest: &Guest, stream: TcpStream, peer: SocketAddr) -> Result<(), WireError> {
        let begun = Instant::now();
        let mut outside = self.options.listen.line(stream).ok_or(WireError::Cut)?;
        let (inside, channel) = (outside.for_session().map_err(WireError::Io)?, outside.channel());
        // Without TLS one descriptor is enough.
        let outside = outside.needs_passing().then_some(outside);
        let mut line = Line::new(TcpStream::from(inside)).map_err(WireError::Io)?;
        line.set_channel(channel);
        self.remember(guest.number(), &line);
        thread::scope(|threads| {
            let thread = thread::Builder::new().name("rpc-tls".to_owned()).stack_size(256 << 10);
            let passed = match outside {
                Some(outside) => thread.spawn_scoped(threads, move || outside.pass_on()).map(drop),
                None => Ok(()),
            };
            let ended = passed
                .map_err(WireError::Io)
                .and_then(|()| self.listen_to(guest.number(), &mut line, peer, Some(guest), begun));
            line.close();
            ended
        })
    }

    /// Stores the line by which a peer is answered.
    fn remember(&self, number: u64, line: &Line) {
        let writer = Arc::new(Mutex::new(line.share()));
        let _ = self.lock().peers.insert(number, Peer { writer, info: None, relation: None });
    }

    /// Answers a peer until it ends; `guest` is updated when it has identified itself. Its
    /// handshake began at `begun`.
    fn listen_to(
        &self,
        number: u64,
        line: &mut Line,
        peer: SocketAddr,
        guest: Option<&Guest>,
        begun: Instant,
    ) -> Result<(), WireError> {
        let listen = &self.options.listen;
        line.set_most(MOST_TO_TRACKER);
        line.answer(listen.left(begun))?;
        if let Some(token) = &listen.token {
            let relation = line.challenge(token, listen.left(begun))?;
            if let Some(peer) = self.lock().peers.get_mut(&number) {
                peer.relation = Some(relation);
            }
        }
        let is_proved = listen.token.is_some();
        if let Some(guest) = guest {
            if is_proved { guest.is_known() } else { guest.is_idle() }
        }
        // Without a token a peer is ranked by what it has registered here: a server, or a request.
        let mut guest = guest.filter(|_| !is_proved);
        loop {
            let message = line.receive(None)?;
            self.handle(number, &message, peer)?;
            if matches!(Code::of(&message), Some(Code::Put | Code::Request))
                && let Some(guest) = guest.take()
            {
                guest.is_unproved();
            }
        }
    }

    /// The host that clients get for a server of a peer: the peer's own address, or the host that
    /// it names if that is the same machine.
    fn host_of(&self, peer: SocketAddr, said: Option<&str>) -> Result<String, String> {
        let own = peer.ip().to_canonical();
        match said {
            None => Ok(own.to_string()),
            Some(host) if self.options.any_host => Ok(host.to_owned()),
            Some(host) => address_of(host, own).map(|address| address.to_string()),
        }
    }

    /// Sends a peer the reason why its connection ends.
    fn refuse(&self, number: u64, problem: String) -> WireError {
        match self.reply(number, &json!([Code::Fail as i64, problem])) {
            Ok(()) => WireError::Protocol(problem),
            Err(error) => error,
        }
    }

    fn reply(&self, number: u64, message: &Value) -> Result<(), WireError> {
        let writer = self.lock().peers.get(&number).map(|peer| Arc::clone(&peer.writer));
        match writer {
            Some(writer) => writer.lock().unwrap_or_else(PoisonError::into_inner).send(message),
            None => Err(WireError::Closed),
        }
    }

    fn handle(&self, number: u64, message: &Value, peer: SocketAddr) -> Result<(), WireError> {
        let wrong = |what: &str| WireError::Protocol(format!("{what}: {}", shortened(message)));
        let argument = |index: usize| message.get(index).unwrap_or(&Value::Null);
        let proved = self.lock().peers.get(&number).and_then(|peer| peer.relation);
        match (Code::of(message), proved) {
            (Some(Code::Put | Code::UpdateInfo), Some(Relation::ClientTracker)) => {
                return Err(wrong("a client that offers a server"));
            }
            (Some(Code::Request), Some(Relation::ServerTracker)) => {
                return Err(wrong("a server that asks for one"));
            }
            _ => {}
        }
        match Code::of(message) {
            Some(Code::Ping) => self.reply(number, &json!(Code::Success as i64)),
            Some(Code::Put) => {
                let key = word(argument(1)).ok_or_else(|| wrong("a server without a key"))?;
                let port = argument(2).get(0).and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
                let match_key = argument(2).get(1).and_then(word);
                let (Some(port), Some(match_key)) = (port, match_key) else {
                    return Err(wrong("a server without a port and a match key"));
                };
                let host = self.host_of(peer, word(argument(3))).map_err(|problem| self.refuse(number, problem))?;
                {
                    let mut state = self.lock();
                    if state.queue.count_of(number) >= MOST_OF_PEER {
                        return Err(wrong("too many servers of one connection"));
                    }
                    state.queue.put(key, Free { peer: number, host, port, match_key: match_key.to_owned() });
                }
                self.say(peer, || format!("a server of key {key} is free"));
                self.reply(number, &json!(Code::Success as i64))?;
                self.give(key);
                Ok(())
            }
            Some(Code::Request) => {
                let key = word(argument(1)).ok_or_else(|| wrong("a request without a key"))?;
                let priority = argument(3).as_i64().unwrap_or(0);
                {
                    let mut state = self.lock();
                    if state.queue.requests_of(number) >= MOST_REQUESTS {
                        return Err(wrong("too many requests of one connection"));
                    }
                    state.queue.request(key, number, priority);
                }
                self.say(peer, || format!("a client waits for key {key}"));
                self.give(key);
                Ok(())
            }
            Some(Code::UpdateInfo) => {
                let info = argument(1);
                let key =
                    info.get("key").and_then(word).ok_or_else(|| wrong("a server that says nothing of itself"))?;
                let host = info.get("addr").and_then(|addr| word(addr.get(0)?));
                let host = self.host_of(peer, host).map_err(|problem| self.refuse(number, problem))?;
                let port = info.get("addr").and_then(|addr| addr.get(1)?.as_u64()).unwrap_or(0);
                if let Some(peer) = self.lock().peers.get_mut(&number) {
                    peer.info = Some(json!({"key": key, "addr": [host, port]}));
                }
                self.reply(number, &json!(Code::Success as i64))
            }
            Some(Code::Pending) => {
                let pending = json!(self.lock().queue.pending(number));
                self.reply(number, &pending)
            }
            Some(Code::Summary) => {
                let summary = self.summary();
                self.reply(number, &json!([Code::Success as i64, summary]))
            }
            Some(Code::Stop) => {
                let given = argument(1).as_str();
                let is_known =
                    self.options.stop_key.as_deref().zip(given).is_some_and(|(own, given)| is_same(own, given));
                let code = if is_known { Code::Success } else { Code::Fail };
                self.reply(number, &json!(code as i64))?;
                if is_known {
                    self.stop();
                }
                Ok(())
            }
            Some(Code::Fail | Code::Success | Code::Token) | None => Err(wrong("a message that is unknown")),
        }
    }

    /// Assigns free servers of a key to waiting clients.
    fn give(&self, key: &str) {
        loop {
            let (waiting, free, writer) = {
                let mut state = self.lock();
                let Some((waiting, free)) = state.queue.pair(key) else { return };
                let writer = state.peers.get(&waiting.peer).map(|peer| Arc::clone(&peer.writer));
                (waiting, free, writer)
            };
            let answer = json!([Code::Success as i64, [free.host, free.port, free.match_key]]);
            let sent = writer.is_some_and(|writer| {
                let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
                let sent = writer.send(&answer);
                if sent.is_err() {
                    writer.close();
                }
                sent.is_ok()
            });
            if !sent {
                let mut state = self.lock();
                state.queue.put_back(key, free);
                state.queue.forget(waiting.peer);
            }
        }
    }

    fn summary(&self) -> Value {
        let state = self.lock();
        let infos = state.peers.values().filter_map(|peer| peer.info.clone()).collect();
        let keys = state.queue.counts();
        let keys = keys.map(|(key, free, waiting)| KeyStatus { key: key.to_owned(), total: 0, free, waiting });
        Summary { keys: keys.collect(), ..Summary::default() }.to_json(infos)
    }
}

/// The answer of a tracker to the first 32 KiB of these bytes of one peer, for fuzzers.
///
/// # Errors
/// The error of the system if it cannot create a pair of sockets.
#[doc(hidden)]
pub fn answers_to(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let (mut peer, own) = UnixStream::pair()?;
    peer.write_all(&bytes[..bytes.len().min(32 << 10)])?;
    peer.shutdown(Shutdown::Write)?;
    let mut line = Line::new(TcpStream::from(OwnedFd::from(own)))?;
    let host = IpAddr::from([127, 0, 0, 1]);
    let shared = Shared {
        options: TrackerOptions::default(),
        guests: Arc::new(Guests::new(1)),
        state: Mutex::default(),
        wake: Mutex::default(),
    };
    shared.remember(0, &line);
    thread::scope(|threads| {
        let answers = threads.spawn(move || {
            let mut answers = Vec::new();
            peer.read_to_end(&mut answers).map(|_| answers)
        });
        // Invalid bytes only end the connection.
        let _ = shared.listen_to(0, &mut line, SocketAddr::from((host, 0)), None, Instant::now());
        shared.forget(0);
        line.close();
        answers.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    })
}

#[cfg(test)]
mod tests;
