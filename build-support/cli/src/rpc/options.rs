use kernpack_rpc::ServerOptions;
use kernpack_rpc::program::{self, SERVE_OPTIONS};
use lexopt::{Arg, Parser, ValueExt};

use crate::arguments::Parsed;

pub(crate) const HELP: &str = "\
Runs libraries of packed functions on other machines, by the RPC protocol of Apache TVM.

Usage: cargo kernpack rpc COMMAND [OPTIONS]

Commands:
  serve       let clients upload libraries to this machine and call them

cargo kernpack rpc COMMAND --help says more.
";

/// What to do.
#[derive(Debug)]
pub(crate) enum Options {
    /// Print the text of a command.
    Help(String),
    Serve(Box<ServerOptions>),
}

/// The options of a command line; `None` asks for [`HELP`].
pub(crate) fn parse(parser: &mut Parser) -> Parsed<Options> {
    let command = match parser.next()? {
        None | Some(Arg::Short('h') | Arg::Long("help")) => return Ok(None),
        Some(Arg::Value(command)) => command.string()?,
        Some(option) => return Err(option.unexpected()),
    };
    match command.as_str() {
        "serve" => match program::parse(parser.raw_args()?) {
            Ok(Some(options)) => Ok(Some(Options::Serve(Box::new(options)))),
            Ok(None) => Ok(Some(Options::Help(format!(
                "Lets clients upload libraries to this machine and call them. Each session has a process and a folder of its own.\n\n\
                 Usage: cargo kernpack rpc serve [OPTIONS]\n\n{SERVE_OPTIONS}"
            )))),
            Err(problem) => Err(format!("{problem}; see cargo kernpack rpc serve --help").into()),
        },
        _ => Err(format!("unknown command `{command}`; see cargo kernpack rpc --help").into()),
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
        let Ok(Some(Options::Serve(options))) = parsed("serve --port 0 --key=pi") else { panic!("options") };
        assert_eq!((options.port, options.key.as_str(), options.host.as_str()), (0, "pi", "127.0.0.1"));
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
