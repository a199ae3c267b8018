//! Where servers and trackers listen.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

use kernpack::{Result, bail, error};

/// Listens at an address. One that other machines reach is refused unless `insecure`; `can` is what they could do.
///
/// # Errors
/// ValueError for a host without an address, or with one of other machines; RuntimeError when the system refuses.
pub(crate) fn listen(host: &str, port: u16, insecure: bool, can: &str) -> Result<TcpListener> {
    let addresses = (host, port).to_socket_addrs();
    let addresses: Vec<SocketAddr> =
        addresses.map_err(|problem| error!(ValueError, "'{host}' is no address of this machine: {problem}"))?.collect();
    if !insecure && addresses.iter().any(|address| !address.ip().is_loopback()) {
        bail!(
            ValueError,
            "{host} can be reached from other machines, and a client can {can}: listen at 127.0.0.1 (through a tunnel, for \
             example `ssh -L`), use TLS and a token where there is that choice, or say --insecure if all machines that reach port {port} may do that"
        );
    }
    TcpListener::bind(&addresses[..]).map_err(|problem| {
        let advice = match problem.kind() {
            io::ErrorKind::AddrInUse => {
                "; another program listens there: choose another --port, or 0 for one that is free"
            }
            io::ErrorKind::PermissionDenied => "; ports below 1024 are for root: choose another --port",
            _ => "",
        };
        error!(RuntimeError, "cannot listen at {host}:{port}: {problem}{advice}")
    })
}
