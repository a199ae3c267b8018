//! Relays between a connection with TLS and a session's process, which has a plain socket.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::TlsStream;
use crate::wire::Transport;

/// The most bytes of one direction that are buffered here.
const AT_ONCE: usize = 256 << 10;

/// The longest time that a client may take to read what a session has sent, after the session has
/// ended.
const LINGER: Duration = Duration::from_secs(30);

/// Bytes that are not yet written to the session.
struct Held {
    bytes: Box<[u8]>,
    begin: usize,
    end: usize,
}

/// Forwards bytes in both directions, until both sides have ended or one has failed. The session
/// closes its socket when it ends; the client may end before.
pub(crate) fn relay(mut outside: TlsStream, mut inside: UnixStream) -> io::Result<()> {
    // No operation waits for only one side.
    outside.set_timeouts(None, None)?;
    outside.socket.set_nonblocking(true)?;
    inside.set_nonblocking(true)?;
    let mut held = Held { bytes: vec![0; AT_ONCE].into(), begin: 0, end: 0 };
    let mut buffer = vec![0; AT_ONCE];
    let (mut client_is_done, mut session_is_told, mut session_is_done) = (false, false, false);
    let mut ended_at = None;
    loop {
        // Decrypted bytes for which there was no room come first: `poll` on the socket would not
        // report them. As many as possible are forwarded together.
        let mut moved = false;
        if held.begin == held.end && !client_is_done {
            (held.begin, held.end) = (0, 0);
            while held.end < held.bytes.len() {
                match outside.plain(&mut held.bytes[held.end..]) {
                    Ok(0) => {
                        client_is_done = true;
                        break;
                    }
                    Ok(count) => held.end += count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        if !outside.has_input() {
                            break;
                        }
                        let _ = outside.receive()?;
                    }
                    Err(error) => return Err(error),
                }
            }
            moved = held.end > 0;
        }
        if held.begin == held.end && client_is_done && !session_is_told {
            session_is_told = true;
            let _ = inside.shutdown(Shutdown::Write);
        }
        if held.begin < held.end {
            match inside.write(&held.bytes[held.begin..held.end]) {
                Ok(count) => (held.begin, moved) = (held.begin + count, true),
                Err(error) if is_later(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if outside.connection.wants_write() {
            match outside.send() {
                Ok(()) => moved = true,
                Err(error) if is_later(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if !session_is_done && !outside.connection.wants_write() {
            match inside.read(&mut buffer) {
                Ok(0) => {
                    session_is_done = true;
                    ended_at = Some(Instant::now());
                    outside.connection.send_close_notify();
                    moved = true;
                }
                Ok(count) => {
                    // There is room for it: no data is waiting to be sent.
                    let mut rest = &buffer[..count];
                    while !rest.is_empty() {
                        let taken = outside.put(rest)?;
                        if taken == 0 {
                            return Err(io::ErrorKind::WriteZero.into());
                        }
                        rest = &rest[taken..];
                    }
                    moved = true;
                }
                Err(error) if is_later(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if session_is_done && !outside.connection.wants_write() {
            let _ = outside.socket.shutdown(Shutdown::Write);
            return Ok(());
        }
        if moved {
            continue;
        }
        let room = held.begin == held.end && !client_is_done;
        let wanted =
            |read: bool, write: bool| (if read { libc::POLLIN } else { 0 }) | (if write { libc::POLLOUT } else { 0 });
        let sends = outside.connection.wants_write();
        let of_session = wanted(!session_is_done && !sends, held.begin < held.end);
        let mut poll = [
            libc::pollfd { fd: outside.socket.as_raw_fd(), events: wanted(room, sends), revents: 0 },
            // The end of a session is ignored as long as no event of it is awaited.
            libc::pollfd { fd: if of_session == 0 { -1 } else { inside.as_raw_fd() }, events: of_session, revents: 0 },
        ];
        let time = ended_at.map(|ended: Instant| LINGER.saturating_sub(ended.elapsed()));
        if time.is_some_and(|time| time.is_zero()) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let time = time.map_or(-1, |time| time.as_millis() as libc::c_int + 1);
        // SAFETY: two descriptors that are open, in an array of as many.
        if unsafe { libc::poll(poll.as_mut_ptr(), 2, time) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
            continue;
        }
        let ended = libc::POLLHUP | libc::POLLERR;
        if room && poll[0].revents & (libc::POLLIN | ended) != 0 {
            match outside.receive() {
                // The next round notices the end.
                Ok(_) => {}
                Err(error) if is_later(&error) => {}
                Err(error) => return Err(error),
            }
        } else if poll[0].revents & ended != 0 {
            // Nothing can be sent any more, and the received bytes cannot be delivered yet: the end
            // of its socket notifies the session.
            return Ok(());
        }
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
