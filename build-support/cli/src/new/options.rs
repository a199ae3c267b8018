//! The command line of `cargo kernpack new`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};

use super::dependencies::Asked;
use crate::arguments::Parsed;

pub(crate) const HELP: &str = "\
Starts a crate that builds and passes its tests at once: functions, a type and a kernel in C for every language.

Usage: cargo kernpack new [OPTIONS] PATH

Options:
      --cuda                 also a CUDA kernel; the crate builds without a CUDA compiler, too
      --model FILE           instead, a crate with this ONNX model: its kernels and weights become a part of the library
      --dim NAME=EXTENT      the extent of a dimension that the model leaves open; without it 1
      --name NAME            name of the package (default: the last part of PATH)
      --kernpack-path DIR    depend on the checkout of Kernpack in this folder (default: the checkout that PATH lies in, else
                             the checkout or git repository that this command was installed from, else the released versions)
      --kernpack-git URL     depend on Kernpack in this git repository
  -h, --help                 print this
";

/// The options of the new crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) path: PathBuf,
    pub(crate) name: Option<String>,
    pub(crate) cuda: bool,
    /// The source of Kernpack.
    pub(crate) kernpack: Option<Asked>,
    pub(crate) model: Option<PathBuf>,
    /// Extents by the names of dimensions of the model.
    pub(crate) dims: BTreeMap<String, i64>,
}

/// Parses the words after `new`.
pub(crate) fn parse(parser: &mut Parser) -> Parsed<Options> {
    let (mut path, mut name, mut cuda, mut kernpack) = (None, None, false, None);
    let (mut model, mut dims) = (None, BTreeMap::new());
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(None),
            Arg::Long("cuda") => cuda = true,
            Arg::Long("model") => model = Some(parser.value()?.into()),
            Arg::Long("dim") => {
                let text = parser.value()?.string()?;
                let (dim, extent) = dimension(&text).ok_or_else(|| {
                    format!("--dim {text}: expected NAME=EXTENT with an extent of 1 or more, such as batch=1")
                })?;
                dims.insert(dim, extent);
            }
            Arg::Long("name") => name = Some(parser.value()?.string()?),
            Arg::Long("kernpack-path") => kernpack = Some(Asked::Checkout(parser.value()?.into())),
            Arg::Long("kernpack-git") => kernpack = Some(Asked::Git(parser.value()?.string()?)),
            Arg::Value(folder) if path.is_none() => path = Some(folder.into()),
            other => return Err(other.unexpected()),
        }
    }
    let path = path.ok_or("missing argument PATH; see cargo kernpack new --help")?;
    if model.is_some() && cuda {
        return Err("--model and --cuda exclude each other: a crate with a model has no other kernels at first".into());
    }
    if model.is_none() && !dims.is_empty() {
        return Err("--dim needs --model".into());
    }
    Ok(Some(Options { path, name, cuda, kernpack, model, dims }))
}

/// Parses `batch=1`.
fn dimension(text: &str) -> Option<(String, i64)> {
    let (name, extent) = text.split_once('=')?;
    let extent = extent.parse().ok().filter(|extent| *extent >= 1)?;
    (!name.is_empty()).then(|| (name.to_owned(), extent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parse_line;

    #[test]
    fn command_lines() {
        let parse = |line: &str| parse_line(parse, "new", line);
        assert_eq!(parse("-h"), Ok(None));
        let plain = Options {
            path: "--cuda".into(),
            name: None,
            cuda: false,
            kernpack: None,
            model: None,
            dims: BTreeMap::new(),
        };
        let expected = Options {
            path: "a/kit".into(),
            name: Some("x".to_owned()),
            cuda: true,
            kernpack: Some(Asked::Checkout("..".into())),
            ..plain.clone()
        };
        for line in ["a/kit --cuda --name x --kernpack-path ..", "--cuda --name=x --kernpack-path=.. -- a/kit"] {
            assert_eq!(parse(line).as_ref(), Ok(&Some(expected.clone())), "{line}");
        }
        let url = "https://host/kernpack";
        let from_git = Options { path: "a".into(), kernpack: Some(Asked::Git(url.to_owned())), ..plain.clone() };
        assert_eq!(parse(&format!("a --kernpack-git {url}")), Ok(Some(from_git)));
        assert_eq!(parse("-- --cuda"), Ok(Some(plain.clone())));
        let dims = [("batch".to_owned(), 2), ("n".to_owned(), 16)].into();
        let with_model = Options { path: "a".into(), model: Some("m.onnx".into()), dims, ..plain };
        assert_eq!(parse("a --model m.onnx --dim batch=2 --dim=n=16"), Ok(Some(with_model)));
        for (line, problem) in [
            ("", "missing argument PATH; see cargo kernpack new --help"),
            ("a b", "unexpected argument `b`; see new --help"),
            ("a --name", "missing value for option `--name`; see new --help"),
            ("--lib a", "unknown option `--lib`; see new --help"),
            ("a --dim n=1", "--dim needs --model"),
            ("a --model m --dim n=0", "--dim n=0: expected NAME=EXTENT with an extent of 1 or more, such as batch=1"),
            (
                "a --model m --cuda",
                "--model and --cuda exclude each other: a crate with a model has no other kernels at first",
            ),
            ("--cuda=13 a", "option `--cuda` takes no value; see new --help"),
        ] {
            assert_eq!(parse(line).unwrap_err(), problem);
        }
    }
}
