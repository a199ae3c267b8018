//! A connection with TLS as a transport.

use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpStream};
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use rustls::Connection;

use crate::wire::Transport;

/// The most bytes that are encrypted before they are sent, and that are read before they are
/// decrypted.
const AT_ONCE: usize = 256 << 10;

/// The size of a TLS record: the unit of decryption.
const RECORD: usize = 16 << 10;

/// A connection with TLS, of either side. Dropping it sends the peer the end of the connection.
pub struct TlsStream {
    pub(super) connection: Connection,
    pub(super) socket: TcpStream,
    /// Encrypted bytes. `read_tls` alone would make a system call for each 4 KiB.
    input: Box<[u8]>,
    /// The range of `input` that is not decrypted yet.
    ready: Range<usize>,
    /// The timeouts of a read and of a write, however few bytes of a record arrive at a time.
    times: [Option<Duration>; 2],
}

impl TlsStream {
    /// Performs the handshake, with a timeout for all of it.
    pub(super) fn begin(connection: impl Into<Connection>, socket: TcpStream, within: Duration) -> io::Result<Self> {
        let input = vec![0; AT_ONCE].into();
        let mut this = Self { connection: connection.into(), socket, input, ready: 0..0, times: [None; 2] };
        this.connection.set_buffer_limit(Some(AT_ONCE));
        let begun = Instant::now();
        while this.connection.is_handshaking() || this.connection.wants_write() {
            let left = within.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            this.set_timeouts(Some(left), Some(left))?;
            if this.connection.wants_write() {
                this.send()?;
            } else if this.receive()? == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the peer closed the connection"));
            }
        }
        Ok(this)
    }

    /// The underlying socket.
    pub(crate) const fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Sends encrypted bytes.
    pub(super) fn send(&mut self) -> io::Result<()> {
        let begun = Instant::now();
        while self.connection.wants_write() {
            check(self.times[1], begun)?;
            match self.connection.write_tls(&mut self.socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Decrypts bytes that were read, and reads first if there are none; 0 is the end. There may be
    /// nothing to take yet: a record comes in pieces.
    pub(super) fn receive(&mut self) -> io::Result<usize> {
        if self.ready.is_empty() {
            let count = loop {
                match self.socket.read(&mut self.input) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    other => break other?,
                }
            };
            if count == 0 {
                // An empty read signals to the connection that the peer has ended.
                let _ = self.connection.read_tls(&mut io::empty())?;
                return Ok(0);
            }
            self.ready = 0..count;
        }
        let before = self.ready.len();
        while !self.ready.is_empty() && self.connection.wants_read() {
            let taken = self.connection.read_tls(&mut &self.input[self.ready.clone()])?;
            self.ready.start += taken;
            if let Err(problem) = self.connection.process_new_packets() {
                // Sends the peer the alert, if it listens.
                let _ = self.send();
                return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
            }
            if taken == 0 {
                break;
            }
        }
        // At least one byte was consumed, or there is something to take.
        Ok(before)
    }

    /// Returns true if [`TlsStream::receive`] has work without reading.
    pub(super) fn has_input(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Reads decrypted bytes. The end of the connection is the end of the stream even if the peer
    /// did not announce it: messages have lengths.
    pub(super) fn plain(&mut self, target: &mut [u8]) -> io::Result<usize> {
        match self.connection.reader().read(target) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            other => other,
        }
    }

    /// Encrypts as many bytes as there is room for.
    pub(super) fn put(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.connection.writer().write(bytes)
    }
}

/// Fails if the time is over.
fn check(time: Option<Duration>, begun: Instant) -> io::Result<()> {
    match time.is_some_and(|time| begun.elapsed() >= time) {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => Ok(()),
    }
}

impl Read for TlsStream {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        match self.plain(target) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => return other,
        }
        let begun = Instant::now();
        loop {
            match self.plain(target) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            check(self.times[0], begun)?;
            // The peer may wait for data that is not sent yet.
            self.send()?;
            let _ = self.receive()?;
        }
    }
}

impl TlsStream {
    /// Encrypts with `put`, and sends. Encrypted bytes count as written: if they cannot be sent
    /// now, the next write or read sends them or reports the error.
    fn write_with(&mut self, put: impl FnOnce(&mut Self) -> io::Result<usize>) -> io::Result<usize> {
        self.send()?;
        let count = put(self)?;
        match self.send() {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Ok(count),
            other => other.map(|()| count),
        }
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_with(|this| this.put(bytes))
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write_with(|this| this.connection.writer().write_vectored(parts))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}

impl Transport for TlsStream {
    fn set_timeouts(&mut self, read: Option<Duration>, write: Option<Duration>) -> io::Result<()> {
        self.times = [read, write];
        self.socket.set_read_timeout(read)?;
        self.socket.set_write_timeout(write)
    }

    fn read_now(&mut self, target: &mut [u8]) -> io::Result<usize> {
        self.plain(target)
    }

    fn read_into(&mut self, target: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        // Avoids initializing all of a long target for each record.
        let length = target.len().min(RECORD);
        let target = &mut target[..length];
        target.fill(MaybeUninit::new(0));
        // SAFETY: all bytes were just written.
        let target = unsafe { std::slice::from_raw_parts_mut(target.as_mut_ptr().cast::<u8>(), length) };
        self.read(target)
    }

    fn close(&self) {
        // A connection that the peer has already closed needs no shutdown.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.socket.as_raw_fd())
    }

    fn channel(&self) -> Option<[u8; 32]> {
        // RFC 8446, 7.5: an attacker between two connections has a different value in each.
        self.connection.export_keying_material([0; 32], b"EXPORTER-kernpack-rpc-proof", None).ok()
    }
}

impl Drop for TlsStream {
    fn drop(&mut self) {
        self.connection.send_close_notify();
        // Do not wait for a peer that does not read.
        let _ = self.socket.set_nonblocking(true);
        let _ = self.send();
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;
    use crate::tls::{Identity, TlsAcceptor, TlsConnector, Trust};

    #[test]
    fn a_record_that_trickles_in_is_no_progress() {
        let folder = std::env::temp_dir().join(format!("kernpack-rpc-trickle-{}", std::process::id()));
        let identity = Identity::generate(&folder, &["localhost".to_owned()]).unwrap();
        std::fs::remove_dir_all(folder).unwrap();
        let connector = TlsConnector::new(&Trust::Fingerprint(identity.fingerprint())).unwrap();
        let acceptor = TlsAcceptor::new(identity).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let time = Duration::from_secs(30);
        let client = thread::spawn(move || {
            let mut client = connector.connect("localhost", TcpStream::connect(address).unwrap(), time).unwrap();
            client.put(&[7; 10_000]).unwrap();
            let mut record = Vec::new();
            let _ = client.connection.write_tls(&mut record).unwrap();
            // Each byte arrives in time, but the record does not.
            for byte in record {
                if client.socket.write_all(&[byte]).is_err() {
                    return;
                }
                thread::sleep(Duration::from_millis(5));
            }
        });
        let mut server = acceptor.accept(listener.accept().unwrap().0, time).unwrap();
        server.set_timeouts(Some(Duration::from_millis(200)), Some(time)).unwrap();
        let begun = Instant::now();
        let error = server.read(&mut [0; 16]).unwrap_err();
        assert!(matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        server.close();
        drop(server);
        client.join().unwrap();
    }
}
