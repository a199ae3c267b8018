//! `cargo xtask bench python`: a library as an extension module beside the same functions made with
//! PyO3 (for one version of Python, and for all) and with nanobind, and beside the same library
//! through the package tvm_ffi.

use super::caller::Caller;
use super::figures::verdict;
use super::machine::Machine;
use super::page;
use super::samples::Samples;
use crate::Result;
use crate::python::{self, Recipe};
use crate::step::{self, Show};
use crate::workspace::{Workspace, find_on_path, shared_library};
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const PEERS: Recipe = Recipe {
    folder: "venv-extension",
    list: "xtask/requirements-extension.txt",
    packages: include_str!("../../requirements-extension.txt"),
};

/// A batch takes about this many nanoseconds.
const BATCH: f64 = 4_000_000.0;

/// The limits: of a row, as a fraction of PyO3's time; of an import, in milliseconds; of the
/// feature, in bytes.
const LIMIT: f64 = 1.0;
const IMPORT_LIMIT: f64 = 1.0;
const SIZE_LIMIT: u64 = 90_000;

/// The heading of the section of the page.
const HEADING: &str = "## Import from Python\n";

/// A module: its name in the reports, the name that it is imported by, and which of the two
/// processes has it.
struct Library {
    title: &'static str,
    name: &'static str,
    process: usize,
}

const fn library(title: &'static str, name: &'static str, process: usize) -> Library {
    Library { title, name, process }
}

/// Ours first, PyO3's for this version of Python second. The package tvm_ffi has a process of its
/// own: in an environment with it, our module would be bound to its implementation.
const LIBRARIES: [Library; 5] = [
    library("ours", "bench_ours", 0),
    library("PyO3", "bench_pyo3", 0),
    library("PyO3, abi3", "bench_pyo3_abi3", 0),
    library("nanobind", "bench_nanobind", 0),
    library("tvm_ffi", "tvm_ffi", 1),
];
const OURS: usize = 0;
const PYO3: usize = 1;
const TVM_FFI: usize = 4;

/// The name in `caller.py`, and the text of the row.
const CASES: [(&str, &str); 23] = [
    ("add", "`add(int, int)`"),
    ("keywords", "`add(a=.., b=..)`"),
    ("keyword", "`add(int, b=..)`"),
    ("float", "`half(float)`"),
    ("text_5", "a text of 5 characters"),
    ("text_40", "a text of 40 characters"),
    ("list", "a list of 20 integers"),
    ("none", "no argument, returns None"),
    ("result_5", "returns a text of 5 characters"),
    ("result_31", "returns a text of 31 characters"),
    ("tuple", "returns two integers"),
    ("error", "raises a ValueError with a formatted text, caught"),
    ("callback", "calls a Python function (`detach = false`)"),
    ("view", "a view of a NumPy array, typed"),
    ("array", "returns a new array of 16 (ours: a Tensor)"),
    ("int_field", "`r.count`, i64"),
    ("float_field", "`r.scale`, f64"),
    ("text_field", "`r.label`, text"),
    ("method_0", "`r.get()`"),
    ("method_1", "`r.plus(1)`"),
    ("constructor", "`Record(7, 2.5, 'label')`"),
    ("argument", "an object as argument"),
    ("object", "returns an object"),
];

/// Cases that the package tvm_ffi does not support: it takes positional arguments only.
const NOT_IN_TVM_FFI: [&str; 2] = ["keywords", "keyword"];

fn runs(case: &str, library: usize) -> bool {
    library != TVM_FFI || !NOT_IN_TVM_FFI.contains(&case)
}

/// Builds, measures, prints the tables and writes them into the page.
pub(crate) fn run(rounds: usize) -> Result {
    let workspace = Workspace::find()?;
    let interpreter = python::environment(&workspace, &PEERS)?;
    let modules = Modules::build(&workspace, &interpreter)?;
    let imports = imports(&workspace, &interpreter, &modules, rounds)?;
    let mut callers = start(&workspace, &interpreter, &modules)?;
    let samples = measure(&mut callers, rounds)?;
    let machine = Machine::find(&workspace)
        .program("rustc")
        .program("c++")
        .packages(&interpreter, &["nanobind", "apache-tvm-ffi", "numpy"])?
        .crates("tests/bench/extension/pyo3/Cargo.lock", "bench-pyo3", &["pyo3"])?
        .to_string();
    let report = report(&samples, &imports, modules.weight, rounds, &machine);
    println!("\n{report}");
    page::write(&workspace, HEADING, &report)
}

/// The files of the modules, in the order of [`LIBRARIES`].
struct Modules {
    paths: [PathBuf; 5],
    /// The bytes that the feature `python` adds to our stripped library.
    weight: u64,
}

impl Modules {
    fn build(workspace: &Workspace, interpreter: &Path) -> Result<Self> {
        let sources = workspace.root().join("tests/bench");
        let folder = workspace.folder("bench/extension")?;
        let cargo = |source: &Path, target: &str, library: &str, arguments: &[&str], file: &str| -> Result<PathBuf> {
            let target = workspace.cargo_target().join(target);
            let mut cargo = workspace.cargo("build");
            cargo.arg("--manifest-path").arg(source.join("Cargo.toml")).args(arguments);
            cargo.env("CARGO_TARGET_DIR", &target).env("PYO3_PYTHON", interpreter);
            let profile = if arguments.contains(&"best") { "best" } else { "release" };
            step::run(&format!("build {file}"), &mut cargo, Show::Warnings)?;
            let copy = folder.join(format!("{file}.so"));
            fs::copy(shared_library(&target.join(profile), library), &copy)?;
            Ok(copy)
        };
        let ours = |arguments: &[&str], file: &str| {
            let arguments = [&["--profile", "best", "--package", "kernpack-bench-extension"], arguments].concat();
            cargo(&sources, "bench-ours", "bench_ours", &arguments, file)
        };
        let without = ours(&["--no-default-features"], "bench_ours_without")?;
        let with = ours(&[], "bench_ours")?;
        let pyo3 = sources.join("extension/pyo3");
        let per_version = cargo(&pyo3, "bench-pyo3", "bench_pyo3", &["--release"], "bench_pyo3")?;
        let abi3 = cargo(&pyo3, "bench-pyo3", "bench_pyo3", &["--release", "--features", "abi3"], "bench_pyo3_abi3")?;
        let nanobind = build_nanobind(workspace, interpreter, &sources.join("extension/nanobind"), &folder)?;
        let weight = fs::metadata(&with)?.len().saturating_sub(fs::metadata(&without)?.len());
        Ok(Self { paths: [with.clone(), per_version, abi3, nanobind, with], weight })
    }
}

/// Compiles the C++ module with nanobind's own source beside it, with the flags that nanobind's
/// CMake file sets for a release.
fn build_nanobind(workspace: &Workspace, interpreter: &Path, source: &Path, folder: &Path) -> Result<PathBuf> {
    let compiler = env::var_os("CXX")
        .map(PathBuf::from)
        .or_else(|| ["c++", "g++", "clang++"].into_iter().find_map(find_on_path))
        .ok_or("no C++ compiler on PATH: install one (Debian: apt-get install g++), or set CXX")?;
    let package = python::say(workspace, interpreter, "import nanobind; print(nanobind.__path__[0])")?;
    let package = Path::new(&package);
    let include = python::say(workspace, interpreter, "import sysconfig; print(sysconfig.get_path('include'))")?;
    let module = folder.join("bench_nanobind.so");
    let mut command = workspace.command(compiler);
    command.args([
        "-std=c++17",
        "-O3",
        "-DNDEBUG",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        "-fno-strict-aliasing",
        "-s",
    ]);
    command.arg("-I").arg(include).arg("-I").arg(package.join("include"));
    command.arg("-I").arg(package.join("ext/robin_map/include"));
    command.arg(package.join("src/nb_combined.cpp")).arg(source.join("bench_nanobind.cc")).arg("-o").arg(&module);
    step::run("compile bench_nanobind", &mut command, Show::Warnings)?;
    Ok(module)
}

/// Starts the two Python programs: that of the extension modules, and that of the package tvm_ffi.
fn start(workspace: &Workspace, interpreter: &Path, modules: &Modules) -> Result<[Caller; 2]> {
    let start = |process: usize, name: &str| {
        let mut command = workspace.command(interpreter);
        command.arg(workspace.root().join("tests/bench/extension/caller.py"));
        for (library, path) in LIBRARIES.iter().zip(&modules.paths).filter(|(library, _)| library.process == process) {
            command.arg(format!("{}={}", library.name, path.display()));
        }
        // Python's own cost is the same in both; in the first process, our module uses its own
        // implementation.
        command.env("KERNPACK_PYTHON_ALONE", "1");
        Caller::start(name, &mut command)
    };
    Ok([start(0, "the extension modules")?, start(1, "the package tvm_ffi")?])
}

/// Finds each case's batch size, then runs the rounds; the libraries take turns in running first.
fn measure(callers: &mut [Caller; 2], rounds: usize) -> Result<Vec<[Samples; 5]>> {
    println!("> measure {} cases in {rounds} rounds", CASES.len());
    let mut sizes = Vec::new();
    for (case, _) in CASES {
        let mut of_case = [0; 5];
        for (index, library) in LIBRARIES.iter().enumerate().filter(|(index, _)| runs(case, *index)) {
            let caller = &mut callers[library.process];
            caller.measure(case, library.name, 200)?;
            let estimate = caller.measure(case, library.name, 2000)?.max(1.0);
            of_case[index] = ((BATCH / (estimate + 8.0)) as u64).clamp(100, 1_000_000);
        }
        sizes.push(of_case);
    }
    let mut samples: Vec<[Samples; 5]> = vec![Default::default(); CASES.len()];
    for round in 0..rounds {
        for (place, (case, _)) in CASES.iter().enumerate() {
            for turn in 0..LIBRARIES.len() {
                let index = (turn + round) % LIBRARIES.len();
                if runs(case, index) {
                    let library = &LIBRARIES[index];
                    let time = callers[library.process].measure(case, library.name, sizes[place][index])?;
                    samples[place][index].push(time);
                }
            }
        }
    }
    Ok(samples)
}

/// The milliseconds that an import takes in a fresh process, in rounds: ours without the package
/// tvm_ffi in the search path, PyO3's, nanobind's, and the package tvm_ffi with our library.
fn imports(workspace: &Workspace, interpreter: &Path, modules: &Modules, rounds: usize) -> Result<[Samples; 5]> {
    const IMPORT: &str = "
import importlib.machinery, importlib.util, sys, time
name, path = sys.argv[1:]
loader = importlib.machinery.ExtensionFileLoader(name, path)
start = time.perf_counter()
module = importlib.util.module_from_spec(importlib.util.spec_from_file_location(name, path, loader=loader))
loader.exec_module(module)
print((time.perf_counter() - start) * 1e3)
";
    const LOAD: &str = "
import sys, time
start = time.perf_counter()
import tvm_ffi
tvm_ffi.load_module(sys.argv[2])
print((time.perf_counter() - start) * 1e3)
";
    println!("> measure imports in {rounds} rounds");
    let mut samples: [Samples; 5] = Default::default();
    for round in 0..rounds {
        for turn in 0..LIBRARIES.len() {
            let index = (turn + round) % LIBRARIES.len();
            let mut command = workspace.command(interpreter);
            if index == TVM_FFI {
                command.args(["-c", LOAD]);
            } else {
                // -S: without the packages of the environment, as if nothing else was installed.
                command.args(["-S", "-c", IMPORT]);
            }
            let name = LIBRARIES[index].name;
            command.arg(name.strip_suffix("_abi3").unwrap_or(name)).arg(&modules.paths[index]);
            let output = command.output().map_err(|error| format!("cannot start Python: {error}"))?;
            let text = String::from_utf8_lossy(&output.stdout);
            let time = text.trim().parse().map_err(|_| {
                format!(
                    "importing {name}: {}",
                    String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("no output")
                )
            })?;
            samples[index].push(time);
        }
    }
    Ok(samples)
}

/// Three significant digits.
fn three(value: f64) -> String {
    match value {
        value if value.is_nan() => "-".to_owned(),
        value if value < 100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// The tables in Markdown.
fn report(samples: &[[Samples; 5]], imports: &[Samples; 5], weight: u64, rounds: usize, machine: &str) -> String {
    let mut text = format!(
        "`cargo xtask bench python`: a library that Python imports ([Import from Python](python.md)) beside the same functions made with PyO3 and nanobind, and beside \
         the same library through the package tvm_ffi; {rounds} interleaved rounds ({machine}). Figures are nanoseconds of CPU time of a call, minus those of the empty loop.\n\n"
    );
    let titles: Vec<&str> = LIBRARIES.iter().map(|library| library.title).collect();
    let _ = writeln!(text, "| | {} | ours / PyO3 | |\n|---|---:|---:|---:|---:|---:|---:|---|", titles.join(" | "));
    let mut slower = 0;
    for ((_, what), row) in CASES.iter().zip(samples) {
        let ratio = (row[OURS].ratio(&row[PYO3]) * 100.0).round() / 100.0;
        slower += usize::from(ratio > LIMIT);
        let times: Vec<String> = row.iter().map(|samples| three(samples.median())).collect();
        let _ = writeln!(text, "| {what} | {} | {ratio:.2} | {} |", times.join(" | "), verdict(ratio <= LIMIT));
    }
    let times: Vec<String> = imports.iter().map(|samples| format!("{:.2}", samples.median())).collect();
    let ours = imports[OURS].median();
    let _ = write!(text, "\n| | {} | |\n|---|---:|---:|---:|---:|---:|---|\n", titles.join(" | "));
    let _ = writeln!(
        text,
        "| import in a fresh process, ms (at most {IMPORT_LIMIT:.0}) | {} | {} |",
        times.join(" | "),
        verdict(ours <= IMPORT_LIMIT)
    );
    let _ = writeln!(
        text,
        "\nThe feature `python` adds {} KB to a stripped library (at most {} KB, {}). {} of {} rows are within {LIMIT:.2} of PyO3. The import of tvm_ffi includes the \
         package and the library.",
        weight.div_ceil(1000),
        SIZE_LIMIT / 1000,
        verdict(weight <= SIZE_LIMIT),
        CASES.len() - slower,
        CASES.len(),
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_one_of_the_program() {
        let program = include_str!("../../../tests/bench/extension/caller.py");
        for (case, _) in CASES {
            assert!(program.contains(&format!("\n    \"{case}\": (\"")), "{case}");
        }
        assert_eq!(program.matches("\": (\"").count(), CASES.len(), "the program has cases that are not measured");
    }

    #[test]
    fn every_peer_has_every_function() {
        let program = include_str!("../../../tests/bench/extension/caller.py");
        let ours = include_str!("../../../tests/bench/extension/kernpack/src/lib.rs");
        let pyo3 = include_str!("../../../tests/bench/extension/pyo3/src/lib.rs");
        let nanobind = include_str!("../../../tests/bench/extension/nanobind/bench_nanobind.cc");
        for (case, _) in CASES {
            let line = program.lines().find(|line| line.starts_with(&format!("    \"{case}\": ("))).unwrap();
            let function = line.split('"').nth(3).unwrap();
            assert!(
                ours.contains(&format!("fn {function}(")) && pyo3.contains(&format!("fn {function}(")),
                "{function}"
            );
            assert!(nanobind.contains(&format!("m.def(\"{function}\"")), "{function}");
        }
    }

    #[test]
    fn the_report_judges_rows_imports_and_size() {
        let mut samples: Vec<[Samples; 5]> = vec![Default::default(); CASES.len()];
        for (place, row) in samples.iter_mut().enumerate() {
            for (index, samples) in row.iter_mut().enumerate().filter(|(index, _)| runs(CASES[place].0, *index)) {
                samples.push(if (place, index) == (0, OURS) { 30.0 } else { 20.0 + index as f64 });
            }
        }
        let mut imports: [Samples; 5] = Default::default();
        for (index, samples) in imports.iter_mut().enumerate() {
            samples.push(0.9 + index as f64);
        }
        let report = report(&samples, &imports, 90_001, 1, "a machine");
        for expected in [
            "| `add(int, int)` | 30.0 | 21.0 | 22.0 | 23.0 | 24.0 | 1.43 | missed |",
            "| `add(a=.., b=..)` | 20.0 | 21.0 | 22.0 | 23.0 | - | 0.95 | met |",
            "| import in a fresh process, ms (at most 1) | 0.90 | 1.90 | 2.90 | 3.90 | 4.90 | met |",
            "adds 91 KB to a stripped library (at most 90 KB, missed). 22 of 23 rows",
        ] {
            assert!(report.contains(expected), "{expected}\n{report}");
        }
    }
}
