//! The command in a command line.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::{Arg, Error, Parser, ValueExt};

use crate::arguments::{Parsed, message};
use crate::doctor::PROBE;
use crate::library::loaded::{DESCRIBE, TIME_MODELS};
use crate::library::shape::Shape;
use crate::{Result, doctor, inspect, model, new, outputs, rpc, sbom, wheel};

const HELP: &str = "\
Works with libraries of packed functions.

Usage: cargo kernpack COMMAND [OPTIONS]

Commands:
  inspect     what a library holds, read without running it
  wheel       build a Python wheel around a package's library
  develop     install a package into a Python environment from where it is
  new         start a crate that builds and passes its tests
  doctor      what this machine has and lacks for building libraries
  outputs     what build scripts made of kernels, and where it is
  sbom        the crates that a library is made of, as a bill of materials
  model       whether a model computes, optimized, what its nodes say; new weights for a library
  rpc         libraries on other machines: the server that runs them

cargo kernpack COMMAND --help says more.
";

/// The command to run.
#[derive(Debug)]
pub(crate) enum Command {
    /// Print this text.
    Help(&'static str),
    Inspect(inspect::Options),
    Wheel(wheel::Options),
    Develop(wheel::Options),
    New(new::Options),
    Doctor(doctor::Options),
    Outputs(outputs::Options),
    Sbom(sbom::Options),
    Model(model::Request),
    Rpc(rpc::Options),
    /// Describes a library, in the process that `--load` starts.
    Describe {
        file: PathBuf,
        /// The extents of dynamic dimensions, if the kernels of models are timed.
        time: Option<Shape>,
    },
    /// Runs a probe, in the process that `doctor` starts.
    Probe(String),
}

impl Command {
    /// Parses a command line without the program's name.
    pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Result<Self> {
        let mut words = words.peekable();
        // Cargo passes the subcommand's own name first.
        words.next_if(|word| word == "kernpack");
        let mut parser = Parser::from_args(words);
        let name = name(&mut parser).map_err(|error| message(&error, "cargo kernpack"))?;
        let Some(name) = name else { return Ok(Self::Help(HELP)) };
        Self::of_name(&name, &mut parser).map_err(|error| message(&error, &format!("cargo kernpack {name}")))
    }

    fn of_name(name: &str, parser: &mut Parser) -> std::result::Result<Self, Error> {
        /// Parses the options of a command, or returns its help text.
        fn command<Options>(
            parsed: Parsed<Options>,
            command: fn(Options) -> Command,
            help: &'static str,
        ) -> std::result::Result<Command, Error> {
            Ok(parsed?.map_or(Command::Help(help), command))
        }
        match name {
            "inspect" => command(inspect::parse(parser), Self::Inspect, inspect::HELP),
            "wheel" => command(wheel::parse(parser), Self::Wheel, wheel::HELP),
            "develop" => command(wheel::parse_develop(parser), Self::Develop, wheel::DEVELOP_HELP),
            "new" => command(new::parse(parser), Self::New, new::HELP),
            "doctor" => command(doctor::parse(parser), Self::Doctor, doctor::HELP),
            "outputs" => command(outputs::parse(parser), Self::Outputs, outputs::HELP),
            "sbom" => command(sbom::parse(parser), Self::Sbom, sbom::HELP),
            "model" => command(model::parse(parser), Self::Model, model::HELP),
            "rpc" => command(rpc::parse(parser), Self::Rpc, rpc::HELP),
            PROBE => Ok(Self::Probe(parser.value()?.string()?)),
            DESCRIBE => Ok(Self::Describe { file: parser.value()?.into(), time: None }),
            TIME_MODELS => {
                let (file, shape) = (parser.value()?.into(), parser.value()?.string()?);
                Ok(Self::Describe { file, time: Some(Shape::parse(&shape)?) })
            }
            _ => Err(format!("unknown command `{name}`; see cargo kernpack --help").into()),
        }
    }
}

/// Parses the name of the command. `None` requests help.
fn name(parser: &mut Parser) -> Parsed<String> {
    match parser.next()? {
        None | Some(Arg::Short('h') | Arg::Long("help")) => Ok(None),
        Some(Arg::Value(name)) if name == "help" => Ok(None),
        // A name that is not UTF-8 is unknown, too.
        Some(Arg::Value(name)) => Ok(Some(name.to_string_lossy().into_owned())),
        Some(option) => Err(option.unexpected()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parse(line: &str) -> Result<Command> {
        Command::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn help_of_each_command() {
        for line in ["", "kernpack", "kernpack --help", "-h", "help"] {
            assert!(matches!(parse(line), Ok(Command::Help(HELP))), "{line}");
        }
        for command in ["inspect", "wheel", "develop", "new", "doctor", "outputs", "sbom", "model"] {
            for line in [format!("{command} --help"), format!("kernpack {command} -h"), format!("{command} --json -h")]
            {
                let Ok(Command::Help(text)) = parse(&line) else {
                    assert!(
                        ["new --json -h", "model --json -h", "sbom --json -h", "develop --json -h"]
                            .contains(&line.as_str()),
                        "{line}"
                    );
                    continue;
                };
                assert!(text.contains(&format!("\nUsage: cargo kernpack {command} ")), "{line}");
                assert!(HELP.contains(&format!("\n  {command} ")), "{command}");
            }
        }
    }

    #[test]
    fn commands() {
        assert!(matches!(parse("kernpack wheel --json"), Ok(Command::Wheel(_))));
        assert!(matches!(parse("develop --python p"), Ok(Command::Develop(_))));
        assert!(matches!(parse("new kit"), Ok(Command::New(_))));
        assert!(matches!(parse("doctor"), Ok(Command::Doctor(_))));
        assert!(matches!(parse("outputs --release"), Ok(Command::Outputs(_))));
        assert!(matches!(parse("kernpack rpc serve --port 0"), Ok(Command::Rpc(_))));
        assert!(matches!(parse("rpc --help"), Ok(Command::Help(rpc::HELP))));
        assert!(matches!(parse(&format!("{PROBE} cuda")), Ok(Command::Probe(kind)) if kind == "cuda"));
        assert!(
            matches!(parse(&format!("{DESCRIBE} a.so")), Ok(Command::Describe { file, time: None }) if file == Path::new("a.so"))
        );
        for (line, problem) in [
            ("look a", "unknown command `look`; see cargo kernpack --help"),
            ("kernpack kernpack", "unknown command `kernpack`; see cargo kernpack --help"),
            ("--load a", "unknown option `--load`; see cargo kernpack --help"),
            ("-l", "unknown option `-l`; see cargo kernpack --help"),
            ("inspect --lod a", "unknown option `--lod`; see cargo kernpack inspect --help"),
            ("develop --out d", "unknown option `--out`; see cargo kernpack develop --help"),
            ("wheel kit", "unexpected argument `kit`; see cargo kernpack wheel --help"),
        ] {
            assert_eq!(parse(line).unwrap_err(), problem, "{line}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn words_that_are_not_text() {
        use std::os::unix::ffi::OsStringExt;
        let bad = || OsString::from_vec(b"a\xff".to_vec());
        let parse = |words: [OsString; 3]| Command::parse(words.into_iter());
        assert_eq!(
            parse([bad(), "a".into(), "b".into()]).unwrap_err(),
            "unknown command `a\u{fffd}`; see cargo kernpack --help"
        );
        let problem = parse(["wheel".into(), "--name".into(), bad()]).unwrap_err();
        assert_eq!(problem, "`a\u{fffd}` is not UTF-8; see cargo kernpack wheel --help");
        let parsed = parse(["wheel".into(), "--out".into(), bad()]);
        assert!(matches!(parsed, Ok(Command::Wheel(options)) if options.out == Some(bad().into())));
    }
}
