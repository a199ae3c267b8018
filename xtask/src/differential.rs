//! `cargo xtask differential`: random operators, graphs and near misses of what rules rewrite, beside onnxruntime and ONNX's reference evaluator.

use crate::Result;
use crate::python::{self, Recipe};
use crate::step::{self, Show};
use crate::workspace::{Workspace, shared_library};
use std::time::{SystemTime, UNIX_EPOCH};

/// The environment with the judges.
const JUDGES: Recipe = Recipe {
    folder: "venv-differential",
    list: "xtask/requirements-differential.txt",
    packages: include_str!("../requirements-differential.txt"),
};

/// The program, and what it is known to find.
const PROGRAM: &str = "tests/differential/run.py";
const KNOWN: &str = "tests/differential/known.txt";

/// How to call it.
const USAGE: &str = "usage: cargo xtask differential [options | --replay NAME..]

  --seconds N   for how long (default 300)
  --cases N     how many cases, instead
  --seed N      the first case (default: one that no run had before; it is printed)
  --kind KIND   operators, graphs or near_misses only; may be repeated
  --word WORD   only operators and patterns with this word in their names
  --replay NAME..  these cases again, by the names that a run has printed
";

/// What to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Arguments of the program.
    arguments: Vec<String>,
}

impl Run {
    /// Reads the words after `cargo xtask differential`. `now` is the seed where none is given.
    pub(crate) fn parse(words: &[&str], now: u64) -> Result<Self> {
        if let ["--replay", names @ ..] = words {
            if names.is_empty() || names.iter().any(|name| name.split('/').count() != 3) {
                return Err(format!("--replay: expected names such as operators/Conv/17\n{USAGE}").into());
            }
            return Ok(Self { arguments: words.iter().map(|word| (*word).to_owned()).collect() });
        }
        let (mut limit, mut seed, mut rest) = (None, now.to_string(), Vec::new());
        let mut words = words.iter();
        while let Some(&option) = words.next() {
            let mut value = || words.next().copied().ok_or_else(|| format!("{option}: a value is missing\n{USAGE}"));
            match option {
                "--seconds" | "--cases" => limit = Some((option, positive(option, value()?)?)),
                "--seed" => {
                    let text = value()?;
                    seed = text
                        .parse::<u32>()
                        .map_err(|_| format!("--seed: expected a number below 2^32, got '{text}'"))?
                        .to_string();
                }
                "--kind" | "--word" => rest.extend([option.to_owned(), value()?.to_owned()]),
                _ => return Err(format!("unknown argument '{option}'\n{USAGE}").into()),
            }
        }
        let (option, count) = limit.unwrap_or(("--seconds", 300));
        let mut arguments = vec![option.to_owned(), count.to_string(), "--seed".to_owned(), seed];
        arguments.append(&mut rest);
        Ok(Self { arguments })
    }
}

fn positive(option: &str, text: &str) -> Result<u32> {
    match text.parse() {
        Ok(count @ 1..) => Ok(count),
        _ => Err(format!("{option}: expected a positive number, got '{text}'").into()),
    }
}

/// Builds the compiler as a library, and compares.
pub(crate) fn run(words: &[&str]) -> Result {
    // A number of up to nine digits, so that the names of cases stay short.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() % 1_000_000_000);
    let run = Run::parse(words, now)?;
    let workspace = Workspace::find()?;
    let interpreter = python::environment(&workspace, &JUDGES)?;
    // As the tests of the workspace build it, so that it is built once.
    let mut cargo = workspace.cargo("build");
    cargo.args(["--workspace", "--lib", "--test", "new"]);
    step::run("build examples/python-compiler", &mut cargo, Show::Warnings)?;
    let library = shared_library(&workspace.cargo_target().join("debug"), "python_compiler");
    println!("differential: {}", run.arguments.join(" "));
    let mut program = workspace.command(&interpreter);
    program.arg(PROGRAM).arg("--known").arg(KNOWN).arg("--folder").arg(workspace.folder("differential")?);
    program.args(&run.arguments).env("PYTHON_COMPILER_LIBRARY", library).env("PYTHONDONTWRITEBYTECODE", "1");
    step::run("differential", &mut program, Show::Lines).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> String {
        Run::parse(words, 7).map_or_else(|error| error.to_string(), |run| run.arguments.join(" "))
    }

    #[test]
    fn arguments() {
        assert_eq!(parsed(&[]), "--seconds 300 --seed 7");
        assert_eq!(parsed(&["--cases", "9", "--seed", "3", "--word", "Conv"]), "--cases 9 --seed 3 --word Conv");
        assert_eq!(parsed(&["--replay", "operators/Conv/17"]), "--replay operators/Conv/17");
        for (words, wanted) in [
            (&["--replay"][..], "--replay: expected names such as operators/Conv/17"),
            (&["--replay", "17"], "--replay: expected names such as operators/Conv/17"),
            (&["--seconds", "0"], "--seconds: expected a positive number, got '0'"),
            (&["--seed", "-1"], "--seed: expected a number below 2^32, got '-1'"),
            (&["--cases"], "--cases: a value is missing"),
            (&["--fast"], "unknown argument '--fast'"),
        ] {
            assert!(parsed(words).starts_with(wanted), "{}", parsed(words));
        }
    }
}
