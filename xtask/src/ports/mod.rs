//! `cargo xtask ports`: packages of PyPI that are made with PyO3, moved to our extension module and
//! judged by their own test suites.
//!
//! A folder of `tests/ports` with a `port.json` is a port: our binding, and the facts about the
//! package. Its tests come from the package's source archive, and run unchanged with our wheel and
//! with the wheel of PyPI. Nothing of the package is in the repository.

mod install;
mod measure;
mod port;
mod report;
mod sdist;
mod suite;

use crate::Result;
use crate::proved::{Choice, PORTS};
use crate::python::{self, Recipe};
use crate::workspace::Workspace;
use install::Installed;
use measure::Measured;
use port::Port;
use report::Row;
use sdist::Sdist;
use std::path::{Path, PathBuf};
use suite::Verdict;

/// The environment of the tests, without the packages that are tested.
const ENVIRONMENT: Recipe = Recipe {
    folder: "venv-ports",
    list: "xtask/requirements-ports.txt",
    packages: include_str!("../../requirements-ports.txt"),
};

/// The folder of the ports, from the root.
const FOLDER: &str = "tests/ports";

/// The two sides of a comparison.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// Our binding.
    Ours,
    /// The wheel of PyPI.
    Theirs,
}

impl Side {
    const ALL: [Side; 2] = [Side::Ours, Side::Theirs];

    /// The name of the side, in paths.
    fn name(self) -> &'static str {
        match self {
            Side::Ours => "ours",
            Side::Theirs => "theirs",
        }
    }
}

/// Runs these ports, or all; a pass of all is recorded.
pub(crate) fn run(names: &[&str]) -> Result {
    let workspace = Workspace::find()?;
    let all = Port::all(&workspace.root().join(FOLDER))?;
    let chosen = port::chosen(&all, names)?;
    let interpreter = python::environment(&workspace, &ENVIRONMENT)?;
    let program = install::cargo_kernpack(&workspace)?;
    let mut rows = Vec::new();
    let mut problems = Vec::new();
    for port in &chosen {
        let run = Run { workspace: &workspace, interpreter: &interpreter, port };
        match run.row(&program) {
            Ok((row, found)) => {
                rows.push(row);
                problems.extend(found);
            }
            Err(error) => problems.push(format!("{}: {error}", port.name)),
        }
    }
    if !rows.is_empty() {
        println!("\n{}", report::tables(&rows));
    }
    if !problems.is_empty() {
        return Err(format!("ports: failed:\n{}", problems.join("\n")).into());
    }
    if chosen.len() == all.len()
        && let Some(due) = PORTS.due(&workspace, Choice::EveryAndRecord)
    {
        due.passed()?;
    }
    Ok(())
}

/// The run of one port.
struct Run<'a> {
    workspace: &'a Workspace,
    interpreter: &'a Path,
    port: &'a Port,
}

impl Run<'_> {
    /// A folder below `target/ports` for files of this port.
    fn folder(&self, name: &str) -> Result<PathBuf> {
        self.workspace.folder(&format!("ports/{}/{name}", self.port.name))
    }

    /// Fetches, builds, tests and measures. Returns the row of the tables, and the tests that did
    /// not end as expected.
    fn row(&self, program: &Path) -> Result<(Row, Vec<String>)> {
        let sdist = Sdist::prepare(self)?;
        let installed = Installed::prepare(self, program)?;
        let [ours, theirs] = Side::ALL.map(|side| suite::run(self, &sdist, &installed, side));
        let verdict = Verdict::of(self.port, &ours?, &theirs?);
        let measured = Measured::of(self, &installed)?;
        let problems = verdict.problems.iter().map(|problem| format!("{}: {problem}", self.port.name)).collect();
        let lines = [port::lines(&self.port.folder)?, sdist.binding_lines];
        Ok((Row { port: self.port.title(), verdict, lines, measured }, problems))
    }
}
