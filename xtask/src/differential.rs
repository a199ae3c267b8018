//! `cargo xtask differential`: random operators, graphs and near misses of rewritten patterns,
//! compared with onnxruntime and ONNX's reference evaluator; random integer expressions, compared
//! with NumPy.

use crate::Result;
use crate::python::{self, Recipe};
use crate::step::{self, Show};
use crate::workspace::{Workspace, shared_library};
use std::time::{SystemTime, UNIX_EPOCH};

/// The environment with the reference implementations.
const JUDGES: Recipe = Recipe {
    folder: "venv-differential",
    list: "xtask/requirements-differential.txt",
    packages: include_str!("../requirements-differential.txt"),
};

/// The same with PyTorch and transformers, whose exporters write models: 5 GB, so it is installed
/// only on request.
const EXPORTERS: Recipe = Recipe {
    folder: "venv-exporters",
    list: "xtask/requirements-exporters.txt",
    packages: include_str!("../requirements-exporters.txt"),
};

/// The same with scikit-learn, and skl2onnx, which writes its models as ONNX.
const ESTIMATORS: Recipe = Recipe {
    folder: "venv-estimators",
    list: "xtask/requirements-estimators.txt",
    packages: include_str!("../requirements-estimators.txt"),
};

/// The kind of cases that skl2onnx writes.
const LEARNED: &str = "estimators";

/// The kind of cases that exporters write, and the reason why other runs leave it out.
const EXPORTED: &str = "exporters";
const WITHOUT_EXPORTERS: &str = "skipped: models that torch.onnx writes, of PyTorch and transformers (they are 5 GB below target/): cargo xtask differential --exporters";

/// The program for models, and the known differences.
const PROGRAM: &str = "tests/differential/run.py";
const KNOWN: &str = "tests/differential/known.txt";

/// The program for the table of exporters, networks and dynamic axes.
const TABLE: &str = "tests/differential/table.py";

/// The program for integer expressions, and the number of them that run before the models.
const INTEGERS: &str = "tests/differential/integers.py";
const EXPRESSIONS: u32 = 2000;

/// From this number of expressions on, an optimized compiler is built: that takes minutes, and
/// saves hours for a million expressions.
const MANY_EXPRESSIONS: u32 = 50_000;

/// The help text of the command.
const USAGE: &str = "usage: cargo xtask differential [options | --table [--write] [--word WORD] | --replay NAME..]

  --seconds N   for how long (default 300)
  --cases N     how many cases, instead
  --seed N      the first case (default: one that no run had before; it is printed)
  --kind KIND   operators, graphs, near_misses, quantized or learned only; may be repeated. Operators of ai.onnx.ml (learned) are compared only
                with this option
  --exporters   networks of PyTorch and architectures of transformers with random weights only, as both exporters of torch.onnx write them;
                PyTorch is installed into target/venv-exporters: 5 GB
  --estimators  models of scikit-learn only, as skl2onnx writes them, which is installed into target/venv-estimators
  --word WORD   only operators and patterns with this word in their names
  --integers N  only integer expressions, N of them, with an optimized compiler from 50,000 on; without --kind and --word,
                2000 of them are compared first
  --table       networks as both exporters of torch.onnx write them with dynamic axes, beside tests/differential/table.md; needs PyTorch, like
                --exporters; --write writes the file, --word takes only networks with this word in their names
  --replay NAME..  these cases again, by the names that a run has printed
";

/// The packages that cases need, beside the judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packages {
    None,
    Exporters,
    Estimators,
}

impl Packages {
    /// Returns the packages of the first kind of cases that needs some.
    fn of(is_needed: impl Fn(&str) -> bool) -> Self {
        match () {
            () if is_needed(EXPORTED) => Self::Exporters,
            () if is_needed(LEARNED) => Self::Estimators,
            () => Self::None,
        }
    }

    fn environment(self) -> &'static Recipe {
        match self {
            Self::None => &JUDGES,
            Self::Exporters => &EXPORTERS,
            Self::Estimators => &ESTIMATORS,
        }
    }
}

/// The programs to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Each program with its arguments.
    programs: Vec<(&'static str, Vec<String>)>,
    /// The packages that the cases need.
    packages: Packages,
    /// True if the compiler is built with optimization.
    release: bool,
}

impl Run {
    /// Reads the words after `cargo xtask differential`. `now` is the default seed.
    pub(crate) fn parse(words: &[&str], now: u64) -> Result<Self> {
        if let ["--replay", names @ ..] = words {
            if names.is_empty() || names.iter().any(|name| name.split('/').count() != 3) {
                return Err(format!("--replay: expected names such as operators/Conv/17\n{USAGE}").into());
            }
            let is_of = |kind: &str| names.iter().any(|name| name.split('/').next() == Some(kind));
            let packages = Packages::of(is_of);
            if packages == Packages::Exporters && is_of(LEARNED) {
                return Err(format!("--replay: cases of {EXPORTED} and of {LEARNED} need a run each\n{USAGE}").into());
            }
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            return Ok(Self { programs: vec![(PROGRAM, words)], packages, release: false });
        }
        if let ["--table", rest @ ..] = words {
            let fits = matches!(rest, [] | ["--write"] | ["--word", _]);
            if !fits {
                return Err(format!("--table: goes with --write or --word alone\n{USAGE}").into());
            }
            let rest = rest.iter().map(|word| (*word).to_owned()).collect();
            return Ok(Self { programs: vec![(TABLE, rest)], packages: Packages::Exporters, release: false });
        }
        let (mut limit, mut seed, mut rest, mut integers) = (None, now.to_string(), Vec::new(), None);
        let mut packages = Packages::None;
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
                "--integers" => integers = Some(positive(option, value()?)?),
                "--exporters" if packages != Packages::Estimators => packages = Packages::Exporters,
                "--estimators" if packages != Packages::Exporters => packages = Packages::Estimators,
                "--exporters" | "--estimators" => {
                    return Err(format!("--exporters: does not go with --estimators\n{USAGE}").into());
                }
                "--kind" | "--word" => rest.extend([option.to_owned(), value()?.to_owned()]),
                _ => return Err(format!("unknown argument '{option}'\n{USAGE}").into()),
            }
        }
        let own = match packages {
            Packages::None => None,
            Packages::Exporters => Some(EXPORTED),
            Packages::Estimators => Some(LEARNED),
        };
        if let Some(kind) = own {
            if rest.iter().any(|word| word == "--kind") {
                return Err(format!("--{kind}: does not go with --kind: it is a kind of its own\n{USAGE}").into());
            }
            rest.extend(["--kind", kind].map(str::to_owned));
        }
        let is_all = rest.is_empty();
        let with_seed =
            |option: &str, count: u32| vec![option.to_owned(), count.to_string(), "--seed".to_owned(), seed.clone()];
        if let Some(count) = integers {
            if limit.is_some() || !is_all {
                return Err(format!("--integers: goes with --seed alone\n{USAGE}").into());
            }
            let programs = vec![(INTEGERS, with_seed("--cases", count))];
            return Ok(Self { programs, packages, release: count >= MANY_EXPRESSIONS });
        }
        let (option, count) = limit.unwrap_or(("--seconds", 300));
        let models = (PROGRAM, [with_seed(option, count), rest].concat());
        let expressions = is_all.then(|| (INTEGERS, with_seed("--cases", EXPRESSIONS)));
        Ok(Self { programs: expressions.into_iter().chain([models]).collect(), packages, release: false })
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
    // At most nine digits, so that the names of cases stay short.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() % 1_000_000_000);
    let run = Run::parse(words, now)?;
    let workspace = Workspace::find()?;
    let interpreter = python::environment(&workspace, run.packages.environment())?;
    if run.packages == Packages::None {
        println!("{WITHOUT_EXPORTERS}");
    }
    let mut cargo = workspace.cargo("build");
    if run.release {
        cargo.args(["--release", "--package", "python-compiler", "--lib"]);
    } else {
        // Built as the tests of the workspace build it, so that it is built once.
        cargo.args(["--workspace", "--lib", "--test", "new"]);
    }
    step::run("build examples/python-compiler", &mut cargo, Show::Warnings)?;
    let profile = if run.release { "release" } else { "debug" };
    let library = shared_library(&workspace.cargo_target().join(profile), "python_compiler");
    for (program, arguments) in run.programs {
        println!("{program} {}", arguments.join(" "));
        let mut command = workspace.command(&interpreter);
        command.arg(program).args(arguments);
        if program == PROGRAM {
            command.arg("--known").arg(KNOWN).arg("--folder").arg(workspace.folder("differential")?);
        }
        command.env("PYTHON_COMPILER_LIBRARY", &library).env("PYTHONDONTWRITEBYTECODE", "1");
        step::run(program, &mut command, Show::Lines)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> String {
        let line = |(program, arguments): &(&str, Vec<String>)| {
            let name = program.trim_start_matches("tests/differential/").trim_end_matches(".py");
            format!("{name} {}", arguments.join(" "))
        };
        Run::parse(words, 7)
            .map_or_else(|error| error.to_string(), |run| run.programs.iter().map(line).collect::<Vec<_>>().join("; "))
    }

    #[test]
    fn arguments() {
        assert_eq!(parsed(&[]), "integers --cases 2000 --seed 7; run --seconds 300 --seed 7");
        assert_eq!(parsed(&["--cases", "9", "--seed", "3", "--word", "Conv"]), "run --cases 9 --seed 3 --word Conv");
        assert_eq!(parsed(&["--integers", "50", "--seed", "3"]), "integers --cases 50 --seed 3");
        assert_eq!(parsed(&["--replay", "operators/Conv/17"]), "run --replay operators/Conv/17");
        assert_eq!(parsed(&["--table", "--word", "BERT"]), "table --word BERT");
        assert_eq!(Run::parse(&["--table", "--write"], 7).unwrap().packages, Packages::Exporters);
        assert_eq!(
            parsed(&["--exporters", "--seed", "3", "--word", "images"]),
            "run --seconds 300 --seed 3 --word images --kind exporters"
        );
        assert_eq!(
            parsed(&["--estimators", "--seed", "3", "--word", "forest"]),
            "run --seconds 300 --seed 3 --word forest --kind estimators"
        );
        for (case, packages) in [
            ("exporters/images_traced/3", Packages::Exporters),
            ("estimators/svc/3", Packages::Estimators),
            ("operators/Conv/3", Packages::None),
        ] {
            assert_eq!(Run::parse(&["--replay", case], 7).unwrap().packages, packages);
        }
        for (count, release) in [("49999", false), ("50000", true)] {
            assert_eq!(Run::parse(&["--integers", count], 7).unwrap().release, release, "{count}");
        }
        for (words, wanted) in [
            (&["--exporters", "--kind", "graphs"][..], "--exporters: does not go with --kind"),
            (&["--exporters", "--integers", "9"], "--integers: goes with --seed alone"),
            (&["--exporters", "--estimators"], "--exporters: does not go with --estimators"),
            (&["--estimators", "--kind", "graphs"], "--estimators: does not go with --kind"),
            (
                &["--replay", "estimators/svc/3", "exporters/images_traced/3"],
                "--replay: cases of exporters and of estimators",
            ),
            (&["--table", "--seed", "3"], "--table: goes with --write or --word alone"),
            (&["--table", "--write", "--word", "BERT"], "--table: goes with --write or --word alone"),
            (&["--replay"], "--replay: expected names such as operators/Conv/17"),
            (&["--replay", "17"], "--replay: expected names such as operators/Conv/17"),
            (&["--seconds", "0"], "--seconds: expected a positive number, got '0'"),
            (&["--seed", "-1"], "--seed: expected a number below 2^32, got '-1'"),
            (&["--cases"], "--cases: a value is missing"),
            (&["--integers", "9", "--cases", "9"], "--integers: goes with --seed alone"),
            (&["--fast"], "unknown argument '--fast'"),
        ] {
            assert!(parsed(words).starts_with(wanted), "{}", parsed(words));
        }
    }
}
