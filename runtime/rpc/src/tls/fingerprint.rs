use core::fmt;
use core::str::FromStr;

use kernpack::{Error, error};

/// The SHA-256 digest of a certificate: 32 bytes; its text form has hexadecimal digits, optionally
/// with colons.
///
/// ```
/// use kernpack_rpc::tls::Fingerprint;
/// let text = "4a:".repeat(31) + "4A";
/// let fingerprint: Fingerprint = text.parse()?;
/// assert_eq!(fingerprint.to_string(), "4a".repeat(32));
/// assert!("4a4a".parse::<Fingerprint>().is_err());
/// # Ok::<(), kernpack::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Computes the digest of a certificate in DER.
    pub fn of(certificate: &[u8]) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.as_ref());
        Self(bytes)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl FromStr for Fingerprint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let digits: Vec<u8> = text
            .trim()
            .chars()
            .filter(|letter| *letter != ':')
            .map(|letter| letter.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
            .collect::<Option<_>>()
            .unwrap_or_default();
        let wrong = || {
            error!(
                ValueError,
                "a fingerprint has 64 hexadecimal digits; `cargo kernpack rpc keygen` prints it, got '{}'",
                text.escape_debug()
            )
        };
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return Err(wrong());
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
        Ok(Self(bytes))
    }
}
