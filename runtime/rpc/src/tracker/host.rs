use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs, UdpSocket};

/// The address of a server by the host that it names, if that is the machine that its connection comes from: the same address, a name of it, or, for
/// one that comes from the tracker's own machine, another address of this machine. Clients are told the address, because a name may lead
/// elsewhere tomorrow.
pub(super) fn address_of(host: &str, peer: IpAddr) -> Option<IpAddr> {
    let is_same = |said: &IpAddr| {
        let is_local = is_here(peer) && is_here(*said) && (peer.is_loopback() || !said.is_loopback());
        *said == peer || is_local
    };
    if let Ok(said) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Some(said.to_canonical()).filter(is_same);
    }
    let mut found = (host, 0).to_socket_addrs().ok()?;
    found.find_map(|said| Some(said.ip().to_canonical()).filter(is_same))
}

/// Returns true for an address of this machine: a socket can have it.
fn is_here(address: IpAddr) -> bool {
    let is_any = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)].contains(&address);
    !is_any && (address.is_loopback() || UdpSocket::bind((address, 0)).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_a_peer() {
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
            assert_eq!(address_of(host, peer), expected.map(|host| host.parse().unwrap()), "{host} of {peer}");
        }
        assert!(address_of("localhost", here).unwrap().is_loopback());
    }
}
