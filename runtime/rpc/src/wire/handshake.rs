//! The handshake: the client sends a magic number and its key, the server a code and its own key.

use std::io;
use std::time::Duration;

use super::clock::{Clock, push_text};
use super::proof::{self, Relation, Side, Terms};
use super::{Key, Transport, WireError};

/// The first number of a connection to a server.
pub const MAGIC: i32 = 0xFF271;

/// A server's request for a proof of the token, sent after [`MAGIC`]. Specific to Kernpack: peers
/// of Apache TVM do not send it.
const CHALLENGE: i32 = 3;

/// A server's answer to a correct proof, followed by its own proof.
const PROVED: i32 = 4;

/// The role of a proxy that asks for a proof.
const PROXY: &str = "proxy";

/// A server's answer to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hello {
    /// The session begins.
    Welcome,
    /// A proxy already has a server of this key.
    DuplicateKey,
    /// The key does not match the server's.
    NoMatchingKey,
}

/// Server: reads a client's key, and no byte after it.
///
/// # Errors
/// The reason of the failure; the caller can only close the connection.
pub fn hear(transport: &mut dyn Transport, within: Duration) -> Result<Key, WireError> {
    let mut clock = Clock::new(within);
    let magic = clock.read_number(transport)?;
    if magic != MAGIC {
        return Err(WireError::Protocol(format!("a connection begins with {MAGIC:#x}, not with {magic:#x}")));
    }
    Key::parse(&clock.read_text(transport)?)
}

/// Server: answers a key. After any answer other than [`Hello::Welcome`] the caller has to close
/// the connection.
///
/// # Errors
/// The reason of the failure.
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

/// Server: lets a client that has sent a nonce with its key prove that it knows the token, and
/// proves the same. Returns false if the client does not know it.
///
/// # Errors
/// The reason of the failure.
pub(crate) fn challenge(
    transport: &mut dyn Transport,
    (key, caller): (&Key, &str),
    relation: Relation,
    token: &str,
    within: Duration,
) -> Result<bool, WireError> {
    let mut clock = Clock::new(within);
    let own = proof::nonce().map_err(WireError::Io)?;
    let is_proxy = matches!(relation, Relation::ClientProxy | Relation::ServerProxy);
    let role = if is_proxy { PROXY } else { "server" }.to_owned();
    // The client must have been configured for a proxy: if not, it reports that.
    let answers = relation == Relation::ClientProxiedServer;
    let asking = Key { role, nonce: Some(own.clone()), answers, ..Key::server("") };
    clock.write(transport, &coded(CHALLENGE, &asking))?;
    let given = Key::parse(&clock.read_text(transport)?)?.proof.unwrap_or_default();
    let terms = Terms { relation, name: &key.name, channel: channel(transport, relation), caller, listener: &own };
    if !proof::proves(&given, token, Side::Caller, &terms) {
        return Ok(false);
    }
    let proof = proof::proof(token, Side::Listener, &terms);
    clock.write(transport, &coded(PROVED, &Key { nonce: None, proof: Some(proof), ..asking }))?;
    Ok(true)
}

/// The connection that a proof is bound to. A server behind a proxy does not share a connection
/// with its client.
fn channel(transport: &dyn Transport, relation: Relation) -> Option<[u8; 32]> {
    if relation == Relation::ClientProxiedServer { None } else { transport.channel() }
}

/// Encodes a code, followed by a key.
fn coded(code: i32, key: &Key) -> Vec<u8> {
    let mut bytes = (MAGIC + code).to_le_bytes().to_vec();
    push_text(&mut bytes, &key.to_string());
    bytes
}

/// Client: sends its key to a server, and returns the server's key. A token in the key is not sent:
/// the client proves that it knows it, and the server must prove the same. With a proxy between
/// them, use [`greet_through_proxy`].
///
/// # Errors
/// [`WireError::Content`] when the server does not know the key, or does not prove that it knows
/// the token; else the reason of the failure.
pub fn greet(transport: &mut dyn Transport, key: &Key, within: Duration) -> Result<Key, WireError> {
    meet(transport, key, within, false)
}

/// Client: the same at a proxy. The proxy may ask for a proof, and then the server behind it; both
/// prove that they know the token, too. The proof for the server is not bound to the connection,
/// which ends at the proxy: the proxy must be trusted.
///
/// # Errors
/// As for [`greet`].
pub fn greet_through_proxy(transport: &mut dyn Transport, key: &Key, within: Duration) -> Result<Key, WireError> {
    meet(transport, key, within, true)
}

fn meet(transport: &mut dyn Transport, key: &Key, within: Duration, is_through_proxy: bool) -> Result<Key, WireError> {
    let mut clock = Clock::new(within);
    let secret = Secret::of(key)?;
    send(transport, &secret.shown(key), &mut clock)?;
    let mut proved = None;
    let number = loop {
        let number = clock.read_number(transport)?;
        if number.wrapping_sub(MAGIC) != CHALLENGE {
            break number;
        }
        let asked = Key::parse(&clock.read_text(transport)?)?;
        let relation = match key.token {
            Some(_) => relation_to(&asked, is_through_proxy, proved)?,
            // There is no proof.
            None => Relation::ClientServer,
        };
        secret.prove(transport, &mut clock, relation, &key.name, &asked)?;
        proved = Some(relation);
    };
    let server = accepted(transport, &mut clock, number, &key.name)?;
    if key.token.is_some() && proved.is_none() {
        return Err(not_proved());
    }
    Ok(Key { proof: None, ..server })
}

/// The relation of a client to the side that asks for a proof. Only a proxy that the user has named
/// can ask, and have its server ask.
fn relation_to(asked: &Key, is_through_proxy: bool, proved: Option<Relation>) -> Result<Relation, WireError> {
    let is_proxy = asked.role == PROXY;
    match (is_through_proxy, is_proxy, proved) {
        (true, true, None) => Ok(Relation::ClientProxy),
        (true, false, None | Some(Relation::ClientProxy)) if asked.answers => Ok(Relation::ClientProxiedServer),
        (false, false, None) if !asked.answers => Ok(Relation::ClientServer),
        (_, _, Some(_)) => Err(WireError::Protocol("it asks for a proof of the token once more".to_owned())),
        (false, ..) => Err(WireError::Content(
            "there is a proxy at this address, and the token is proved to no proxy that was not named as one: say so with \
             `through_proxy()` (`--through-proxy`)"
                .to_owned(),
        )),
        (true, ..) => Err(WireError::Content(
            "there is no proxy at this address, but a server: leave out `through_proxy()` (`--through-proxy`)".to_owned(),
        )),
    }
}

/// Server behind a proxy: sends its key, and proves that it knows the proxy's token if the key has
/// one; the proxy must prove the same. [`taken`] waits for the client.
///
/// # Errors
/// [`WireError::Content`] for a proxy that does not prove that it knows the token; else the reason
/// of the failure.
pub fn offer(transport: &mut dyn Transport, key: &Key, within: Duration) -> Result<(), WireError> {
    let mut clock = Clock::new(within);
    let secret = Secret::of(key)?;
    send(transport, &secret.shown(key), &mut clock)?;
    if key.token.is_none() {
        return Ok(());
    }
    match clock.read_number(transport)?.wrapping_sub(MAGIC) {
        CHALLENGE => {
            let asked = Key::parse(&clock.read_text(transport)?)?;
            secret.prove(transport, &mut clock, Relation::ServerProxy, &key.name, &asked)
        }
        _ => Err(WireError::Protocol(
            "the proxy asks for no proof of the token: it has none, or is an older one".to_owned(),
        )),
    }
}

/// The token of a client or server, and the nonce of its proof.
struct Secret {
    token: Option<String>,
    own: Option<String>,
}

impl Secret {
    fn of(key: &Key) -> Result<Self, WireError> {
        let own = key.token.as_ref().map(|_| proof::nonce()).transpose().map_err(WireError::Io)?;
        Ok(Self { token: key.token.clone(), own })
    }

    /// The key as it is sent: with a nonce in place of the token.
    fn shown(&self, key: &Key) -> Key {
        Key { token: None, nonce: self.own.clone(), ..key.clone() }
    }

    /// Answers a side that asks for a proof, and has it prove that it knows the token, too.
    fn prove(
        &self,
        transport: &mut dyn Transport,
        clock: &mut Clock,
        relation: Relation,
        name: &str,
        asked: &Key,
    ) -> Result<(), WireError> {
        let (Some(token), Some(own), Some(asked)) = (&self.token, &self.own, &asked.nonce) else {
            return Err(WireError::Protocol("a proof of a token was asked for, and none was offered".to_owned()));
        };
        let terms = Terms { relation, name, channel: channel(transport, relation), caller: own, listener: asked };
        let mut bytes = Vec::new();
        let proof = proof::proof(token, Side::Caller, &terms);
        push_text(&mut bytes, &Key { proof: Some(proof), ..Key::client("") }.to_string());
        clock.write(transport, &bytes)?;
        if clock.read_number(transport)?.wrapping_sub(MAGIC) != PROVED {
            return Err(not_proved());
        }
        let given = Key::parse(&clock.read_text(transport)?)?.proof.unwrap_or_default();
        if proof::proves(&given, token, Side::Listener, &terms) { Ok(()) } else { Err(not_proved()) }
    }
}

fn not_proved() -> WireError {
    WireError::Content(
        "it does not prove that it knows the token: it is another server, or has no token (then give none)".to_owned(),
    )
}

/// Server behind a proxy: waits without a timeout for a client, and returns its key. From the first
/// byte on, the timeout is `within`.
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

/// Reads the peer's key after the number that it answers with.
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
mod tests;
