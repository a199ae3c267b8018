//! Addresses of servers: `host:port`, and the connection to one.

#[cfg(target_os = "linux")]
use std::net::{IpAddr, SocketAddr};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use kernpack::{Error, Result, ensure, error};

use crate::wire::notice_when_gone;

/// The default port of a server, as in Apache TVM.
const PORT: u16 = 9090;

/// Host and port of `host:port`, `host` or `[address]:port`.
pub(crate) fn host_and_port(address: &str) -> Result<(&str, u16)> {
    host_and_port_or(address, PORT)
}

fn host_and_port_or(address: &str, usual: u16) -> Result<(&str, u16)> {
    let wrong =
        || error!(ValueError, "'{address}' is not an address; write host:port, such as 192.168.0.7:9090 or [::1]:9090");
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or_else(wrong)?;
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or_else(wrong)?) })
        }
        // An IPv6 address without brackets has several colons.
        None => match address.rsplit_once(':') {
            Some((host, _)) if host.contains(':') => (address, None),
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
    };
    ensure!(!host.is_empty() && !host.contains(char::is_whitespace), ValueError, "{}", wrong().message());
    let port = port.map_or(Ok(usual), str::parse).map_err(|_| wrong())?;
    Ok((host, port))
}

/// Connects to a server: tries each address of its name. With `nearby`, a server on this machine
/// may be reached without TCP.
pub(super) fn dial(address: &str, nearby: bool, within: Duration) -> Result<TcpStream> {
    #[cfg(target_os = "linux")]
    if nearby
        && let Ok((host, port)) = host_and_port(address)
        // Names of other machines are looked up once, below.
        && let Some(found) = loopback(host, port)
        && let Some(stream) = crate::nearby::dial(found)
    {
        return Ok(stream);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = nearby;
    dial_to(address, PORT, "RPC server", within)
}

/// A loopback address of this machine.
#[cfg(target_os = "linux")]
fn loopback(host: &str, port: u16) -> Option<SocketAddr> {
    let ip = if host == "localhost" { IpAddr::from([127, 0, 0, 1]) } else { host.parse().ok()? };
    ip.is_loopback().then_some(SocketAddr::new(ip, port))
}

/// Connects to a peer, at the port `usual` if the address has none.
pub(crate) fn dial_to(address: &str, usual: u16, peer: &str, within: Duration) -> Result<TcpStream> {
    let (host, port) = host_and_port_or(address, usual)?;
    let found = (host, port).to_socket_addrs().map_err(|problem| {
        Error::new(
            "ConnectionError",
            format!("there is no address for the host '{host}': {problem}; check the name, or write the IP address"),
        )
    })?;
    let (mut problem, begun) = (None, Instant::now());
    for candidate in found {
        // All addresses of a name share the timeout.
        let left = within.saturating_sub(begun.elapsed()).max(Duration::from_millis(1));
        match TcpStream::connect_timeout(&candidate, left) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                notice_when_gone(&stream);
                return Ok(stream);
            }
            Err(error) => problem = Some((candidate, error)),
        }
    }
    let reason = match problem {
        None => "the name has no address".to_owned(),
        Some((candidate, error)) => format!("{candidate}: {error}"),
    };
    Err(Error::new(
        "ConnectionError",
        format!(
            "no connection to the {peer} {host}:{port} ({reason}); is it running there with --host 0.0.0.0 or this address, and does a \
             firewall let port {port} through?"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (address, expected) in [
            ("pi.local", ("pi.local", 9090)),
            ("pi.local:1", ("pi.local", 1)),
            ("[::1]:7", ("::1", 7)),
            ("[::1]", ("::1", 9090)),
            ("::1", ("::1", 9090)),
            ("127.0.0.1:65535", ("127.0.0.1", 65535)),
        ] {
            assert_eq!(host_and_port(address).unwrap(), expected, "{address}");
        }
        for address in ["", ":9090", "a:b", "a:65536", "a:-1", "[::1", "[::1]9", "a b:1"] {
            let error = host_and_port(address).unwrap_err().to_string();
            assert!(error.starts_with("ValueError: ") && error.contains("write host:port"), "{address}: {error}");
        }
    }

    #[test]
    fn a_server_that_is_not_there() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = dial(&free.to_string(), true, Duration::from_secs(5)).unwrap_err();
        assert_eq!(error.kind(), "ConnectionError");
        assert!(error.message().starts_with(&format!("no connection to the RPC server {free} (")), "{error}");
    }
}
