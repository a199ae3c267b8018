//! Sessions of another server: a client requests one with `rpc.Connect` in its first packet. From
//! then on bytes are forwarded unchanged in both directions, because handles, addresses and devices
//! are the other server's.

use std::io::{self, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::time::Duration;

use kernpack::{Result, bail, error};

use crate::position::{Phase, Position};
use crate::wire::{Code, Connection, Encoder, Key, Patience, Transport, VERSION, Value, WireError, greet};

/// A connection to another server, to which the first packet was sent.
pub(super) type Upstream = TcpStream;

/// The longest time that the other server may take to answer.
const WAIT: Duration = Duration::from_secs(30);

/// Connects to the server that the arguments of the first packet name.
pub(super) fn connect(values: &[Value]) -> Result<Upstream> {
    let [Value::Str(constructor), rest @ ..] = values else {
        bail!(
            TypeError,
            "InitServer: the first argument is the name of what makes the session, got {}",
            values[0].kind()
        );
    };
    if constructor != "rpc.Connect" {
        bail!(
            ValueError,
            "InitServer: sessions are made by `rpc.Connect` or are local; this server has no '{constructor}'"
        );
    }
    let [Value::Str(host), Value::Int(port), Value::Str(key), _logging, further @ ..] = rest else {
        bail!(
            TypeError,
            "rpc.Connect(host, port, key, enable_logging, ...): expected a host, a port, a key and a flag"
        );
    };
    let Ok(port) = u16::try_from(*port) else { bail!(ValueError, "rpc.Connect: {port} is not a port") };
    let mut stream = dial(host, port)?;
    let key = Key::parse(&format!("client:{key}"))?;
    greet(&mut stream, &key, WAIT)?;
    let mut connection = Connection::new(&mut stream, Patience { idle: Some(WAIT), stall: Some(WAIT) });
    connection.send(Code::InitServer, |body| {
        body.extend_from_slice(&(VERSION.len() as u64).to_le_bytes());
        body.extend_from_slice(VERSION.as_bytes());
        let mut encoder = Encoder::begin(body, further.len());
        further.iter().for_each(|value| {
            encoder.value(value);
        });
    })?;
    Ok(stream)
}

fn dial(host: &str, port: u16) -> Result<TcpStream> {
    let failed =
        |problem: &dyn std::fmt::Display| error!(ConnectionError, "cannot connect to {host}:{port}: {problem}");
    let mut last = failed(&"the name has no address");
    for address in (host, port).to_socket_addrs().map_err(|problem| failed(&problem))? {
        match TcpStream::connect_timeout(&address, WAIT) {
            Ok(stream) => {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(problem) => last = failed(&problem),
        }
    }
    Err(last)
}

/// Forwards bytes in both directions until one side ends the connection.
pub(super) fn relay<T: Transport>(
    client: &mut Connection<T>,
    upstream: Upstream,
    position: &Position,
) -> std::result::Result<(), WireError> {
    // The middle of a reply cannot be recognized here.
    position.set(Phase::Replying);
    let mut upstream = upstream;
    upstream.write_all(&client.take_ready()).map_err(WireError::Io)?;
    let transport = client.transport_mut();
    let Some(descriptor) = transport.descriptor() else {
        return Err(WireError::Protocol("sessions of other servers need a plain socket".to_owned()));
    };
    transport.set_timeouts(None, None).map_err(WireError::Io)?;
    upstream.set_timeouts(None, None).map_err(WireError::Io)?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        let mut wait =
            [descriptor, upstream.as_raw_fd()].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        // SAFETY: two descriptors that are open.
        if unsafe { libc::poll(wait.as_mut_ptr(), 2, -1) } < 0 {
            let problem = io::Error::last_os_error();
            if problem.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(WireError::Io(problem));
        }
        // Requests and replies alternate, so a write never waits for the other direction.
        let ended = (wait[0].revents != 0 && !pass(transport, &mut upstream, &mut buffer)?)
            || (wait[1].revents != 0 && !pass(&mut upstream, transport, &mut buffer)?);
        if ended {
            transport.close();
            upstream.close();
            return Ok(());
        }
    }
}

/// Forwards the available bytes; returns false at the end of the connection.
fn pass(from: &mut dyn Transport, to: &mut dyn Transport, buffer: &mut [u8]) -> std::result::Result<bool, WireError> {
    match from.read_now(buffer) {
        Ok(0) => Ok(false),
        Ok(count) => to.write_all(&buffer[..count]).map(|()| true).map_err(WireError::Io),
        Err(problem) if matches!(problem.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(true),
        Err(problem) => Err(WireError::Io(problem)),
    }
}
