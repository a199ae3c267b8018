//! The Python suite of the reference archive.

use super::Run;
use super::outcome::{Outcome, Outcomes};
use super::sdist::Sdist;
use super::subject::Subject;
use crate::Result;
use crate::python;
use crate::step::{self, Show};
use crate::workspace::Workspace;
use std::fs;
use std::path::Path;
use std::thread::available_parallelism;
use std::time::Duration;

/// The time limit of a test: its process is killed after it. The longest test builds the reference
/// Rust crate.
const SECONDS_FOR_A_TEST: u64 = 900;

/// The time limit of the suite, which takes half a minute on two fast cores.
const LIMIT: Duration = Duration::from_secs(3600);

/// The Python version, which the outcomes depend on: some tests are skipped on some versions.
pub(crate) fn setting(workspace: &Workspace, subject: &Subject) -> Result<String> {
    python::say(workspace, &subject.interpreter, "import sys; print('Python %d.%d' % sys.version_info[:2])")
}

/// Runs the suite, in one process per core. If a process dies, only its current test is lost.
pub(crate) fn run(workspace: &Workspace, sdist: &Sdist, subject: &Subject, run: &Run) -> Result<Outcomes> {
    let record = subject.builds.join("python-record.tsv");
    fs::write(&record, "").map_err(|error| format!("cannot write {}: {error}", record.display()))?;
    let processes = available_parallelism().map_or(1, usize::from).min(8);
    let mut pytest = subject.command(workspace, &subject.interpreter)?;
    pytest
        .args([
            "-m",
            "pytest",
            "--color=no",
            "--tb=short",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "kernpack_conformance",
        ])
        .args(["-n", &processes.to_string(), "--max-worker-restart=10000", "--continue-on-collection-errors"])
        .args([&format!("--timeout={SECONDS_FOR_A_TEST}"), "--timeout-method=thread"])
        .current_dir(sdist.folder())
        .env("PYTHONPATH", workspace.root().join("tests/conformance/python"))
        .env("KERNPACK_CONFORMANCE_RECORD", &record)
        .envs(run.variables.iter().map(|(name, value)| (name, value)));
    if let Some(filter) = &run.filter {
        pytest.args(["-k", filter]);
    }
    let names_files = run.rest.iter().any(|argument| argument.starts_with("tests/") || argument.contains(".py"));
    pytest.args(&run.rest).args((!names_files).then_some("tests/python"));
    step::watch_within(LIMIT, "pytest tests/python", &mut pytest, Show::Lines)?;
    let text = fs::read_to_string(&record).map_err(|error| format!("cannot read {}: {error}", record.display()))?;
    read(&text, subject)
}

/// Reads the record of `kernpack_conformance.py`. It is an error if a process had another library
/// than the expected one.
fn read(record: &str, subject: &Subject) -> Result<Outcomes> {
    let mut outcomes = Outcomes::default();
    let mut libraries = 0;
    for line in record.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields[..] {
            ["test", outcome, id, detail] => {
                let outcome = Outcome::from_word(outcome).ok_or(format!("{id}: unknown outcome '{outcome}'"))?;
                outcomes.note(id, outcome, detail);
            }
            ["library", path, whose] => {
                let expected = if subject.is_stock { "other" } else { "kernpack" };
                if whose != expected || !same_file(Path::new(path), &subject.library()) {
                    let library = subject.library();
                    return Err(format!("the tests ran with {path}, not with {}", library.display()).into());
                }
                libraries += 1;
            }
            _ => return Err(format!("a line that is not a record: {line}").into()),
        }
    }
    if libraries == 0 && outcomes.iter().any(|(_, ended)| ended.outcome == Outcome::Passed) {
        return Err("no process of the tests had loaded a libtvm_ffi.so".into());
    }
    Ok(outcomes)
}

fn same_file(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;
    use std::path::PathBuf;

    fn subject(folder: PathBuf, is_stock: bool) -> Subject {
        Subject {
            is_stock,
            interpreter: PathBuf::new(),
            include: PathBuf::new(),
            library_folder: folder,
            builds: PathBuf::new(),
        }
    }

    #[test]
    fn records() {
        let folder = env::temp_dir().join(format!("kernpack-record-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let ours = subject(folder.clone(), false);
        fs::write(ours.library(), "").unwrap();
        let library = format!("library\t{}\tkernpack\n", ours.library().display());

        let outcomes = read(&format!("{library}test\tpassed\ta::b[c d]\t\ntest\tfailed\ta::c\twhy\n"), &ours).unwrap();
        assert_eq!(outcomes.counts().to_string(), "1 passed, 1 failed");
        assert_eq!(outcomes.get("a::c").unwrap().detail, "why");
        // The teardown of a test that passed fails.
        let outcomes = read(&format!("{library}test\tpassed\ta::b\t\ntest\terror\ta::b\twhy\n"), &ours).unwrap();
        assert_eq!(outcomes.counts().to_string(), "0 passed, 0 failed, 1 error");

        for (record, expected) in [
            ("library\t/lib/libtvm_ffi.so\tkernpack\n", "the tests ran with /lib/libtvm_ffi.so, not with"),
            ("test\tpassed\ta::b\t\n", "no process of the tests had loaded a libtvm_ffi.so"),
            ("test\tok\ta::b\t\n", "a::b: unknown outcome 'ok'"),
            ("a word\n", "a line that is not a record: a word"),
        ] {
            let error = read(record, &ours).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        assert!(read(&library, &subject(folder.clone(), true)).is_err(), "ours in the place of the stock library");
        fs::remove_dir_all(folder).unwrap();
    }
}
