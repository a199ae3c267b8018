//! A server that clients cannot reach: it waits for them at a proxy, with one connection for the
//! next client.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use kernpack::Result;

use super::sessions::Sessions;
use crate::Place;
use crate::line::Line;
use crate::wire::{Key, offer, taken};

/// The default port of a proxy, the same as a server's.
const PORT: u16 = 9090;

/// The time between two attempts to reach a proxy, at first and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(10)];

/// The longest time that a client's handshake delays the wait for the next client. A client that
/// takes longer, or never proves anything, does not block others.
const TURN: Duration = Duration::from_secs(1);

/// Waits for clients until the server stops. If the proxy cannot be reached, or was restarted, it
/// tries again.
pub(super) fn run(sessions: &Arc<Sessions>, proxy: &Place) {
    let mut pause = PAUSES[0];
    while sessions.wait_for_room() {
        let begun = Instant::now();
        let client = next_client(sessions, proxy);
        sessions.set_outward(None);
        match client {
            Ok((line, key)) => {
                pause = PAUSES[0];
                serve(sessions, line, key);
            }
            Err(problem) => {
                sessions.say("proxy", problem.message());
                if begun.elapsed() > PAUSES[1] {
                    pause = PAUSES[0];
                }
                if !sessions.pause(pause) {
                    return;
                }
                pause = (pause * 2).min(PAUSES[1]);
            }
        }
    }
}

/// Connects to the proxy, and waits there.
fn next_client(sessions: &Sessions, proxy: &Place) -> Result<(Line, Key)> {
    let options = &sessions.options;
    let within = options.listen.handshake_time;
    let begun = Instant::now();
    let left = || within.saturating_sub(begun.elapsed()).max(Duration::from_millis(1));
    let stream = proxy.dial(PORT, "proxy", within)?;
    sessions.set_outward(Some(stream.try_clone()?));
    let mut line = proxy.secure(stream, left())?;
    // A server that has a token asks its clients for it.
    let answers = options.listen.token.is_some();
    let own = Key { token: proxy.token.clone(), answers, ..Key::server(options.key.as_str()) };
    offer(line.transport(), &own, left())?;
    let key = taken(line.transport(), &own, within)?;
    Ok((line, key))
}

/// Accepts a client and serves it, in its own thread; returns when the client has a session or is
/// rejected, or after [`TURN`].
fn serve(sessions: &Arc<Sessions>, mut line: Line, key: Key) {
    let Ok(handle) = line.handle() else { return };
    let peer = handle.peer_addr().unwrap_or(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
    let Some(ticket) = sessions.enter(&handle, peer.ip()) else { return };
    let (known, is_known) = mpsc::channel();
    let own = Arc::clone(sessions);
    let thread = thread::Builder::new().name("rpc-session".to_owned()).stack_size(256 << 10);
    let started = thread.spawn(move || {
        if !own.lets_in(line.transport(), &key) {
            own.say("proxy", "a client came that has another key or token");
            return;
        }
        own.count_through_proxy(|count| *count += 1);
        let _ = known.send(());
        own.host(ticket, line, &key, peer);
        own.count_through_proxy(|count| *count -= 1);
    });
    if started.is_ok() {
        // If the other side ends, the wait ends, too.
        let _ = is_known.recv_timeout(TURN);
    }
}
