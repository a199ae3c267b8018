//! The command line of `cargo kernpack outputs`.

use std::ffi::OsString;

use lexopt::{Arg, Parser, ValueExt};

use crate::arguments::{Parsed, words_before};

pub(crate) const HELP: &str = "\
What the build scripts made of kernels, and where it is: objects, PTX, fat binaries, the packed modules, the generated Rust file and the
compile commands. Builds first, as cargo build does; cargo runs nothing when nothing changed.

Usage: cargo kernpack outputs [OPTIONS] [OPTIONS OF CARGO BUILD]

Options:
      --json                 print JSON: an array of what each package's OUT_DIR/kernpack/outputs.json says, with its out_dir
      --kind KIND            only outputs of this kind (object, ptx, cubin, fatbin, opencl, blob, archive, rust, weights, compile_commands), a path on each line
  -h, --help                 print this

All other options go to cargo build: --package, --release, --target, --features, --manifest-path, ...
";

/// The options for the build and for its report.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) json: bool,
    pub(crate) kind: Option<String>,
    /// The arguments for `cargo build`.
    pub(crate) cargo: Vec<OsString>,
}

/// The options that are not passed to `cargo build`.
const OWN: [&str; 4] = ["-h", "--help", "--json", "--kind"];

/// Parses the words after `outputs`.
pub(crate) fn parse(parser: &mut Parser) -> Parsed<Options> {
    let mut options = Options::default();
    loop {
        options.cargo.extend(words_before(&OWN, parser)?);
        match parser.next()? {
            None => break,
            Some(Arg::Short('h') | Arg::Long("help")) => return Ok(None),
            Some(Arg::Long("json")) => options.json = true,
            Some(Arg::Long("kind")) => options.kind = Some(parser.value()?.string()?),
            Some(other) => return Err(other.unexpected()),
        }
    }
    match options {
        Options { json: true, kind: Some(_), .. } => Err("--json and --kind exclude each other".into()),
        options => Ok(Some(options)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parse_line;

    #[test]
    fn command_lines() {
        let parse = |line: &str| parse_line(parse, "outputs", line);
        assert_eq!(parse("--release --help"), Ok(None));
        for (line, kind, json, cargo) in [
            ("", None, false, &[][..]),
            ("--kind ptx --release -p kit", Some("ptx"), false, &["--release", "-p", "kit"]),
            ("-pkit --kind=ptx --features=a,b -F c", Some("ptx"), false, &["-pkit", "--features=a,b", "-F", "c"]),
            ("--offline --json --lib", None, true, &["--offline", "--lib"]),
            ("--json -- --kind --json", None, true, &["--", "--kind", "--json"]),
        ] {
            let cargo = cargo.iter().map(OsString::from).collect();
            assert_eq!(parse(line), Ok(Some(Options { json, kind: kind.map(str::to_owned), cargo })), "{line}");
        }
        for (line, problem) in [
            ("--kind", "missing value for option `--kind`; see outputs --help"),
            ("--json=1", "option `--json` takes no value; see outputs --help"),
            ("--kind ptx --json", "--json and --kind exclude each other"),
        ] {
            assert_eq!(parse(line), Err(problem.to_owned()), "{line}");
        }
    }
}
