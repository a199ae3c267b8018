//! The connections of a tracker or proxy: their number, and those that have not identified
//! themselves yet.

mod strangers;

use std::collections::HashMap;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(crate) use self::strangers::Strangers;

/// The most handshakes at the same time, in all and from one address. A new connection replaces the
/// one that has waited longest.
const HANDSHAKES: [usize; 2] = [128, 64];

/// The most connections that were asked to end and have not ended yet. If there are more, no new
/// one is accepted until some have ended.
const LEAVING: usize = 32;

/// The longest time of that wait.
const BACK_PRESSURE: Duration = Duration::from_secs(1);

/// The longest time that connections may take to end at a stop.
const STOP: Duration = Duration::from_secs(10);

/// Descriptors of this process that are reserved for other uses than connections.
const OTHERS: u64 = 64;

/// The connections.
pub(crate) struct Guests {
    most: usize,
    state: Mutex<State>,
    /// Notified when a connection ends.
    changed: Condvar,
}

struct State {
    is_stopped: bool,
    next: u64,
    sockets: HashMap<u64, Socket>,
    /// The connections in the handshake.
    strangers: Strangers,
    /// Connections that have identified themselves without proof, and have nothing registered here.
    idle: Strangers,
    /// Connections without proof of their identity that have something registered here.
    unproved: Strangers,
    /// The number of connections that were asked to end and have not ended yet.
    leaving: usize,
}

/// A connection's socket, to end it from elsewhere.
struct Socket {
    stream: TcpStream,
    host: IpAddr,
    is_leaving: bool,
}

/// A connection that is counted until this is dropped.
pub(crate) struct Guest {
    number: u64,
    guests: Arc<Guests>,
}

/// The number of connections for which this process has descriptors, `descriptors` each: at most
/// `wanted`, and at least one.
pub(crate) fn room(wanted: usize, descriptors: u64) -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct is writable.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE as _, &mut limit) } != 0 {
        return wanted;
    }
    #[allow(clippy::unnecessary_cast, reason = "the type of a limit is not the same on each system")]
    let free = (limit.rlim_cur as u64).saturating_sub(OTHERS) / descriptors;
    wanted.min(usize::try_from(free).unwrap_or(usize::MAX).max(1))
}

impl State {
    /// Ends a connection; its thread notices it.
    fn send_away(&mut self, number: Option<u64>) -> bool {
        let Some(socket) = number.and_then(|number| self.sockets.get_mut(&number)) else { return false };
        let _ = socket.stream.shutdown(Shutdown::Both);
        if !std::mem::replace(&mut socket.is_leaving, true) {
            self.leaving += 1;
        }
        true
    }

    /// Ends the least valuable connection: the oldest stranger, else the oldest of those that have
    /// nothing registered here.
    fn make_room(&mut self) -> bool {
        let oldest = self.strangers.pop().or_else(|| self.idle.pop());
        self.send_away(oldest)
    }

    /// The same for a new connection: among unproved connections, ends one of an address that has
    /// more of them than the newcomer's address would have.
    fn make_room_for(&mut self, host: IpAddr) -> bool {
        if self.make_room() {
            return true;
        }
        let oldest = self.unproved.pop_for(host);
        self.send_away(oldest)
    }

    /// Removes a connection from all lists.
    fn forget(&mut self, number: u64) {
        self.strangers.remove(number);
        self.idle.remove(number);
        self.unproved.remove(number);
    }
}

impl Guests {
    pub(crate) fn new(most: usize) -> Self {
        let state = State {
            is_stopped: false,
            next: 0,
            sockets: HashMap::new(),
            strangers: Strangers::new(HANDSHAKES[0].min(most / 2).max(1), HANDSHAKES[1].min(most / 4).max(1)),
            idle: Strangers::new(most, most.div_ceil(2)),
            unproved: Strangers::new(usize::MAX, usize::MAX),
            leaving: 0,
        };
        Self { most, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().sockets.len()
    }

    /// Ends a connection that has not proved its identity, because the system has no descriptors
    /// left.
    pub(crate) fn make_room(&self) {
        let _ = self.lock().make_room();
    }

    /// Counts a new connection from a host; `None` when there is no room for it.
    pub(crate) fn enter(self: &Arc<Self>, stream: &TcpStream, host: IpAddr) -> Option<Guest> {
        let handle = stream.try_clone().ok()?;
        let mut state = self.lock();
        let begun = Instant::now();
        while state.leaving >= LEAVING && begun.elapsed() < BACK_PRESSURE {
            state = self.changed.wait_timeout(state, BACK_PRESSURE).unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.is_stopped || state.sockets.len() - state.leaving >= self.most && !state.make_room_for(host) {
            return None;
        }
        let number = state.next;
        state.next += 1;
        let _ = state.sockets.insert(number, Socket { stream: handle, host, is_leaving: false });
        let gone = state.strangers.add(number, host);
        let _ = state.send_away(gone);
        Some(Guest { number, guests: Arc::clone(self) })
    }

    /// Ends all connections; their threads notice it.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_stopped = true;
        for socket in state.sockets.values() {
            let _ = socket.stream.shutdown(Shutdown::Both);
        }
    }

    /// Ends all connections, and waits until they have ended.
    pub(crate) fn end(&self) {
        self.close();
        let mut state = self.lock();
        let deadline = Instant::now() + STOP;
        while !state.sockets.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Guest {
    /// Its number, which is never reused.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Marks the handshake as done: it is not ended for a new connection.
    pub(crate) fn is_known(&self) {
        self.guests.lock().forget(self.number);
    }

    /// Marks the handshake as done, without proof of identity: it is ended when there is no room,
    /// until it registers something here.
    pub(crate) fn is_idle(&self) {
        let mut state = self.guests.lock();
        state.forget(self.number);
        if let Some(host) =
            state.sockets.get(&self.number).filter(|socket| !socket.is_leaving).map(|socket| socket.host)
        {
            let gone = state.idle.add(self.number, host);
            let _ = state.send_away(gone);
        }
    }

    /// Marks it as having something registered here, without proof of identity: when there is no
    /// room, addresses that have many such connections lose one to those that have fewer.
    pub(crate) fn is_unproved(&self) {
        let mut state = self.guests.lock();
        state.forget(self.number);
        // A connection that was asked to end gives up its place only once.
        if let Some(host) =
            state.sockets.get(&self.number).filter(|socket| !socket.is_leaving).map(|socket| socket.host)
        {
            let _ = state.unproved.add(self.number, host);
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut state = self.guests.lock();
        state.forget(self.number);
        if state.sockets.remove(&self.number).is_some_and(|socket| socket.is_leaving) {
            state.leaving -= 1;
        }
        self.guests.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    /// Connections, each with the other end.
    fn connections(count: usize) -> Vec<(TcpStream, TcpStream)> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let pair = |_| {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (client, listener.accept().unwrap().0)
        };
        (0..count).map(pair).collect()
    }

    fn is_ended(stream: &TcpStream) -> bool {
        stream.set_nonblocking(true).unwrap();
        (&*stream).read(&mut [0]).is_ok()
    }

    #[test]
    fn who_gives_way() {
        let guests = Arc::new(Guests::new(8));
        let all = connections(12);
        let host = |number: u8| IpAddr::from([192, 0, 2, number]);
        let enter = |index: usize, number: u8| guests.enter(&all[index].1, host(number)).unwrap();
        let ended = || (0..12).filter(|index| is_ended(&all[*index].0)).collect::<Vec<_>>();
        // Two strangers of one address, and four in all.
        let first = [enter(0, 1), enter(1, 1)];
        let third = enter(2, 1);
        assert_eq!(ended(), [0]);
        let others = [enter(3, 2), enter(4, 3)];
        assert_eq!(ended(), [0]);
        let fifth = enter(5, 4);
        assert_eq!(ended(), [0, 1]);
        drop(first);
        assert_eq!(guests.count(), 4);
        // Proved connections stay; those without proof are ended after strangers.
        third.is_known();
        others.iter().for_each(Guest::is_idle);
        fifth.is_known();
        let more: Vec<Guest> = (6..10).map(|index| enter(index, index as u8)).collect();
        assert_eq!(ended(), [0, 1]);
        more.iter().for_each(Guest::is_known);
        let _ninth = enter(10, 10);
        assert_eq!(ended(), [0, 1, 3]);
        others[1].is_known();
        let _tenth = enter(11, 11);
        assert_eq!(ended(), [0, 1, 3, 10]);
        _tenth.is_known();
        assert!(guests.enter(&all[0].1, host(12)).is_none(), "all are known");
        guests.close();
        assert_eq!(ended().len(), 12);
    }

    #[test]
    fn nobody_has_a_slot_for_ever_without_a_proof() {
        let guests = Arc::new(Guests::new(6));
        let all = connections(12);
        let host = |number: u8| IpAddr::from([192, 0, 2, number]);
        let enter = |index: usize, number: u8| guests.enter(&all[index].1, host(number));
        let ended = || (0..12).filter(|index| is_ended(&all[*index].0)).collect::<Vec<_>>();
        let unproved = |index: usize, number: u8| {
            let guest = enter(index, number).unwrap();
            guest.is_unproved();
            guest
        };
        // One proved connection, and five of one address that have something registered here.
        let known = enter(0, 1).unwrap();
        known.is_known();
        let _many: Vec<Guest> = (1..6).map(|index| unproved(index, 2)).collect();
        assert!(enter(6, 2).is_none(), "its own address has all there is");
        assert_eq!(ended(), [] as [usize; 0]);
        let _third = unproved(7, 3);
        assert_eq!(ended(), [1], "the oldest of the address that has most");
        let _fourth = unproved(8, 4);
        let _again = unproved(9, 3);
        assert_eq!(ended(), [1, 2, 3]);
        // Shares are equal now: two of each, and one.
        assert!((2..5).all(|number| enter(10, number).is_none()));
        let _fifth = unproved(11, 5);
        assert_eq!(ended(), [1, 2, 3, 4], "who is known stays");
    }

    #[test]
    fn connections_have_descriptors() {
        assert_eq!(room(3, 2), 3);
        let most = room(usize::MAX, 2);
        assert!(most < usize::MAX && room(usize::MAX, 4) <= most.div_ceil(2));
    }
}
