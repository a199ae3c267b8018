//! Servers and clients on one machine: beside its port, a server at a loopback address listens at a
//! Unix socket of that machine, named after the address. A client that finds it does not need TCP,
//! and a call takes about half the time. Linux only; elsewhere, and whenever the socket cannot be
//! used, both use the port.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as LocalAddr, UnixListener};

/// The name of the socket of a server at this address. The name is not a file, and disappears with
/// the socket.
fn name_of(address: SocketAddr) -> String {
    format!("kernpack-rpc-{address}")
}

/// Listens beside a port; `None` for an address that other machines can reach, and when the system
/// refuses.
pub(crate) fn listen(address: SocketAddr) -> Option<UnixListener> {
    if !address.ip().is_loopback() {
        return None;
    }
    let name = LocalAddr::from_abstract_name(name_of(address)).ok()?;
    let listener = UnixListener::bind_addr(&name).ok()?;
    listener.set_nonblocking(true).ok()?;
    Some(listener)
}

/// Accepts a connection, as a socket like any other. A connection of another user is closed: that
/// user's clients use the port.
pub(crate) fn accept(listener: &UnixListener) -> io::Result<TcpStream> {
    // The type says TCP, but only operations that all kinds of sockets support are used.
    let (stream, _) = listener.accept()?;
    let socket = OwnedFd::from(stream);
    if !user_of_peer(&socket).is_some_and(|user| user == 0 || user == own_user()) {
        return Err(io::ErrorKind::ConnectionAborted.into());
    }
    widen(&socket);
    Ok(TcpStream::from(socket))
}

/// Increases the system's send buffer: the two sides switch less often.
fn widen(socket: &OwnedFd) {
    let bytes: libc::c_int = 256 << 10;
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open, and the value is an int that lives for the call. What the
    // system grants is enough.
    unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, (&raw const bytes).cast(), length)
    };
}

/// Connects to the server at this address, if it listens nearby as the same user; never waits. A
/// server of another user, also root's, is reached by the port: it closes connections of other
/// users here, and another user could have taken its name.
pub(crate) fn dial(address: SocketAddr) -> Option<TcpStream> {
    if !address.ip().is_loopback() {
        return None;
    }
    let name = name_of(address);
    // SAFETY: all members may be zero.
    let mut place: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    place.sun_family = libc::AF_UNIX as libc::sa_family_t;
    // An abstract name begins with NUL.
    let room = place.sun_path.get_mut(1..=name.len())?;
    for (to, from) in room.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let length = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
    // SAFETY: a plain call.
    let socket =
        unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) };
    if socket < 0 {
        return None;
    }
    // SAFETY: the descriptor is new, and belongs to this value alone.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    // SAFETY: an address of that length, which lives for the call.
    let connected = unsafe { libc::connect(socket.as_raw_fd(), (&raw const place).cast(), length as libc::socklen_t) };
    if connected != 0 || user_of_peer(&socket) != Some(own_user()) {
        return None;
    }
    widen(&socket);
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(false).ok()?;
    Some(stream)
}

/// The user of the peer's process.
fn user_of_peer(socket: &OwnedFd) -> Option<libc::uid_t> {
    let mut peer = libc::ucred { pid: 0, uid: libc::uid_t::MAX, gid: libc::gid_t::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let target = (&raw mut peer).cast();
    // SAFETY: the descriptor is open, and the struct is as long as said.
    let known =
        unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, target, &raw mut length) };
    (known == 0).then_some(peer.uid)
}

/// The user of this process.
fn own_user() -> libc::uid_t {
    // SAFETY: a plain call.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::os::unix::net::UnixStream;

    use kernpack_skip::skip;

    use super::*;

    #[test]
    fn beside_a_port() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = port.local_addr().unwrap();
        assert!(dial(address).is_none(), "nothing listens nearby");
        let listener = listen(address).unwrap();
        assert!(listen(address).is_none(), "the name is taken");
        let mut client = dial(address).unwrap();
        let mut server = accept(&listener).unwrap();
        server.write_all(b"near").unwrap();
        drop(server);
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        assert_eq!(text, "near");
        drop(listener);
        assert!(dial(address).is_none() && listen(address).is_some());
        assert!(listen("192.0.2.1:9090".parse().unwrap()).is_none());
    }

    #[test]
    fn other_users_are_turned_away() {
        if own_user() != 0 {
            return skip("only root can be another user");
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = port.local_addr().unwrap();
        let listener = listen(address).unwrap();
        // SAFETY: the child makes system calls and allocates, which fork allows in glibc, and does
        // not return.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: plain calls.
            let is_other = unsafe { libc::setgid(65534) == 0 && libc::setuid(65534) == 0 };
            // The server closes a connection that is made nevertheless.
            let gets_in = LocalAddr::from_abstract_name(name_of(address))
                .and_then(|name| UnixStream::connect_addr(&name))
                .and_then(|mut stream| stream.read(&mut [0]))
                .is_ok_and(|count| count > 0);
            // The server runs as root: this user's clients use the port, where a token admits them.
            let takes_the_port = dial(address).is_none();
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(if is_other && !gets_in && takes_the_port { 0 } else { 1 }) };
        }
        let taken = loop {
            match accept(&listener) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                other => break other,
            }
        };
        let refused = taken.map(|mut stream| stream.write_all(b"in")).map_err(|error| error.kind());
        let mut status = -1;
        // SAFETY: the status is writable.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!((refused.err(), status), (Some(io::ErrorKind::ConnectionAborted), 0));
    }
}
