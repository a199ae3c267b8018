//! `cargo xtask bench build`: the cost of compiling a model in a user's build script, without
//! optimization: time for ResNet-18 and memory for a model of 500 MB.

use super::figures::verdict;
use super::machine::Machine;
use super::{page, peers, programs};
use crate::Result;
use crate::python::Python;
use crate::step::{self, Show};
use crate::workspace::Workspace;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// The heading of the section of the page.
const HEADING: &str = "## Building a model\n";

/// The package of the benchmark, whose build script compiles all models of a folder.
const PACKAGE: &str = "kernpack-bench-models";

/// The models: their names in the table, and their functions in make_models.py.
const RESNET: (&str, &str) = ("ResNet-18, 46 MB", "resnet18");
const LARGE: (&str, &str) = ("30 products with matrices of 2048x2048, 503 MB", "large");

/// The limits: seconds for ResNet-18, seconds for a build without changes, and mebibytes for the
/// large model.
const BUILD: f64 = 10.0;
const AGAIN: f64 = 0.3;
const MEMORY: f64 = 1536.0;

/// The figures that the build script reports.
struct Report {
    /// Seconds: of the clock, and of all processors.
    wall: f64,
    cpu: f64,
    /// The most memory, in mebibytes.
    memory: f64,
    /// Seconds that cargo takes for a build without changes.
    again: f64,
}

/// Builds both models, prints the table and writes it into the page.
pub(crate) fn run() -> Result {
    let workspace = Workspace::find()?;
    let python = Python::prepare(&workspace)?;
    let interpreter = peers::interpreter(&workspace)?;
    let machine = Machine::find(&workspace).program("rustc");
    let mut text = format!(
        "`cargo xtask bench build`: the build script of a crate with one model for four CPU levels (the oldest, AVX2, AVX-512, VNNI), compiled without optimization, as cargo does by default ({machine}). The\n\
         last column is the time of `cargo build` when nothing has changed.\n\n\
         | model | seconds | seconds of processors | most memory, MiB | again, seconds |\n|---|---:|---:|---:|---:|\n"
    );
    let mut verdicts = String::new();
    for ((name, function), goals) in [(RESNET, Some(())), (LARGE, None)] {
        let report = build(&workspace, &python, &interpreter, function)?;
        let Report { wall, cpu, memory, again } = report;
        let _ = writeln!(text, "| {name} | {wall:.1} | {cpu:.1} | {memory:.0} | {again:.2} |");
        let _ = match goals {
            Some(()) => write!(
                verdicts,
                "Goals: ResNet-18 in {BUILD} s ({}), in {AGAIN} s when nothing has changed ({}); ",
                verdict(wall <= BUILD),
                verdict(again <= AGAIN)
            ),
            None => writeln!(verdicts, "the large model in {MEMORY:.0} MiB ({}).", verdict(memory <= MEMORY)),
        };
        if goals.is_none() && memory > MEMORY {
            return Err(format!("a model of 503 MB is built in {memory:.0} MiB, more than {MEMORY:.0}").into());
        }
    }
    let text = format!("{text}\n{verdicts}");
    println!("\n{text}");
    page::write(&workspace, HEADING, &text)
}

/// Makes a model and builds the crate with it; only the dependencies are built already.
fn build(workspace: &Workspace, python: &Python, interpreter: &Path, function: &str) -> Result<Report> {
    let sources = workspace.root().join("tests/bench");
    let folder = workspace.folder(&format!("bench-build/{function}"))?;
    let model = folder.join(format!("{function}.onnx"));
    if !model.is_file() {
        let script = format!(
            "import pathlib, sys; sys.path.insert(0, sys.argv[1]); import make_models; make_models.{function}(pathlib.Path(sys.argv[2]))"
        );
        let mut program = workspace.command(interpreter);
        program.args(["-c", &script]).arg(sources.join("python")).arg(&model);
        step::run(&format!("make {function}.onnx"), program.env("PYTHONDONTWRITEBYTECODE", "1"), Show::Warnings)?;
    }
    let report = folder.join("report");
    let variables = [("KERNPACK_BENCH_MODELS", folder.as_path()), ("KERNPACK_BENCH_REPORT", report.as_path())];
    let cargo = || {
        let package = ["--package", PACKAGE];
        programs::build_cargo_with(workspace, python, &sources, "bench-ours", "release", &package, &variables)
    };
    // Builds the dependencies, without a model.
    let empty = workspace.folder("bench-build/empty")?;
    let nothing = [("KERNPACK_BENCH_MODELS", empty.as_path())];
    let package = ["--package", PACKAGE];
    let built = programs::build_cargo_with(workspace, python, &sources, "bench-ours", "release", &package, &nothing)?;
    // Removes the outputs of earlier builds.
    for entry in fs::read_dir(built.join("build"))?.flatten() {
        let out = entry.path().join("out");
        if entry.file_name().to_string_lossy().starts_with(PACKAGE) && out.is_dir() {
            fs::remove_dir_all(&out)?;
            fs::create_dir(&out)?;
        }
    }
    fs::remove_file(&report).ok();
    cargo()?;
    let start = Instant::now();
    cargo()?;
    let again = start.elapsed().as_secs_f64();
    let text = fs::read_to_string(&report).map_err(|error| format!("{}: {error}", report.display()))?;
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    let &[wall, cpu, memory] = &numbers[..] else { return Err(format!("the build script reports '{text}'").into()) };
    Ok(Report { wall, cpu, memory, again })
}
