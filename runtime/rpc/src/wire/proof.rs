//! Proofs that a peer knows a token, which is never sent: one side sends a random number, the other side the HMAC-SHA256 of both sides'
//! numbers under the token.

use std::fs::File;
use std::io::{self, Read};

use sha2::{Digest, Sha256};

/// Bytes of a block of SHA-256.
const BLOCK: usize = 64;

/// The side that proves. A proof of one side is not one of the other: a peer cannot send it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The side that opened the connection.
    Caller,
    /// The side that listens.
    Listener,
}

/// A number that is used once: 32 random bytes in hexadecimal digits.
pub(crate) fn nonce() -> io::Result<String> {
    let mut bytes = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(hex(&bytes))
}

/// Returns true if a text of a peer can be a number of [`nonce`], or a proof: both have 64 digits.
pub(crate) fn is_digits(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The proof of one side, over the numbers of the caller and of the listener.
pub(crate) fn proof(token: &str, side: Side, caller: &str, listener: &str) -> String {
    let side = match side {
        Side::Caller => "kernpack-rpc proof 1: caller",
        Side::Listener => "kernpack-rpc proof 1: listener",
    };
    // The numbers have a fixed length, so no two sets of parts give the same bytes.
    hex(&hmac(token.as_bytes(), &[side.as_bytes(), b"\0", caller.as_bytes(), listener.as_bytes()]))
}

/// Compares the proof of a peer; the time says nothing about where they differ.
pub(crate) fn proves(given: &str, token: &str, side: Side, caller: &str, listener: &str) -> bool {
    if !is_digits(given) || !is_digits(caller) || !is_digits(listener) {
        return false;
    }
    let expected = proof(token, side, caller, listener);
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
        let (caller, listener, other) = (nonce().unwrap(), nonce().unwrap(), nonce().unwrap());
        assert!(caller != listener && is_digits(&caller));
        let own = proof("c2VjcmV0", Side::Caller, &caller, &listener);
        let check =
            |given: &str, token: &str, side, caller: &str, listener: &str| proves(given, token, side, caller, listener);
        assert!(check(&own, "c2VjcmV0", Side::Caller, &caller, &listener));
        assert!(!check(&own, "c2VjcmV1", Side::Caller, &caller, &listener), "another token");
        assert!(!check(&own, "c2VjcmV0", Side::Listener, &caller, &listener), "sent back");
        assert!(!check(&own, "c2VjcmV0", Side::Caller, &other, &listener), "of another connection");
        assert!(!check(&own, "c2VjcmV0", Side::Caller, &caller, &other), "sent once more");
        for given in ["", "0", &own[1..], &format!("{own}0"), &"g".repeat(64)] {
            assert!(!check(given, "c2VjcmV0", Side::Caller, &caller, &listener), "{given}");
        }
    }
}
