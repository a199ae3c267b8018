//! The command line of a server, for `cargo kernpack rpc serve` and for the program
//! `kernpack-rpc-server`; and the command lines of the other commands of `cargo kernpack rpc`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use self::listening::{Known, Listening, stay};
use self::words::{each, number, time};
use crate::process::TOKEN_VARIABLE;
use crate::wire::proof::nonce;
use crate::{Server, ServerOptions, process};

#[cfg(feature = "tls")]
mod keygen;
mod listening;
mod output;
mod proxy;
mod runner;
mod tracker;
mod words;

pub use crate::log::say;
#[cfg(feature = "tls")]
pub use keygen::{KEYGEN_OPTIONS, Keygen};
pub use output::print;
pub use proxy::{PROXY_OPTIONS, parse_proxy, pass_on};
pub use runner::{NOT_RUN, RUNNER_OPTIONS, Runner};
pub use tracker::{QUERY_OPTIONS, Query, TRACKER_OPTIONS, parse_tracker, track};

/// The options, as printed by `--help`.
pub const SERVE_OPTIONS: &str = "\
Options:
  --host HOST            the address to listen at (127.0.0.1)
  --port PORT            the port; 0 is any that is free (9090)
  --key KEY              the key that clients must name (none)
  --token-file FILE      a file with the token that clients must know (the token in KERNPACK_RPC_TOKEN, or one that is made and printed)
  --no-token             serve without a token: each user of this machine, and with --insecure of all others, can run any code here
  --tracker HOST:PORT    the tracker that gives this server to clients by its key; sessions are then 1 unless said
  --tracker-host HOST    the host that the tracker tells clients (the one that it sees this server come from)
  --tracker-token-file FILE  a file with the token of the tracker
  --tracker-fingerprint HEX  speak to the tracker over TLS; its certificate has this fingerprint
  --proxy HOST:PORT      wait for clients at this proxy, too, under the key; one on another machine needs TLS and a token, or --insecure
  --proxy-token-file FILE  a file with the token of the proxy
  --proxy-fingerprint HEX  connect to the proxy over TLS; its certificate has this fingerprint
  --tls-cert FILE        use TLS with this certificate (PEM); with --tls-key and a token, other machines may be listened for
  --tls-key FILE         the certificate's private key (PEM)
  --insecure             listen for other machines, and wait at a proxy on one, without TLS and token: all that reach the port can run any code here
  --sessions N           sessions at one time (64)
  --session-time SECONDS how long a session may last; 0 is without limit, here and below (86400)
  --call-time SECONDS    how long one request may take (3600)
  --idle-time SECONDS    how long a client may be silent between requests (3600)
  --stall-time SECONDS   how long a client may be silent inside a request (60)
  --handshake-time SECONDS  how long a client may take to say its key (10)
  --memory SIZE          memory of a session's process, for example 512MiB (three quarters of the machine's)
  --upload SIZE          bytes that a session may upload (4GiB)
  --handles N            functions, modules and tensors that a client may hold (262144)
  --files N              files that a session's process may have open (1024)
  --processes N          processes that a session may start (64)
  --folder FOLDER        where the folders of sessions are made (the system's folder for temporary files)
  --emulator COMMAND     start sessions by this command, for a server that runs under an emulator of single programs, such as qemu-aarch64
  --allow-run            clients may also run programs here (cargo kernpack rpc runner); needs --token-file
  --verbose              say on stderr when sessions begin and end
";

/// A server to run.
#[derive(Clone, Debug)]
pub struct Serve {
    /// Its options.
    pub options: ServerOptions,
    /// True if its token was generated here, so that it must be printed.
    pub is_made: bool,
}

/// Reads the token from the environment.
pub(crate) fn token_of_environment() -> Result<Option<String>, String> {
    match std::env::var(TOKEN_VARIABLE) {
        Ok(token) if token.trim().is_empty() => Ok(None),
        Ok(token) => Ok(Some(token.trim().to_owned())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err(format!("{TOKEN_VARIABLE} is not UTF-8: it holds no token")),
    }
}

/// Parses the options after the command's name; `None` asks for help.
///
/// # Errors
/// A description of the problem, in one line without the name of the command.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Option<Serve>, String> {
    let mut options = ServerOptions::default();
    let mut listening = Listening::new(&options.listen);
    let mut tracker = Known::new(["--tracker", "--tracker-token-file", "--tracker-fingerprint"]);
    let mut proxy = Known::new(["--proxy", "--proxy-token-file", "--proxy-fingerprint"]);
    let (mut has_sessions, mut has_no_token) = (false, false);
    let asks_for_help = each(words, SERVE_OPTIONS, &FLAGS, |name, value| {
        has_sessions |= name == "--sessions";
        if name == "--no-token" {
            has_no_token = true;
            return Ok(());
        }
        let Some(value) = listening.take(name, value)? else { return Ok(()) };
        let Some(value) = tracker.take(name, value)? else { return Ok(()) };
        let Some(value) = proxy.take(name, value)? else { return Ok(()) };
        set(&mut options, name, value)
    })?;
    if asks_for_help {
        return Ok(None);
    }
    options.listen = listening.done()?;
    options.tracker = tracker.done(None)?;
    options.proxy = proxy.done(None)?;
    if options.tracker.is_some() && !has_sessions {
        // A client has the machine exclusively.
        options.sessions = 1;
    }
    let mut is_made = false;
    match (&options.listen.token, has_no_token) {
        (Some(_), true) => return Err("--no-token and --token-file exclude each other".to_owned()),
        (Some(_), false) | (None, true) => {}
        (None, false) => {
            options.listen.token = token_of_environment()?;
            // With `--insecure` the user has already decided who may connect.
            if options.listen.token.is_none() && !options.listen.insecure {
                options.listen.token = Some(nonce().map_err(|problem| format!("no random numbers: {problem}"))?);
                is_made = true;
            }
        }
    }
    Ok(Some(Serve { options, is_made }))
}

/// Options without a value.
const FLAGS: [&str; 4] = ["--insecure", "--verbose", "--allow-run", "--no-token"];

fn set(options: &mut ServerOptions, name: &str, value: String) -> Result<(), String> {
    let limits = &mut options.limits;
    match name {
        "--key" => options.key = value,
        "--allow-run" => limits.run = true,
        "--tracker-host" => options.tracker_host = Some(value),
        "--sessions" => options.sessions = number(name, &value)?,
        "--session-time" => limits.session_time = time(name, &value)?,
        "--call-time" => limits.call_time = time(name, &value)?,
        "--idle-time" => limits.idle_time = time(name, &value)?,
        "--stall-time" => limits.stall_time = time(name, &value)?,
        "--memory" => limits.memory = size(name, &value)?,
        "--upload" => limits.upload = size(name, &value)?,
        "--handles" => limits.handles = number(name, &value)?,
        "--files" => limits.files = number(name, &value)?,
        "--processes" => limits.processes = number(name, &value)?,
        "--folder" => options.folder = Some(value.into()),
        "--emulator" => {
            options.emulator = value.split_whitespace().map(OsString::from).collect();
            options.program = Some(emulated(&options.emulator)?);
        }
        _ => return Err(format!("unknown option `{name}`")),
    }
    Ok(())
}

/// The program of sessions: an emulator with its arguments, and this program as it was given to the
/// emulator.
fn emulated(command: &[OsString]) -> Result<(PathBuf, Vec<OsString>), String> {
    let (emulator, rest) = command.split_first().ok_or("option `--emulator` takes a command")?;
    let own = std::env::args_os().next().filter(|own| own.as_encoded_bytes().contains(&b'/'));
    let own = own.ok_or("with --emulator, name this program by its path: the emulator does not look in PATH")?;
    let own = std::path::absolute(own).map_err(|problem| format!("no path of this program: {problem}"))?;
    Ok((emulator.into(), rest.iter().cloned().chain([own.into_os_string()]).collect()))
}

/// Bytes: `1000`, `64K`, `512MiB`, `4GB`; all units are powers of 1024.
fn size(name: &str, value: &str) -> Result<u64, String> {
    let wrong = || format!("option `{name}` takes a size such as 512MiB, got `{value}`");
    let digits = value.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match value[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(wrong()),
    };
    let count: u64 = digits.parse().map_err(|_| wrong())?;
    count.checked_mul(1 << shift).ok_or_else(wrong)
}

/// Serves until the process ends; prints the address first.
///
/// # Errors
/// The reason why the server does not start.
pub fn serve(serve: Serve) -> kernpack::Result<()> {
    process::hide();
    let made = serve.options.listen.token.clone().filter(|_| serve.is_made);
    kernpack::ensure!(
        made.is_none() || !output::is_readable_by_others(),
        ValueError,
        "the server would print the token that it makes into a file that other users may read: `chmod 600` that file first, or name a token \
         with --token-file"
    );
    let server = Server::start(serve.options)?;
    stay(server.address(), made.as_deref(), || server.wait())
}

/// The complete main function of a program that is a server; `name` is its name in messages.
pub fn main(name: &str) -> ExitCode {
    crate::run_session_if_asked();
    // The name of a program that was started from memory would be a number.
    #[cfg(target_os = "linux")]
    if let Ok(name) = std::ffi::CString::new(name) {
        // SAFETY: a string that ends with NUL; the system takes 15 letters of it.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    }
    let outcome = match parse(std::env::args_os().skip(1)) {
        Ok(Some(options)) => serve(options).map_err(|problem| problem.message().to_owned()),
        Ok(None) => {
            let text = format!(
                "Serves libraries of packed functions to other machines.\n\nUsage: {name} [OPTIONS]\n\n{SERVE_OPTIONS}"
            );
            print(&text).map_err(|problem| format!("cannot print: {problem}"))
        }
        Err(problem) => Err(format!("{problem}; see {name} --help")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            say(format_args!("{name}: {problem}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn parsed(line: &str) -> Result<Option<ServerOptions>, String> {
        Ok(parse(line.split_whitespace().map(OsString::from))?.map(|serve| serve.options))
    }

    #[test]
    fn a_token_is_made() {
        let made = |line: &str| {
            let serve = parse(line.split_whitespace().map(OsString::from)).unwrap().unwrap();
            assert_eq!(serve.is_made, serve.options.listen.token.is_some(), "{line}");
            serve.options.listen.token
        };
        let (first, second) = (made("--port 0").unwrap(), made("--tracker t --allow-run").unwrap());
        assert!(first.len() == 64 && first != second);
        assert_eq!((made("--no-token"), made("--insecure --host 0.0.0.0")), (None, None));
        assert_eq!(parsed("--no-token=1").unwrap_err(), "option `--no-token` takes no value");
    }

    #[test]
    fn options() {
        let options =
            parsed("--host ::1 --port=0 --key pi --insecure --memory 512MiB --call-time 0 --idle-time 1.5 --upload 3")
                .unwrap()
                .unwrap();
        assert_eq!((options.listen.host.as_str(), options.listen.port, options.key.as_str()), ("::1", 0, "pi"));
        assert!(options.listen.insecure && !options.listen.verbose);
        assert_eq!((options.limits.memory, options.limits.upload), (512 << 20, 3));
        assert_eq!((options.limits.call_time, options.limits.idle_time), (None, Some(Duration::from_millis(1500))));
        assert!(matches!(parsed("--key a -h"), Ok(None)));
        for (line, problem) in [
            ("--hots a", "unknown option `--hots`"),
            ("serve", "unexpected argument `serve`"),
            ("--port", "missing value for option `--port`"),
            ("--port 70000", "option `--port` takes a number, got `70000`"),
            ("--insecure=1", "option `--insecure` takes no value"),
            ("--memory 5XB", "option `--memory` takes a size such as 512MiB, got `5XB`"),
            ("--memory 99999999T", "option `--memory` takes a size such as 512MiB, got `99999999T`"),
            ("--call-time -1", "option `--call-time` takes a number of seconds, got `-1`"),
        ] {
            assert_eq!(parsed(line).err().unwrap(), problem, "{line}");
        }
        for (line, problem) in [
            ("--tls-key a", "--tls-key needs --tls-cert"),
            ("--handshake-time 0", "a handshake takes more than 0 s"),
            ("--tracker-fingerprint 4a", "--tracker-fingerprint goes with --tracker"),
            ("--token-file /dev/zero", "/dev/zero is longer than 2048 bytes: it holds no token"),
            ("--token-file /dev/null", "there is no token in /dev/null: the file is empty"),
        ] {
            assert_eq!(parsed(line).err().unwrap(), problem, "{line}");
        }
        let options = parsed("--tracker t:1 --proxy p").unwrap().unwrap();
        assert_eq!((options.tracker.unwrap().address.as_str(), options.proxy.unwrap().address.as_str()), ("t:1", "p"));
        assert_eq!(options.sessions, 1);
        assert!(parsed("--token-file /no/such").err().unwrap().contains("cannot read the token in /no/such"));
    }

    #[test]
    fn each_option_of_the_help_is_taken() {
        for line in SERVE_OPTIONS.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let line =
                if words[1].starts_with(char::is_uppercase) { format!("{} 1", words[0]) } else { words[0].to_owned() };
            // Missing files are a different error.
            let problem = parsed(&line).err().unwrap_or_default();
            let is_of_value = matches!(words[1], "FILE" | "HEX");
            let needs_other = problem.contains(" goes with ") || problem.contains(" needs ");
            assert!(
                problem.is_empty() || needs_other || is_of_value && !problem.contains("option `"),
                "{line}: {problem}"
            );
        }
    }
}
