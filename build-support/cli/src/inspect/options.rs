//! The command line of `cargo kernpack inspect`.

use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};

use crate::arguments::Parsed;
use crate::library::shape::Shape;

pub(crate) const HELP: &str = "\
What a shared library of packed functions holds, made by Kernpack, Apache TVM or C++.

Usage: cargo kernpack inspect [OPTIONS] FILE

Options:
      --load                 also load the library, in a process of its own, for signatures, documentation and types.
                             Loading RUNS CODE of the library (its constructors): only for files that you trust.
                             Without --load the file is only read, and nothing in it runs
      --time                 also run the kernels of models on random numbers, and show how long each takes; implies --load
      --shape NAME=EXTENT,.. extents of dynamic dimensions for --time, which it implies: batch=7,sequence=65; without it the largest
      --json                 print JSON (the README of kernpack-cli describes it)
      --svg OUT              write a picture of the import tree; with --load also one of each model, its kernels and its memory over
                             time, to OUT with .NAME.svg at its end
      --extract IMAGE        write a module's image: IMAGE is its number in the tree, or its kind if only one has it
  -o, --output FILE          where --extract writes
  -h, --help                 print this
";

/// The file to inspect, and the output options.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) file: PathBuf,
    pub(crate) load: bool,
    /// The extents of dynamic dimensions, if the kernels of models are timed.
    pub(crate) time: Option<Shape>,
    pub(crate) json: bool,
    pub(crate) svg: Option<PathBuf>,
    pub(crate) extract: Option<Extract>,
}

/// The image to extract, and the file to write it to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Extract {
    /// The index or kind of the module.
    pub(crate) image: String,
    pub(crate) out: PathBuf,
}

/// Parses the words after `inspect`.
pub(crate) fn parse(parser: &mut Parser) -> Parsed<Options> {
    let (mut file, mut load, mut time, mut json) = (None, false, None, false);
    let (mut svg, mut image, mut out) = (None, None, None);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(None),
            Arg::Long("load") => load = true,
            Arg::Long("time") => {
                load = true;
                time.get_or_insert_default();
            }
            Arg::Long("shape") => {
                let text = parser.value()?.string()?;
                load = true;
                time = Some(Shape::parse(&text).map_err(|problem| format!("--shape {text}: {problem}"))?);
            }
            Arg::Long("json") => json = true,
            Arg::Long("svg") => svg = Some(parser.value()?.into()),
            Arg::Long("extract") => image = Some(parser.value()?.string()?),
            Arg::Short('o') | Arg::Long("output") => out = Some(parser.value()?.into()),
            Arg::Value(path) if file.is_none() => file = Some(path.into()),
            other => return Err(other.unexpected()),
        }
    }
    let file = file.ok_or("missing argument FILE; see cargo kernpack inspect --help")?;
    let extract = match (image, out) {
        (None, None) => None,
        (Some(image), Some(out)) => Some(Extract { image, out }),
        (Some(_), None) => return Err("--extract needs --output FILE".into()),
        (None, Some(_)) => return Err("--output is where --extract writes, which is not given".into()),
    };
    Ok(Some(Options { file, load, time, json, svg, extract }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::message;

    fn parse(line: &str) -> crate::Result<Option<Options>> {
        super::parse(&mut Parser::from_args(line.split_whitespace())).map_err(|error| message(&error, "inspect"))
    }

    fn options(file: &str) -> Options {
        Options { file: file.into(), load: false, time: None, json: false, svg: None, extract: None }
    }

    #[test]
    fn command_lines() {
        assert_eq!(parse("a.so --help"), Ok(None));
        assert_eq!(parse("-- --help").unwrap(), Some(options("--help")));
        assert_eq!(parse("a.so --json --load"), Ok(Some(Options { json: true, load: true, ..options("a.so") })));
        let timed = |shape: &str| {
            let time = Some(Shape::parse(shape).unwrap());
            Ok(Some(Options { time, load: true, ..options("a.so") }))
        };
        assert_eq!(parse("--time a.so"), timed(""));
        for line in ["--time a.so --shape n=7,m=65", "--shape=n=7,m=65 --time a.so", "a.so --shape n=7,m=65"] {
            assert_eq!(parse(line), timed("n=7,m=65"), "{line}");
        }
        for svg in ["--svg=x.svg a.so", "--svg x.svg a.so", "a.so --svg x.svg", "--svg=x.svg -- a.so"] {
            assert_eq!(parse(svg), Ok(Some(Options { svg: Some("x.svg".into()), ..options("a.so") })), "{svg}");
        }
        let extract = Extract { image: "cuda".to_owned(), out: "f".into() };
        let extracted = Options { extract: Some(extract), ..options("a.so") };
        for out in ["-o f", "-of", "-o=f", "--output f", "--output=f"] {
            let parsed = parse(&format!("a.so --extract cuda {out}")).unwrap().unwrap();
            assert_eq!(parsed, extracted, "{out}");
        }
        for (line, problem) in [
            ("", "missing argument FILE; see cargo kernpack inspect --help"),
            ("--json --", "missing argument FILE; see cargo kernpack inspect --help"),
            ("a b", "unexpected argument `b`; see inspect --help"),
            ("a --svg", "missing value for option `--svg`; see inspect --help"),
            ("a -o", "missing value for option `-o`; see inspect --help"),
            ("a --json=yes", "option `--json` takes no value; see inspect --help"),
            ("a --extract 1", "--extract needs --output FILE"),
            (
                "a --shape n",
                "--shape n: 'n' is not NAME=EXTENT with an extent of 1 or more, such as batch=7,sequence=65",
            ),
            ("a -o x", "--output is where --extract writes, which is not given"),
            ("--lod=3 a", "unknown option `--lod`; see inspect --help"),
            ("-jx a", "unknown option `-j`; see inspect --help"),
        ] {
            assert_eq!(parse(line), Err(problem.to_owned()), "{line}");
        }
    }
}
