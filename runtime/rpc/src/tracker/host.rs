use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs, UdpSocket};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The most names that are looked up for peers at the same time, and the time that a peer waits for
/// its turn. A name server may be slow for each, and a look-up cannot be cancelled.
const LOOKUPS: usize = 8;
const TURN: Duration = Duration::from_secs(1);

static IN_USE: Mutex<usize> = Mutex::new(0);
static IS_FREE: Condvar = Condvar::new();

/// The permission to look up a name, which is returned when this is dropped.
struct Lookup;

impl Lookup {
    /// `None` if all permissions are in use for too long.
    fn begin() -> Option<Self> {
        let count = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = IS_FREE.wait_timeout_while(count, TURN, |count| *count >= LOOKUPS);
        let (mut count, time) = waited.unwrap_or_else(PoisonError::into_inner);
        if time.timed_out() {
            return None;
        }
        *count += 1;
        Some(Self)
    }
}

impl Drop for Lookup {
    fn drop(&mut self) {
        *IN_USE.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        IS_FREE.notify_one();
    }
}

/// The address of a server by the host that it names, if that is the machine that its connection
/// comes from: the same address, a name of it, or, for a connection from the tracker's own machine,
/// another address of this machine. Clients get the address, because a name may resolve differently
/// later.
///
/// # Errors
/// A description of the problem with the host, for the peer.
pub(super) fn address_of(host: &str, peer: IpAddr) -> Result<IpAddr, String> {
    let other = || {
        format!(
            "a server at {peer} says that it is at {host}, which is another machine (see `--any-host` of the tracker)"
        )
    };
    let is_same = |said: &IpAddr| {
        let is_local = is_here(peer) && is_here(*said) && (peer.is_loopback() || !said.is_loopback());
        *said == peer || is_local
    };
    if let Ok(said) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Some(said.to_canonical()).filter(is_same).ok_or_else(other);
    }
    let Some(_lookup) = Lookup::begin() else {
        return Err(format!(
            "the tracker looks up too many names at this moment: offer {peer} in place of {host}, or try again later"
        ));
    };
    let mut found = (host, 0).to_socket_addrs().map_err(|_| other())?;
    found.find_map(|said| Some(said.ip().to_canonical()).filter(is_same)).ok_or_else(other)
}

/// Returns true for an address of this machine: packets to it come from it. A socket can also be
/// bound to other addresses (`ip_nonlocal_bind`).
fn is_here(address: IpAddr) -> bool {
    let any = match address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    // Nothing is sent; the port does not matter.
    let own = || {
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect((address, 9))?;
        socket.local_addr()
    };
    address != any && (address.is_loopback() || own().is_ok_and(|own| own.ip() == address))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Held while a test uses all look-ups.
    static LOOKS_UP: Mutex<()> = Mutex::new(());

    #[test]
    fn hosts_of_a_peer() {
        let _turn = LOOKS_UP.lock().unwrap_or_else(PoisonError::into_inner);
        let here = IpAddr::from([127, 0, 0, 1]);
        let far = IpAddr::from([192, 0, 2, 7]);
        for (host, peer, expected) in [
            ("127.0.0.1", here, Some("127.0.0.1")),
            ("::1", here, Some("::1")),
            ("192.0.2.7", far, Some("192.0.2.7")),
            ("::ffff:192.0.2.7", far, Some("192.0.2.7")),
            ("192.0.2.8", far, None),
            ("192.0.2.7", here, None),
            ("127.0.0.1", far, None),
            ("localhost", far, None),
            ("0.0.0.0", here, None),
            ("::", here, None),
            ("no.such.host.invalid", here, None),
        ] {
            assert_eq!(address_of(host, peer).ok(), expected.map(|host| host.parse().unwrap()), "{host} of {peer}");
        }
        assert!(address_of("localhost", here).unwrap().is_loopback());
    }
    #[test]
    fn addresses_of_this_machine() {
        // The address that the system would send from, if there is a network.
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        if socket.connect("192.0.2.1:9").is_ok() {
            let own = socket.local_addr().unwrap().ip();
            assert!(is_here(own), "{own}");
            assert_eq!(address_of(&own.to_string(), IpAddr::from([127, 0, 0, 1])), Ok(own));
        }
        for far in ["192.0.2.7", "2001:db8::7", "0.0.0.0", "::", "255.255.255.255"] {
            assert!(!is_here(far.parse().unwrap()), "{far}");
        }
    }

    #[test]
    fn names_have_turns() {
        let _turn = LOOKS_UP.lock().unwrap_or_else(PoisonError::into_inner);
        let all: Vec<Lookup> = std::iter::from_fn(Lookup::begin).take(LOOKUPS).collect();
        let here = IpAddr::from([127, 0, 0, 1]);
        let problem = address_of("localhost", here).unwrap_err();
        assert!(problem.contains("offer 127.0.0.1 in place of localhost, or try again"), "{problem}");
        assert_eq!(address_of("127.0.0.1", here), Ok(here), "an address needs no look-up");
        drop(all);
        assert!(address_of("localhost", here).is_ok());
    }
}
