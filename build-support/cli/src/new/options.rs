//! The command line of `cargo kernpack new`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};

use super::dependencies::Asked;
use super::dimension::{self, Extents};
use crate::arguments::Parsed;

pub(crate) const HELP: &str = "\
Starts a crate that builds and passes its tests at once: functions, a type and a kernel in C for every language.

Usage: cargo kernpack new [OPTIONS] PATH

Options:
      --cuda                 also a CUDA kernel; the crate builds without a CUDA compiler, too
      --model FILE           instead, a crate with this ONNX model: its kernels and weights become a part of the library
      --dim NAME=EXTENT      the extent of a dimension that the model leaves open; without it 1
      --dim-range NAME=LOW..=HIGH[:STEP]
                             instead, any extent from LOW to HIGH, or any multiple of STEP: batch=1..=64, height=32..=2048:32
      --dim-up-to NAME=LARGEST
                             instead, any extent up to a bound, if rows do not depend on each other; for nodes that
                             --dim-range does not take, such as those of trees
      --weights-file         put the weights of the model in a file beside the library
      --name NAME            name of the package (default: the last part of PATH)
      --kernpack-path DIR    depend on the checkout of Kernpack in this folder (default: the checkout that PATH lies in, else
                             the checkout or git repository that this command was installed from, else the released versions)
      --kernpack-git URL     depend on Kernpack in this git repository
  -h, --help                 print this
";

/// The options of the new crate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) path: PathBuf,
    pub(crate) name: Option<String>,
    pub(crate) cuda: bool,
    /// The source of Kernpack.
    pub(crate) kernpack: Option<Asked>,
    pub(crate) model: Option<PathBuf>,
    /// Extents by the names of dimensions of the model.
    pub(crate) dims: BTreeMap<String, Extents>,
    /// True if the weights of the model are in a file beside the library.
    pub(crate) has_weights_file: bool,
}

/// Parses the words after `new`.
pub(crate) fn parse(parser: &mut Parser) -> Parsed<Options> {
    let (mut path, mut name, mut cuda, mut kernpack) = (None, None, false, None);
    let (mut model, mut dims, mut has_weights_file) = (None, BTreeMap::new(), false);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(None),
            Arg::Long("cuda") => cuda = true,
            Arg::Long("model") => model = Some(parser.value()?.into()),
            Arg::Long("dim") => add(&mut dims, "--dim", dimension::parse_one(&parser.value()?.string()?)?)?,
            Arg::Long("dim-up-to") => {
                add(&mut dims, "--dim-up-to", dimension::parse_bound(&parser.value()?.string()?)?)?;
            }
            Arg::Long("dim-range") => {
                add(&mut dims, "--dim-range", dimension::parse_range(&parser.value()?.string()?)?)?;
            }
            Arg::Long("weights-file") => has_weights_file = true,
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
    if model.is_none() && (!dims.is_empty() || has_weights_file) {
        return Err("--dim, --dim-range, --dim-up-to and --weights-file need --model FILE".into());
    }
    one_bound(&dims)?;
    Ok(Some(Options { path, name, cuda, kernpack, model, dims, has_weights_file }))
}

/// Adds the extents of a dimension, which are not set yet.
fn add(dims: &mut BTreeMap<String, Extents>, option: &str, (name, extents): (String, Extents)) -> crate::Result<()> {
    if dims.contains_key(&name) {
        return Err(format!(
            "{option}: the dimension '{name}' is set twice; one of --dim, --dim-range and --dim-up-to is enough"
        ));
    }
    dims.insert(name, extents);
    Ok(())
}

/// Checks that a dimension with a bound is the only dynamic one.
fn one_bound(dims: &BTreeMap<String, Extents>) -> crate::Result<()> {
    let mut open = dims.iter().filter(|(_, extents)| !matches!(extents, Extents::One(_)));
    let has_bound = dims.values().any(|extents| matches!(extents, Extents::UpTo(_)));
    match (has_bound, open.next(), open.next()) {
        (true, Some((one, _)), Some((other, _))) => Err(format!(
            "--dim-up-to is for one dimension, and '{one}' and '{other}' are open; use --dim-range for both"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parse_line;

    #[test]
    fn command_lines() {
        let parse = |line: &str| parse_line(parse, "new", line);
        assert_eq!(parse("-h"), Ok(None));
        let plain = Options { path: "--cuda".into(), ..Options::default() };
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
        let range = Extents::Range { least: 32, most: 64, step: 32 };
        let dims = [("batch".to_owned(), Extents::One(2)), ("n".to_owned(), range)].into();
        let with_model =
            Options { path: "a".into(), model: Some("m.onnx".into()), dims, has_weights_file: true, ..plain };
        let line = "a --model m.onnx --dim batch=2 --dim-range=n=32..=64:32 --weights-file";
        assert_eq!(parse(line), Ok(Some(with_model)));
        for (line, problem) in [
            ("", "missing argument PATH; see cargo kernpack new --help"),
            ("a b", "unexpected argument `b`; see new --help"),
            ("a --name", "missing value for option `--name`; see new --help"),
            ("--lib a", "unknown option `--lib`; see new --help"),
            ("a --dim n=1", "--dim, --dim-range, --dim-up-to and --weights-file need --model FILE"),
            ("a --weights-file", "--dim, --dim-range, --dim-up-to and --weights-file need --model FILE"),
            (
                "a --model m --dim n=1 --dim-range n=1..=2",
                "--dim-range: the dimension 'n' is set twice; one of --dim, --dim-range and --dim-up-to is enough",
            ),
            (
                "a --model m --dim-range n=1..=2 --dim-up-to m=8",
                "--dim-up-to is for one dimension, and 'm' and 'n' are open; use --dim-range for both",
            ),
            (
                "a --model m --dim-range n=2..=1",
                "--dim-range n=2..=1: the range is empty, because 2 is more than 1; expected NAME=LOW..=HIGH or NAME=LOW..=HIGH:STEP, such as batch=1..=64 or height=32..=2048:32",
            ),
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
