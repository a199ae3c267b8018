use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Display;
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::ServerOptions;
use super::folder::Folder;
use super::program::Program;
use crate::guests::Strangers;
use crate::limits::Limits;
use crate::line::Line;
use crate::process::{SESSION, TOKEN_VARIABLE};
use crate::tracker::{Claim, Registration};
use crate::wire::proof::Relation;
use crate::wire::{Connection, Hello, Key, Patience, Transport, answer, hear};

/// The most handshakes at the same time, in all and from one address. A new connection replaces the
/// one that has waited longest.
const HANDSHAKES: [usize; 2] = [128, 64];
/// The longest time that sessions may take to end when the server stops.
const STOP: Duration = Duration::from_secs(10);

/// The connections of a server.
pub(super) struct Sessions {
    pub(super) options: ServerOptions,
    program: Program,
    /// The registration at a tracker, if any.
    registration: Option<Registration>,
    state: Mutex<State>,
    /// Notified when a connection ends.
    changed: Condvar,
}

struct State {
    stopped: bool,
    next: u64,
    /// Connections in the handshake, and the order in which they came.
    handshakes: HashMap<u64, TcpStream>,
    strangers: Strangers,
    /// Connections with a thread.
    open: usize,
    /// The connection that waits at a proxy.
    outward: Option<TcpStream>,
    /// The number of clients that came through a proxy.
    through_proxy: usize,
    /// The sessions, each with the socket that keeps it alive.
    lives: HashMap<u64, UnixStream>,
}

/// The permission to have a thread for a connection.
pub(super) struct Ticket {
    number: u64,
    sessions: Arc<Sessions>,
}

impl State {
    /// Ends a connection in the handshake; its thread notices it.
    fn send_away(&mut self, number: Option<u64>) {
        if let Some(stream) = number.and_then(|number| self.handshakes.remove(&number)) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Removes a connection whose handshake has ended.
    fn leave(&mut self, number: u64) {
        let _ = self.handshakes.remove(&number);
        self.strangers.remove(number);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.sessions.lock();
        state.leave(self.number);
        state.lives.remove(&self.number);
        state.open -= 1;
        self.sessions.changed.notify_all();
    }
}

impl Sessions {
    pub(super) fn new(options: ServerOptions, program: Program, registration: Option<Registration>) -> Self {
        let state = State {
            stopped: false,
            next: 0,
            handshakes: HashMap::new(),
            strangers: Strangers::new(HANDSHAKES[0], HANDSHAKES[1]),
            open: 0,
            outward: None,
            through_proxy: 0,
            lives: HashMap::new(),
        };
        Self { options, program, registration, state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(super) fn is_registered(&self) -> bool {
        self.registration.as_ref().is_some_and(Registration::is_connected)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self) -> usize {
        self.lock().lives.len()
    }

    /// Registers a new connection; `None` when it cannot be served.
    pub(super) fn enter(self: &Arc<Self>, stream: &TcpStream, host: IpAddr) -> Option<Ticket> {
        let copy = stream.try_clone().ok()?;
        let mut state = self.lock();
        if state.stopped {
            return None;
        }
        let number = state.next;
        state.next += 1;
        state.open += 1;
        let _ = state.handshakes.insert(number, copy);
        let gone = state.strangers.add(number, host);
        state.send_away(gone);
        Some(Ticket { number, sessions: Arc::clone(self) })
    }

    /// Ends the oldest handshake, because the system has no descriptors left.
    pub(super) fn make_room(&self) {
        let mut state = self.lock();
        let oldest = state.strangers.pop();
        state.send_away(oldest);
    }

    /// Serves a connection until it ends.
    pub(super) fn serve(&self, ticket: Ticket, stream: TcpStream, peer: SocketAddr) {
        let begun = Instant::now();
        // Strangers do not get an answer, and are not logged: they could fill a disk.
        let Some(mut line) = self.options.listen.line(stream) else { return };
        // A claim is returned when the session has ended.
        let Some((key, _claim)) = self.let_in(line.transport(), begun) else { return };
        self.host(ticket, line, &key, peer);
    }

    /// Answers a client that came through a proxy; returns false if it may not have a session.
    pub(super) fn lets_in(&self, transport: &mut dyn Transport, key: &Key) -> bool {
        let (own, listen, begun) = (&self.options.key, &self.options.listen, Instant::now());
        // A proxy that offers its servers at a tracker forwards the key that the client sent: a
        // match key, `key:random`.
        let is_own = key.name.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'));
        if key.role != "client" || !is_own {
            return false;
        }
        if !key.answers {
            // The proxy has answered the client, which does not expect another answer.
            return listen.lets_in(key.token.as_deref());
        }
        listen.admit(transport, key, Relation::ClientProxiedServer, begun)
            && answer(transport, Hello::Welcome, &Key::server(own.as_str()), listen.left(begun)).is_ok()
    }

    /// Runs the session of a client whose handshake is done, until it ends.
    pub(super) fn host(&self, ticket: Ticket, mut line: Line, key: &Key, peer: SocketAddr) {
        let started = line.for_session().map_err(failed).and_then(|descriptor| self.begin(&ticket, key, descriptor));
        match started {
            Ok((mut child, folder)) => {
                self.say(peer, "session begins");
                line.pass_on();
                let status = child.wait();
                drop(folder);
                drop(ticket);
                match status {
                    Ok(status) if status.success() => self.say(peer, "session ended"),
                    Ok(status) => self.say(peer, &format!("session ended: {status}")),
                    Err(error) => self.say(peer, &format!("session lost: {error}")),
                }
            }
            Err(message) => {
                self.say(peer, &message);
                // It counts as a handshake until it has received the message.
                self.is_refused(&ticket, &line, peer.ip());
                refuse(line.into_transport(), &message, self.options.listen.handshake_time);
                drop(ticket);
            }
        }
    }

    pub(super) fn say(&self, peer: impl Display, what: &str) {
        self.options.listen.say("kernpack-rpc", peer, || what.to_owned());
    }

    /// The handshake.
    fn let_in(&self, stream: &mut dyn Transport, begun: Instant) -> Option<(Key, Option<Claim>)> {
        let options = &self.options;
        let key = hear(stream, options.listen.left(begun)).ok()?;
        if !options.listen.admit(stream, &key, Relation::ClientServer, begun) {
            return None;
        }
        let own = Key::server(options.key.as_str());
        let claim = self.registration.as_ref().and_then(|registration| registration.claim(&key.name));
        let is_named = if self.registration.is_some() { claim.is_some() } else { key.name == options.key };
        let fits = key.role == "client" && is_named;
        let hello = if fits { Hello::Welcome } else { Hello::NoMatchingKey };
        answer(stream, hello, &own, options.listen.left(begun)).ok()?;
        fits.then_some((key, claim))
    }

    /// Starts the process of a session.
    fn begin(&self, ticket: &Ticket, key: &Key, connection: OwnedFd) -> Result<(Child, Folder), String> {
        let (here, there) = UnixStream::pair().map_err(failed)?;
        {
            let mut state = self.lock();
            if state.stopped {
                return Err("ConnectionError: the server was stopped".to_owned());
            }
            if state.lives.len() >= self.options.sessions {
                return Err(format!(
                    "RuntimeError: the server has {} sessions, its limit; try again later, or start it with a larger `--sessions`",
                    state.lives.len()
                ));
            }
            state.leave(ticket.number);
            state.lives.insert(ticket.number, here);
        }
        let folder = Folder::new(self.options.folder.as_deref()).map_err(failed)?;
        let limits = Limits {
            session_time: [self.options.limits.session_time, key.timeout].into_iter().flatten().min(),
            ..self.options.limits.clone()
        };
        let mut command = self.program.command();
        command.arg(SESSION).arg(limits.to_text()).arg(folder.path()).args(&self.options.emulator);
        command.env("LD_LIBRARY_PATH", library_path(folder.path()));
        // The code of clients must not see the server's token.
        command.env_remove(TOKEN_VARIABLE);
        command.stdin(connection);
        command.stdout(Stdio::from(OwnedFd::from(there)));
        // Ctrl-C is for the server, which ends its sessions.
        command.process_group(0);
        let child = command
            .spawn()
            .map_err(|problem| failed(io::Error::other(format!("{}: {problem}", self.program.path().display()))))?;
        Ok((child, folder))
    }

    /// Marks a connection that gets no session: it has the rest of a handshake's time to read the
    /// reason.
    fn is_refused(&self, ticket: &Ticket, line: &Line, host: IpAddr) {
        let handle = line.handle();
        let mut state = self.lock();
        let had_session = state.lives.remove(&ticket.number).is_some();
        self.changed.notify_all();
        let Some(handle) = handle.ok().filter(|_| had_session && !state.stopped) else { return };
        let _ = state.handshakes.insert(ticket.number, handle);
        let gone = state.strangers.add(ticket.number, host);
        state.send_away(gone);
    }

    /// Waits until there is room for another session; returns false when the server stops.
    pub(super) fn wait_for_room(&self) -> bool {
        let mut state = self.lock();
        while !state.stopped && state.lives.len().max(state.through_proxy) >= self.options.sessions {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.stopped
    }

    /// Waits; returns true unless the server stops.
    pub(super) fn pause(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut state = self.lock();
        while !state.stopped {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    /// Sets the connection that waits at a proxy; it is closed when the server stops, and at once
    /// if it has.
    pub(super) fn set_outward(&self, socket: Option<TcpStream>) {
        let mut state = self.lock();
        if state.stopped
            && let Some(socket) = &socket
        {
            let _ = socket.shutdown(Shutdown::Both);
        }
        state.outward = socket;
    }

    /// Updates the number of clients that came through a proxy.
    pub(super) fn count_through_proxy(&self, change: impl FnOnce(&mut usize)) {
        change(&mut self.lock().through_proxy);
        self.changed.notify_all();
    }

    /// Stops accepting connections.
    pub(super) fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        self.changed.notify_all();
        if let Some(socket) = state.outward.take() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Ends all connections and waits until they have ended.
    pub(super) fn end(&self) {
        if let Some(registration) = &self.registration {
            registration.stop();
        }
        self.stop();
        let mut state = self.lock();
        for (_, stream) in state.handshakes.drain() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        state.lives.clear();
        let deadline = Instant::now() + STOP;
        while state.open > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The library path: a session's folder before the server's own ones, for libraries that are
/// uploaded beside a library or a program that needs them.
fn library_path(folder: &Path) -> OsString {
    let own = std::env::var_os("LD_LIBRARY_PATH");
    let folders = std::iter::once(folder.to_path_buf()).chain(own.iter().flat_map(std::env::split_paths));
    std::env::join_paths(folders).unwrap_or_else(|_| folder.into())
}

fn failed(problem: io::Error) -> String {
    format!("RuntimeError: the server could not start a session: {problem}")
}

/// Sends a client, after the handshake, the reason why it gets no session.
fn refuse(transport: Box<dyn Transport>, message: &str, within: Duration) {
    let mut connection = Connection::new(transport, Patience { idle: Some(within), stall: Some(within) });
    connection.set_limit(1 << 20);
    if connection.next_packet().and_then(|_| connection.skip()).is_ok() {
        let _ = connection.send_exception(message);
        // The client closes; further bytes from it are not read.
        let _ = connection.next_packet();
    }
}
