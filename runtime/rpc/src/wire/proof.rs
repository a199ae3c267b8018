//! Proofs that a peer knows a token, which is never sent: one side sends a nonce, the other side
//! the HMAC-SHA256, under the token, of [the relation of the two sides](Relation), the key that was
//! named, the TLS connection and the nonces of both sides.

use std::fs::File;
use std::io::{self, Read};

use sha2::{Digest, Sha256};

/// The size of a block of SHA-256, in bytes.
const BLOCK: usize = 64;

/// The two sides of a proof of the token. A proof for one relation is not valid for another: a peer
/// cannot pass it on to a peer of another kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// A client and the server that it has connected to.
    ClientServer,
    /// A client and a proxy that its user has named as one.
    ClientProxy,
    /// A client and the server behind that proxy.
    ClientProxiedServer,
    /// A server and the proxy that it waits at.
    ServerProxy,
    /// A client and a tracker.
    ClientTracker,
    /// A server, or a proxy for one, and a tracker.
    ServerTracker,
}

impl Relation {
    const fn label(self) -> &'static str {
        match self {
            Self::ClientServer => "client and server",
            Self::ClientProxy => "client and proxy",
            Self::ClientProxiedServer => "client and server behind a proxy",
            Self::ServerProxy => "server and proxy",
            Self::ClientTracker => "client and tracker",
            Self::ServerTracker => "server and tracker",
        }
    }
}

/// The side that proves. A proof of one side is not valid for the other: a peer cannot send it
/// back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The side that opened the connection.
    Caller,
    /// The side that listens.
    Listener,
}

/// The parameters of a proof, equal on both sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'a> {
    pub(crate) relation: Relation,
    /// The key that the caller has named; empty for a tracker.
    pub(crate) name: &'a str,
    /// A value that only the two ends of one TLS connection have; `None` without TLS.
    pub(crate) channel: Option<[u8; 32]>,
    /// The nonce of the side that opened the connection.
    pub(crate) caller: &'a str,
    /// The nonce of the side that listens.
    pub(crate) listener: &'a str,
}

/// A nonce: 32 random bytes in hexadecimal digits.
pub(crate) fn nonce() -> io::Result<String> {
    let mut bytes = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(hex(&bytes))
}

/// Returns true if a text of a peer has the form of a [`nonce`] or a proof: both have 64 digits.
pub(crate) fn is_digits(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Computes the proof of one side.
pub(crate) fn proof(token: &str, side: Side, terms: &Terms<'_>) -> String {
    let side = match side {
        Side::Caller => "caller",
        Side::Listener => "listener",
    };
    let label = format!("kernpack-rpc proof 2: {}: {side}\0", terms.relation.label());
    // The label ends with NUL and the name is last; everything between has a fixed length, so
    // different parts never give the same bytes.
    let parts = [
        label.as_bytes(),
        &[u8::from(terms.channel.is_some())],
        &terms.channel.unwrap_or_default(),
        terms.caller.as_bytes(),
        terms.listener.as_bytes(),
        terms.name.as_bytes(),
    ];
    hex(&hmac(token.as_bytes(), &parts))
}

/// Compares the proof of a peer, in a time that does not depend on where they differ.
pub(crate) fn proves(given: &str, token: &str, side: Side, terms: &Terms<'_>) -> bool {
    if !is_digits(given) || !is_digits(terms.caller) || !is_digits(terms.listener) {
        return false;
    }
    let expected = proof(token, side, terms);
    let differences = expected.bytes().zip(given.bytes()).fold(0, |all, (a, b)| all | std::hint::black_box(a ^ b));
    std::hint::black_box(differences) == 0
}

/// HMAC of RFC 2104 with SHA-256.
fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut block = [0; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let mut inner = Sha256::new();
    inner.update(block.map(|byte| byte ^ 0x36));
    parts.iter().for_each(|part| inner.update(part));
    let mut outer = Sha256::new();
    outer.update(block.map(|byte| byte ^ 0x5c));
    outer.update(inner.finalize());
    outer.finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hmac_of_rfc_4231() {
        for (key, data, expected) in [
            (&[0x0b; 20][..], &b"Hi There"[..], "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                &[0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ] {
            assert_eq!(hex(&hmac(key, &[data])), expected);
            let (head, tail) = data.split_at(5);
            assert_eq!(hex(&hmac(key, &[head, tail])), expected);
        }
    }

    #[test]
    fn only_the_right_proof_counts() {
        use Relation::*;
        let (caller, listener, other) = (nonce().unwrap(), nonce().unwrap(), nonce().unwrap());
        assert!(caller != listener && is_digits(&caller));
        let all = [ClientServer, ClientProxy, ClientProxiedServer, ServerProxy, ClientTracker, ServerTracker];
        for relation in all {
            let terms = Terms { relation, name: "pi", channel: Some([7; 32]), caller: &caller, listener: &listener };
            let own = proof("c2VjcmV0", Side::Caller, &terms);
            let check = |given: &str, terms: &Terms<'_>| proves(given, "c2VjcmV0", Side::Caller, terms);
            assert!(check(&own, &terms));
            assert!(!proves(&own, "c2VjcmV1", Side::Caller, &terms), "another token");
            assert!(!proves(&own, "c2VjcmV0", Side::Listener, &terms), "sent back");
            for (what, wrong) in [
                ("another caller", Terms { caller: &other, ..terms }),
                ("sent once more", Terms { listener: &other, ..terms }),
                ("another key", Terms { name: "p", ..terms }),
                ("another connection", Terms { channel: Some([8; 32]), ..terms }),
                ("a zero channel", Terms { channel: Some([0; 32]), ..terms }),
                ("no TLS", Terms { channel: None, ..terms }),
            ] {
                assert!(!check(&own, &wrong), "{relation:?}: {what}");
            }
            let plain = Terms { channel: None, ..terms };
            let own_plain = proof("c2VjcmV0", Side::Caller, &plain);
            assert!(!check(&own_plain, &Terms { channel: Some([0; 32]), ..terms }), "{relation:?}: from plain to TLS");
            for other in all {
                assert_eq!(
                    check(&own, &Terms { relation: other, ..terms }),
                    other == relation,
                    "{relation:?} {other:?}"
                );
            }
            for given in ["", "0", &own[1..], &format!("{own}0"), &"g".repeat(64)] {
                assert!(!check(given, &terms), "{given}");
            }
        }
    }
}
