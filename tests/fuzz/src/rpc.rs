//! The data that RPC servers, clients and trackers read from the network: handshakes, packets,
//! packed sequences, messages.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::time::Duration;

use kernpack_rpc::wire::{
    Bounds, Code, Connection, Encoder, Hello, Key, Patience, Source, Transport, Value, WireError, answer, decode,
    greet, greet_through_proxy, hear, offer,
};

/// A peer that has sent these bytes and closed its end; it records the bytes that it receives.
struct Bytes {
    input: VecDeque<u8>,
    output: Vec<u8>,
    /// The maximum number of bytes for one read.
    step: usize,
}

impl Bytes {
    fn new(input: &[u8], step: usize) -> Self {
        Self { input: input.iter().copied().collect(), output: Vec::new(), step }
    }
}

impl Read for Bytes {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let count = target.len().min(self.step);
        self.input.read(&mut target[..count])
    }
}

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Transport for Bytes {
    fn set_timeouts(&mut self, _: Option<Duration>, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }

    fn read_now(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn close(&self) {}
}

/// The first byte selects the meaning of the others.
pub fn check(input: &[u8]) {
    let Some((&kind, input)) = input.split_first() else { return };
    if kind == u8::MAX {
        return tracker(input);
    }
    let step = usize::from(kind >> 2) + 1;
    match kind & 3 {
        0 => handshake(input, step),
        1 => packets(input, step),
        2 => sequence(input),
        _ => key(input),
    }
}

/// Messages of a peer to a tracker. An answer begins as the protocol requires.
fn tracker(input: &[u8]) {
    let answers = kernpack_rpc::tracker::answers_to(input).expect("sockets");
    assert!(answers.is_empty() || answers.starts_with(b"\x71\xf2\x02\0"), "{}", answers.escape_ascii());
}

/// Either side of a handshake. A message that is understood can be written, and is understood
/// again.
fn handshake(input: &[u8], step: usize) {
    let time = Duration::from_secs(5);
    let mut client = Bytes::new(input, step);
    if let Ok(key) = hear(&mut client, time) {
        let taken = input.len() - client.input.len();
        assert!(taken >= 8, "a key of {taken} bytes");
        answer(&mut client, Hello::Welcome, &Key::server("own"), time).expect("a reply is written");
        let mut server = Bytes::new(&client.output, step);
        assert_eq!(greet(&mut server, &Key::client("other"), time).expect("our own reply").name, "own");
        again(&key);
    }
    let mut server = Bytes::new(input, step);
    // The result is an answer or an error.
    let _ = greet(&mut server, &Key::client("pi"), time);
    // Prerecorded bytes cannot prove a token: the challenge is a new number each time.
    let knowing = |key: Key| Key { token: Some("c2VjcmV0".to_owned()), ..key };
    for meet in [greet, greet_through_proxy] {
        assert!(meet(&mut Bytes::new(input, step), &knowing(Key::client("pi")), time).is_err());
    }
    assert!(offer(&mut Bytes::new(input, step), &knowing(Key::server("pi")), time).is_err());
}

fn again(key: &Key) {
    if key.check().is_ok() {
        let text = key.to_string();
        let read = Key::parse(&text).expect("what was read can be written");
        assert_eq!((&read.role, &read.name, &read.token), (&key.role, &key.name, &key.token), "{text}");
    }
}

fn key(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input)
        && let Ok(key) = Key::parse(text)
    {
        again(&key);
    }
}

/// Packets as a server reads them: after an error that keeps the connection, the connection is at
/// the end of a packet.
fn packets(input: &[u8], step: usize) {
    let mut connection = Connection::new(Bytes::new(input, step), Patience::default());
    connection.set_limit(1 << 30);
    let bounds = Bounds { text: 1 << 20, ..Bounds::default() };
    loop {
        let packet = match connection.next_packet() {
            Ok(packet) => packet,
            Err(WireError::Content(problem)) => panic!("a packet's beginning has no content: {problem}"),
            Err(_) => return,
        };
        let read = match packet.code() {
            Some(Code::CopyToRemote) => connection.tensor(&bounds).and_then(|header| {
                let _ = header.size();
                let left = usize::try_from(connection.word()?.min(connection.left())).unwrap_or(0).min(1 << 16);
                connection.data(&mut vec![MaybeUninit::uninit(); left])
            }),
            Some(Code::CopyFromRemote) => connection.tensor(&bounds).and_then(|_| connection.word()).map(drop),
            Some(Code::Exception) => connection.exception(&bounds).map(drop),
            Some(Code::CallFunc) => connection.word().and_then(|_| connection.sequence(&bounds)).map(drop),
            Some(_) => connection.sequence(&bounds).map(drop),
            None => Ok(()),
        };
        match read.and_then(|()| connection.end()) {
            Err(error) if !error.is_recoverable() => return,
            _ => {}
        }
    }
}

/// A sequence that can be read can be written, and is read back unchanged.
fn sequence(input: &[u8]) {
    let bounds = Bounds::default();
    let mut source = input;
    let Ok(values) = decode(&mut source, &bounds) else { return };
    let mut bytes = Vec::new();
    let mut encoder = Encoder::begin(&mut bytes, values.len());
    values.iter().for_each(|value| {
        encoder.value(value);
    });
    let again = decode(&mut &bytes[..], &bounds).expect("what was read can be written");
    assert_eq!(again.len(), values.len());
    for (again, value) in again.iter().zip(&values) {
        match (again, value) {
            // NaN is not equal to itself.
            (Value::Float(again), Value::Float(value)) => assert_eq!(again.to_bits(), value.to_bits()),
            _ => assert_eq!(again, value),
        }
        if let Value::Tensor(header) = value {
            let _ = header.size();
        }
    }
}
