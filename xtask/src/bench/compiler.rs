//! `cargo xtask bench compiler`: kernels that the rules scheduled, beside NumPy, onnxruntime,
//! PyTorch and the crates gemm, faer and ndarray, in interleaved rounds.

use super::machine::Machine;
use super::{peers, programs};
use crate::Result;
use crate::python::Python;
use crate::step::{self, Show};
use crate::workspace::{Workspace, shared_library};
use std::fmt::Write as _;
use std::fs;

/// The numbers of threads that every contender is measured with.
const THREADS: [usize; 2] = [1, 2];

/// Environment variables that restrict the contenders to AVX2 as far as possible: onnxruntime and
/// the Rust crates have no such switch.
const AVX2: [(&str, &str); 5] = [
    ("KERNPACK_CPU_LEVEL", "x86-64-v3"),
    ("OPENBLAS_CORETYPE", "Haswell"),
    ("NPY_DISABLE_CPU_FEATURES", "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL"),
    ("ATEN_CPU_CAPABILITY", "avx2"),
    ("ONEDNN_MAX_CPU_ISA", "AVX2"),
];

/// The contenders in the order of the columns: the name that the program prints, and the heading.
const PEERS: [(&str, &str); 7] = [
    ("numpy", "NumPy"),
    ("onnxruntime", "onnxruntime"),
    ("torch", "PyTorch"),
    ("torch_compiled", "torch.compile"),
    ("gemm", "gemm"),
    ("faer", "faer"),
    ("ndarray", "ndarray"),
];

/// The ways to measure PyTorch. PyPI's brings all of CUDA: 5 GB in `target/venv-bench-torch`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Torch {
    /// Not at all.
    Without,
    /// As it runs functions by itself.
    Eager,
    /// By `torch.compile` as well, which compiles C++ for minutes.
    Compiled,
}

/// The options of `bench compiler`.
pub(crate) struct Options<'a> {
    rounds: usize,
    torch: Torch,
    /// Parts of the names of the rows, with commas between them; empty: all rows.
    rows: &'a str,
    /// A program with arguments that runs the measurements, for instance one that keeps the machine
    /// quiet.
    through: &'a str,
}

impl<'a> Options<'a> {
    /// Reads the words after `bench compiler`.
    pub(crate) fn parse(words: &[&'a str]) -> Result<Self> {
        let mut options = Self { rounds: 9, torch: Torch::Eager, rows: "", through: "" };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if let Some(torch) = [("--without-torch", Torch::Without), ("--torch-compile", Torch::Compiled)]
                .into_iter()
                .find_map(|(option, torch)| (option == *word).then_some(torch))
            {
                options.torch = torch;
                continue;
            }
            let value = words.next().ok_or_else(|| format!("{word}: expected a value"))?;
            match *word {
                "--rounds" => {
                    let rounds = value.parse().ok().filter(|rounds| *rounds > 0);
                    options.rounds =
                        rounds.ok_or_else(|| format!("--rounds: expected a positive number, got '{value}'"))?;
                }
                "--rows" => options.rows = value,
                "--through" => options.through = value,
                _ => return Err(format!("bench compiler: unknown option '{word}'").into()),
            }
        }
        Ok(options)
    }
}

/// Builds, measures, prints the tables and writes them to `target/bench/compiler.md`.
pub(crate) fn run(words: &[&str]) -> Result {
    let Options { rounds, torch, rows, through } = Options::parse(words)?;
    let workspace = Workspace::find()?;
    let python = Python::prepare(&workspace)?;
    let sources = workspace.root().join("tests/bench");
    let package = "kernpack-bench-compiler";
    let folder =
        programs::build_cargo(&workspace, &python, &sources, "bench-ours", "release", &["--package", package])?;
    let library = shared_library(&folder, "kernpack_bench_compiler");
    let package = "kernpack-bench-gemm-peers";
    let folder =
        programs::build_cargo(&workspace, &python, &sources, "bench-ours", "release", &["--package", package])?;
    let peers = shared_library(&folder, "kernpack_bench_gemm_peers");
    let interpreter = match torch {
        Torch::Without => peers::interpreter(&workspace)?,
        Torch::Eager | Torch::Compiled => peers::interpreter_with_torch(&workspace)?,
    };
    let machine = Machine::find(&workspace)
        .program("rustc")
        .packages(&interpreter, &["numpy", "onnxruntime", "torch"])?
        .crates("tests/bench/Cargo.lock", package, &["gemm", "faer", "ndarray"])?;
    let mut text = format!(
        "{rounds} interleaved rounds ({machine}). Each contender is a process of its own, which is stopped while another one is measured.\n"
    );
    let runs = THREADS.map(|threads| (threads, false)).into_iter().chain([(1, true)]);
    for (threads, is_avx2) in runs {
        if is_avx2 && !cfg!(target_arch = "x86_64") {
            continue;
        }
        let mut through = through.split_whitespace();
        let mut program = match through.next() {
            Some(first) => {
                let mut program = workspace.command(first);
                program.args(through).arg(&interpreter);
                program
            }
            None => workspace.command(&interpreter),
        };
        program.arg(sources.join("python/compiler.py")).args([&library, &peers]);
        let compiles = if torch == Torch::Compiled { "compiles" } else { "eager" };
        program.args([&threads.to_string(), &rounds.to_string(), rows, compiles]);
        let mut what = format!("{threads} thread{}", if threads == 1 { "" } else { "s" });
        if is_avx2 {
            program.envs(AVX2);
            // The cache of torch.compile does not record the CPU that it was compiled for.
            program.env("TORCHINDUCTOR_CACHE_DIR", workspace.folder("bench")?.join("torch-compile-avx2"));
            what += ", AVX2 (onnxruntime and the crates are not held to it)";
        }
        let output = step::run(&format!("kernels beside their peers, {what}"), &mut program, Show::Lines)?;
        let _ = write!(text, "\n{}", table(&output, &what)?);
    }
    println!("\n{text}");
    let file = workspace.folder("bench")?.join("compiler.md");
    fs::write(&file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    println!("written to {}", file.display());
    Ok(())
}

/// The table of one run in Markdown: microseconds, and ours / the best peer. Contenders that were
/// not measured have no column.
fn table(output: &str, what: &str) -> Result<String> {
    let rows: Vec<(&str, Vec<&str>)> = output
        .lines()
        .filter_map(|line| {
            let mut columns = line.split('\t');
            Some((columns.next()?, columns.collect()))
        })
        .collect();
    let of = |measured: &[&str], who: &str| -> Option<(f64, f64)> {
        let (time, ratio) =
            measured.iter().find_map(|column| column.strip_prefix(who)?.strip_prefix('='))?.split_once(':')?;
        Some((time.parse().ok()?, ratio.parse().ok()?))
    };
    let shown: Vec<(&str, &str)> =
        PEERS.into_iter().filter(|(peer, _)| rows.iter().any(|(_, measured)| of(measured, peer).is_some())).collect();
    let headings: String = shown.iter().map(|(_, heading)| format!(" {heading} |")).collect();
    let mut text = format!("| {what}, microseconds | ours |{headings} ours / best peer |\n");
    let _ = writeln!(text, "|---|{}", "---:|".repeat(shown.len() + 2));
    let mut count = 0;
    for (name, measured) in &rows {
        let Some((ours, _)) = of(measured, "ours") else { continue };
        let peers: Vec<Option<(f64, f64)>> = shown.iter().map(|(peer, _)| of(measured, peer)).collect();
        let best = peers.iter().flatten().map(|(_, ratio)| *ratio).fold(f64::NAN, f64::max);
        let cells: String =
            peers.iter().map(|peer| peer.map_or(" - |".to_owned(), |(time, _)| format!(" {time:.1} |"))).collect();
        let _ = writeln!(text, "| {name} | {ours:.1} |{cells} {best:.2} |");
        count += 1;
    }
    if count == 0 {
        return Err("the benchmark of the compiler measured nothing".into());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_in_any_order() {
        let options = Options::parse(&["--rows", "stem,sum", "--torch-compile", "--rounds", "3"]).unwrap();
        assert!(options.rows == "stem,sum" && options.torch == Torch::Compiled && options.rounds == 3);
        assert!(options.through.is_empty());
        assert!(Options::parse(&["--without-torch"]).unwrap().torch == Torch::Without);
        for wrong in [&["--rounds", "0"][..], &["--rounds"], &["--row", "x"]] {
            assert!(Options::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_best_peer_has_the_largest_ratio() {
        let rows = "missing\ttorch\nproduct\tours=10.0:1.000\tnumpy=20.0:0.500\tonnxruntime=8.0:1.250\nsum\tours=3.0:1.000\tnumpy=2.0:1.500\n";
        let text = table(rows, "1 thread").unwrap();
        assert!(
            text.starts_with("| 1 thread, microseconds | ours | NumPy | onnxruntime | ours / best peer |\n"),
            "{text}"
        );
        assert!(text.contains("| product | 10.0 | 20.0 | 8.0 | 1.25 |\n"), "{text}");
        assert!(text.ends_with("| sum | 3.0 | 2.0 | - | 1.50 |\n"), "{text}");
        assert!(table("missing\tnumpy\n", "2 threads").is_err());
    }
}
