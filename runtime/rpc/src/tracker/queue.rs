//! Who is free, and who waits: the tracker's state without its connections.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// A server that is free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Free {
    /// The connection that offered it.
    pub(super) peer: u64,
    /// Where clients reach it.
    pub(super) host: String,
    pub(super) port: u16,
    /// The key that the client is to name.
    pub(super) match_key: String,
}

/// A client that waits: those of higher priority first, then those that asked first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Waiting {
    priority: Reverse<i64>,
    number: u64,
    pub(super) peer: u64,
}

#[derive(Default)]
struct OfKey {
    free: VecDeque<Free>,
    waiting: BTreeSet<Waiting>,
}

/// Servers and clients by key.
#[derive(Default)]
pub(super) struct Queue {
    keys: BTreeMap<String, OfKey>,
    /// The keys that each connection has offered servers of.
    offered: HashMap<u64, BTreeSet<String>>,
    next: u64,
}

impl Queue {
    /// A server is free.
    pub(super) fn put(&mut self, key: &str, free: Free) {
        let _ = self.offered.entry(free.peer).or_default().insert(key.to_owned());
        self.keys.entry(key.to_owned()).or_default().free.push_back(free);
    }

    /// A server that was offered and not taken: it is the first one again.
    pub(super) fn put_back(&mut self, key: &str, free: Free) {
        if self.offered.contains_key(&free.peer) {
            self.keys.entry(key.to_owned()).or_default().free.push_front(free);
        }
    }

    /// A client waits.
    pub(super) fn request(&mut self, key: &str, peer: u64, priority: i64) {
        let waiting = Waiting { priority: Reverse(priority), number: self.next, peer };
        self.next += 1;
        let _ = self.keys.entry(key.to_owned()).or_default().waiting.insert(waiting);
    }

    /// The next client of a key with the server that it gets.
    pub(super) fn pair(&mut self, key: &str) -> Option<(Waiting, Free)> {
        let of_key = self.keys.get_mut(key)?;
        if of_key.free.is_empty() {
            return None;
        }
        let waiting = of_key.waiting.pop_first()?;
        Some((waiting, of_key.free.pop_front()?))
    }

    /// A connection has ended.
    pub(super) fn forget(&mut self, peer: u64) {
        let _ = self.offered.remove(&peer);
        for of_key in self.keys.values_mut() {
            of_key.free.retain(|free| free.peer != peer);
            of_key.waiting.retain(|waiting| waiting.peer != peer);
        }
        // A key is known as long as a server of it is connected, or a client waits.
        let offered = &self.offered;
        self.keys.retain(|key, of_key| !of_key.waiting.is_empty() || offered.values().any(|keys| keys.contains(key)));
    }

    /// The match keys of a connection's servers that no client has got yet.
    pub(super) fn pending(&self, peer: u64) -> Vec<&str> {
        let all = self.keys.values().flat_map(|of_key| &of_key.free);
        all.filter(|free| free.peer == peer).map(|free| free.match_key.as_str()).collect()
    }

    /// How many servers a connection has offered that are free, and whether it waits.
    pub(super) fn count_of(&self, peer: u64) -> usize {
        let waiting = self.keys.values().flat_map(|of_key| &of_key.waiting).filter(|waiting| waiting.peer == peer);
        self.pending(peer).len() + waiting.count()
    }

    /// Keys, with free servers and waiting clients.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&str, usize, usize)> {
        self.keys.iter().map(|(key, of_key)| (key.as_str(), of_key.free.len(), of_key.waiting.len()))
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
}
