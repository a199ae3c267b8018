//! The tracker itself: it listens, and has a thread for each connection.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use kernpack::{Result, ensure, error};
use serde_json::{Value, json};

use super::PORT;
use super::message::{Code, Line, MESSAGE_TIME};
use super::queue::{Free, Queue};
use super::summary::{KeyStatus, Summary};
use crate::line::Line as Outside;
use crate::listen::{accept, listen};
use crate::token;
use crate::wire::{WireError, notice_when_gone};

/// Servers and requests of one connection at a time.
const MOST_OF_PEER: usize = 1024;

/// The most bytes of a key, a match key and a host name.
const MOST_OF_TEXT: usize = 256;

/// How a tracker listens, and what it allows.
#[derive(Clone)]
#[non_exhaustive]
pub struct TrackerOptions {
    /// The address to listen at: a name or a number. Others than those of this machine need TLS and a token, or `insecure`.
    pub host: String,
    /// The port; 0 is any that is free.
    pub port: u16,
    /// What peers must prove to know, before anything else. Those of Apache TVM have no word for it.
    pub token: Option<String>,
    /// The certificate for TLS; `None` is without TLS.
    #[cfg(feature = "tls")]
    pub tls: Option<crate::tls::TlsAcceptor>,
    /// Listens for other machines without TLS and token: all that reach the port can offer servers and ask for them.
    pub insecure: bool,
    /// What a peer has to say to end the tracker; `None`: none can.
    pub stop_key: Option<String>,
    /// Connections at one time: each server has one, and each client that asks or waits.
    pub connections: usize,
    /// Says on stderr what happens.
    pub verbose: bool,
}

impl TrackerOptions {
    /// Whether strangers can neither use the tracker nor read what is sent.
    fn is_guarded(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some() && self.token.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }
}

impl fmt::Debug for TrackerOptions {
    /// Without the token, which must not come into logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrackerOptions")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("token", &self.token.as_ref().map(|_| "..."))
            .field("insecure", &self.insecure)
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}

impl Default for TrackerOptions {
    /// The loopback address and port 9190.
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: PORT,
            token: None,
            #[cfg(feature = "tls")]
            tls: None,
            insecure: false,
            stop_key: None,
            connections: 4096,
            verbose: false,
        }
    }
}

/// A tracker that listens. Dropping it ends all connections.
pub struct Tracker {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

struct Shared {
    options: TrackerOptions,
    state: Mutex<State>,
    /// Closed to stop listening.
    wake: Mutex<Option<UnixStream>>,
}

#[derive(Default)]
struct State {
    queue: Queue,
    peers: HashMap<u64, Peer>,
    next: u64,
    is_stopped: bool,
}

struct Peer {
    /// To answer it, and to give it a server while its own thread reads.
    writer: Arc<Mutex<Line>>,
    /// Where it comes from.
    host: IpAddr,
    /// What a server has said of itself.
    info: Option<Value>,
}

impl Tracker {
    /// Starts to listen, and returns at once.
    ///
    /// # Errors
    /// ValueError for an address of other machines without TLS and a token or `insecure`, for a token that is none, and for no connections; RuntimeError when the address cannot be listened at.
    pub fn start(options: TrackerOptions) -> Result<Self> {
        ensure!(options.connections > 0, ValueError, "a tracker has at least one connection at a time");
        ensure!(
            options.token.as_deref().is_none_or(token::is_good),
            ValueError,
            "a token has at least 8 letters and no white space"
        );
        let listener = listen(
            &options.host,
            options.port,
            options.insecure || options.is_guarded(),
            "offer servers that run its own code, and take those of others",
        )?;
        let failed = |problem: io::Error| error!(RuntimeError, "the tracker cannot start: {problem}");
        let address = listener.local_addr().map_err(failed)?;
        let (wake, woken) = UnixStream::pair().map_err(failed)?;
        let shared = Arc::new(Shared { options, state: Mutex::default(), wake: Mutex::new(Some(wake)) });
        let own = Arc::clone(&shared);
        let listening = thread::Builder::new()
            .name("rpc-tracker".to_owned())
            .spawn(move || accept(&listener, &woken, |stream, peer| welcome(&own, stream, peer)));
        Ok(Self { address, shared, listener: Some(listening.map_err(failed)?) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits as long as the tracker listens: until a peer says the stop key, or the process ends.
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
    }
}

fn welcome(shared: &Arc<Shared>, stream: TcpStream, peer: SocketAddr) {
    let _ = stream.set_nodelay(true);
    notice_when_gone(&stream);
    // Until it is known how to write to the peer, the handle closes the connection.
    let Ok(writer) = stream.try_clone().and_then(Line::new) else { return };
    let number = {
        let mut state = shared.lock();
        // A tracker that is full has no word for it: the connection ends.
        if state.is_stopped || state.peers.len() >= shared.options.connections {
            return;
        }
        let number = state.next;
        state.next += 1;
        let _ = state
            .peers
            .insert(number, Peer { writer: Arc::new(Mutex::new(writer)), host: peer.ip().to_canonical(), info: None });
        number
    };
    let own = Arc::clone(shared);
    let serve = move || own.serve(number, stream, peer);
    if thread::Builder::new().name("rpc-peer".to_owned()).stack_size(256 << 10).spawn(serve).is_err() {
        shared.forget(number);
    }
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
        if self.options.verbose {
            eprintln!("kernpack-rpc tracker: {peer}: {}", what());
        }
    }

    fn stop(&self) {
        drop(self.wake.lock().unwrap_or_else(PoisonError::into_inner).take());
        let mut state = self.lock();
        state.is_stopped = true;
        for peer in state.peers.values() {
            peer.writer.lock().unwrap_or_else(PoisonError::into_inner).close();
        }
    }

    fn forget(&self, number: u64) {
        let mut state = self.lock();
        let _ = state.peers.remove(&number);
        state.queue.forget(number);
    }

    /// Serves a connection until it ends.
    fn serve(&self, number: u64, stream: TcpStream, peer: SocketAddr) {
        let ended = self.talk(number, stream, peer);
        self.forget(number);
        if let Err(error) = ended
            && !matches!(error, WireError::Closed)
        {
            self.say(peer, || format!("connection ended: {error}"));
        }
    }

    fn talk(&self, number: u64, stream: TcpStream, peer: SocketAddr) -> Result<(), WireError> {
        #[cfg(feature = "tls")]
        let Some(mut outside) = Outside::accept(stream, self.options.tls.as_ref(), MESSAGE_TIME) else {
            return Err(WireError::Cut);
        };
        #[cfg(not(feature = "tls"))]
        let mut outside = Outside::Plain(stream);
        let inside = outside.for_session().map_err(WireError::Io)?;
        let mut line = Line::new(TcpStream::from(inside)).map_err(WireError::Io)?;
        if let Some(peer) = self.lock().peers.get_mut(&number) {
            peer.writer = Arc::new(Mutex::new(line.try_clone().map_err(WireError::Io)?));
        }
        thread::scope(|threads| {
            let thread = thread::Builder::new().name("rpc-tls".to_owned()).stack_size(256 << 10);
            let passed = match outside.needs_passing() {
                true => thread.spawn_scoped(threads, move || outside.pass_on()).map(drop),
                false => Ok(()),
            };
            let ended = passed.map_err(WireError::Io).and_then(|()| self.listen_to(number, &mut line, peer));
            line.close();
            ended
        })
    }

    fn listen_to(&self, number: u64, line: &mut Line, peer: SocketAddr) -> Result<(), WireError> {
        line.answer()?;
        if let Some(expected) = &self.options.token {
            let message = line.receive(Some(MESSAGE_TIME))?;
            let given = message.get(1).and_then(Value::as_str).unwrap_or_default();
            if Code::of(&message) != Some(Code::Token) || !token::is_same(expected, given) {
                return Err(WireError::Protocol("a peer without the token".to_owned()));
            }
            line.send(&json!(Code::Success as i64))?;
        }
        loop {
            let message = line.receive(None)?;
            self.handle(number, &message, peer)?;
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
        match Code::of(message) {
            Some(Code::Ping) => self.reply(number, &json!(Code::Success as i64)),
            Some(Code::Put) => {
                let key = word(argument(1)).ok_or_else(|| wrong("a server without a key"))?;
                let port = argument(2).get(0).and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
                let match_key = argument(2).get(1).and_then(word);
                let (Some(port), Some(match_key)) = (port, match_key) else {
                    return Err(wrong("a server without a port and a match key"));
                };
                {
                    let mut state = self.lock();
                    if state.queue.count_of(number) >= MOST_OF_PEER {
                        return Err(wrong("too many servers of one connection"));
                    }
                    let own = state.peers.get(&number).map(|peer| peer.host.to_string()).unwrap_or_default();
                    let host = word(argument(3)).map_or(own, ToOwned::to_owned);
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
                    if state.queue.count_of(number) >= MOST_OF_PEER {
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
                {
                    let mut state = self.lock();
                    if let Some(peer) = state.peers.get_mut(&number) {
                        let host = info.get("addr").and_then(|addr| word(addr.get(0)?)).map(ToOwned::to_owned);
                        let port = info.get("addr").and_then(|addr| addr.get(1)?.as_u64()).unwrap_or(0);
                        let host = host.unwrap_or_else(|| peer.host.to_string());
                        peer.info = Some(json!({"key": key, "addr": [host, port]}));
                    }
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
                let is_known =
                    self.options.stop_key.is_some() && self.options.stop_key.as_deref() == argument(1).as_str();
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

    /// Gives free servers of a key to those that wait.
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
        Summary { servers: Vec::new(), keys: keys.collect() }.to_json(infos)
    }
}

/// A message for a log: not more than a line of it.
fn shortened(message: &Value) -> String {
    let text = message.to_string();
    let short: String = text.chars().take(100).collect();
    if short.len() < text.len() { short + ".." } else { short }
}

/// What a tracker answers to the first 32 KiB of these bytes of one peer, for fuzzers.
///
/// # Errors
/// When the system has no sockets left.
#[doc(hidden)]
pub fn answers_to(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let (mut peer, own) = UnixStream::pair()?;
    peer.write_all(&bytes[..bytes.len().min(32 << 10)])?;
    peer.shutdown(Shutdown::Write)?;
    let mut line = Line::new(TcpStream::from(OwnedFd::from(own)))?;
    let host = IpAddr::from([127, 0, 0, 1]);
    let mut state = State::default();
    let writer = Arc::new(Mutex::new(line.try_clone()?));
    let _ = state.peers.insert(0, Peer { writer, host, info: None });
    let shared = Shared { options: TrackerOptions::default(), state: Mutex::new(state), wake: Mutex::default() };
    thread::scope(|threads| {
        let answers = threads.spawn(move || {
            let mut answers = Vec::new();
            peer.read_to_end(&mut answers).map(|_| answers)
        });
        // What is wrong with the bytes is the end of the connection, and nothing else.
        let _ = shared.listen_to(0, &mut line, SocketAddr::from((host, 0)));
        shared.forget(0);
        line.close();
        answers.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_to_what_peers_send() {
        let magic = 0x2F271_i32.to_le_bytes();
        let message = |text: &str| [&(text.len() as i32).to_le_bytes()[..], text.as_bytes()].concat();
        let asked = [&magic[..], &message("[1]"), &message(r#"[3,"pi",[9090,"pi:1"],null]"#), &message("[7]")].concat();
        let expected = [&magic[..], &message("0"), &message("0"), &message(r#"["pi:1"]"#)].concat();
        assert_eq!(answers_to(&asked).unwrap(), expected);
        // What follows something wrong is not answered.
        for wrong in ["[99]", "[]", "7", r#"[3,"two words",[1,"k"]]"#, r#"[3,"pi",[70000,"k"]]"#, r#"[4,""]"#] {
            let bytes = [&magic[..], &message(wrong), &message("[1]")].concat();
            assert_eq!(answers_to(&bytes).unwrap(), magic, "{wrong}");
        }
        assert_eq!(answers_to(b"GET / HTTP/1.1").unwrap(), b"");
        assert_eq!(answers_to(b"").unwrap(), b"");
    }
}
