use kernpack_rpc::ProxyOptions;
use kernpack_rpc::program::{
    self, KEYGEN_OPTIONS, Keygen, PROXY_OPTIONS, QUERY_OPTIONS, Query, RUNNER_OPTIONS, Runner, SERVE_OPTIONS, Serve,
    TRACKER_OPTIONS,
};
use kernpack_rpc::tracker::TrackerOptions;
use lexopt::{Arg, Parser, ValueExt};

use crate::arguments::Parsed;

pub(crate) const HELP: &str = "\
Runs libraries of packed functions on other machines, by the RPC protocol of Apache TVM.

Usage: cargo kernpack rpc COMMAND [OPTIONS]

Commands:
  serve       let clients upload libraries to this machine and call them
  tracker     give servers of a key to clients, one after the other
  query       show what a tracker has
  proxy       bring clients to servers behind a firewall, which connect to it
  keygen      make a certificate and a token for a server that other machines may reach
  runner      run a program on a server, for `cargo run` and `cargo test` with `--target`

cargo kernpack rpc COMMAND --help says more.
";

/// The subcommand to run.
#[derive(Debug)]
pub(crate) enum Options {
    /// Print the help text of a command.
    Help(String),
    Serve(Box<Serve>),
    Tracker(Box<TrackerOptions>),
    Query(Query),
    Proxy(Box<ProxyOptions>),
    Keygen(Keygen),
    Runner(Box<Runner>),
}

/// Parses the options of a command line. `None` requests [`HELP`].
pub(crate) fn parse(parser: &mut Parser) -> Parsed<Options> {
    let command = match parser.next()? {
        None | Some(Arg::Short('h') | Arg::Long("help")) => return Ok(None),
        Some(Arg::Value(command)) => command.string()?,
        Some(option) => return Err(option.unexpected()),
    };
    let words = parser.raw_args()?;
    let (about, options, parsed): (&str, &str, Result<Option<Options>, String>) = match command.as_str() {
        "serve" => (
            "Lets clients upload libraries to this machine and call them. Each session has a process and a folder of its own.",
            SERVE_OPTIONS,
            program::parse(words).map(|parsed| parsed.map(|options| Options::Serve(Box::new(options)))),
        ),
        "tracker" => (
            "Gives servers to clients: a server offers itself under a key, a client asks for one of a key and waits until it is free.",
            TRACKER_OPTIONS,
            program::parse_tracker(words).map(|parsed| parsed.map(|options| Options::Tracker(Box::new(options)))),
        ),
        "query" => (
            "Shows the servers of a tracker, their keys, and how many are free and busy and how many clients wait.",
            QUERY_OPTIONS,
            Query::parse(words).map(|parsed| parsed.map(Options::Query)),
        ),
        "proxy" => (
            "Brings clients to servers that they cannot reach: both connect to the proxy, which passes on what they send.",
            PROXY_OPTIONS,
            program::parse_proxy(words).map(|parsed| parsed.map(|options| Options::Proxy(Box::new(options)))),
        ),
        "keygen" => (
            "Makes a private key, a certificate and a token, for a server that other machines may reach.",
            KEYGEN_OPTIONS,
            Keygen::parse(words).map(|parsed| parsed.map(Options::Keygen)),
        ),
        "runner" => (
            "Runs a program on a server that allows it (--allow-run): sends it, passes on its input and output, and ends with its exit code. With\n\
             CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=\"cargo kernpack rpc runner HOST:PORT --token-file FILE --\"\n\
             `cargo run` and `cargo test` with `--target aarch64-unknown-linux-gnu` run there.",
            RUNNER_OPTIONS,
            Runner::parse(words).map(|parsed| parsed.map(|runner| Options::Runner(Box::new(runner)))),
        ),
        _ => return Err(format!("unknown command `{command}`; see cargo kernpack rpc --help").into()),
    };
    let rest = if command == "runner" { "HOST:PORT [OPTIONS] -- PROGRAM [ARGUMENTS]" } else { "[OPTIONS]" };
    match parsed {
        Ok(Some(parsed)) => Ok(Some(parsed)),
        Ok(None) => {
            Ok(Some(Options::Help(format!("{about}\n\nUsage: cargo kernpack rpc {command} {rest}\n\n{options}"))))
        }
        Err(problem) => Err(format!("{problem}; see cargo kernpack rpc {command} --help").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Parsed<Options> {
        parse(&mut Parser::from_args(line.split_whitespace()))
    }

    #[test]
    fn commands() {
        assert!(matches!(parsed(""), Ok(None)));
        assert!(matches!(parsed("--help"), Ok(None)));
        let Ok(Some(Options::Serve(serve))) = parsed("serve --port 0 --key=pi") else { panic!("options") };
        let options = serve.options;
        assert_eq!((options.listen.port, options.key.as_str(), options.listen.host.as_str()), (0, "pi", "127.0.0.1"));
        assert!(matches!(parsed("tracker --port 0"), Ok(Some(Options::Tracker(_)))));
        assert!(matches!(parsed("query --watch"), Ok(Some(Options::Query(_)))));
        assert!(matches!(parsed("proxy --port 0 --wait 5"), Ok(Some(Options::Proxy(_)))));
        assert!(matches!(parsed("keygen --folder here --name pi"), Ok(Some(Options::Keygen(_)))));
        assert!(matches!(parsed("runner board:9090 -- program --help"), Ok(Some(Options::Runner(_)))));
        let Ok(Some(Options::Help(text))) = parsed("serve --port 0 -h") else { panic!("help") };
        assert!(text.contains("Usage: cargo kernpack rpc serve [OPTIONS]") && text.contains("--insecure"));
        for (line, problem) in [
            ("sevre", "unknown command `sevre`; see cargo kernpack rpc --help"),
            ("serve --prot 1", "unknown option `--prot`; see cargo kernpack rpc serve --help"),
        ] {
            assert_eq!(parsed(line).unwrap_err().to_string(), problem, "{line}");
        }
    }
}
