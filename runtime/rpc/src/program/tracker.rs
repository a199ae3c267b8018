//! `cargo kernpack rpc tracker` and `query`.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::thread;
use std::time::Duration;

use kernpack::{Result, error};

use super::listening::{Known, Listening, stay};
use super::output::print;
use super::words::{each, number, time};
use crate::tracker::{PORT, Tracker, TrackerClient, TrackerOptions};
use crate::{Place, process};

/// The options of a tracker.
pub const TRACKER_OPTIONS: &str = "\
Options:
  --host HOST            the address to listen at (127.0.0.1)
  --port PORT            the port; 0 is any that is free (9190)
  --token-file FILE      a file with the token that peers must know; those of Apache TVM have no word for it
  --tls-cert FILE        use TLS with this certificate (PEM); with --tls-key and a token, other machines may be listened for
  --tls-key FILE         the certificate's private key (PEM)
  --insecure             listen for other machines without TLS and token: all that reach the port can offer servers and take them
  --handshake-time SECONDS  how long a peer may take to say who it is (10)
  --any-host             servers may be at other hosts than they connect from (--tracker-host): each can send clients anywhere
  --connections N        servers and clients at one time, not more than `ulimit -n` has room for (4096)
  --stop-key KEY         what a peer has to say to end the tracker (none can)
  --verbose              say on stderr what happens
";

/// The options of a query to a tracker.
pub const QUERY_OPTIONS: &str = "\
Options:
  --tracker HOST:PORT    the tracker (127.0.0.1:9190)
  --token-file FILE      a file with the tracker's token
  --fingerprint HEX      ask over TLS; the tracker's certificate has this fingerprint
  --watch                show the table again and again
  --every SECONDS        how often, with --watch (2)
  --timeout SECONDS      how long the tracker may take to answer (10)
";

/// Parses the options after the command's name; `None` asks for help.
///
/// # Errors
/// A description of the problem, in one line without the name of the command.
pub fn parse_tracker(words: impl IntoIterator<Item = OsString>) -> Result<Option<TrackerOptions>, String> {
    let mut options = TrackerOptions::default();
    let mut listening = Listening::new(&options.listen);
    let asks_for_help = each(words, TRACKER_OPTIONS, &["--insecure", "--verbose", "--any-host"], |name, value| {
        let Some(value) = listening.take(name, value)? else { return Ok(()) };
        match name {
            "--connections" => options.connections = number(name, &value)?,
            "--any-host" => options.any_host = true,
            _ => options.stop_key = Some(value),
        }
        Ok(())
    })?;
    if asks_for_help {
        return Ok(None);
    }
    options.listen = listening.done()?;
    Ok(Some(options))
}

/// Runs the tracker until it is ended; prints the address first.
///
/// # Errors
/// The reason why the tracker does not start.
pub fn track(options: TrackerOptions) -> Result<()> {
    process::hide();
    let tracker = Tracker::start(options)?;
    stay(tracker.address(), None, || tracker.wait())
}

/// A query to a tracker.
#[derive(Clone, Debug)]
pub struct Query {
    tracker: Place,
    watch: bool,
    every: Duration,
    timeout: Duration,
}

impl Query {
    /// Like [`parse_tracker`].
    ///
    /// # Errors
    /// As for [`parse_tracker`].
    pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Option<Self>, String> {
        let mut tracker = Known::new(["--tracker", "--token-file", "--fingerprint"]);
        let (mut watch, mut every, mut timeout) = (false, Duration::from_secs(2), Duration::from_secs(10));
        let asks_for_help = each(words, QUERY_OPTIONS, &["--watch"], |name, value| {
            let Some(value) = tracker.take(name, value)? else { return Ok(()) };
            match name {
                "--watch" => watch = true,
                "--timeout" => timeout = time(name, &value)?.ok_or("an answer takes more than 0 s")?,
                _ => every = time(name, &value)?.ok_or("the table is shown each 0.1 s or more seldom")?,
            }
            Ok(())
        })?;
        if asks_for_help {
            return Ok(None);
        }
        let usual = format!("127.0.0.1:{PORT}");
        let every = every.max(Duration::from_millis(100));
        Ok(tracker.done(Some(usual))?.map(|tracker| Self { tracker, watch, every, timeout }))
    }

    /// Prints the state of the tracker; with `--watch`, until the process ends or its output is
    /// closed, also across restarts of the tracker.
    ///
    /// # Errors
    /// Fails if the tracker cannot be reached, without `--watch`, or if the output fails.
    pub fn run(&self) -> Result<()> {
        let client = TrackerClient::from(self.tracker.clone()).connect_timeout(self.timeout);
        let failed = |problem: std::io::Error| error!(RuntimeError, "cannot print: {problem}");
        loop {
            let text = match client.summary() {
                Ok(summary) => summary.to_string(),
                Err(problem) if self.watch => format!("{}\n", problem.message()),
                Err(problem) => return Err(problem),
            };
            // Clears the screen, and moves to its upper left corner.
            let head = if self.watch && std::io::stdout().is_terminal() { "\x1b[H\x1b[2J" } else { "" };
            print(&format!("{head}{text}")).map_err(failed)?;
            if !self.watch {
                return Ok(());
            }
            thread::sleep(self.every);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn options() {
        let options =
            parse_tracker(words("--host=::1 --port 0 --connections 7 --stop-key end --verbose")).unwrap().unwrap();
        assert_eq!((options.listen.host.as_str(), options.listen.port, options.connections), ("::1", 0, 7));
        assert_eq!(
            (options.stop_key.as_deref(), options.listen.insecure, options.listen.verbose),
            (Some("end"), false, true)
        );
        let query = Query::parse(words("--watch --every 0.5 --tracker board:1")).unwrap().unwrap();
        assert_eq!(
            (query.tracker.address.as_str(), query.watch, query.every),
            ("board:1", true, Duration::from_millis(500))
        );
        assert!(parse_tracker(words("-h")).unwrap().is_none() && Query::parse(words("--help")).unwrap().is_none());
        for (line, problem) in [
            ("--insecure=yes", "option `--insecure` takes no value"),
            ("--port many", "option `--port` takes a number, got `many`"),
            ("--port", "missing value for option `--port`"),
            ("--prot 1", "unknown option `--prot`"),
            ("9190", "unexpected argument `9190`"),
        ] {
            assert_eq!(parse_tracker(words(line)).err().unwrap(), problem);
        }
        assert!(Query::parse(words("--every 0")).err().unwrap().contains("0.1 s"));
        #[cfg(feature = "tls")]
        assert!(Query::parse(words("--fingerprint 4a")).err().unwrap().contains("64 hexadecimal digits"));
    }
}
