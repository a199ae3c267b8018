//! `cargo xtask bench compiler`: kernels that the rules scheduled, beside NumPy, onnxruntime and PyTorch, in interleaved rounds.

use super::programs;
use crate::Result;
use crate::python::Python;
use crate::step::{self, Show};
use crate::workspace::{Workspace, shared_library};
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

/// What the peers need, in target/venv-bench. PyTorch is measured where the environment has it already.
const PACKAGES: [&str; 4] = ["numpy==2.2.6", "apache-tvm-ffi==0.1.15.post2", "onnx", "onnxruntime"];

/// How many threads everything may use.
const THREADS: [usize; 2] = [1, 2];

/// Builds, measures, prints the tables and writes them to `target/bench/compiler.md`.
pub(crate) fn run(rounds: usize) -> Result {
    let workspace = Workspace::find()?;
    let python = Python::prepare(&workspace)?;
    let sources = workspace.root().join("tests/bench");
    let package = "kernpack-bench-compiler";
    let folder =
        programs::build_cargo(&workspace, &python, &sources, "bench-ours", "release", &["--package", package])?;
    let library = shared_library(&folder, "kernpack_bench_compiler");
    let environment = workspace.folder("venv-bench")?;
    let interpreter = environment.join("bin/python");
    if !interpreter.is_file() {
        step::run(
            "make target/venv-bench",
            Command::new("python3").args(["-m", "venv"]).arg(&environment),
            Show::Warnings,
        )?;
    }
    let mut install = Command::new(&interpreter);
    install.args(["-m", "pip", "install", "--quiet"]).args(PACKAGES);
    step::run("install the peers", &mut install, Show::Warnings)?;
    let mut text = format!("{rounds} interleaved rounds ({}).\n", super::calls::machine(&workspace, &python));
    for threads in THREADS {
        let mut program = workspace.command(&interpreter);
        program.arg(sources.join("python/compiler.py")).arg(&library);
        program.args([threads.to_string(), rounds.to_string()]);
        let output = step::run(&format!("kernels beside their peers, {threads} threads"), &mut program, Show::Lines)?;
        let _ = write!(text, "\n{}", table(&output, threads)?);
    }
    println!("\n{text}");
    let file = workspace.folder("bench")?.join("compiler.md");
    fs::write(&file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    println!("written to {}", file.display());
    Ok(())
}

/// The table of one run in Markdown: microseconds, and ours / the best peer.
fn table(output: &str, threads: usize) -> Result<String> {
    let mut text = format!(
        "| {threads} thread{}, microseconds | ours | NumPy | onnxruntime | PyTorch | ours / best peer |\n|---|---:|---:|---:|---:|---:|\n",
        if threads == 1 { "" } else { "s" }
    );
    let mut rows = 0;
    for line in output.lines() {
        let mut columns = line.split('\t');
        let (Some(name), measured) = (columns.next(), columns.collect::<Vec<_>>()) else { continue };
        let of = |who: &str| -> Option<(f64, f64)> {
            let (time, ratio) =
                measured.iter().find_map(|column| column.strip_prefix(who)?.strip_prefix('='))?.split_once(':')?;
            Some((time.parse().ok()?, ratio.parse().ok()?))
        };
        let Some((ours, _)) = of("ours") else { continue };
        let peers = ["numpy", "onnxruntime", "torch"].map(of);
        let best = peers.iter().flatten().map(|(_, ratio)| *ratio).fold(f64::NAN, f64::max);
        let shown = peers.map(|peer| peer.map_or("-".to_owned(), |(time, _)| format!("{time:.1}")));
        let _ = writeln!(text, "| {name} | {ours:.1} | {} | {best:.2} |", shown.join(" | "));
        rows += 1;
    }
    if rows == 0 {
        return Err("the benchmark of the compiler measured nothing".into());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_peer_has_the_largest_ratio() {
        let text =
            table("missing\ttorch\nproduct\tours=10.0:1.000\tnumpy=20.0:0.500\tonnxruntime=8.0:1.250\n", 1).unwrap();
        assert!(text.ends_with("| product | 10.0 | 20.0 | 8.0 | - | 1.25 |\n"), "{text}");
        assert!(table("missing\tnumpy\n", 2).is_err());
    }
}
