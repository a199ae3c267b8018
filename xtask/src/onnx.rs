//! `cargo xtask onnx`: compiles and runs the node tests of ONNX 1.23.2 and the models beside them,
//! and compares the results with the list of tests that have passed before.

use crate::Result;
use crate::python::{self, Recipe};
use crate::scoreboard;
use crate::step::{self, Show};
use crate::workspace::Workspace;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

/// The environment with the tests.
const ONNX: Recipe = Recipe {
    folder: "venv-onnx",
    list: "xtask/requirements-onnx.txt",
    packages: include_str!("../requirements-onnx.txt"),
};

/// The list of tests that have passed, one name per line.
const PASSED: &str = "tests/onnx/passed.txt";

/// The example of `kernpack-graph` that runs tests.
pub(crate) const RUNNER_OF_TESTS: &str = "node_tests";

/// The program that writes the tests of single operators as files, and the folder below `target/`
/// that it writes to.
const WRITER: &str = "tests/onnx/node_tests.py";
const NODES: &str = "onnx-node-tests";

/// The folders with the tests of small models in the package. The names of tests are unique.
const MODELS: [&str; 3] = ["pytorch-converted", "pytorch-operator", "simple"];

/// The program that writes the table of attributes of operators, and the table.
const TABLE_WRITER: &str = "tests/onnx/attributes.py";
const TABLE: &str = "build-support/graph/src/onnx/attributes.txt";

/// The number of tests that one process runs. After a crash, the results of the tests before it are
/// kept, and the running test is reported by its name.
const BATCH: usize = 50;

/// The maximum number of processes that run at a time.
const PROCESSES: usize = 4;

/// The outcome of each test: `passed`, or the reason of its failure.
type Outcomes = BTreeMap<String, String>;

/// Runs all tests, or those with one of these words in their names; `--write` writes the list of
/// passed tests.
pub(crate) fn run(arguments: &[&str]) -> Result {
    let (options, words): (Vec<&str>, Vec<&str>) = arguments.iter().copied().partition(|word| word.starts_with("--"));
    let workspace = Workspace::find()?;
    let file = workspace.root().join(PASSED);
    let known = || fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()));
    let writes = match options[..] {
        [] => false,
        ["--write"] if words.is_empty() => true,
        ["--scoreboard"] if words.is_empty() => return scoreboard::run(&workspace, &known()?),
        _ => return Err("usage: cargo xtask onnx [--write | --scoreboard | WORD..]".into()),
    };
    let interpreter = python::environment(&workspace, &ONNX)?;
    compare_attributes(&workspace, &interpreter)?;
    let models = model_tests(&workspace, &interpreter)?;
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in MODELS.map(|kind| models.join(kind)).into_iter().chain([node_tests(&workspace, &interpreter)?]) {
        let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        folders.extend(entries.flatten().map(|entry| entry.path()));
    }
    folders.retain(|folder| folder.is_dir());
    folders.retain(|folder| words.is_empty() || words.iter().any(|word| name_of(folder).contains(word)));
    folders.sort_by_key(|folder| name_of(folder));
    let outcomes = run_all(&workspace, &Runner::build(&workspace)?, &folders)?;
    let count = |word: &str| outcomes.values().filter(|outcome| outcome.starts_with(word)).count();
    for (name, outcome) in outcomes.iter().filter(|(_, outcome)| !outcome.starts_with("passed")) {
        println!("{name}: {outcome}");
    }
    println!(
        "{} passed, {} unsupported, {} failed of {} tests",
        count("passed"),
        count("unsupported"),
        outcomes.len() - count("passed") - count("unsupported"),
        outcomes.len()
    );
    if writes {
        let text: String =
            outcomes.iter().filter(|(_, outcome)| *outcome == "passed").map(|(name, _)| format!("{name}\n")).collect();
        file.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(&file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        println!("wrote {}", file.display());
        return Ok(());
    }
    compare(&known()?, &outcomes, words.is_empty())?;
    if words.is_empty() { scoreboard::run_some(&workspace) } else { Ok(()) }
}

/// Compares the table of attributes with the schemas of the package.
fn compare_attributes(workspace: &Workspace, interpreter: &Path) -> Result {
    let [writer, table] = [TABLE_WRITER, TABLE].map(|path| workspace.root().join(path));
    let mut command = workspace.command(interpreter);
    command.arg(writer).arg(table).arg("--check").env("PYTHONDONTWRITEBYTECODE", "1");
    step::run("compare the attributes of operators with the schemas of ONNX", &mut command, Show::Warnings).map(drop)
}

/// The folder with the tests of single operators. Writes them if they are missing for this version
/// of the package.
fn node_tests(workspace: &Workspace, interpreter: &Path) -> Result<PathBuf> {
    let folder = workspace.folder(NODES)?;
    let writer = workspace.root().join(WRITER);
    let stamp = format!("{}{}", ONNX.packages, fs::read_to_string(&writer)?);
    let stamp_file = folder.join("complete");
    if fs::read_to_string(&stamp_file).is_ok_and(|text| text == stamp) {
        return Ok(folder);
    }
    fs::remove_dir_all(&folder).map_err(|error| format!("cannot remove {}: {error}", folder.display()))?;
    let mut command = workspace.command(interpreter);
    command.arg(&writer).arg(&folder).env("PYTHONDONTWRITEBYTECODE", "1");
    step::run(&format!("write the node tests of ONNX to target/{NODES}"), &mut command, Show::Warnings)?;
    fs::write(&stamp_file, stamp).map_err(|error| format!("cannot write {}: {error}", stamp_file.display()))?;
    Ok(folder)
}

/// The folder with the tests of small models.
fn model_tests(workspace: &Workspace, interpreter: &Path) -> Result<PathBuf> {
    let program = "import importlib.util as u; print(u.find_spec('onnx').submodule_search_locations[0])";
    let package = python::say(workspace, interpreter, program)?;
    Ok(Path::new(&package).join("backend/test/data"))
}

/// The name of a test.
fn name_of(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The program that runs node tests.
struct Runner {
    program: PathBuf,
    /// The folders of its shared libraries, in the format of `LD_LIBRARY_PATH`.
    libraries: OsString,
}

impl Runner {
    /// Builds the program with the features of the whole workspace, as `cargo test --workspace`
    /// does.
    fn build(workspace: &Workspace) -> Result<Self> {
        let mut build = workspace.cargo("build");
        build.args(["--workspace", "--example", RUNNER_OF_TESTS, "--message-format", "json-render-diagnostics"]);
        Self::read(&step::run("build the runner of the node tests", &mut build, Show::Warnings)?)
    }

    /// Reads cargo's messages: the path of the program, and the search paths that build scripts
    /// set.
    fn read(messages: &str) -> Result<Self> {
        let mut program = None;
        let mut folders = BTreeSet::new();
        for message in messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let paths = message["linked_paths"].as_array().into_iter().flatten().filter_map(Value::as_str);
            folders.extend(paths.map(|path| PathBuf::from(path.split_once('=').map_or(path, |(_, path)| path))));
            if message["target"]["name"] == RUNNER_OF_TESTS {
                program = message["executable"].as_str().map(PathBuf::from).or(program);
            }
        }
        let program = program.ok_or_else(|| format!("cargo has not told where the program {RUNNER_OF_TESTS} is"))?;
        Ok(Runner { program, libraries: env::join_paths(folders)? })
    }
}

/// Runs the tests in batches, as many at a time as there are CPUs, up to [`PROCESSES`].
fn run_all(workspace: &Workspace, runner: &Runner, folders: &[PathBuf]) -> Result<Outcomes> {
    let batches = Mutex::new(folders.chunks(BATCH));
    let processes = thread::available_parallelism().map_or(1, |count| count.get().min(PROCESSES));
    let work = || -> std::result::Result<Outcomes, String> {
        let mut outcomes = Outcomes::new();
        loop {
            let next = batches.lock().map_err(|error| error.to_string())?.next();
            let Some(batch) = next else { return Ok(outcomes) };
            outcomes.extend(run_batch(workspace, runner, batch).map_err(|error| error.to_string())?);
        }
    };
    let found: Vec<std::result::Result<Outcomes, String>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..processes).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("a thread ended".to_owned()))).collect()
    });
    let mut outcomes = Outcomes::new();
    for found in found {
        outcomes.extend(found?);
    }
    Ok(outcomes)
}

/// Runs the tests of a batch. After a test that ends its process, another process runs the rest.
fn run_batch(workspace: &Workspace, runner: &Runner, batch: &[PathBuf]) -> Result<Outcomes> {
    let mut outcomes = Outcomes::new();
    let mut rest = batch;
    while !rest.is_empty() {
        let mut command = workspace.command(&runner.program);
        command.env("LD_LIBRARY_PATH", &runner.libraries).args(rest);
        let name = format!("tests of ONNX from {}", name_of(&rest[0]));
        let finished = step::watch(&name, &mut command, Show::Warnings)?;
        let (found, begun) = read(&finished.output);
        let mut done = found.len();
        outcomes.extend(found);
        if let Some(name) = begun {
            outcomes.insert(name, format!("failed: the process ended: {}", finished.status));
            done += 1;
        }
        if done == 0 {
            return Err(format!("the runner of the node tests: {}", finished.status).into());
        }
        rest = &rest[done..];
    }
    Ok(outcomes)
}

/// The outcomes that the runner wrote, and the test that it started and did not finish.
fn read(output: &str) -> (Outcomes, Option<String>) {
    let mut outcomes = Outcomes::new();
    let mut begun = None;
    for line in output.lines() {
        if let Some(name) = line.strip_prefix("begin ") {
            begun = Some(name.to_owned());
        } else if ["passed", "unsupported", "failed"].iter().any(|word| line.split(' ').next() == Some(word))
            && let Some(name) = begun.take()
        {
            outcomes.insert(name, line.to_owned());
        }
    }
    (outcomes, begun)
}

/// A test that passed before and fails now is a failure; so is a test that passes and is missing in
/// the list.
fn compare(known: &str, outcomes: &Outcomes, all: bool) -> Result {
    let known: Vec<&str> = known.lines().collect();
    let mut problems = Vec::new();
    for (name, outcome) in outcomes {
        match (known.contains(&name.as_str()), outcome == "passed") {
            (true, false) => problems.push(format!("{name} passed before: {outcome}")),
            (false, true) => {
                problems.push(format!("{name} passes and is not in {PASSED}: run cargo xtask onnx --write"))
            }
            _ => {}
        }
    }
    if all {
        let gone = known.iter().filter(|name| !outcomes.contains_key(**name));
        problems.extend(gone.map(|name| format!("{name} is in {PASSED}, and there is no such test")));
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(format!("onnx: {} of the tests are not as in {PASSED}:\n{}", problems.len(), problems.join("\n")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_runner_wrote() {
        let (outcomes, begun) = read("begin a\npassed\nnoise\nbegin b\nunsupported operator X\nbegin c\n");
        assert_eq!(outcomes["a"], "passed");
        assert_eq!(outcomes["b"], "unsupported operator X");
        assert_eq!((outcomes.len(), begun.as_deref()), (2, Some("c")));
    }

    #[test]
    fn the_program_and_its_libraries() {
        let messages = r#"{"reason":"build-script-executed","linked_paths":["native=/out/b","/out/a"]}
{"reason":"compiler-artifact","target":{"name":"node_tests"},"executable":"/target/node_tests"}
{"reason":"compiler-artifact","target":{"name":"other"},"executable":"/target/other"}
   Compiling x"#;
        let runner = Runner::read(messages).unwrap();
        assert_eq!(runner.program, Path::new("/target/node_tests"));
        assert_eq!(runner.libraries, "/out/a:/out/b");
        let error = Runner::read("").err().unwrap().to_string();
        assert_eq!(error, "cargo has not told where the program node_tests is");
    }

    #[test]
    fn the_list_is_true() {
        let (outcomes, _) = read("begin a\npassed\nbegin b\nfailed element 0\n");
        assert!(compare("a\n", &outcomes, true).is_ok());
        let message = |known| compare(known, &outcomes, true).unwrap_err().to_string();
        assert!(message("a\nb\n").contains("b passed before: failed element 0"));
        assert!(message("").contains("a passes and is not in tests/onnx/passed.txt"));
        assert!(message("a\nc\n").contains("c is in tests/onnx/passed.txt, and there is no such test"));
    }
}
