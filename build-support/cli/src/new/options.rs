//! The command line of `cargo kernpack new`.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::Result;

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
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) path: PathBuf,
    pub(crate) name: Option<String>,
    pub(crate) cuda: bool,
    pub(crate) kernpack_path: Option<PathBuf>,
}

/// The words after `new`; `None` asks for help.
pub(crate) fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Option<Options>> {
    let (mut path, mut name, mut cuda, mut kernpack_path) = (None, None, false, None);
    while let Some(argument) = arguments.next() {
        let mut value = |option: &str| {
            arguments.next().ok_or_else(|| format!("{option} needs a value; see cargo kernpack new --help"))
        };
        match argument.to_str() {
            Some("-h" | "--help") => return Ok(None),
            Some("--cuda") => cuda = true,
            Some("--name") => name = Some(value("--name")?.to_string_lossy().into_owned()),
            Some("--kernpack-path") => kernpack_path = Some(PathBuf::from(value("--kernpack-path")?)),
            Some(option) if option.starts_with('-') => {
                return Err(format!("new has no option {option}; see cargo kernpack new --help"));
            }
            _ if path.is_some() => return Err("one PATH at a time".to_owned()),
            _ => path = Some(PathBuf::from(argument)),
        }
    }
    let path = path.ok_or("new needs a PATH; see cargo kernpack new --help")?;
    Ok(Some(Options { path, name, cuda, kernpack_path }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines() {
        let parse = |line: &str| parse(line.split_whitespace().map(OsString::from));
        assert_eq!(parse("-h"), Ok(None));
        let expected =
            Options { path: "a/kit".into(), name: Some("x".to_owned()), cuda: true, kernpack_path: Some("..".into()) };
        assert_eq!(parse("a/kit --cuda --name x --kernpack-path .."), Ok(Some(expected)));
        for (line, problem) in [
            ("", "new needs a PATH; see cargo kernpack new --help"),
            ("a b", "one PATH at a time"),
            ("a --name", "--name needs a value; see cargo kernpack new --help"),
            ("--lib a", "new has no option --lib; see cargo kernpack new --help"),
        ] {
            assert_eq!(parse(line).unwrap_err(), problem);
        }
    }
}
