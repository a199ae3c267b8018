//! Options that several commands share: how they listen, and the addresses of trackers and proxies.

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;

use kernpack::{Result as Outcome, error};

use super::output::print;
use super::words::{number, time};
use crate::{Listen, Place};

/// The options `--host`, `--port`, `--token-file`, `--tls-cert`, `--tls-key`, `--insecure`,
/// `--handshake-time` and `--verbose`, while they are parsed.
pub(super) struct Listening {
    listen: Listen,
    certificate: Option<String>,
    key: Option<String>,
}

impl Listening {
    pub(super) fn new(listen: &Listen) -> Self {
        Self { listen: listen.clone(), certificate: None, key: None }
    }

    /// Takes an option if it is one of these; else returns its value.
    pub(super) fn take(&mut self, name: &str, value: String) -> Result<Option<String>, String> {
        let listen = &mut self.listen;
        match name {
            "--host" => listen.host = value,
            "--port" => listen.port = number(name, &value)?,
            "--token-file" => listen.token = Some(token_of(&value)?),
            "--tls-cert" => self.certificate = Some(value),
            "--tls-key" => self.key = Some(value),
            "--insecure" => listen.insecure = true,
            "--handshake-time" => {
                listen.handshake_time = time(name, &value)?.ok_or("a handshake takes more than 0 s")?;
            }
            "--verbose" => listen.verbose = true,
            _ => return Ok(Some(value)),
        }
        Ok(None)
    }

    /// The result of the options.
    pub(super) fn done(self) -> Result<Listen, String> {
        match (self.certificate, self.key) {
            (None, None) => Ok(self.listen),
            (Some(certificate), Some(key)) => with_tls(self.listen, &certificate, &key),
            (Some(_), None) => Err("--tls-cert needs --tls-key".to_owned()),
            (None, Some(_)) => Err("--tls-key needs --tls-cert".to_owned()),
        }
    }
}

#[cfg(feature = "tls")]
fn with_tls(listen: Listen, certificate: &str, key: &str) -> Result<Listen, String> {
    use crate::tls::{Identity, TlsAcceptor};
    let acceptor = Identity::load(certificate.as_ref(), key.as_ref()).and_then(TlsAcceptor::new);
    let acceptor = acceptor.map_err(|problem| problem.message().to_owned())?;
    Ok(Listen { tls: Some(acceptor), ..listen })
}

#[cfg(not(feature = "tls"))]
const WITHOUT_TLS: &str = "this program was built without TLS: build it with the feature `tls`";

#[cfg(not(feature = "tls"))]
fn with_tls(_: Listen, _: &str, _: &str) -> Result<Listen, String> {
    Err(WITHOUT_TLS.to_owned())
}

/// The address of another program: the names of the three options for its address, its token and
/// its certificate, and their values.
pub(super) struct Known {
    names: [&'static str; 3],
    address: Option<String>,
    token: Option<String>,
    fingerprint: Option<String>,
}

impl Known {
    pub(super) fn new(names: [&'static str; 3]) -> Self {
        Self { names, address: None, token: None, fingerprint: None }
    }

    /// Like [`Listening::take`].
    pub(super) fn take(&mut self, name: &str, value: String) -> Result<Option<String>, String> {
        match self.names.iter().position(|own| *own == name) {
            Some(0) => self.address = Some(value),
            Some(1) => self.token = Some(token_of(&value)?),
            Some(_) => self.fingerprint = Some(value),
            None => return Ok(Some(value)),
        }
        Ok(None)
    }

    /// The result of the options; `usual` is the address if none is given.
    pub(super) fn done(self, usual: Option<String>) -> Result<Option<Place>, String> {
        let [address, token, fingerprint] = self.names;
        let Some(address) = self.address.or(usual) else {
            let given = [(token, self.token.is_some()), (fingerprint, self.fingerprint.is_some())];
            return match given.iter().find(|(_, is_given)| *is_given) {
                Some((name, _)) => Err(format!("{name} goes with {address}")),
                None => Ok(None),
            };
        };
        let mut place = Place::new(address);
        place.token = self.token;
        match self.fingerprint {
            Some(digits) => with_fingerprint(place, &digits).map(Some),
            None => Ok(Some(place)),
        }
    }
}

#[cfg(feature = "tls")]
fn with_fingerprint(place: Place, digits: &str) -> Result<Place, String> {
    let fingerprint = digits.parse().map_err(|problem: kernpack::Error| problem.message().to_owned())?;
    Ok(place.tls(crate::tls::Trust::Fingerprint(fingerprint)))
}

#[cfg(not(feature = "tls"))]
fn with_fingerprint(_: Place, _: &str) -> Result<Place, String> {
    Err(WITHOUT_TLS.to_owned())
}

/// The largest size of a file with a token, in bytes.
const LONGEST_TOKEN: u64 = 2048;

/// Reads the token from a file.
pub(super) fn token_of(file: &str) -> Result<String, String> {
    let mut text = String::new();
    let read = File::open(file).and_then(|file| file.take(LONGEST_TOKEN + 1).read_to_string(&mut text));
    let _ = read.map_err(|problem| format!("cannot read the token in {file}: {problem}"))?;
    match text.trim() {
        _ if text.len() as u64 > LONGEST_TOKEN => {
            Err(format!("{file} is longer than {LONGEST_TOKEN} bytes: it holds no token"))
        }
        "" => Err(format!("there is no token in {file}: the file is empty")),
        token => Ok(token.to_owned()),
    }
}

/// Prints the address that a program listens at, and its generated token, and waits as long as it
/// listens.
pub(super) fn stay(address: SocketAddr, token: Option<&str>, wait: impl FnOnce()) -> Outcome<()> {
    // The address comes first, in a line of its own: programs read it.
    let said = print(&format!("listening on {address}\n"));
    let said = said.and_then(|()| token.map_or(Ok(()), |token| print(&format!("token: {token}\n"))));
    said.map_err(|problem| error!(RuntimeError, "cannot print the address {address}: {problem}"))?;
    wait();
    Ok(())
}
