//! The free servers and the waiting clients: the tracker's state without its connections.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// A free server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Free {
    /// The connection that offered it.
    pub(super) peer: u64,
    /// The host by which clients reach it.
    pub(super) host: String,
    pub(super) port: u16,
    /// The key that the client has to name.
    pub(super) match_key: String,
}

/// A waiting client: those of higher priority first, then those that requested first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Waiting {
    priority: Reverse<i64>,
    number: u64,
    pub(super) peer: u64,
}

#[derive(Default)]
struct OfKey {
    /// In the order in which clients get them.
    free: BTreeMap<i64, Free>,
    waiting: BTreeSet<Waiting>,
    /// The number of connections that have offered servers of the key.
    offering: usize,
}

/// A connection's share of the state, so that entries of others need not be searched for it. The
/// names of keys are shared.
#[derive(Default)]
struct OfPeer {
    /// The keys of the servers that it has offered.
    offered: BTreeSet<Arc<str>>,
    /// Its free servers, each by its position in its key's order.
    free: BTreeSet<(Arc<str>, i64)>,
    waiting: BTreeSet<(Arc<str>, Waiting)>,
}

/// Servers and clients by key.
#[derive(Default)]
pub(super) struct Queue {
    keys: BTreeMap<Arc<str>, OfKey>,
    peers: HashMap<u64, OfPeer>,
    next: u64,
}

impl Queue {
    /// Returns a key by its name, and adds it if it is new.
    fn of_key(&mut self, name: &str) -> (Arc<str>, &mut OfKey) {
        let name = self.keys.get_key_value(name).map_or_else(|| Arc::from(name), |(name, _)| Arc::clone(name));
        (Arc::clone(&name), self.keys.entry(name).or_default())
    }

    /// Adds a free server.
    pub(super) fn put(&mut self, key: &str, free: Free) {
        let (key, _) = self.of_key(key);
        let of_key = self.keys.entry(Arc::clone(&key)).or_default();
        let of_peer = self.peers.entry(free.peer).or_default();
        if of_peer.offered.insert(Arc::clone(&key)) {
            of_key.offering += 1;
        }
        let place = of_key.free.last_key_value().map_or(0, |(last, _)| last + 1);
        let _ = of_peer.free.insert((key, place));
        let _ = of_key.free.insert(place, free);
    }

    /// Puts back a server that was offered and not taken: it is the first one again.
    pub(super) fn put_back(&mut self, key: &str, free: Free) {
        let Some(of_peer) = self.peers.get_mut(&free.peer) else { return };
        let Some(key) = of_peer.offered.get(key).map(Arc::clone) else { return };
        let of_key = self.keys.entry(Arc::clone(&key)).or_default();
        let place = of_key.free.first_key_value().map_or(0, |(first, _)| first - 1);
        let _ = of_peer.free.insert((key, place));
        let _ = of_key.free.insert(place, free);
    }

    /// Adds a waiting client.
    pub(super) fn request(&mut self, key: &str, peer: u64, priority: i64) {
        let waiting = Waiting { priority: Reverse(priority), number: self.next, peer };
        self.next += 1;
        let (key, of_key) = self.of_key(key);
        let _ = of_key.waiting.insert(waiting.clone());
        let _ = self.peers.entry(peer).or_default().waiting.insert((key, waiting));
    }

    /// Removes the next client of a key and the server that it gets.
    pub(super) fn pair(&mut self, key: &str) -> Option<(Waiting, Free)> {
        let name = Arc::clone(self.keys.get_key_value(key)?.0);
        let of_key = self.keys.get_mut(key)?;
        if of_key.waiting.is_empty() {
            return None;
        }
        let (place, free) = of_key.free.pop_first()?;
        let waiting = of_key.waiting.pop_first()?;
        if let Some(of_peer) = self.peers.get_mut(&free.peer) {
            let _ = of_peer.free.remove(&(Arc::clone(&name), place));
        }
        if let Some(of_peer) = self.peers.get_mut(&waiting.peer) {
            let _ = of_peer.waiting.remove(&(name, waiting.clone()));
        }
        self.forget_key(key);
        Some((waiting, free))
    }

    /// Removes a connection that has ended.
    pub(super) fn forget(&mut self, peer: u64) {
        let Some(own) = self.peers.remove(&peer) else { return };
        for (key, place) in &own.free {
            let _ = self.keys.get_mut(key).and_then(|of_key| of_key.free.remove(place));
        }
        for (key, waiting) in &own.waiting {
            let _ = self.keys.get_mut(key).map(|of_key| of_key.waiting.remove(waiting));
            self.forget_key(key);
        }
        for key in &own.offered {
            if let Some(of_key) = self.keys.get_mut(key) {
                of_key.offering -= 1;
            }
            self.forget_key(key);
        }
    }

    /// Removes a key without connected servers and without waiting clients.
    fn forget_key(&mut self, key: &str) {
        if self.keys.get(key).is_some_and(|of_key| of_key.waiting.is_empty() && of_key.offering == 0) {
            let _ = self.keys.remove(key);
        }
    }

    /// The match keys of a connection's servers that are not assigned to a client yet.
    pub(super) fn pending(&self, peer: u64) -> Vec<&str> {
        let own = self.peers.get(&peer).into_iter().flat_map(|of_peer| &of_peer.free);
        own.filter_map(|(key, place)| Some(self.keys.get(key)?.free.get(place)?.match_key.as_str())).collect()
    }

    /// The number of free servers that a connection has offered, plus the number of its waiting
    /// requests.
    pub(super) fn count_of(&self, peer: u64) -> usize {
        self.peers.get(&peer).map_or(0, |of_peer| of_peer.free.len() + of_peer.waiting.len())
    }

    /// The number of waiting requests of a connection.
    pub(super) fn requests_of(&self, peer: u64) -> usize {
        self.peers.get(&peer).map_or(0, |of_peer| of_peer.waiting.len())
    }

    /// The keys, with the numbers of free servers and of waiting clients.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&str, usize, usize)> {
        self.keys.iter().map(|(key, of_key)| (&**key, of_key.free.len(), of_key.waiting.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(peer: u64, number: u16) -> Free {
        Free { peer, host: "h".to_owned(), port: number, match_key: format!("k:{number}") }
    }

    #[test]
    fn clients_are_served_by_priority_then_in_order() {
        let mut queue = Queue::default();
        for (peer, priority) in [(10, 1), (11, 5), (12, 5), (13, -1)] {
            queue.request("k", peer, priority);
        }
        queue.request("other", 14, 9);
        assert_eq!(queue.pair("k"), None);
        for number in 1..=5 {
            queue.put("k", free(1, number));
        }
        let got: Vec<(u64, u16)> =
            core::iter::from_fn(|| queue.pair("k")).map(|(waiting, free)| (waiting.peer, free.port)).collect();
        assert_eq!(got, [(11, 1), (12, 2), (10, 3), (13, 4)]);
        assert_eq!(queue.counts().collect::<Vec<_>>(), [("k", 1, 0), ("other", 0, 1)]);
        assert_eq!(queue.pending(1), ["k:5"]);
    }

    #[test]
    fn who_is_gone_is_forgotten() {
        let mut queue = Queue::default();
        queue.put("k", free(1, 1));
        queue.put("k", free(2, 2));
        queue.request("wanted", 3, 0);
        queue.forget(1);
        assert_eq!(queue.counts().collect::<Vec<_>>(), [("k", 1, 0), ("wanted", 0, 1)]);
        queue.forget(3);
        queue.request("k", 4, 0);
        let (_, taken) = queue.pair("k").unwrap();
        // All are busy, and the key is still known.
        assert_eq!(queue.counts().collect::<Vec<_>>(), [("k", 0, 0)]);
        assert_eq!(queue.pending(2), [""; 0]);
        queue.put_back("k", taken.clone());
        assert_eq!(queue.pending(2), ["k:2"]);
        queue.forget(2);
        queue.put_back("k", taken);
        assert_eq!(queue.counts().count(), 0);
    }

    /// The same in its simplest form, as a reference.
    #[derive(Default)]
    struct Plain {
        free: Vec<(String, Free)>,
        waiting: Vec<(String, i64, u64)>,
        offered: BTreeSet<(String, u64)>,
    }

    impl Plain {
        fn pair(&mut self, key: &str) -> Option<(u64, Free)> {
            let free = self.free.iter().position(|(own, _)| own == key)?;
            let of_key = self.waiting.iter().enumerate().filter(|(_, (own, ..))| own == key);
            let first = of_key.max_by_key(|(index, (_, priority, _))| (*priority, Reverse(*index)))?.0;
            Some((self.waiting.remove(first).2, self.free.remove(free).1))
        }

        fn forget(&mut self, peer: u64) {
            self.free.retain(|(_, free)| free.peer != peer);
            self.waiting.retain(|(.., own)| *own != peer);
            self.offered.retain(|(_, own)| *own != peer);
        }

        fn counts(&self) -> Vec<(&str, usize, usize)> {
            let keys = self.offered.iter().map(|(key, _)| key).chain(self.waiting.iter().map(|(key, ..)| key));
            let keys: BTreeSet<&str> = keys.map(String::as_str).collect();
            let count = |key: &str| {
                let free = self.free.iter().filter(|(own, _)| own == key).count();
                (free, self.waiting.iter().filter(|(own, ..)| own == key).count())
            };
            keys.into_iter().map(|key| (key, count(key).0, count(key).1)).collect()
        }
    }

    #[test]
    fn shares_agree_with_the_whole() {
        let (mut queue, mut plain) = (Queue::default(), Plain::default());
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut taken: Option<(String, Free)> = None;
        for step in 0..20_000 {
            let (peer, key) = (random(9), format!("k{}", random(4)));
            match random(9) {
                0..=2 => {
                    let free = free(peer, step);
                    queue.put(&key, free.clone());
                    let _ = plain.offered.insert((key.clone(), peer));
                    plain.free.push((key, free));
                }
                3..=4 => {
                    let priority = random(3) as i64;
                    queue.request(&key, peer, priority);
                    plain.waiting.push((key, priority, peer));
                }
                5..=6 => {
                    let found = queue.pair(&key).map(|(waiting, free)| (waiting.peer, free));
                    assert_eq!(found, plain.pair(&key));
                    taken = found.map(|(_, free)| (key, free)).or(taken);
                }
                7 => {
                    let Some((key, free)) = taken.take() else { continue };
                    queue.put_back(&key, free.clone());
                    if plain.offered.contains(&(key.clone(), free.peer)) {
                        plain.free.insert(0, (key, free));
                    }
                }
                _ => {
                    queue.forget(peer);
                    plain.forget(peer);
                }
            }
            assert_eq!(queue.counts().collect::<Vec<_>>(), plain.counts(), "{step}");
            let own = plain.free.iter().filter(|(_, free)| free.peer == peer).count();
            let waits = plain.waiting.iter().filter(|(.., own)| *own == peer).count();
            assert_eq!((queue.pending(peer).len(), queue.requests_of(peer)), (own, waits), "{step}");
            assert_eq!(queue.count_of(peer), own + waits, "{step}");
        }
        (0..9).for_each(|peer| queue.forget(peer));
        assert!(queue.keys.is_empty() && queue.peers.is_empty());
    }

    #[test]
    fn many_keys_cost_no_more_than_few() {
        // A search through all keys or servers for each of these would take minutes.
        let mut queue = Queue::default();
        let begun = std::time::Instant::now();
        for peer in 0..200 {
            for number in 0..500_u16 {
                assert_eq!(queue.count_of(peer), usize::from(number) * 2);
                queue.put(&format!("k{peer}-{number}"), free(peer, number));
                queue.put("k", free(peer, number));
            }
        }
        (0..200).for_each(|peer| queue.forget(peer));
        assert_eq!(queue.counts().count(), 0);
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{:?}", begun.elapsed());
    }
}
