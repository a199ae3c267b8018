use std::io::Read;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::{descendants, signals};
use crate::limits::Limits;
use crate::log::say;
use crate::position::{Phase, Position};
use crate::wire::{Connection, Patience, is_hung_up};

/// The interval at which limits are checked.
const TICK: Duration = Duration::from_millis(50);
/// The time that a session may take to end after its client has ended it.
const LEAVE: Duration = Duration::from_secs(5);
/// The time that a call may continue after its client has gone: a call that the client did not want
/// to wait for runs to its end.
const ABANDONED: Duration = Duration::from_secs(5);
/// The time that a reply in progress may take to finish when its session is ended.
const REPLY: Duration = Duration::from_secs(1);
/// The time that a client may take to read why its session has ended.
const LINGER: Duration = Duration::from_secs(10);

/// The watcher of a session.
pub(super) struct Warden<'a> {
    session: libc::pid_t,
    socket: TcpStream,
    life: UnixStream,
    limits: &'a Limits,
    position: &'a Position,
}

/// The reason why a session ended.
enum End {
    /// Its process ended, with this status.
    Process(libc::c_int),
    /// A limit was reached, or the server stops: the message for the client.
    Told(String),
}

impl<'a> Warden<'a> {
    pub(super) fn new(
        session: libc::pid_t,
        socket: TcpStream,
        life: UnixStream,
        limits: &'a Limits,
        position: &'a Position,
    ) -> Self {
        Self { session, socket, life, limits, position }
    }

    /// Returns when the session has ended, none of its processes runs any more, and the client was
    /// notified.
    pub(super) fn watch(self) {
        let end = self.end();
        if matches!(end, End::Told(_)) {
            self.let_reply_end();
        }
        descendants::end(self.session);
        let message = match end {
            _ if self.position.phase() == Phase::Done => None,
            End::Told(message) => Some(message),
            End::Process(status) => Some(self.describe(status)),
        };
        if let Some(message) = &message {
            say(format_args!("kernpack-rpc: {message}"));
        }
        self.tell(message);
    }

    fn end(&self) -> End {
        let start = Instant::now();
        let mut since = start;
        let mut seen = (self.position.phase(), self.position.requests());
        let mut leaves = None;
        let mut alone = None;
        loop {
            if let Some(status) = self.ended() {
                return End::Process(status);
            }
            if signals::wait(self.life.as_raw_fd(), TICK) {
                return End::Told("ConnectionError: the server was stopped".to_owned());
            }
            let now = (self.position.phase(), self.position.requests());
            if now != seen {
                (seen, since) = (now, Instant::now());
                alone = None;
            }
            if seen.0 == Phase::Done {
                let leaves = leaves.get_or_insert_with(Instant::now);
                if leaves.elapsed() > LEAVE {
                    return End::Told(String::new());
                }
            } else if let Some(message) = self.beyond(start, since, seen.0) {
                return End::Told(message);
            } else if seen.0 == Phase::Working && is_hung_up(self.socket.as_raw_fd()) {
                // In other phases the session notices it by itself. Requests that were sent before
                // the end each get their full time.
                if alone.get_or_insert_with(Instant::now).elapsed() > ABANDONED {
                    return End::Told(format!(
                        "ConnectionError: the client is gone, and {} was still running",
                        self.called()
                    ));
                }
            }
        }
    }

    /// After half of a reply no message can be sent. A client may have received all of its reply
    /// before the session's process has recorded that.
    fn let_reply_end(&self) {
        let begun = Instant::now();
        while self.position.phase() == Phase::Replying && begun.elapsed() < REPLY {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The status of the session's process, if it has ended. Other ended processes are reaped and
    /// ignored.
    fn ended(&self) -> Option<libc::c_int> {
        loop {
            let mut status = 0;
            // SAFETY: the status is writable.
            match unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) } {
                0 | -1 => return None,
                pid if pid == self.session => return Some(status),
                _ => {}
            }
        }
    }

    /// The message about a limit that was reached.
    fn beyond(&self, start: Instant, since: Instant, phase: Phase) -> Option<String> {
        let over = |limit: Option<Duration>, from: Instant| limit.filter(|limit| from.elapsed() >= *limit);
        if let Some(limit) = over(self.limits.session_time, start) {
            return Some(timed_out(&format!("the session has lasted {} s, its limit", limit.as_secs_f64())));
        }
        let (limit, what) = match phase {
            Phase::Working | Phase::Replying => {
                (self.limits.call_time, format!("{} took longer than the server allows", self.called()))
            }
            Phase::Starting | Phase::Idle => {
                (self.limits.idle_time, "the client has sent no request for longer than the server allows".to_owned())
            }
            Phase::Done => return None,
        };
        if let Some(limit) = over(limit, since) {
            return Some(timed_out(&format!("{what} ({} s)", limit.as_secs_f64())));
        }
        let processes = self.limits.processes;
        if processes > 0 {
            let count = descendants::list().len();
            if count > processes {
                return Some(format!(
                    "RuntimeError: the session was ended: {} has started too many processes ({count}, the limit is {processes})",
                    self.called()
                ));
            }
        }
        None
    }

    fn called(&self) -> String {
        self.position.last_name().map_or_else(|| "the request".to_owned(), |name| format!("`{name}`"))
    }

    /// The message about a process that ended by itself.
    fn describe(&self, status: libc::c_int) -> String {
        let what = match self.position.phase() {
            Phase::Working => format!(" in {}", self.called()),
            _ => String::new(),
        };
        if libc::WIFSIGNALED(status) {
            let signal = libc::WTERMSIG(status);
            let (name, hint) = match signal {
                libc::SIGSEGV => (" (SIGSEGV)", ": it used memory that it does not have, or too much stack"),
                libc::SIGABRT => (
                    " (SIGABRT)",
                    ": it gave itself up, perhaps because memory or stack ran out; see the server's output",
                ),
                libc::SIGBUS => (" (SIGBUS)", ": it used memory that is not there"),
                libc::SIGILL => {
                    (" (SIGILL)", ": it has code that this CPU does not know; see the target that it was built for")
                }
                libc::SIGFPE => (" (SIGFPE)", ": it divided an integer by zero"),
                libc::SIGKILL => (" (SIGKILL)", ": the system ended it, perhaps because memory ran out"),
                _ => ("", ""),
            };
            return format!("RuntimeError: the session ended{what} with signal {signal}{name}{hint}");
        }
        format!("RuntimeError: the session ended{what}: its process exited with code {}", libc::WEXITSTATUS(status))
    }

    /// Sends the client the reason, if no reply has begun, and waits until it has read it.
    fn tell(self, message: Option<String>) {
        let Self { socket, position, .. } = self;
        let mut linger = Duration::from_secs(1);
        if let Some(message) = message.filter(|_| position.phase() != Phase::Replying) {
            let stall = Some(Duration::from_secs(5));
            let Ok(copy) = socket.try_clone() else { return };
            if Connection::new(copy, Patience { idle: stall, stall }).send_exception(&message).is_ok() {
                linger = LINGER;
            }
        }
        let _ = socket.shutdown(Shutdown::Write);
        // A connection that is closed with unread bytes is reset, and the client may not be able to
        // read the message.
        let end = Instant::now() + linger;
        let mut bytes = vec![0; 64 << 10];
        let mut socket = socket;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero()
                || signals::wait(self.life.as_raw_fd(), Duration::ZERO) && left < linger.saturating_sub(LEAVE / 5)
            {
                return;
            }
            let _ = socket.set_read_timeout(Some(left.min(Duration::from_millis(200))));
            match socket.read(&mut bytes) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error)
                    if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted) => {}
                Err(_) => return,
            }
        }
    }
}

fn timed_out(what: &str) -> String {
    format!("RPCSessionTimeoutError: {what}; the session was ended")
}
