//! `cargo xtask bench models`: whole models beside onnxruntime, in interleaved rounds, with one
//! thread and with two; with one thread also beside tract, if its program was built
//! (`cargo xtask bench tract`, a quarter of an hour on two cores).

use super::machine::{self, Machine};
use super::{page, peers, programs};
use crate::Result;
use crate::magika;
use crate::python::Python;
use crate::step::{self, Show};
use crate::workspace::{Workspace, shared_library};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The numbers of threads that both are measured with.
const THREADS: [usize; 2] = [1, 2];

/// The heading of the section of the page.
const HEADING: &str = "## Models\n";

/// The goal for each model: its time as a fraction of onnxruntime's, with one thread and with two.
/// `None`: no goal.
const GOALS: [(&str, [Option<f64>; 2]); 9] = [
    ("Magika", [Some(0.8), None]),
    ("MLP 784", [Some(0.9), Some(0.7)]),
    ("MLP, weights in half", [None, Some(0.4)]),
    ("int8", [Some(1.1), Some(1.1)]),
    ("transformer", [Some(0.8), Some(0.8)]),
    ("ResNet-18", [Some(0.65), Some(0.65)]),
    ("MobileNetV2", [Some(0.8), Some(0.8)]),
    ("U-Net", [Some(0.8), Some(0.8)]),
    ("LSTM", [Some(0.7), Some(0.7)]),
];

/// The goal for the geometric mean of the ratios, and rows that are not in it.
const MEAN: f64 = 0.7;
const NOT_F32: [&str; 2] = ["MLP, weights in half", "int8"];

/// Builds, measures, prints the tables and writes them into the page.
pub(crate) fn run(rounds: usize) -> Result {
    let workspace = Workspace::find()?;
    let python = Python::prepare(&workspace)?;
    let sources = workspace.root().join("tests/bench");
    magika::prepare(&workspace)?;
    let interpreter = peers::interpreter(&workspace)?;
    let folder = models(&workspace, &sources, &interpreter)?;
    let library = build(&workspace, &python, &sources, &folder)?;
    let tract = tract_program(&workspace);
    let machine = Machine::find(&workspace).program("rustc").packages(&interpreter, &["onnxruntime", "numpy"])?;
    let machine = match tract.is_file() {
        true => machine.crates("tests/bench/tract/Cargo.lock", "kernpack-bench-tract", &["tract-onnx"])?,
        false => machine.and("without tract (`cargo xtask bench tract` builds it)".to_owned()),
    };
    let kind = machine::kind(&workspace).to_lowercase();
    let mut text = format!(
        "`cargo xtask bench models`: whole models in a library beside onnxruntime, {rounds} interleaved rounds ({machine}). With one thread, calls of more than 1 ms are\n\
         timed by the CPU time of the thread. Each contender is a separate process, which is stopped while another one is measured, because threads of onnxruntime keep a CPU busy for a while after their last call. Weights are seeded; results are compared first. Batch norms are folded into convolutions, as exporters do.\n"
    );
    for (column, threads) in THREADS.into_iter().enumerate() {
        let mut program = workspace.command(&interpreter);
        program.arg(sources.join("python/models.py")).args([&library, &folder]);
        program.args([threads.to_string(), rounds.to_string()]);
        if threads == 1 && tract.is_file() {
            program.arg(&tract);
        }
        let what = format!("{threads} thread{}", if threads == 1 { "" } else { "s" });
        let output = step::run(&format!("models beside onnxruntime, {what}"), &mut program, Show::Lines)?;
        let _ = writeln!(text, "\n![Time of a call / onnxruntime's, {what}](plots/models-{threads}-{kind}.svg)");
        let _ = write!(text, "\n{}", table(&output, &format!("{what}, microseconds"), |name| goal(name, column))?);
        let _ = writeln!(text, "\n{}", geometric_mean(&output));
    }
    let mut program = workspace.command(&interpreter);
    program.arg(sources.join("python/models.py")).args([&library, &folder]);
    program.args(["1", &rounds.to_string(), "flush"]);
    let what = "1 thread, numbers below 1e-38 are zeros";
    let output = step::run(&format!("models beside onnxruntime, {what}"), &mut program, Show::Lines)?;
    let _ = write!(text, "\n{}", table(&output, &format!("{what}, microseconds"), |_| None)?);
    let _ = writeln!(text, "\n{}", geometric_mean(&output));
    let mut program = workspace.command(&interpreter);
    program.arg(sources.join("python/memory.py")).args([&library, &folder]);
    let output = step::run("memory of the models beside onnxruntime", &mut program, Show::Lines)?;
    let table = table(&output, "peak of the memory that loading and five calls add, MiB", |_| Some(1.0))?;
    let _ = write!(text, "\n{table}");
    println!("\n{text}");
    page::write(&workspace, HEADING, &text)?;
    super::plots::run()
}

/// The program of tract.
fn tract_program(workspace: &Workspace) -> PathBuf {
    workspace.cargo_target().join("bench-tract/release/kernpack-bench-tract")
}

/// `cargo xtask bench tract`: builds the program of tract, which takes a quarter of an hour.
pub(crate) fn build_tract() -> Result {
    let (workspace, sources) = (Workspace::find()?, "tests/bench/tract");
    let python = Python::prepare(&workspace)?;
    programs::build_cargo(&workspace, &python, &workspace.root().join(sources), "bench-tract", "release", &[])?;
    println!("built {}", tract_program(&workspace).display());
    Ok(())
}

/// `cargo xtask accuracy`: the models beside onnxruntime without its optimizations. An error if the
/// difference of a model is more than ten times the difference that onnxruntime's own optimizations
/// make.
pub(crate) fn accuracy() -> Result {
    let workspace = Workspace::find()?;
    let python = Python::prepare(&workspace)?;
    let sources = workspace.root().join("tests/bench");
    magika::prepare(&workspace)?;
    let interpreter = peers::interpreter(&workspace)?;
    let folder = models(&workspace, &sources, &interpreter)?;
    let library = build(&workspace, &python, &sources, &folder)?;
    let mut program = workspace.command(&interpreter);
    program.arg(sources.join("python/accuracy.py")).args([&library, &folder]);
    let output = step::run("results beside onnxruntime without optimizations", &mut program, Show::Lines)?;
    let machine = Machine::find(&workspace).program("rustc").packages(&interpreter, &["onnxruntime", "numpy"])?;
    println!("\nResults beside onnxruntime without its optimizations ({machine}).\n\n{}", accuracies(&output)?);
    Ok(())
}

/// The results of the script as a table.
fn accuracies(output: &str) -> Result<String> {
    let mut text = "| model | largest difference | allowed | largest number |\n|---|---:|---:|---:|\n".to_owned();
    let mut count = 0;
    for line in output.lines() {
        if let [name, difference, allowed, largest] = line.split('\t').collect::<Vec<_>>()[..] {
            let _ = writeln!(text, "| {name} | {difference} | {allowed} | {largest} |");
            count += 1;
        }
    }
    if count == 0 { Err("no model was compared".into()) } else { Ok(text) }
}

/// The folder with the models, which are made by a Python script.
fn models(workspace: &Workspace, sources: &Path, interpreter: &Path) -> Result<PathBuf> {
    let folder = workspace.folder("bench-models")?;
    let mut program = workspace.command(interpreter);
    program.arg(sources.join("python/make_models.py")).arg(&folder);
    program.arg(workspace.folder("magika")?.join("model.onnx"));
    step::run("make the models", &mut program, Show::Warnings)?;
    Ok(folder)
}

fn build(workspace: &Workspace, python: &Python, sources: &Path, models: &Path) -> Result<PathBuf> {
    let variables = [("KERNPACK_BENCH_MODELS", models)];
    let package = ["--package", "kernpack-bench-models"];
    let folder = programs::build_cargo_with(workspace, python, sources, "bench-ours", "release", &package, &variables)?;
    Ok(shared_library(&folder, "kernpack_bench_models"))
}

/// The goal for a model with one thread or with two.
fn goal(name: &str, column: usize) -> Option<f64> {
    GOALS.iter().find(|(start, _)| name.starts_with(start)).and_then(|(_, goals)| goals[column])
}

/// A row of a run: the model, and our figure.
struct Row<'a> {
    name: &'a str,
    ours: f64,
    /// onnxruntime's figure, and the ratio of ours to it.
    theirs: f64,
    ratio: f64,
    /// The same for tract, if its program exists and loads the model.
    tract: Option<(f64, f64)>,
}

fn rows(output: &str) -> impl Iterator<Item = Row<'_>> {
    output.lines().filter_map(|line| {
        let mut columns = line.split('\t');
        let name = columns.next()?;
        let mut of = |who: &str| -> Option<(f64, f64)> {
            let (number, ratio) = columns.next()?.strip_prefix(who)?.strip_prefix('=')?.split_once(':')?;
            Some((number.parse().ok()?, ratio.parse().ok()?))
        };
        let ((ours, _), (theirs, ratio), tract) = (of("ours")?, of("onnxruntime")?, of("tract"));
        Some(Row { name, ours, theirs, ratio, tract })
    })
}

/// The table of one run in Markdown: ours, onnxruntime's, the ratio, and the goal.
fn table(output: &str, what: &str, goal: impl Fn(&str) -> Option<f64>) -> Result<String> {
    let has_tract = rows(output).any(|row| row.tract.is_some());
    let (heads, lines) = if has_tract { (" tract | ours / tract |", "---:|---:|") } else { ("", "") };
    let mut text = format!(
        "| {what} | ours | onnxruntime | ours / onnxruntime | goal |{heads}\n|---|---:|---:|---:|---:|{lines}\n"
    );
    let mut count = 0;
    for Row { name, ours, theirs, ratio, tract } in rows(output) {
        let verdict = |goal: f64| format!("{goal}, {}", super::figures::verdict(ratio <= goal));
        let goal = goal(name).map_or("-".to_owned(), verdict);
        let _ = write!(text, "| {name} | {ours:.1} | {theirs:.1} | {ratio:.2} | {goal} |");
        let _ = match tract {
            Some((time, ratio)) => writeln!(text, " {time:.1} | {ratio:.2} |"),
            None => writeln!(text, "{}", if has_tract { " - | - |" } else { "" }),
        };
        count += 1;
    }
    if count == 0 { Err("the benchmark of the models measured nothing".into()) } else { Ok(text) }
}

/// A sentence with the geometric mean of the ratios of the models in f32.
fn geometric_mean(output: &str) -> String {
    let ratios: Vec<f64> = rows(output)
        .filter(|row| !NOT_F32.iter().any(|start| row.name.starts_with(start)))
        .map(|row| row.ratio)
        .collect();
    let mean = f64::powf(ratios.iter().product(), 1.0 / ratios.len() as f64);
    let verdict = super::figures::verdict(mean <= MEAN);
    format!("Geometric mean of the ratios of the models in f32: {mean:.2} (goal {MEAN}, {verdict}).")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_are_shown() {
        let output = "Magika, one file\tours=8.0:1.000\tonnxruntime=10.0:0.800\nMLP 784\tours=30.0:1.000\tonnxruntime=15.0:2.000\n";
        let text = table(output, "1 thread", |name| goal(name, 0)).unwrap();
        assert!(text.contains("| Magika, one file | 8.0 | 10.0 | 0.80 | 0.8, met |\n"), "{text}");
        assert!(text.contains("| MLP 784 | 30.0 | 15.0 | 2.00 | 0.9, missed |\n"), "{text}");
        assert!(table(output, "2 threads", |name| goal(name, 1)).unwrap().contains("| 0.80 | - |\n"));
        assert!(table("", "1 thread", |_| None).is_err());
        let with_tract = format!("{}\n", output.trim_end().replace(":2.000", ":2.000\ttract=60.0:0.500"));
        let text = table(&with_tract, "1 thread", |_| None).unwrap();
        assert!(
            text.contains("| 8.0 | 10.0 | 0.80 | - | - | - |\n") && text.contains("| 2.00 | - | 60.0 | 0.50 |\n"),
            "{text}"
        );
        let text = geometric_mean(output);
        assert!(text.ends_with("f32: 1.26 (goal 0.7, missed)."), "{text}");
    }
}
