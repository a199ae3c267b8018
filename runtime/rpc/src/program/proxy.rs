//! `cargo kernpack rpc proxy`.

use std::ffi::OsString;

use kernpack::Result;

use super::listening::{Known, Listening, stay};
use super::words::{each, number, time};
use crate::{Proxy, ProxyOptions, process};

/// The options.
pub const PROXY_OPTIONS: &str = "\
Options:
  --host HOST            the address to listen at (127.0.0.1)
  --port PORT            the port; 0 is any that is free (9090)
  --token-file FILE      a file with the token that servers and clients must know
  --tls-cert FILE        use TLS with this certificate (PEM); with --tls-key and a token, other machines may be listened for
  --tls-key FILE         the certificate's private key (PEM)
  --insecure             listen for other machines without TLS and token: all that reach the port can run code on the servers
  --tracker HOST:PORT    the tracker that gives the servers to clients, each by its key; clients come with what it gives them, and no others
  --tracker-host HOST    the host that the tracker tells clients (the one that it sees the proxy come from)
  --tracker-token-file FILE  a file with the token of the tracker
  --tracker-fingerprint HEX  speak to the tracker over TLS; its certificate has this fingerprint
  --wait SECONDS         how long a client waits for a server of its key (600)
  --handshake-time SECONDS  how long a peer may take to say its key (10)
  --connections N        servers and clients at one time, not more than `ulimit -n` has room for (1024)
  --verbose              say on stderr who comes and goes
";

/// Parses the options after the command's name; `None` asks for help.
///
/// # Errors
/// A description of the problem, in one line without the name of the command.
pub fn parse_proxy(words: impl IntoIterator<Item = OsString>) -> Result<Option<ProxyOptions>, String> {
    let mut options = ProxyOptions::default();
    let mut listening = Listening::new(&options.listen);
    let mut tracker = Known::new(["--tracker", "--tracker-token-file", "--tracker-fingerprint"]);
    let asks_for_help = each(words, PROXY_OPTIONS, &["--insecure", "--verbose"], |name, value| {
        let Some(value) = listening.take(name, value)? else { return Ok(()) };
        let Some(value) = tracker.take(name, value)? else { return Ok(()) };
        match name {
            "--tracker-host" => options.tracker_host = Some(value),
            "--wait" => options.wait = time(name, &value)?.ok_or("a client waits more than 0 s")?,
            _ => options.connections = number(name, &value)?,
        }
        Ok(())
    })?;
    if asks_for_help {
        return Ok(None);
    }
    options.listen = listening.done()?;
    options.tracker = tracker.done(None)?;
    Ok(Some(options))
}

/// Runs the proxy until the process ends; prints the address first.
///
/// # Errors
/// The reason why the proxy does not start.
pub fn pass_on(options: ProxyOptions) -> Result<()> {
    process::hide();
    let proxy = Proxy::start(options)?;
    stay(proxy.address(), None, || proxy.wait())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn parsed(line: &str) -> Result<Option<ProxyOptions>, String> {
        parse_proxy(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn options() {
        let options = parsed("--host=::1 --port 0 --connections 7 --wait 0.5 --insecure").unwrap().unwrap();
        assert_eq!((options.listen.host.as_str(), options.listen.port, options.connections), ("::1", 0, 7));
        assert_eq!(
            (options.wait, options.listen.insecure, options.listen.verbose),
            (Duration::from_millis(500), true, false)
        );
        assert!(parsed("-h").unwrap().is_none());
        let options = parsed("--tracker-host far --tracker t").unwrap().unwrap();
        assert_eq!((options.tracker.unwrap().address.as_str(), options.tracker_host.as_deref()), ("t", Some("far")));
        for (line, problem) in [
            ("--tracker-token-file /dev/zero/none", "cannot read the token in /dev/zero/none"),
            ("--wait 0", "a client waits more than 0 s"),
            ("--tls-cert a", "--tls-cert needs --tls-key"),
            ("--token-file /no/such", "cannot read the token in /no/such"),
            ("--key pi", "unknown option `--key`"),
        ] {
            let error = parsed(line).unwrap_err();
            assert!(error.starts_with(problem), "{line}: {error}");
        }
    }
}
