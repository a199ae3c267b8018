//! The command line of `cargo kernpack new`.

use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};

use crate::arguments::Parsed;

pub(crate) const HELP: &str = "\
Starts a crate that builds and passes its tests at once: functions, a type and a kernel in C for every language.

Usage: cargo kernpack new [OPTIONS] PATH

Options:
      --cuda                 also a CUDA kernel; the crate builds without a CUDA compiler, too
      --name NAME            name of the package (default: the last part of PATH)
      --kernpack-path DIR    depend on the checkout of Kernpack in this folder (default: the checkout that PATH lies in, else
                             the released versions)
  -h, --help                 print this
";

/// What to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) path: PathBuf,
    pub(crate) name: Option<String>,
    pub(crate) cuda: bool,
    pub(crate) kernpack_path: Option<PathBuf>,
}

/// The words after `new`.
pub(crate) fn parse(parser: &mut Parser) -> Parsed<Options> {
    let (mut path, mut name, mut cuda, mut kernpack_path) = (None, None, false, None);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(None),
            Arg::Long("cuda") => cuda = true,
            Arg::Long("name") => name = Some(parser.value()?.string()?),
            Arg::Long("kernpack-path") => kernpack_path = Some(parser.value()?.into()),
            Arg::Value(folder) if path.is_none() => path = Some(folder.into()),
            other => return Err(other.unexpected()),
        }
    }
    let path = path.ok_or("missing argument PATH; see cargo kernpack new --help")?;
    Ok(Some(Options { path, name, cuda, kernpack_path }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parse_line;

    #[test]
    fn command_lines() {
        let parse = |line: &str| parse_line(parse, "new", line);
        assert_eq!(parse("-h"), Ok(None));
        let expected =
            Options { path: "a/kit".into(), name: Some("x".to_owned()), cuda: true, kernpack_path: Some("..".into()) };
        for line in ["a/kit --cuda --name x --kernpack-path ..", "--cuda --name=x --kernpack-path=.. -- a/kit"] {
            assert_eq!(parse(line).as_ref(), Ok(&Some(expected.clone())), "{line}");
        }
        let dashes = Options { path: "--cuda".into(), name: None, cuda: false, kernpack_path: None };
        assert_eq!(parse("-- --cuda"), Ok(Some(dashes)));
        for (line, problem) in [
            ("", "missing argument PATH; see cargo kernpack new --help"),
            ("a b", "unexpected argument `b`; see new --help"),
            ("a --name", "missing value for option `--name`; see new --help"),
            ("--lib a", "unknown option `--lib`; see new --help"),
            ("--cuda=13 a", "option `--cuda` takes no value; see new --help"),
        ] {
            assert_eq!(parse(line).unwrap_err(), problem);
        }
    }
}
