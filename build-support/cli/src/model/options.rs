//! The command line of `cargo kernpack model`.

use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};

use crate::arguments::Parsed;

pub(crate) const HELP: &str = "\
Whether a model computes, optimized, what its nodes say; weights for a library that is built.

Usage: cargo kernpack model diff [OPTIONS] MODEL.onnx
       cargo kernpack model weights [OPTIONS] --library LIBRARY MODEL.onnx

diff

Each node is computed by plain loops, then the kernels of the optimized model, one by one. The first kernel whose result differs is
named, with its nodes, the largest difference and its place.

Options:
      --dim NAME=EXTENT      the extent of a dimension that the model names
      --input NAME=1,3,8     the shape of an input
      --bound NODE=ROUNDS    the most rounds of a loop, by the name of its node
      --values PATH          values of the inputs: a .npz, or a folder with NAME.npy or input_0.pb, ..; without it, seeded numbers
      --seed NUMBER          of these numbers; 0 without it
      --reference PATH       values that something else has computed, of outputs or inside of the model: also compared with what the
                             nodes say, by their names; a .npz, or a folder with NAME.npy or output_0.pb, ..
      --tolerance NUMBER     in parts of the largest number of a value; 1e-4 without it
      --json                 print JSON, and end without an error

weights

Writes the file of weights of MODEL.onnx for a library whose build.rs has `.weights_file()`, if the model has the same graph as the
one that it was built from. The library stays as it is.

      --library PATH         the library; it is loaded in another process
      --name NAME            the model of the library, if it has several
      --out PATH             the file; NAME.weights beside the library without it

  -h, --help                 print this
";

/// A command.
#[derive(Debug, PartialEq)]
pub(crate) enum Request {
    Diff(Options),
    Weights(WeightsOptions),
}

/// The options of a file of weights.
#[derive(Debug, PartialEq)]
pub(crate) struct WeightsOptions {
    pub(crate) file: PathBuf,
    pub(crate) library: PathBuf,
    pub(crate) name: Option<String>,
    pub(crate) out: Option<PathBuf>,
}

/// The options of a comparison.
#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    pub(crate) file: PathBuf,
    pub(crate) dims: Vec<(String, i64)>,
    pub(crate) inputs: Vec<(String, Vec<i64>)>,
    pub(crate) bounds: Vec<(String, i64)>,
    pub(crate) values: Option<PathBuf>,
    pub(crate) seed: u64,
    pub(crate) reference: Option<PathBuf>,
    pub(crate) tolerance: f64,
    pub(crate) json: bool,
}

/// Parses `NAME=1,2`.
fn extents(text: &str) -> Option<(String, Vec<i64>)> {
    let (name, extents) = text.split_once('=')?;
    let extents = extents.split(',').map(|extent| extent.trim().parse().ok().filter(|extent| *extent >= 0));
    Some((name.to_owned(), extents.collect::<Option<_>>()?))
}

/// Parses the words after `model`.
pub(crate) fn parse(parser: &mut Parser) -> Parsed<Request> {
    match parser.next()? {
        None | Some(Arg::Short('h') | Arg::Long("help")) => Ok(None),
        Some(Arg::Value(word)) if word == "diff" => Ok(diff(parser)?.map(Request::Diff)),
        Some(Arg::Value(word)) if word == "weights" => Ok(weights(parser)?.map(Request::Weights)),
        Some(Arg::Value(word)) => {
            let text = format!("unknown command `model {}`; see cargo kernpack model --help", word.to_string_lossy());
            Err(text.into())
        }
        // Options may come first.
        Some(other) => Err(other.unexpected()),
    }
}

/// Parses the words after `model weights`.
fn weights(parser: &mut Parser) -> Parsed<WeightsOptions> {
    let (mut file, mut library, mut name, mut out) = (None, None, None, None);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(None),
            Arg::Long("library") => library = Some(parser.value()?.into()),
            Arg::Long("name") => name = Some(parser.value()?.string()?),
            Arg::Long("out") => out = Some(parser.value()?.into()),
            Arg::Value(path) if file.is_none() => file = Some(path.into()),
            other => return Err(other.unexpected()),
        }
    }
    let file = file.ok_or("missing argument MODEL.onnx; see cargo kernpack model --help")?;
    let library = library.ok_or("missing option --library PATH: the library whose weights the model replaces")?;
    Ok(Some(WeightsOptions { file, library, name, out }))
}

/// Parses the words after `model diff`.
fn diff(parser: &mut Parser) -> Parsed<Options> {
    let mut file = None;
    let mut options = Options {
        file: PathBuf::new(),
        dims: Vec::new(),
        inputs: Vec::new(),
        bounds: Vec::new(),
        values: None,
        seed: 0,
        reference: None,
        tolerance: 1e-4,
        json: false,
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(None),
            Arg::Long("json") => options.json = true,
            Arg::Long("seed") => options.seed = parser.value()?.parse()?,
            Arg::Long("tolerance") => options.tolerance = parser.value()?.parse()?,
            Arg::Long("values") => options.values = Some(parser.value()?.into()),
            Arg::Long("reference") => options.reference = Some(parser.value()?.into()),
            Arg::Long("dim") => match extents(&parser.value()?.string()?) {
                Some((name, extents)) if extents.len() == 1 => options.dims.push((name, extents[0])),
                _ => return Err("--dim takes a name and an extent: batch=1".into()),
            },
            Arg::Long("bound") => match extents(&parser.value()?.string()?) {
                Some((node, rounds)) if rounds.len() == 1 => options.bounds.push((node, rounds[0])),
                _ => return Err("--bound takes a node and a number of rounds: loop=512".into()),
            },
            Arg::Long("input") => match extents(&parser.value()?.string()?) {
                Some(input) => options.inputs.push(input),
                None => return Err("--input takes a name and a shape: x=1,3,224,224".into()),
            },
            Arg::Value(path) if file.is_none() => file = Some(path.into()),
            other => return Err(other.unexpected()),
        }
    }
    options.file = file.ok_or("missing argument MODEL.onnx; see cargo kernpack model --help")?;
    Ok(Some(options))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::message;

    fn parse(line: &str) -> crate::Result<Option<Request>> {
        super::parse(&mut Parser::from_args(line.split_whitespace())).map_err(|error| message(&error, "model"))
    }

    #[test]
    fn command_lines() {
        assert_eq!(parse("--help"), Ok(None));
        assert_eq!(parse("diff --help"), Ok(None));
        let options = parse(
            "diff m.onnx --dim batch=2 --input x=1,3 --bound loop=9 --seed 7 --tolerance 1e-3 --values in --reference out.npz --json",
        );
        let Some(Request::Diff(options)) = options.unwrap() else { panic!("a comparison") };
        assert_eq!(options.file, PathBuf::from("m.onnx"));
        assert_eq!((options.dims, options.inputs), (vec![("batch".to_owned(), 2)], vec![("x".to_owned(), vec![1, 3])]));
        assert_eq!(options.bounds, [("loop".to_owned(), 9)]);
        assert_eq!((options.seed, options.tolerance, options.json), (7, 1e-3, true));
        assert_eq!((options.values, options.reference), (Some("in".into()), Some("out.npz".into())));
        let options = parse("weights --library l.so m.onnx --name net --out net.weights").unwrap();
        let expected = WeightsOptions {
            file: "m.onnx".into(),
            library: "l.so".into(),
            name: Some("net".into()),
            out: Some("net.weights".into()),
        };
        assert_eq!(options, Some(Request::Weights(expected)));
        assert_eq!(parse("weights -h"), Ok(None));
        for (line, problem) in [
            ("weights --library l.so", "missing argument MODEL.onnx; see cargo kernpack model --help"),
            ("weights m.onnx", "missing option --library PATH: the library whose weights the model replaces"),
            ("diff", "missing argument MODEL.onnx; see cargo kernpack model --help"),
            ("compare m.onnx", "unknown command `model compare`; see cargo kernpack model --help"),
            ("diff m.onnx --dim batch", "--dim takes a name and an extent: batch=1"),
            ("diff m.onnx --dim batch=1,2", "--dim takes a name and an extent: batch=1"),
            ("diff m.onnx --bound loop", "--bound takes a node and a number of rounds: loop=512"),
            ("diff m.onnx --input x=a", "--input takes a name and a shape: x=1,3,224,224"),
            ("diff m.onnx n.onnx", "unexpected argument `n.onnx`; see model --help"),
        ] {
            assert_eq!(parse(line), Err(problem.to_owned()), "{line}");
        }
    }
}
