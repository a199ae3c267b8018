use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A stream of bytes to a peer: a TCP connection, or TLS over one.
///
/// Reads and writes give up with [`io::ErrorKind::WouldBlock`] or [`io::ErrorKind::TimedOut`] after
/// the times set.
pub trait Transport: Read + Write + Send {
    /// Sets the longest time that one read and one write may wait; `None` is unlimited. Not zero.
    ///
    /// # Errors
    /// The error of the system.
    fn set_timeouts(&mut self, read: Option<Duration>, write: Option<Duration>) -> io::Result<()>;

    /// Reads the available bytes without waiting: [`io::ErrorKind::WouldBlock`] if there are none.
    ///
    /// # Errors
    /// As for a read. A transport that cannot do this always returns `WouldBlock`.
    fn read_now(&mut self, target: &mut [u8]) -> io::Result<usize>;

    /// Reads into memory that may not be initialized; the returned number of bytes at its beginning
    /// are then initialized.
    ///
    /// # Errors
    /// As for a read.
    fn read_into(&mut self, target: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        // A short read into a large target must not initialize the rest each time.
        let length = target.len().min(1 << 16);
        let target = &mut target[..length];
        target.fill(MaybeUninit::new(0));
        // SAFETY: all bytes were just written.
        let target = unsafe { std::slice::from_raw_parts_mut(target.as_mut_ptr().cast::<u8>(), length) };
        self.read(target)
    }

    /// Writes some of the parts, one after the other, and returns the number of bytes. A peer that
    /// is gone is an error, never a signal.
    ///
    /// # Errors
    /// As for a write.
    fn write_some(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write_vectored(parts)
    }

    /// Ends the connection for both sides; reads and writes in progress return.
    fn close(&self);

    /// The underlying descriptor, if there is one that can be polled.
    fn descriptor(&self) -> Option<RawFd> {
        None
    }

    /// A value that only the two ends of this connection have, such as the one from a TLS exporter;
    /// proofs of a token are then bound to it. `None` if there is none.
    fn channel(&self) -> Option<[u8; 32]> {
        None
    }
}

/// Implements the trait for a kind of socket.
macro_rules! socket {
    ($socket:ty) => {
        impl Transport for $socket {
            fn set_timeouts(&mut self, read: Option<Duration>, write: Option<Duration>) -> io::Result<()> {
                self.set_read_timeout(read)?;
                self.set_write_timeout(write)
            }

            fn read_now(&mut self, target: &mut [u8]) -> io::Result<usize> {
                // SAFETY: the memory is as large as said, and borrowed for the call.
                unsafe { receive(self.as_raw_fd(), target.as_mut_ptr(), target.len(), libc::MSG_DONTWAIT) }
            }

            fn read_into(&mut self, target: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
                // A reader that waits for all of it is woken once, not for each piece of a slow
                // writer.
                // SAFETY: as above.
                unsafe { receive(self.as_raw_fd(), target.as_mut_ptr().cast(), target.len(), libc::MSG_WAITALL) }
            }

            fn write_some(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
                send(self.as_raw_fd(), parts)
            }

            fn close(&self) {
                // A connection that the peer has already closed needs no shutdown.
                let _ = self.shutdown(Shutdown::Both);
            }

            fn descriptor(&self) -> Option<RawFd> {
                Some(self.as_raw_fd())
            }
        }
    };
}
socket!(TcpStream);
socket!(UnixStream);

/// # Safety
/// `target` has `length` writable bytes.
unsafe fn receive(socket: RawFd, target: *mut u8, length: usize, flags: libc::c_int) -> io::Result<usize> {
    // SAFETY: promised by the caller.
    let count = unsafe { libc::recv(socket, target.cast(), length, flags) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

fn send(socket: RawFd, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    // SAFETY: all members may be zero.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // An `IoSlice` has the layout of an `iovec`; the system only reads.
    message.msg_iov = parts.as_ptr().cast_mut().cast();
    message.msg_iovlen = parts.len() as _;
    #[cfg(target_os = "linux")]
    let flags = libc::MSG_NOSIGNAL;
    // The standard library sets SO_NOSIGPIPE on systems without such a flag.
    #[cfg(not(target_os = "linux"))]
    let flags = 0;
    // SAFETY: the message refers to parts that live for the call.
    let count = unsafe { libc::sendmsg(socket, &message, flags) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Implements the trait for a pointer to a transport.
macro_rules! pointer {
    ($pointer:ty) => {
        impl<T: Transport + ?Sized> Transport for $pointer {
            fn set_timeouts(&mut self, read: Option<Duration>, write: Option<Duration>) -> io::Result<()> {
                (**self).set_timeouts(read, write)
            }

            fn read_now(&mut self, target: &mut [u8]) -> io::Result<usize> {
                (**self).read_now(target)
            }

            fn read_into(&mut self, target: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
                (**self).read_into(target)
            }

            fn write_some(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
                (**self).write_some(parts)
            }

            fn close(&self) {
                (**self).close();
            }

            fn descriptor(&self) -> Option<RawFd> {
                (**self).descriptor()
            }

            fn channel(&self) -> Option<[u8; 32]> {
                (**self).channel()
            }
        }
    };
}
pointer!(Box<T>);
pointer!(&mut T);

/// Lets the system detect within a minute that the other machine is gone, even if nothing is sent
/// to it. A hint: if an option is not supported, the session's own timeouts apply.
pub(crate) fn notice_when_gone(stream: &TcpStream) {
    let set = |level: libc::c_int, option: libc::c_int, value: libc::c_int| {
        // SAFETY: the descriptor is open, and the value is an int that lives for the call.
        unsafe {
            libc::setsockopt(
                stream.as_raw_fd(),
                level,
                option,
                (&raw const value).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        }
    };
    set(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1);
    // While sent data is not acknowledged, the system does not probe, but retransmits, for a
    // quarter of an hour: the last option sets the timeout for both.
    #[cfg(target_os = "linux")]
    for (option, value) in
        [(libc::TCP_KEEPIDLE, 10), (libc::TCP_KEEPINTVL, 5), (libc::TCP_KEEPCNT, 4), (libc::TCP_USER_TIMEOUT, 60_000)]
    {
        set(libc::IPPROTO_TCP, option, value);
    }
}

/// Returns true if the peer of a socket has ended the connection, or the connection has failed;
/// data that the peer sent before may still be unread.
pub(crate) fn is_hung_up(socket: RawFd) -> bool {
    // The end of the peer's data is enough if the system reports it: a client does not close its
    // side while it waits for a reply.
    #[cfg(target_os = "linux")]
    let events = libc::POLLRDHUP;
    #[cfg(not(target_os = "linux"))]
    let events = 0;
    let mut poll = libc::pollfd { fd: socket, events, revents: 0 };
    // SAFETY: the struct is valid for the call.
    unsafe { libc::poll(&mut poll, 1, 0) };
    poll.revents & (events | libc::POLLHUP | libc::POLLERR) != 0
}

/// Returns true if a read would return something now: bytes, the end, or an error.
pub(super) fn has_input(socket: RawFd) -> bool {
    let mut poll = libc::pollfd { fd: socket, events: libc::POLLIN, revents: 0 };
    // SAFETY: the struct is valid for the call.
    unsafe { libc::poll(&mut poll, 1, 0) > 0 }
}

/// Returns true if a read or write gave up because of its timeout. A connection that the system has
/// given up is not such a timeout.
pub(super) fn is_timeout(error: &io::Error) -> bool {
    error.raw_os_error() != Some(libc::ETIMEDOUT)
        && matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
