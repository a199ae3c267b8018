//! `cargo kernpack rpc tracker` and `query`.

use std::ffi::OsString;
use std::fmt;
use std::io::{IsTerminal, Write};
use std::thread;
use std::time::Duration;

use kernpack::{Result, error};

#[cfg(feature = "tls")]
use super::acceptor;
#[cfg(not(feature = "tls"))]
use super::without_tls;
use super::words::{each, number, time};
use super::{Tls, token_of, trust};
use crate::tracker::{PORT, Tracker, TrackerClient, TrackerOptions};

/// The options of a tracker.
pub const TRACKER_OPTIONS: &str = "\
Options:
  --host HOST            the address to listen at (127.0.0.1)
  --port PORT            the port; 0 is any that is free (9190)
  --token-file FILE      a file with the token that peers must know; those of Apache TVM have no word for it
  --tls-cert FILE        use TLS with this certificate (PEM); with --tls-key and a token, other machines may be listened for
  --tls-key FILE         the certificate's private key (PEM)
  --insecure             listen for other machines without TLS and token: all that reach the port can offer servers and take them
  --connections N        servers and clients at one time (4096)
  --stop-key KEY         what a peer has to say to end the tracker (none can)
  --verbose              say on stderr what happens
";

/// The options of a question to a tracker.
pub const QUERY_OPTIONS: &str = "\
Options:
  --tracker HOST:PORT    the tracker (127.0.0.1:9190)
  --token-file FILE      a file with the tracker's token
  --fingerprint HEX      ask over TLS; the tracker's certificate has this fingerprint
  --watch                show the table again and again
  --every SECONDS        how often, with --watch (2)
";

/// The options of a command line, behind the command's name; `None` asks for help.
///
/// # Errors
/// What is wrong, in one line without the name of the command.
pub fn parse_tracker(words: impl IntoIterator<Item = OsString>) -> Result<Option<TrackerOptions>, String> {
    let mut options = TrackerOptions::default();
    let mut tls = [None, None];
    let asks_for_help = each(words, TRACKER_OPTIONS, &["--insecure", "--verbose"], |name, value| {
        match name {
            "--host" => options.host = value,
            "--port" => options.port = number(name, &value)?,
            "--token-file" => options.token = Some(token_of(&value)?),
            "--tls-cert" => tls[0] = Some(value),
            "--tls-key" => tls[1] = Some(value),
            "--insecure" => options.insecure = true,
            "--connections" => options.connections = number(name, &value)?,
            "--stop-key" => options.stop_key = Some(value),
            _ => options.verbose = true,
        }
        Ok(())
    })?;
    if asks_for_help {
        return Ok(None);
    }
    #[cfg(feature = "tls")]
    {
        options.tls = acceptor(tls)?;
    }
    #[cfg(not(feature = "tls"))]
    without_tls(tls)?;
    Ok(Some(options))
}

/// Tracks until it is ended; prints the address first.
///
/// # Errors
/// Why the tracker does not start.
pub fn track(options: TrackerOptions) -> Result<()> {
    let tracker = Tracker::start(options)?;
    println!("listening on {}", tracker.address());
    tracker.wait();
    Ok(())
}

/// A question to a tracker.
#[derive(Clone)]
pub struct Query {
    tracker: String,
    token: Option<String>,
    tls: Option<Tls>,
    watch: bool,
    every: Duration,
}

impl fmt::Debug for Query {
    /// Without the token, which must not come into logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query")
            .field("tracker", &self.tracker)
            .field("watch", &self.watch)
            .field("every", &self.every)
            .finish_non_exhaustive()
    }
}

impl Query {
    /// As [`parse_tracker`].
    ///
    /// # Errors
    /// As there.
    pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Option<Self>, String> {
        let mut query = Self {
            tracker: format!("127.0.0.1:{PORT}"),
            token: None,
            tls: None,
            watch: false,
            every: Duration::from_secs(2),
        };
        let asks_for_help = each(words, QUERY_OPTIONS, &["--watch"], |name, value| {
            match name {
                "--tracker" => query.tracker = value,
                "--token-file" => query.token = Some(token_of(&value)?),
                "--fingerprint" => query.tls = Some(trust(&value)?),
                "--watch" => query.watch = true,
                _ => query.every = time(name, &value)?.ok_or("the table is shown each 0.1 s or more seldom")?,
            }
            Ok(())
        })?;
        query.every = query.every.max(Duration::from_millis(100));
        Ok((!asks_for_help).then_some(query))
    }

    /// Prints what the tracker knows; with `--watch` until the process ends or its output is closed, also over restarts of the tracker.
    ///
    /// # Errors
    /// A tracker that is not there, without `--watch`; an output that fails.
    pub fn run(&self) -> Result<()> {
        let mut client = TrackerClient::new(&self.tracker);
        if let Some(token) = &self.token {
            client = client.token(token);
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            client = client.tls(tls.clone());
        }
        #[cfg(not(feature = "tls"))]
        if let Some(tls) = self.tls {
            match tls {}
        }
        let mut output = std::io::stdout();
        let failed = |problem: std::io::Error| error!(RuntimeError, "cannot print: {problem}");
        loop {
            let text = match client.summary() {
                Ok(summary) => summary.to_string(),
                Err(problem) if self.watch => format!("{}\n", problem.message()),
                Err(problem) => return Err(problem),
            };
            if self.watch && output.is_terminal() {
                // To the upper left corner of an empty screen.
                write!(output, "\x1b[H\x1b[2J").map_err(failed)?;
            }
            write!(output, "{text}").and_then(|()| output.flush()).map_err(failed)?;
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
        assert_eq!((options.host.as_str(), options.port, options.connections), ("::1", 0, 7));
        assert_eq!((options.stop_key.as_deref(), options.insecure, options.verbose), (Some("end"), false, true));
        let query = Query::parse(words("--watch --every 0.5 --tracker board:1")).unwrap().unwrap();
        assert_eq!((query.tracker.as_str(), query.watch, query.every), ("board:1", true, Duration::from_millis(500)));
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
