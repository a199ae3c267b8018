//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::{Result, doctor, new, outputs, wheel};

pub(crate) const HELP: &str = "\
Works with libraries of packed functions.

Usage: cargo kernpack COMMAND [OPTIONS]

Commands:
  inspect     what a library holds, read without running it
  wheel       build a Python wheel around a package's library
  new         start a crate that builds and passes its tests
  doctor      what this machine has and lacks for building libraries
  outputs     what build scripts made of kernels, and where it is

cargo kernpack COMMAND --help says more.
";

pub(crate) const INSPECT_HELP: &str = "\
What a shared library of packed functions holds, made by Kernpack, Apache TVM or C++.

Usage: cargo kernpack inspect [OPTIONS] FILE

Options:
      --load                 also load the library, in a process of its own, for signatures, documentation and types.
                             Loading RUNS CODE of the library (its constructors): only for files that you trust.
                             Without --load the file is only read, and nothing in it runs
      --json                 print JSON (the README of kernpack-cli describes it)
      --svg OUT              write a picture of the import tree
      --extract IMAGE        write a module's image: IMAGE is its number in the tree, or its kind if only one has it
  -o, --output FILE          where --extract writes
  -h, --help                 print this
";

/// What to do.
#[derive(Debug)]
pub(crate) enum Command {
    /// Print this text.
    Help(&'static str),
    Inspect(Inspect),
    Wheel(wheel::Options),
    New(new::Options),
    Doctor(doctor::Options),
    Outputs(outputs::Options),
    /// In the process that `--load` starts.
    Describe(PathBuf),
    /// In the process that `doctor` starts.
    Probe(String),
}

#[derive(Debug, Default)]
pub(crate) struct Inspect {
    pub(crate) file: PathBuf,
    pub(crate) load: bool,
    pub(crate) json: bool,
    pub(crate) svg: Option<PathBuf>,
    pub(crate) extract: Option<String>,
    pub(crate) out: Option<PathBuf>,
}

/// The command of [`Command::Probe`].
pub(crate) const PROBE: &str = "probe-in-this-process";

/// The command of [`Command::Describe`].
pub(crate) const DESCRIBE: &str = "describe-in-this-process";

pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Command> {
    let mut arguments = arguments.peekable();
    // Cargo passes the subcommand's own name first.
    arguments.next_if(|argument| argument == "kernpack");
    let command = arguments.next();
    match command.as_ref().and_then(|command| command.to_str()) {
        None | Some("-h" | "--help" | "help") if command.as_ref().is_none_or(|command| command.to_str().is_some()) => {
            return Ok(Command::Help(HELP));
        }
        Some("inspect") => {}
        Some("wheel") => return Ok(wheel::parse(arguments)?.map_or(Command::Help(wheel::HELP), Command::Wheel)),
        Some("new") => return Ok(new::parse(arguments)?.map_or(Command::Help(new::HELP), Command::New)),
        Some("doctor") => return Ok(doctor::parse(arguments)?.map_or(Command::Help(doctor::HELP), Command::Doctor)),
        Some("outputs") => return Ok(outputs::parse(arguments)?.map_or(Command::Help(outputs::HELP), Command::Outputs)),
        Some(PROBE) => return Ok(Command::Probe(value(&mut arguments, PROBE)?.to_string_lossy().into_owned())),
        Some(DESCRIBE) => return Ok(Command::Describe(value(&mut arguments, DESCRIBE)?.into())),
        _ => return Err(format!("there is no command {command:?}; see cargo kernpack --help")),
    }
    let mut options = Inspect::default();
    let mut file = None;
    let mut only_files = false;
    while let Some(argument) = arguments.next() {
        match argument.to_str().filter(|_| !only_files) {
            Some("-h" | "--help") => return Ok(Command::Help(INSPECT_HELP)),
            Some("--") => only_files = true,
            Some("--load") => options.load = true,
            Some("--json") => options.json = true,
            Some("--svg") => options.svg = Some(value(&mut arguments, "--svg")?.into()),
            Some("--extract") => {
                options.extract = Some(value(&mut arguments, "--extract")?.to_string_lossy().into_owned());
            }
            Some("-o" | "--output") => options.out = Some(value(&mut arguments, "-o")?.into()),
            Some(option) if option.starts_with('-') => {
                return Err(format!("there is no option {option}; see cargo kernpack --help"));
            }
            _ if file.is_some() => return Err("one FILE at a time".to_owned()),
            _ => file = Some(argument.into()),
        }
    }
    options.file = file.ok_or("inspect needs a FILE; see cargo kernpack --help")?;
    match (&options.extract, &options.out) {
        (Some(_), None) => Err("--extract needs -o FILE".to_owned()),
        (None, Some(_)) => Err("-o is where --extract writes; there is no --extract".to_owned()),
        _ => Ok(Command::Inspect(options)),
    }
}

fn value(arguments: &mut impl Iterator<Item = OsString>, option: &str) -> Result<OsString> {
    arguments.next().ok_or_else(|| format!("{option} needs a value; see cargo kernpack --help"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines() {
        let parse = |line: &str| parse(line.split_whitespace().map(OsString::from));
        assert!(matches!(parse(""), Ok(Command::Help(HELP))));
        assert!(matches!(parse("kernpack --help"), Ok(Command::Help(HELP))));
        assert!(matches!(parse("kernpack inspect a.so --json"), Ok(Command::Inspect(i)) if i.json && !i.load));
        assert!(matches!(parse("inspect -- --load"), Ok(Command::Inspect(i)) if i.file.as_os_str() == "--load"));
        for (line, problem) in [
            ("inspect", "inspect needs a FILE; see cargo kernpack --help"),
            ("inspect a b", "one FILE at a time"),
            ("inspect a --svg", "--svg needs a value; see cargo kernpack --help"),
            ("inspect a --extract 1", "--extract needs -o FILE"),
            ("inspect a -o x", "-o is where --extract writes; there is no --extract"),
            ("inspect --lod a", "there is no option --lod; see cargo kernpack --help"),
            ("look a", "there is no command Some(\"look\"); see cargo kernpack --help"),
        ] {
            assert_eq!(parse(line).unwrap_err(), problem);
        }
    }
}
