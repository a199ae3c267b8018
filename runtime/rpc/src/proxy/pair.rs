//! A client and its server: forwards bytes between them.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::line::Line;

/// The most bytes of one direction that are buffered here.
const AT_ONCE: usize = 256 << 10;

/// The longest time that one side may continue after the other one has ended.
const LINGER: Duration = Duration::from_secs(30);

/// Forwards bytes until both sides have ended.
///
/// # Errors
/// Fails if the system has no socket or thread left; both connections are closed then.
pub(super) fn pass_on(mut client: Line, mut server: Line) -> io::Result<()> {
    let handles = [client.handle()?, server.handle()?];
    // Plain sockets; a connection with TLS is represented by a pair of sockets.
    let sockets = [TcpStream::from(client.for_session()?), TcpStream::from(server.for_session()?)];
    for socket in &sockets {
        socket.set_read_timeout(None)?;
        socket.set_write_timeout(None)?;
    }
    let [of_client, of_server] = &sockets;
    let close = || handles.iter().chain(&sockets).for_each(|socket| _ = socket.shutdown(Shutdown::Both));
    thread::scope(|threads| {
        let named = |name: &str| thread::Builder::new().name(name.to_owned()).stack_size(128 << 10);
        let (done, ended) = mpsc::channel();
        let begun = (|| {
            for line in [client, server] {
                // With TLS this runs as long as the connection.
                if line.needs_passing() {
                    named("rpc-tls").spawn_scoped(threads, move || line.pass_on())?;
                }
            }
            for (from, to) in [(of_client, of_server), (of_server, of_client)] {
                let done = done.clone();
                named("rpc-pass").spawn_scoped(threads, move || {
                    let copied = copy(from, to);
                    let _ = to.shutdown(Shutdown::Write);
                    let _ = done.send(copied.is_ok());
                })?;
            }
            io::Result::Ok(())
        })();
        drop(done);
        // The end of one direction is forwarded; after a failure, or if the other direction takes
        // too long, both are closed.
        if begun.is_ok() && ended.recv() == Ok(true) {
            let _ = ended.recv_timeout(LINGER);
        }
        close();
        begun
    })
}

fn copy(mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; AT_ONCE];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => to.write_all(&buffer[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
