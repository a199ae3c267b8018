//! The handshake: the client sends a magic number and its key, the server a code and its own key.

use std::io;
use std::time::Duration;

use super::clock::{Clock, push_text};
use super::proof::{self, Side};
use super::{Key, Transport, WireError};

/// What a connection to a server begins with.
pub const MAGIC: i32 = 0xFF271;

/// What a server answers with, behind [`MAGIC`], to ask for a proof of the token. Ours alone: peers of Apache TVM send no number.
const CHALLENGE: i32 = 3;

/// A server's answer to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hello {
    /// The session begins.
    Welcome,
    /// A proxy has a server of this key already.
    DuplicateKey,
    /// This is not the key of the server.
    NoMatchingKey,
}

/// Server: reads a client's key. No byte behind it is read.
///
/// # Errors
/// What went wrong; the only thing to do is to close the connection.
pub fn hear(transport: &mut dyn Transport, within: Duration) -> Result<Key, WireError> {
    let mut clock = Clock::new(within);
    let magic = clock.read_number(transport)?;
    if magic != MAGIC {
        return Err(WireError::Protocol(format!("a connection begins with {MAGIC:#x}, not with {magic:#x}")));
    }
    Key::parse(&clock.read_text(transport)?)
}

/// Server: answers a key. With another answer than [`Hello::Welcome`] the connection is to be closed behind it.
///
/// # Errors
/// What went wrong.
pub fn answer(transport: &mut dyn Transport, hello: Hello, key: &Key, within: Duration) -> Result<(), WireError> {
    let offset = match hello {
        Hello::Welcome => 0,
        Hello::DuplicateKey => 1,
        Hello::NoMatchingKey => 2,
    };
    let mut bytes = (MAGIC + offset).to_le_bytes().to_vec();
    if hello == Hello::Welcome {
        push_text(&mut bytes, &key.to_string());
    }
    Clock::new(within).write(transport, &bytes)
}

/// Server: lets a client that has sent a number prove that it knows the token, and gives the proof of this side. `None`: it does not know it.
///
/// # Errors
/// What went wrong.
pub(crate) fn challenge(
    transport: &mut dyn Transport,
    caller: &str,
    token: &str,
    within: Duration,
) -> Result<Option<String>, WireError> {
    let mut clock = Clock::new(within);
    let own = proof::nonce().map_err(WireError::Io)?;
    let mut bytes = (MAGIC + CHALLENGE).to_le_bytes().to_vec();
    push_text(&mut bytes, &Key { nonce: Some(own.clone()), ..Key::server("") }.to_string());
    clock.write(transport, &bytes)?;
    let given = Key::parse(&clock.read_text(transport)?)?.proof.unwrap_or_default();
    let is_proved = proof::proves(&given, token, Side::Caller, caller, &own);
    Ok(is_proved.then(|| proof::proof(token, Side::Listener, caller, &own)))
}

/// Client: sends its key, and gives the server's. A token of the key is not sent: the client proves that it knows it, and the server must prove
/// the same.
///
/// # Errors
/// [`WireError::Content`] when the server does not know the key, or does not prove that it knows the token; else what went wrong.
pub fn greet(transport: &mut dyn Transport, key: &Key, within: Duration) -> Result<Key, WireError> {
    let mut clock = Clock::new(within);
    let mut secret = Secret::of(key)?;
    send(transport, &secret.shown(key), &mut clock)?;
    let mut number = clock.read_number(transport)?;
    // A proxy asks, and then the server behind it.
    for _ in 0..2 {
        if number.wrapping_sub(MAGIC) != CHALLENGE {
            break;
        }
        secret.prove(transport, &mut clock)?;
        number = clock.read_number(transport)?;
    }
    let server = accepted(transport, &mut clock, number, &key.name)?;
    secret.check(server.proof.as_deref())?;
    Ok(Key { proof: None, ..server })
}

/// Server behind a proxy: says its key, and proves that it knows the proxy's token if the key has one. [`taken`] waits for the client.
///
/// # Errors
/// What went wrong.
pub fn offer(transport: &mut dyn Transport, key: &Key, within: Duration) -> Result<(), WireError> {
    let mut clock = Clock::new(within);
    let mut secret = Secret::of(key)?;
    send(transport, &secret.shown(key), &mut clock)?;
    if key.token.is_none() {
        return Ok(());
    }
    match clock.read_number(transport)?.wrapping_sub(MAGIC) {
        CHALLENGE => secret.prove(transport, &mut clock),
        _ => Err(WireError::Protocol(
            "the proxy asks for no proof of the token: it has none, or is an older one".to_owned(),
        )),
    }
}

/// The token of a client, and the numbers that prove it.
struct Secret {
    token: Option<String>,
    own: Option<String>,
    /// The number of the last side that asked.
    asked: Option<String>,
}

impl Secret {
    fn of(key: &Key) -> Result<Self, WireError> {
        let own = key.token.as_ref().map(|_| proof::nonce()).transpose().map_err(WireError::Io)?;
        Ok(Self { token: key.token.clone(), own, asked: None })
    }

    /// The key as it is sent: a number in place of the token.
    fn shown(&self, key: &Key) -> Key {
        Key { token: None, nonce: self.own.clone(), ..key.clone() }
    }

    /// Answers a side that asks for a proof; its code is read.
    fn prove(&mut self, transport: &mut dyn Transport, clock: &mut Clock) -> Result<(), WireError> {
        let asked = Key::parse(&clock.read_text(transport)?)?.nonce;
        let (Some(token), Some(own), Some(asked)) = (&self.token, &self.own, asked) else {
            return Err(WireError::Protocol("a proof of a token was asked for, and none was offered".to_owned()));
        };
        let own = proof::proof(token, Side::Caller, own, &asked);
        self.asked = Some(asked);
        let mut bytes = Vec::new();
        push_text(&mut bytes, &Key { proof: Some(own), ..Key::client("") }.to_string());
        clock.write(transport, &bytes)
    }

    /// Checks that the server knows the token, too.
    fn check(&self, given: Option<&str>) -> Result<(), WireError> {
        let (Some(token), Some(own)) = (&self.token, &self.own) else { return Ok(()) };
        let is_proved = match (given, &self.asked) {
            (Some(given), Some(asked)) => proof::proves(given, token, Side::Listener, own, asked),
            _ => false,
        };
        if is_proved {
            return Ok(());
        }
        Err(WireError::Content(
            "it does not prove that it knows the token: it is another server, or has no token (then give none)"
                .to_owned(),
        ))
    }
}

/// Server behind a proxy: waits for a client without end, and gives its key. From the first byte on, `within` holds.
///
/// # Errors
/// As for [`greet`], and [`WireError::Closed`] when the proxy ends the connection.
pub fn taken(transport: &mut dyn Transport, key: &Key, within: Duration) -> Result<Key, WireError> {
    transport.set_timeouts(None, Some(within)).map_err(WireError::Io)?;
    let mut first = [0];
    loop {
        match transport.read(&mut first) {
            Ok(0) => return Err(WireError::Closed),
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(WireError::Io(error)),
        }
    }
    let mut clock = Clock::new(within);
    let mut bytes = [first[0], 0, 0, 0];
    clock.read(transport, &mut bytes[1..])?;
    accepted(transport, &mut clock, i32::from_le_bytes(bytes), &key.name)
}

fn send(transport: &mut dyn Transport, key: &Key, clock: &mut Clock) -> Result<(), WireError> {
    key.check()?;
    let mut bytes = MAGIC.to_le_bytes().to_vec();
    push_text(&mut bytes, &key.to_string());
    clock.write(transport, &bytes)
}

/// The peer's key behind the number that it answers with.
fn accepted(transport: &mut dyn Transport, clock: &mut Clock, number: i32, name: &str) -> Result<Key, WireError> {
    match number.wrapping_sub(MAGIC) {
        0 => Key::parse(&clock.read_text(transport)?),
        1 => Err(WireError::Content(format!(
            "the proxy has a peer with key '{name}' already; give each server another key"
        ))),
        2 => Err(WireError::Content(format!(
            "the server has another key than '{name}', or no server of a proxy has it; see `--key` of the server"
        ))),
        _ => Err(WireError::Protocol("it does not answer as an RPC server does; is this the right port?".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;

    const TIME: Duration = Duration::from_secs(20);

    fn hello(length: i32, key: &[u8]) -> Vec<u8> {
        [&MAGIC.to_le_bytes()[..], &length.to_le_bytes(), key].concat()
    }

    #[test]
    fn both_sides_agree() {
        let (mut client, mut server) = UnixStream::pair().unwrap();
        let served = thread::spawn(move || {
            let key = hear(&mut server, TIME).unwrap();
            answer(&mut server, Hello::Welcome, &Key::server("pi"), TIME).unwrap();
            key
        });
        let sent = Key { timeout: Some(Duration::from_secs(60)), ..Key::client("pi") };
        assert_eq!(greet(&mut client, &sent, TIME).unwrap(), Key::server("pi"));
        assert_eq!(served.join().unwrap(), sent);
    }

    #[test]
    fn bytes_of_a_client() {
        let (mut client, mut server) = UnixStream::pair().unwrap();
        client.write_all(&[hello(20, b"client:a -timeout=60"), b"next".to_vec()].concat()).unwrap();
        assert_eq!(hear(&mut server, TIME).unwrap().to_string(), "client:a -timeout=60");
        answer(&mut server, Hello::Welcome, &Key::server("a"), TIME).unwrap();
        let mut rest = [0; 4];
        server.read_exact(&mut rest).unwrap();
        assert_eq!(&rest, b"next");
        let mut reply = [0; 16];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(reply, *b"\x71\xf2\x0f\0\x08\0\0\0server:a");
    }

    #[test]
    fn refusals() {
        for (hello, words) in [(Hello::NoMatchingKey, "another key"), (Hello::DuplicateKey, "already")] {
            let (mut client, mut server) = UnixStream::pair().unwrap();
            answer(&mut server, hello, &Key::server(""), TIME).unwrap();
            let error = greet(&mut client, &Key::client("b"), TIME).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let (mut client, mut server) = UnixStream::pair().unwrap();
        server.write_all(b"HTTP/1.1 400 Bad Request").unwrap();
        let error = greet(&mut client, &Key::client(""), TIME).unwrap_err().to_string();
        assert!(error.contains("right port"), "{error}");
    }

    #[test]
    fn hostile_bytes() {
        for (bytes, problem) in [
            (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "begins with"),
            (hello(-1, b""), "a key of -1 bytes"),
            (hello(i32::MAX, b""), "the most is 4096"),
            (hello(3, b"\xff\xfe:"), "not UTF-8"),
            (hello(2, b"ab"), "begins with"),
            (hello(9, b"client:"), "ended in the middle"),
            (b"\x71\xf2".to_vec(), "ended in the middle"),
            (Vec::new(), "ended in the middle"),
        ] {
            let (mut client, mut server) = UnixStream::pair().unwrap();
            client.write_all(&bytes).unwrap();
            drop(client);
            let error = hear(&mut server, TIME).unwrap_err().to_string();
            assert!(error.contains(problem), "{bytes:?}: {error}");
        }
    }

    #[test]
    fn slow_bytes() {
        let (mut client, mut server) = UnixStream::pair().unwrap();
        let sender = thread::spawn(move || {
            // Each byte comes in time, the whole key does not.
            for byte in hello(20, b"client:a -timeout=60") {
                if client.write_all(&[byte]).is_err() {
                    break;
                }
                thread::sleep(Duration::from_millis(20));
            }
        });
        let error = hear(&mut server, Duration::from_millis(100)).unwrap_err();
        assert!(matches!(error, WireError::TimedOut { .. }), "{error}");
        drop(server);
        sender.join().unwrap();
    }

    #[test]
    fn tokens_are_proved() {
        for (known, is_known) in [("c2VjcmV0", true), ("c2VjcmV1", false)] {
            let (mut client, mut server) = UnixStream::pair().unwrap();
            let served = thread::spawn(move || {
                let key = hear(&mut server, TIME).unwrap();
                assert_eq!((key.name.as_str(), &key.token), ("pi", &None), "the token is not sent");
                let proof = challenge(&mut server, &key.nonce.unwrap(), "c2VjcmV0", TIME).unwrap();
                if let Some(proof) = proof {
                    answer(&mut server, Hello::Welcome, &Key { proof: Some(proof), ..Key::server("pi") }, TIME)
                        .unwrap();
                }
            });
            let key = Key { token: Some(known.to_owned()), ..Key::client("pi") };
            assert_eq!(greet(&mut client, &key, TIME).ok(), is_known.then(|| Key::server("pi")), "{known}");
            served.join().unwrap();
        }
    }

    #[test]
    fn challenges_that_trickle_in() {
        let (mut client, mut server) = UnixStream::pair().unwrap();
        let sender = thread::spawn(move || {
            let mut sent = server.write_all(&(MAGIC + CHALLENGE).to_le_bytes());
            while sent.is_ok() {
                thread::sleep(Duration::from_millis(5));
                sent = server.write_all(&[1]);
            }
        });
        let key = Key { token: Some("c2VjcmV0".to_owned()), ..Key::client("pi") };
        let error = greet(&mut client, &key, Duration::from_millis(100)).unwrap_err();
        // Four bytes of a length come in time, and are wrong, or the time is over.
        assert!(matches!(error, WireError::TimedOut { .. } | WireError::Protocol(_)), "{error}");
        drop(client);
        sender.join().unwrap();
    }
}
