//! The command line of `cargo kernpack doctor`.

use lexopt::{Arg, Parser};

use crate::arguments::Parsed;

pub(crate) const HELP: &str = "\
Says what this machine has for building and running libraries, and how to install what it lacks.

Usage: cargo kernpack doctor [OPTIONS]

The exit status is 0 when a library without kernels can be built. The GPU is asked through its driver's library only.

Options:
      --json                 print JSON (the README of kernpack-cli describes it)
  -h, --help                 print this
";

/// The output options of the report.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) json: bool,
}

/// Parses the words after `doctor`.
pub(crate) fn parse(parser: &mut Parser) -> Parsed<Options> {
    let mut options = Options::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(None),
            Arg::Long("json") => options.json = true,
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(options))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parse_line;

    #[test]
    fn command_lines() {
        let parse = |line: &str| parse_line(parse, "doctor", line);
        assert_eq!(parse(""), Ok(Some(Options { json: false })));
        assert_eq!(parse("--json --"), Ok(Some(Options { json: true })));
        assert_eq!(parse("-h"), Ok(None));
        for (line, problem) in [
            ("gpu", "unexpected argument `gpu`; see doctor --help"),
            ("-- --json", "unexpected argument `--json`; see doctor --help"),
            ("--gpu", "unknown option `--gpu`; see doctor --help"),
            ("--json=1", "option `--json` takes no value; see doctor --help"),
        ] {
            assert_eq!(parse(line), Err(problem.to_owned()));
        }
    }
}
