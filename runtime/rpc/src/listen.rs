//! Where servers and trackers listen.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

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

/// Takes connections until `woken` is closed at its other end; each is given as one that blocks.
pub(crate) fn accept(listener: &TcpListener, woken: &UnixStream, welcome: impl Fn(TcpStream, SocketAddr)) {
    // A connection that is gone before it is taken must not block.
    if listener.set_nonblocking(true).is_err() {
        return;
    }
    loop {
        let mut poll =
            [listener.as_raw_fd(), woken.as_raw_fd()].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        // SAFETY: two descriptors that are open as long as the references are.
        unsafe { libc::poll(poll.as_mut_ptr(), 2, -1) };
        if poll[1].revents != 0 {
            return;
        }
        match listener.accept() {
            Ok((stream, peer)) => {
                let _ = stream.set_nonblocking(false);
                welcome(stream, peer);
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            // Too many descriptors are open: the next try waits for some to be closed.
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}
