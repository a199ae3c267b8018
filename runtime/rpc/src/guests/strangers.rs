use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// Connections that have not proved their identity, the oldest first: limited in all, and for each
/// address.
pub(crate) struct Strangers {
    most: usize,
    most_of_host: usize,
    waiting: VecDeque<(u64, IpAddr)>,
}

impl Strangers {
    /// Creates an empty list.
    pub(crate) fn new(most: usize, most_of_host: usize) -> Self {
        Self { most, most_of_host, waiting: VecDeque::new() }
    }

    /// Adds a connection, and returns the one that has to end for it, if any: the oldest one from
    /// the same address, or of all.
    pub(crate) fn add(&mut self, number: u64, host: IpAddr) -> Option<u64> {
        let host = network(host);
        let own = self.waiting.iter().filter(|(_, other)| *other == host).count();
        let gone = if own >= self.most_of_host {
            self.waiting.iter().position(|(_, other)| *other == host).and_then(|index| self.waiting.remove(index))
        } else if self.waiting.len() >= self.most {
            self.waiting.pop_front()
        } else {
            None
        };
        self.waiting.push_back((number, host));
        gone.map(|(number, _)| number)
    }

    /// Removes a connection, if it is present.
    pub(crate) fn remove(&mut self, number: u64) {
        self.waiting.retain(|(other, _)| *other != number);
    }

    /// Removes the oldest connection of the address that has the most, if that is more than the
    /// newcomer's address would have.
    pub(crate) fn pop_for(&mut self, newcomer: IpAddr) -> Option<u64> {
        let newcomer = network(newcomer);
        let mut counts = HashMap::new();
        for (_, host) in &self.waiting {
            *counts.entry(*host).or_insert(0_usize) += 1;
        }
        let own = counts.get(&newcomer).copied().unwrap_or(0);
        let most = counts.values().copied().max().filter(|most| *most > own + 1)?;
        let index = self.waiting.iter().position(|(_, host)| counts[host] == most)?;
        self.waiting.remove(index).map(|(number, _)| number)
    }

    /// Removes the oldest connection.
    pub(crate) fn pop(&mut self) -> Option<u64> {
        self.waiting.pop_front().map(|(number, _)| number)
    }
}

/// Maps all addresses of one peer to one: with IPv6 each peer has 2^64.
fn network(host: IpAddr) -> IpAddr {
    match host.to_canonical() {
        IpAddr::V6(host) => IpAddr::from((u128::from(host) >> 64 << 64).to_be_bytes()),
        host => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_their_share() {
        let mut strangers = Strangers::new(4, 2);
        let add = |strangers: &mut Strangers, number: u64, host: &str| strangers.add(number, host.parse().unwrap());
        assert_eq!(add(&mut strangers, 0, "192.0.2.1"), None);
        assert_eq!(add(&mut strangers, 1, "2001:db8::1"), None);
        assert_eq!(add(&mut strangers, 2, "2001:db8::2"), None);
        assert_eq!(add(&mut strangers, 3, "2001:db8::2:3:4:5"), Some(1), "one network");
        assert_eq!(add(&mut strangers, 4, "::ffff:192.0.2.1"), None);
        assert_eq!(add(&mut strangers, 5, "192.0.2.1"), Some(0), "the same in another form");
        assert_eq!(add(&mut strangers, 6, "192.0.2.3"), Some(2), "the oldest of all");
        strangers.remove(3);
        assert_eq!(
            (strangers.pop(), strangers.pop(), strangers.pop(), strangers.pop()),
            (Some(4), Some(5), Some(6), None)
        );
    }
}
