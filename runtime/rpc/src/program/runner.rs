//! `cargo kernpack rpc runner`: the command that `cargo run` and `cargo test` start in place of a
//! program for another machine.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use kernpack::{Bytes, Error, Function, Result, bail, ensure, error};

use super::token_of_environment;
use super::words::{each, time};
use crate::client::Session;
use crate::log::say;
use crate::session::{POLL, START};
use crate::wire::Output;

/// The options.
pub const RUNNER_OPTIONS: &str = "\
Options:
  --key KEY              the key that the server was started with (none)
  --token-file FILE      a file with the server's token (the token in KERNPACK_RPC_TOKEN)
  --fingerprint HEX      use TLS; the server's certificate has this fingerprint, which keygen has printed
  --through-proxy        HOST:PORT is a proxy, and the server is behind it
  --tls-ca FILE          use TLS; the server's certificate was signed by one of these authorities (PEM)
  --lib FILE             a shared library or another file that the program needs beside it; may be said again
  --env NAME=VALUE       a variable of the program's environment; may be said again (those named RUST_... here are sent, too)
  --timeout SECONDS      end the program when it has run so long (never)
";

/// The exit status of the command if the program could not be run, as for `env`.
pub const NOT_RUN: u8 = 125;
/// The exit status of the command if the program has taken too long, as for `timeout`.
const TOO_LONG: u8 = 124;
/// The time that the server waits for output before it answers.
const WAIT: Duration = Duration::from_secs(1);
/// The same while input may come, which has to wait for the answer.
const WAIT_FOR_INPUT: Duration = Duration::from_millis(50);
/// Bytes of input in one request.
const INPUT: usize = 64 << 10;

/// A program to run on another machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runner {
    address: String,
    key: String,
    token: Option<String>,
    fingerprint: Option<String>,
    authorities: Option<PathBuf>,
    through_proxy: bool,
    libraries: Vec<PathBuf>,
    environment: Vec<String>,
    timeout: Option<Duration>,
    program: PathBuf,
    arguments: Vec<OsString>,
}

impl Runner {
    /// Parses the words after the command's name; `None` asks for help.
    ///
    /// # Errors
    /// A description of the problem, in one line without the name of the command.
    pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Option<Self>, String> {
        let mut words = words.into_iter();
        let mut own: Vec<OsString> = words.by_ref().take_while(|word| word != "--").collect();
        let mut runner = Self::default();
        if own.first().is_some_and(|word| !word.as_bytes().starts_with(b"-")) {
            runner.address =
                own.remove(0).into_string().map_err(|word| format!("`{}` is not UTF-8", word.display()))?;
        }
        let asks_for_help = each(own, RUNNER_OPTIONS, &["--through-proxy"], |name, value| {
            match name {
                "--key" => runner.key = value,
                "--token-file" => {
                    let text = fs::read_to_string(&value);
                    let text = text.map_err(|problem| format!("cannot read the token in {value}: {problem}"))?;
                    runner.token = Some(text.trim().to_owned());
                }
                "--through-proxy" => runner.through_proxy = true,
                "--fingerprint" => runner.fingerprint = Some(value),
                "--tls-ca" => runner.authorities = Some(value.into()),
                "--lib" => runner.libraries.push(value.into()),
                "--env" if value.find('=').is_some_and(|at| at > 0) => runner.environment.push(value),
                "--env" => return Err(format!("option `--env` takes NAME=VALUE, got `{value}`")),
                _ => runner.timeout = time(name, &value)?,
            }
            Ok(())
        })?;
        if asks_for_help {
            return Ok(None);
        }
        if runner.token.is_none() {
            runner.token = token_of_environment()?;
        }
        if runner.address.is_empty() {
            return Err("the server comes first: HOST:PORT [OPTIONS] -- PROGRAM ARGUMENTS".to_owned());
        }
        if runner.fingerprint.is_some() && runner.authorities.is_some() {
            return Err("--fingerprint and --tls-ca are two ways to know a server: give one".to_owned());
        }
        let program = words
            .next()
            .ok_or("no program: the command ends with `-- PROGRAM ARGUMENTS`; cargo adds what is behind `--`")?;
        runner.program = program.into();
        runner.arguments = words.collect();
        Ok(Some(runner))
    }

    /// Runs the program there and copies its output; the result is the exit status for this
    /// process.
    ///
    /// # Errors
    /// Fails if the program cannot be run, or if the connection ends before the program.
    pub fn run(&self) -> Result<u8> {
        let name = file_name(&self.program)?;
        let session = self.connect()?;
        for library in &self.libraries {
            ensure!(file_name(library)? != name, ValueError, "{} has the program's name", library.display());
            session.upload(library)?;
        }
        session.upload(&self.program)?;
        let (start, poll) = match (session.find_global_function(START)?, session.find_global_function(POLL)?) {
            (Some(start), Some(poll)) => (start, poll),
            _ => bail!(
                RuntimeError,
                "{} runs no programs: it is not a server of Kernpack, or an older one; start `kernpack-rpc-server` or `cargo kernpack rpc serve` there",
                session.peer()
            ),
        };
        let environment = self.environment();
        start.call((name, &joined(&self.arguments)[..], &joined(&environment)[..]))?;
        self.follow(&session, &poll)
    }

    fn connect(&self) -> Result<Session> {
        let mut connect = crate::connect(self.address.as_str()).key(self.key.as_str());
        if let Some(token) = &self.token {
            connect = connect.token(token.as_str());
        }
        if self.through_proxy {
            connect = connect.through_proxy();
        }
        #[cfg(feature = "tls")]
        {
            use crate::tls::Trust;
            if let Some(fingerprint) = &self.fingerprint {
                connect = connect.tls(Trust::Fingerprint(fingerprint.parse()?));
            }
            if let Some(file) = &self.authorities {
                connect = connect.tls(Trust::Authorities(file.clone()));
            }
        }
        #[cfg(not(feature = "tls"))]
        ensure!(
            self.fingerprint.is_none() && self.authorities.is_none(),
            RuntimeError,
            "this program was built without TLS: build it with the feature `tls`"
        );
        connect.open()
    }

    /// The environment (`NAME=VALUE`) that is sent: the variables that control the output of Rust
    /// programs (`RUST_BACKTRACE`, `RUST_LOG`, `RUST_TEST_THREADS`), and those that the user
    /// requested.
    fn environment(&self) -> Vec<OsString> {
        let own = std::env::vars_os().filter(|(name, _)| name.as_bytes().starts_with(b"RUST_"));
        let own = own.map(|(name, value)| {
            let mut pair = name;
            pair.push("=");
            pair.push(value);
            pair
        });
        own.chain(self.environment.iter().map(OsString::from)).collect()
    }

    /// Copies the program's output and sends its input, until it ends.
    fn follow(&self, session: &Session, poll: &Function) -> Result<u8> {
        let start = Instant::now();
        let mut input = Some(read_input());
        let mut may_send = true;
        loop {
            if self.timeout.is_some_and(|timeout| start.elapsed() >= timeout) {
                session.close();
                let seconds = self.timeout.unwrap_or_default().as_secs_f64();
                say(format_args!("{} was ended: it has run for {seconds} s (--timeout)", self.program.display()));
                return Ok(TOO_LONG);
            }
            let mut bytes = Vec::new();
            let mut ends = false;
            if let Some(receiver) = input.as_ref().filter(|_| may_send) {
                match receiver.try_recv() {
                    Ok(read) => bytes = read,
                    Err(TryRecvError::Empty) => {}
                    Err(TryRecvError::Disconnected) => ends = true,
                }
            }
            let mut wait = if input.is_some() && may_send && !ends { WAIT_FOR_INPUT } else { WAIT };
            if let Some(timeout) = self.timeout {
                wait = wait.min(timeout.saturating_sub(start.elapsed()) + Duration::from_millis(1));
            }
            if ends {
                input = None;
            }
            let answer: Bytes = poll.call_as((&bytes[..], ends, wait.as_millis() as i64))?;
            let pieces = Output::read(answer.as_slice())
                .ok_or_else(|| Error::new("ConnectionError", format!("{} has sent invalid output", session.peer())))?;
            may_send = true;
            for piece in pieces {
                match piece {
                    Output::Out(bytes) => pass_on(&mut io::stdout().lock(), &bytes)?,
                    Output::Error(bytes) => pass_on(&mut io::stderr().lock(), &bytes)?,
                    Output::InputPends => may_send = false,
                    Output::Ended { code, signal } => {
                        if let Some(signal) = signal {
                            let (program, name) = (self.program.display(), signal_name(signal));
                            say(format_args!("{program}: ended by signal {signal}{name}"));
                        }
                        return Ok(u8::try_from(code).unwrap_or(u8::MAX));
                    }
                }
            }
        }
    }
}

/// The name under which a file is sent.
fn file_name(path: &Path) -> Result<&str> {
    let name = path.file_name().and_then(OsStr::to_str);
    name.ok_or_else(|| error!(ValueError, "{} has no file name that can be sent", path.display()))
}

/// Joins words, each terminated by NUL.
fn joined(words: &[OsString]) -> Vec<u8> {
    words.iter().flat_map(|word| word.clone().into_vec().into_iter().chain([0])).collect()
}

/// Receives the standard input, which is read by its own thread: a blocking read cannot be
/// cancelled.
fn read_input() -> Receiver<Vec<u8>> {
    let (sender, receiver): (SyncSender<Vec<u8>>, _) = sync_channel(1);
    thread::spawn(move || {
        let mut bytes = vec![0; INPUT];
        loop {
            match io::stdin().lock().read(&mut bytes) {
                Ok(0) => return,
                Ok(count) if sender.send(bytes[..count].to_vec()).is_err() => return,
                Ok(_) => {}
                Err(problem) if problem.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    });
    receiver
}

fn pass_on(target: &mut dyn Write, bytes: &[u8]) -> Result<()> {
    let written = target.write_all(bytes).and_then(|()| target.flush());
    written.map_err(|problem| Error::new("OSError", format!("the program's output cannot be written: {problem}")))
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGSEGV => " (SIGSEGV)",
        libc::SIGABRT => " (SIGABRT)",
        libc::SIGBUS => " (SIGBUS)",
        libc::SIGILL => " (SIGILL): it has code that the CPU there does not know",
        libc::SIGFPE => " (SIGFPE)",
        libc::SIGKILL => " (SIGKILL): by a limit of the server, or because memory ran out there",
        libc::SIGTERM => " (SIGTERM)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Option<Runner>, String> {
        Runner::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn command_lines() {
        let line = "board:9090 --key pi --through-proxy --lib a.so --lib=b.so --env A=1 --timeout 2.5 -- target/test --nocapture -- --lib";
        let runner = parsed(line).unwrap().unwrap();
        assert_eq!((runner.address.as_str(), runner.key.as_str()), ("board:9090", "pi"));
        assert!(runner.through_proxy);
        assert_eq!(runner.libraries, [PathBuf::from("a.so"), "b.so".into()]);
        assert_eq!(
            (&runner.environment[..], runner.timeout),
            (&["A=1".to_owned()][..], Some(Duration::from_millis(2500)))
        );
        assert_eq!(
            (runner.program, runner.arguments),
            ("target/test".into(), vec!["--nocapture".into(), "--".into(), "--lib".into()])
        );
        assert!(matches!(parsed("board --help"), Ok(None)) && matches!(parsed("-h"), Ok(None)));
        for (line, problem) in [
            ("", "the server comes first"),
            ("--key pi -- a", "the server comes first"),
            ("board", "no program: the command ends with `-- PROGRAM"),
            ("board --", "no program"),
            ("board target/test", "unexpected argument `target/test`"),
            ("board --env A -- a", "option `--env` takes NAME=VALUE, got `A`"),
            ("board --env =A -- a", "option `--env` takes NAME=VALUE"),
            ("board --fingerprint 1 --tls-ca f -- a", "give one"),
            ("board --token-file /no/such -- a", "cannot read the token in /no/such"),
        ] {
            let found = parsed(line).unwrap_err();
            assert!(found.contains(problem), "{line}: {found}");
        }
    }

    #[test]
    fn words_end_with_nul() {
        assert_eq!(joined(&["a b".into(), "".into()]), b"a b\0\0");
    }
}
