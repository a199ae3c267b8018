use std::fmt;
use std::time::Duration;

use super::WireError;
use super::proof::is_digits;

/// The largest size of a key with its options, in bytes.
pub const MAX_KEY: usize = 4096;

/// The description of a peer in the handshake: `client:pi -timeout=60`.
///
/// ```
/// use kernpack_rpc::wire::Key;
/// let key = Key::parse("client:pi -timeout=0.5 -token=c2VjcmV0").unwrap();
/// assert_eq!((key.role.as_str(), key.name.as_str()), ("client", "pi"));
/// assert_eq!(key.timeout.unwrap().as_millis(), 500);
/// assert_eq!(key.to_string(), "client:pi -timeout=0.5 -token=c2VjcmV0");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    /// `client` or `server`.
    pub role: String,
    /// The key of the requested server; empty for a server without a key. A key from a tracker
    /// (`pi:0.7341`) contains a colon.
    pub name: String,
    /// The longest duration of the session.
    pub timeout: Option<Duration>,
    /// The token of the server. Kernpack's clients prove that they know it and never send it; those
    /// of Apache TVM send it in plain text.
    pub token: Option<String>,
    /// A nonce of the side that is asked for a proof, or offers one: 64 hexadecimal digits.
    pub nonce: Option<String>,
    /// The proof that this side knows the token: 64 hexadecimal digits.
    pub proof: Option<String>,
    /// True if a server behind a proxy answers its clients itself, so that it can ask them for a
    /// proof.
    pub answers: bool,
}

impl Key {
    /// The key of a client without options.
    pub fn client(name: impl Into<String>) -> Self {
        Self {
            role: "client".to_owned(),
            name: name.into(),
            timeout: None,
            token: None,
            nonce: None,
            proof: None,
            answers: false,
        }
    }

    /// The key of a server.
    pub fn server(name: impl Into<String>) -> Self {
        Self { role: "server".to_owned(), ..Self::client(name) }
    }

    /// Parses a key. Unknown options are ignored, as stock servers do.
    ///
    /// # Errors
    /// [`WireError::Protocol`] for a key without a role, with control characters, or with an option
    /// whose value is invalid.
    pub fn parse(text: &str) -> Result<Self, WireError> {
        // Names appear in logs, and terminals interpret escape sequences.
        if text.contains(|letter: char| letter.is_control() && !letter.is_ascii_whitespace()) {
            return Err(WireError::Protocol("a key has no control characters".to_owned()));
        }
        let mut words = text.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        let Some((role, name)) = first.split_once(':') else {
            return Err(WireError::Protocol("a key begins with `client:` or `server:`".to_owned()));
        };
        let mut key = Self { role: role.to_owned(), ..Self::client(name) };
        for word in words {
            if let Some(seconds) = word.strip_prefix("-timeout=") {
                let parsed = seconds.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                key.timeout = Some(parsed.ok_or_else(|| {
                    WireError::Protocol("the option -timeout of a key is a number of seconds".to_owned())
                })?);
            } else if let Some(token) = word.strip_prefix("-token=") {
                key.token = Some(token.to_owned());
            } else if let Some(nonce) = word.strip_prefix("-nonce=") {
                key.nonce = Some(digits("-nonce", nonce)?);
            } else if let Some(proof) = word.strip_prefix("-proof=") {
                key.proof = Some(digits("-proof", proof)?);
            } else if word == "-answers=1" {
                key.answers = true;
            }
        }
        Ok(key)
    }

    /// Checks that name and token can be sent: they do not contain white space, and are not too
    /// long together.
    ///
    /// # Errors
    /// [`WireError::Content`] with a description of the problem.
    pub fn check(&self) -> Result<(), WireError> {
        let words = [("key", Some(&self.name)), ("token", self.token.as_ref())];
        for (what, word) in words {
            if word.is_some_and(|word| word.contains(|letter: char| letter.is_whitespace() || letter.is_control())) {
                return Err(WireError::Content(format!("a {what} has no white space in it")));
            }
        }
        let length = self.to_string().len();
        if length > MAX_KEY {
            return Err(WireError::Content(format!(
                "the key is {length} bytes long with its options, the most is {MAX_KEY}"
            )));
        }
        Ok(())
    }
}

/// Checks the value of an option that has 64 hexadecimal digits.
fn digits(option: &str, value: &str) -> Result<String, WireError> {
    match is_digits(value) {
        true => Ok(value.to_owned()),
        false => Err(WireError::Protocol(format!("the option {option} of a key has 64 hexadecimal digits"))),
    }
}

impl fmt::Display for Key {
    /// The form that is sent, including the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.role, self.name)?;
        if let Some(timeout) = self.timeout {
            write!(f, " -timeout={}", timeout.as_secs_f64())?;
        }
        if let Some(token) = &self.token {
            write!(f, " -token={token}")?;
        }
        for (name, digits) in [("nonce", &self.nonce), ("proof", &self.proof)] {
            if let Some(digits) = digits {
                write!(f, " -{name}={digits}")?;
            }
        }
        if self.answers {
            f.write_str(" -answers=1")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Key {
    /// Omits the token, which must not appear in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("role", &self.role)
            .field("name", &self.name)
            .field("timeout", &self.timeout)
            .field("token", &self.token.as_ref().map(|_| "..."))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn keys_are_taken_apart() {
        let plain = Key::client("");
        for (text, expected) in [
            ("client:", plain.clone()),
            ("client:pi", Key::client("pi")),
            ("server:pi:0.25", Key::server("pi:0.25")),
            ("client: -timeout=2", Key { timeout: Some(Duration::from_secs(2)), ..plain.clone() }),
            ("client:  -new=1 \t-token=a=b", Key { token: Some("a=b".into()), ..plain.clone() }),
            (&format!("client: -nonce={NUMBER}"), Key { nonce: Some(NUMBER.into()), ..plain.clone() }),
            (
                &format!("client: -proof={NUMBER} -answers=1"),
                Key { proof: Some(NUMBER.into()), answers: true, ..plain },
            ),
        ] {
            assert_eq!(Key::parse(text).unwrap(), expected, "{text}");
        }
        for (text, problem) in [
            ("", "begins with"),
            ("pi", "begins with"),
            ("client:a -timeout=", "-timeout"),
            ("client:a -timeout=-1", "-timeout"),
            ("client:a -timeout=nan", "-timeout"),
            ("client:a -timeout=1e300", "-timeout"),
            ("client:a -nonce=12", "-nonce"),
            ("client:a -proof=", "-proof"),
            ("client:\x1b[2Ja", "no control characters"),
            ("client:a -timeout=1 -new=\u{9b}", "no control characters"),
        ] {
            let error = Key::parse(text).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn tokens_stay_out_of_logs() {
        let key = Key { token: Some("secret".into()), ..Key::client("pi") };
        assert!(!format!("{key:?}").contains("secret"));
    }

    #[test]
    fn keys_that_cannot_be_sent() {
        assert!(Key::client("a b").check().is_err());
        assert!(Key::client("x".repeat(MAX_KEY)).check().is_err());
        assert!(Key { token: Some("a\n".into()), ..Key::client("a") }.check().is_err());
        Key::client("pi:0.5").check().unwrap();
    }
}
