//! `cargo xtask conformance`: the suites of apache-tvm-ffi's source archive, run with our
//! libtvm_ffi.so.
//!
//! The stock library's outcomes are files in `tests/conformance`; a test with another outcome with
//! our library is a failure.

mod baseline;
mod cpp;
mod gtest;
pub(crate) mod outcome;
mod python;
mod rust;
mod sdist;
mod subject;

use crate::Result;
use crate::workspace::Workspace;
use baseline::Baseline;
use outcome::Outcomes;
use sdist::Sdist;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;
use subject::{Choice, Subject};

/// The help text of the command.
pub(crate) const USAGE: &str =
    "usage: cargo xtask conformance [python | rust | cpp] [options] [-- arguments of the runner]

  --stock                the stock library instead of ours
  --library FILE         this libtvm_ffi.so of ours instead of a fresh build
  --filter TEXT          only tests with this text in their names (pytest: an expression as for -k)
  --env NAME=VALUE       a variable for the tests, such as LD_PRELOAD; cargo has it, too
  --update-baseline      run with the stock library and write tests/conformance/<suite>.txt
";

/// One suite of the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suite {
    /// `tests/python`, by pytest.
    Python,
    /// The crate in `rust`, by cargo.
    Rust,
    /// `tests/cpp`, by GoogleTest.
    Cpp,
}

impl Suite {
    const ALL: [Suite; 3] = [Suite::Python, Suite::Rust, Suite::Cpp];

    fn name(self) -> &'static str {
        match self {
            Suite::Python => "python",
            Suite::Rust => "rust",
            Suite::Cpp => "cpp",
        }
    }
}

/// The suites to run, and the options.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    suites: Vec<Suite>,
    choice: Choice,
    filter: Option<String>,
    variables: Vec<(String, String)>,
    rest: Vec<String>,
    updates_baseline: bool,
}

impl Run {
    /// All suites completely, with our library.
    pub(crate) fn everything() -> Self {
        Run::whole(&Suite::ALL)
    }

    fn whole(suites: &[Suite]) -> Self {
        Run {
            suites: suites.to_vec(),
            choice: Choice::Ours,
            filter: None,
            variables: Vec::new(),
            rest: Vec::new(),
            updates_baseline: false,
        }
    }

    /// Reads the words after `cargo xtask conformance`.
    pub(crate) fn parse(arguments: &[&str]) -> Result<Self> {
        let mut run = Run::everything();
        let mut words = arguments.iter();
        let mut suites = Vec::new();
        while let Some(&word) = words.next() {
            let mut value = || words.next().copied().ok_or(format!("{word}: expected a value\n{USAGE}"));
            match word {
                "--stock" => run.choice = Choice::Stock,
                "--library" => run.choice = Choice::File(value()?.into()),
                "--filter" => run.filter = Some(value()?.to_string()),
                "--env" => {
                    let (name, value) = value()?.split_once('=').ok_or("--env: expected NAME=VALUE")?;
                    run.variables.push((name.to_string(), value.to_string()));
                }
                "--update-baseline" => run.updates_baseline = true,
                "--" => run.rest = words.by_ref().map(ToString::to_string).collect(),
                _ => match Suite::ALL.into_iter().find(|suite| suite.name() == word) {
                    Some(suite) => suites.push(suite),
                    None => return Err(format!("unknown argument '{word}'\n{USAGE}").into()),
                },
            }
        }
        if !suites.is_empty() {
            run.suites = suites;
        }
        if run.updates_baseline {
            if matches!(run.choice, Choice::File(_)) || run.runs_only_some() {
                return Err("--update-baseline: runs every test, with the stock library".into());
            }
            run.choice = Choice::Stock;
        }
        Ok(run)
    }

    /// Returns whether tests are left out on purpose.
    fn runs_only_some(&self) -> bool {
        self.filter.is_some() || !self.rest.is_empty()
    }
}

/// Runs the suites, each regardless of the others' outcomes, and fails on any difference to the
/// stock library.
pub(crate) fn run(run: &Run) -> Result {
    let workspace = Workspace::find()?;
    let subject = Subject::prepare(&workspace, &run.choice)?;
    println!("libtvm_ffi.so: {}", subject.library().display());
    let sdist = Sdist::prepare(&workspace, &subject.interpreter)?;
    let mut differing = Vec::new();
    for &suite in &run.suites {
        let outcome = judge(&workspace, &sdist, &subject, suite, run);
        if let Err(error) = outcome {
            println!("{}: {error}", suite.name());
            differing.push(suite.name());
        }
    }
    if differing.is_empty() { Ok(()) } else { Err(format!("conformance: failed: {}", differing.join(", ")).into()) }
}

/// Runs one suite, prints its counts by file, and compares it with the stock library's.
fn judge(workspace: &Workspace, sdist: &Sdist, subject: &Subject, suite: Suite, run: &Run) -> Result {
    let start = Instant::now();
    let outcomes = run_suite(workspace, sdist, subject, suite, run)?;
    let setting = setting(workspace, subject, suite)?;
    let file = workspace.root().join(format!("tests/conformance/{}.txt", suite.name()));
    if run.updates_baseline {
        let command = format!("cargo xtask conformance {} --update-baseline", suite.name());
        print_counts(suite, &outcomes, None, start);
        let baseline = Baseline { setting, outcomes };
        baseline.write(&file, &command)?;
        println!("{}: wrote {}", suite.name(), file.display());
        return Ok(());
    }
    let baseline = match Baseline::read(&file)? {
        baseline if baseline.setting == setting => baseline,
        other => stock_baseline(workspace, sdist, suite, &setting, &other.setting)?,
    };
    let whole = Some(&baseline).filter(|_| !run.runs_only_some());
    print_counts(suite, &outcomes, whole, start);
    let differences = baseline.differences(&outcomes, run.runs_only_some());
    let list = subject.builds.join(format!("{}-differences.txt", suite.name()));
    let text: String = differences.iter().map(|line| format!("{line}\n")).collect();
    fs::write(&list, text).map_err(|error| format!("cannot write {}: {error}", list.display()))?;
    for difference in &differences {
        println!("  differs: {difference}");
    }
    match differences.len() {
        0 if outcomes.is_empty() => Err("no test ran".into()),
        0 => {
            println!("{}: no test differs from the stock library", suite.name());
            Ok(())
        }
        count => Err(format!("{count} tests differ from the stock library; list: {}", list.display()).into()),
    }
}

fn run_suite(workspace: &Workspace, sdist: &Sdist, subject: &Subject, suite: Suite, run: &Run) -> Result<Outcomes> {
    match suite {
        Suite::Python => python::run(workspace, sdist, subject, run),
        Suite::Rust => rust::run(workspace, sdist, subject, run),
        Suite::Cpp => cpp::run(workspace, sdist, subject, run),
    }
}

/// The properties of the machine that a suite's outcomes depend on.
fn setting(workspace: &Workspace, subject: &Subject, suite: Suite) -> Result<String> {
    match suite {
        Suite::Python => python::setting(workspace, subject),
        Suite::Rust | Suite::Cpp => Ok("any".to_string()),
    }
}

/// The stock library's outcomes for a setting that the file in the repository is not valid for:
/// computed once, below `target`.
fn stock_baseline(
    workspace: &Workspace,
    sdist: &Sdist,
    suite: Suite,
    setting: &str,
    in_repository: &str,
) -> Result<Baseline> {
    let name = suite.name();
    let file: PathBuf =
        workspace.folder("conformance")?.join(format!("{name}-{}.txt", setting.to_lowercase().replace(' ', "-")));
    if let Ok(baseline) = Baseline::read(&file) {
        return Ok(baseline);
    }
    println!(
        "{name}: the baseline in the repository is for {in_repository}, this is {setting}: the stock library runs first"
    );
    let subject = Subject::prepare(workspace, &Choice::Stock)?;
    let outcomes = run_suite(workspace, sdist, &subject, suite, &Run::whole(&[suite]))?;
    let baseline = Baseline { setting: setting.to_string(), outcomes };
    baseline.write(&file, "cargo xtask conformance")?;
    Ok(baseline)
}

/// Prints a line for each file, and one for the suite.
fn print_counts(suite: Suite, outcomes: &Outcomes, baseline: Option<&Baseline>, start: Instant) {
    let files = outcomes.by_file();
    let width = files.keys().map(|file| file.len()).max().unwrap_or_default();
    let stock = baseline.map(|baseline| baseline.outcomes.by_file()).unwrap_or_default();
    for (file, counts) in &files {
        match stock.get(file) {
            Some(expected) if expected != counts => println!("  {file:width$}  {counts}   (stock: {expected})"),
            _ => println!("  {file:width$}  {counts}"),
        }
    }
    let stock = baseline.map(|baseline| format!("; stock: {}", baseline.outcomes.counts())).unwrap_or_default();
    println!("{}: {} in {:.0} s{stock}", suite.name(), outcomes.counts(), start.elapsed().as_secs_f64());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments() {
        assert_eq!(Run::parse(&[]).unwrap(), Run::everything());
        assert_eq!(Run::parse(&["cpp", "rust"]).unwrap(), Run::whole(&[Suite::Cpp, Suite::Rust]));
        let run = Run::parse(&[
            "python",
            "--library",
            "/x.so",
            "--filter",
            "a or b",
            "--env",
            "A=b=c",
            "--",
            "-x",
            "--stock",
        ])
        .unwrap();
        assert_eq!(run.choice, Choice::File("/x.so".into()));
        assert_eq!(run.filter.as_deref(), Some("a or b"));
        assert_eq!(run.variables, [("A".to_string(), "b=c".to_string())]);
        assert_eq!(run.rest, ["-x", "--stock"]);
        assert!(run.runs_only_some());
        let run = Run::parse(&["rust", "--update-baseline"]).unwrap();
        assert_eq!((run.choice, run.updates_baseline), (Choice::Stock, true));
    }

    #[test]
    fn arguments_that_make_no_sense() {
        for (arguments, expected) in [
            (&["go"][..], "unknown argument 'go'"),
            (&["--filter"], "--filter: expected a value"),
            (&["--env", "A"], "--env: expected NAME=VALUE"),
            (&["--update-baseline", "--filter", "a"], "--update-baseline: runs every test"),
            (&["--library", "/x.so", "--update-baseline"], "--update-baseline: runs every test"),
        ] {
            let error = Run::parse(arguments).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
