//! The package's own tests, with both packages, and the comparison of their outcomes.

use super::install::Installed;
use super::port::Port;
use super::sdist::Sdist;
use super::{FOLDER, Run, Side};
use crate::Result;
use crate::conformance::outcome::{Outcome, Outcomes};
use crate::pytest;
use crate::step::{self, Show};
use std::fs;
use std::time::Duration;

/// The time limit of a suite: the longest one takes seconds.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs the tests with one of the packages.
pub(super) fn run(run: &Run, sdist: &Sdist, installed: &Installed, side: Side) -> Result<Outcomes> {
    let record = run.folder("record")?.join(format!("{}.tsv", side.name()));
    fs::write(&record, "").map_err(|error| format!("cannot write {}: {error}", record.display()))?;
    let mut command = run.workspace.command(run.interpreter);
    // No configuration file above the tests counts.
    pytest::arguments(&mut command).args(["-q", "-p", "kernpack_ports", "-c", "/dev/null", "--rootdir", "."]);
    command.args(&run.port.tests).current_dir(&sdist.folder);
    let paths = [installed.folder(side), &run.workspace.root().join(FOLDER).join("pytest")];
    command.env("PYTHONPATH", std::env::join_paths(paths)?).env("KERNPACK_PORTS_RECORD", &record);
    command.env("KERNPACK_PORTS_MODULE", &run.port.module).env("KERNPACK_PORTS_FOLDER", installed.folder(side));
    let name = format!("tests of {}, {}", run.port.title(), side.name());
    step::watch_within(LIMIT, &name, &mut command, Show::Warnings)?;
    let text = fs::read_to_string(&record).map_err(|error| format!("cannot read {}: {error}", record.display()))?;
    read(&text).map_err(|error| format!("{name}: {error}").into())
}

/// Reads the record that the plugin of pytest wrote. It is an error if the tests ran with another
/// module, or did not end.
fn read(record: &str) -> Result<Outcomes> {
    let mut outcomes = Outcomes::default();
    let (mut imported, mut ended) = (false, false);
    for line in record.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields[..] {
            ["test", word, id, detail] => {
                let outcome = Outcome::from_word(word).ok_or_else(|| format!("{id}: unknown outcome '{word}'"))?;
                outcomes.note(id, outcome, detail);
            }
            ["module", "expected", _] => imported = true,
            ["module", _, path] => return Err(format!("the tests ran with {path}").into()),
            ["end"] => ended = true,
            _ => return Err(format!("a line that is not a record: {line}").into()),
        }
    }
    match () {
        () if !ended => Err("pytest ended early".into()),
        () if outcomes.is_empty() => Err("no test ran".into()),
        () if !imported && outcomes.iter().any(|(_, ended)| ended.outcome == Outcome::Passed) => {
            Err("the tests did not import the module".into())
        }
        () => Ok(outcomes),
    }
}

/// The number of tests that passed with each package, and what is not as expected.
pub(super) struct Verdict {
    /// Tests that passed, ours and theirs.
    pub(super) passed: [usize; 2],
    /// The tests that PyO3's wheel ran.
    pub(super) tests: usize,
    /// The tests whose outcomes are not as expected.
    pub(super) problems: Vec<String>,
}

impl Verdict {
    /// Compares the outcomes. Ours must be theirs, except for the failures that the port lists;
    /// these must fail.
    pub(super) fn of(port: &Port, ours: &Outcomes, theirs: &Outcomes) -> Self {
        let mut problems = Vec::new();
        for (id, ended) in theirs.iter().filter(|(_, ended)| fails(ended.outcome)) {
            problems.push(format!("{id}: {} with PyO3's wheel: {}", ended.outcome.word(), ended.detail));
        }
        for (id, expected) in theirs.iter().filter(|(_, ended)| !fails(ended.outcome)) {
            let is_listed = port.failures.contains_key(id);
            match ours.get(id) {
                None => problems.push(format!("{id}: did not run with our binding")),
                Some(ended) if fails(ended.outcome) && is_listed => {}
                Some(ended) if ended.outcome == expected.outcome && !is_listed => {}
                Some(ended) if is_listed => {
                    problems.push(format!("{id}: {}, but port.json lists it as a failure", ended.outcome.word()));
                }
                Some(ended) => problems.push(format!("{id}: {}: {}", ended.outcome.word(), ended.detail)),
            }
        }
        for (id, ended) in ours.iter().filter(|(id, _)| theirs.get(id).is_none()) {
            problems.push(format!(
                "{id}: {}, but did not run with PyO3's wheel: {}",
                ended.outcome.word(),
                ended.detail
            ));
        }
        for id in port.failures.keys().filter(|id| theirs.get(id).is_none()) {
            problems.push(format!("{id}: port.json lists it as a failure, but there is no such test"));
        }
        let passed =
            [ours, theirs].map(|side| side.iter().filter(|(_, ended)| ended.outcome == Outcome::Passed).count());
        Self { passed, tests: theirs.iter().count(), problems }
    }
}

fn fails(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Failed | Outcome::Error | Outcome::Crashed | Outcome::Xpassed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    fn port(failures: &[&str]) -> Port {
        Port {
            name: "kit".into(),
            folder: PathBuf::new(),
            version: "1.2".into(),
            sdist: String::new(),
            sha256: String::new(),
            module: "kit".into(),
            tests: Vec::new(),
            binding: Vec::new(),
            failures: failures.iter().map(|id| ((*id).to_owned(), "why".to_owned())).collect::<BTreeMap<_, _>>(),
            calls: Vec::new(),
        }
    }

    fn outcomes(text: &str) -> Outcomes {
        let mut outcomes = Outcomes::default();
        for (id, word) in text.split(' ').filter_map(|pair| pair.split_once('=')) {
            outcomes.note(id, Outcome::from_word(word).unwrap(), "x");
        }
        outcomes
    }

    #[test]
    fn outcomes_are_compared() {
        for (failures, ours, theirs, expected) in [
            (&[][..], "a=passed b=skipped", "a=passed b=skipped", &[][..]),
            (&[], "a=failed", "a=passed", &["a: failed: x"]),
            (&["a"], "a=failed b=passed", "a=passed b=passed", &[]),
            (&["a"], "a=passed", "a=passed", &["a: passed, but port.json lists it as a failure"]),
            (&["c"], "a=passed", "a=passed", &["c: port.json lists it as a failure, but there is no such test"]),
            (&[], "a=skipped", "a=passed", &["a: skipped: x"]),
            (&[], "", "a=passed", &["a: did not run with our binding"]),
            (&[], "a=passed b=error", "a=passed", &["b: error, but did not run with PyO3's wheel: x"]),
            (&[], "a=passed", "a=failed", &["a: failed with PyO3's wheel: x"]),
        ] {
            let verdict = Verdict::of(&port(failures), &outcomes(ours), &outcomes(theirs));
            assert_eq!(verdict.problems, expected, "{ours} beside {theirs}");
        }
        let verdict = Verdict::of(&port(&["b"]), &outcomes("a=passed b=failed"), &outcomes("a=passed b=passed"));
        assert_eq!((verdict.passed, verdict.tests), ([1, 2], 2));
    }

    #[test]
    fn records() {
        let module = "module\texpected\t/a/kit.so\n";
        let record = read(&format!("{module}test\tpassed\ta.py::b[c d]\t\nend\n")).unwrap();
        assert_eq!(record.counts().to_string(), "1 passed, 0 failed");
        for (record, expected) in [
            ("module\tother\t/usr/kit.so\n", "the tests ran with /usr/kit.so"),
            ("test\tpassed\ta.py::b\t\nend\n", "the tests did not import the module"),
            ("test\tpassed\ta.py::b\t\n", "pytest ended early"),
            ("end\n", "no test ran"),
            ("test\tgood\ta.py::b\t\n", "a.py::b: unknown outcome 'good'"),
            ("a word\n", "a line that is not a record: a word"),
        ] {
            assert_eq!(read(record).unwrap_err().to_string(), expected);
        }
    }
}
