//! `cargo xtask fuzz`: runs libFuzzer on the properties that must hold for any input (the crate in
//! `tests/fuzz/`), for a limited time.
//!
//! The programs run with AddressSanitizer, its check for leaks, and checks of arithmetic. New
//! inputs of a run are kept in `target/fuzz/corpus`; the next run starts from them and from
//! `tests/fuzz/corpus`, which is in the repository and which `cargo test` replays.

use crate::Result;
use crate::step::{self, Show};
use crate::workspace::Workspace;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The help text of the command.
const USAGE: &str =
    "usage: cargo xtask fuzz [json | json_graph | dtype | dlpack | library_bin | device_image | module_tree | rpc | onnx] [options]

Without a name all but `onnx` run: the compiler, which it reads models for, takes minutes to build with counters.

  --seconds N   for how long each target runs (default 60)
  --merge       then adds what reaches new code to tests/fuzz/corpus
";

/// The last target runs only if it is named.
const TARGETS: [&str; 9] =
    ["json", "json_graph", "dtype", "dlpack", "library_bin", "device_image", "module_tree", "rpc", "onnx"];

/// The target that needs the feature `models` of the crate.
const MODELS: &str = "onnx";

/// The only platform that the targets are built for.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The flags that cargo-fuzz passes: counters at each edge, comparisons that are reported to the
/// fuzzer, the sanitizer.
const RUSTFLAGS: &str = "--cfg fuzzing -Zsanitizer=address -Cforce-frame-pointers=yes -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";

/// The limits of a target: seconds for one input, memory in all and in one block in MiB, and the
/// length of an input in bytes.
const LIMITS: [&str; 4] = ["-timeout=20", "-rss_limit_mb=2048", "-malloc_limit_mb=512", "-max_len=4096"];

/// The targets to run, and the time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    targets: Vec<&'static str>,
    seconds: u32,
    merges: bool,
}

impl Run {
    /// Every target but `onnx`, for this many seconds.
    pub(crate) fn everything(seconds: u32) -> Self {
        Run { targets: TARGETS.into_iter().filter(|target| *target != MODELS).collect(), seconds, merges: false }
    }

    /// Reads the words after `cargo xtask fuzz`.
    pub(crate) fn parse(arguments: &[&str]) -> Result<Self> {
        let mut run = Run::everything(60);
        let mut targets = Vec::new();
        let mut words = arguments.iter();
        while let Some(&word) = words.next() {
            match word {
                "--seconds" => match words.next().and_then(|word| word.parse().ok()) {
                    Some(seconds @ 1..) => run.seconds = seconds,
                    _ => return Err("--seconds: expected a positive number".into()),
                },
                "--merge" => run.merges = true,
                _ => match TARGETS.into_iter().find(|target| *target == word) {
                    Some(target) => targets.push(target),
                    None => return Err(format!("unknown argument '{word}'\n{USAGE}").into()),
                },
            }
        }
        if !targets.is_empty() {
            run.targets = targets;
        }
        Ok(run)
    }
}

/// Builds the programs and runs one after the other, also after a failure.
pub(crate) fn run(run: &Run) -> Result {
    let workspace = Workspace::find()?;
    let programs = build(&workspace, run.targets.contains(&MODELS))?;
    let mut failed = Vec::new();
    for &target in &run.targets {
        if let Err(error) = run_target(&workspace, &programs, target, run) {
            println!("{error}");
            failed.push(target);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("fuzz: failed: {}", failed.join(", ")).into()) }
}

/// Builds the programs in a folder of their own, and the one that reads models if it is to run.
/// Returns the folder.
fn build(workspace: &Workspace, with_models: bool) -> Result<PathBuf> {
    let folder = workspace.folder("fuzz/build")?;
    let mut cargo = workspace.cargo("build");
    cargo.args(["--release", "--package", "kernpack-fuzz", "--features", "libfuzzer", "--bins", "--target", TARGET]);
    cargo.env("CARGO_TARGET_DIR", &folder).env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", RUSTFLAGS);
    cargo.env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only").env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true");
    // With one codegen unit, the counters of a crate are one section, which the linker keeps or
    // drops as a whole.
    cargo.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1");
    // With `opt-level=1` only: they are large, and small models are read fast enough.
    for package in ["kernpack-compiler", "kernpack-graph"] {
        cargo.args(["--config", &format!("profile.release.package.{package}.opt-level=1")]);
    }
    if !with_models {
        cargo.arg("--no-default-features");
    }
    step::run("build the fuzz targets", &mut cargo, Show::Warnings)?;
    Ok(folder.join(TARGET).join("release"))
}

fn run_target(workspace: &Workspace, programs: &Path, target: &str, run: &Run) -> Result {
    let found = workspace.folder(&format!("fuzz/corpus/{target}"))?;
    let artifacts = workspace.folder("fuzz/artifacts")?;
    let kept = workspace.root().join("tests/fuzz/corpus").join(target);
    let program = || -> Command {
        let mut program = workspace.command(programs.join(target));
        let dictionary = workspace.root().join("tests/fuzz/dictionaries").join(format!("{target}.dict"));
        if dictionary.is_file() {
            program.arg(format!("-dict={}", dictionary.display()));
        }
        program.args(LIMITS).arg(format!("-artifact_prefix={}/{target}-", artifacts.display()));
        program
    };
    let mut fuzz = program();
    fuzz.arg(format!("-max_total_time={}", run.seconds)).arg("-print_final_stats=1").arg(&found).arg(&kept);
    let finished = step::watch(&format!("fuzz {target} for {} s", run.seconds), &mut fuzz, Show::Warnings)?;
    if !finished.success {
        let artifact =
            finished.output.lines().find_map(|line| line.split_once("Test unit written to ")).map(|(_, file)| file);
        return Err(match artifact {
            Some(file) => format!(
                "{target}: an input breaks what must hold: {file}; with the mistake mended, keep it in tests/fuzz/corpus/{target}, under a \
                 name that says what it is"
            ),
            None => format!("{target}: {}", finished.status),
        }
        .into());
    }
    println!("{target}: {}", summary(&finished.output));
    if run.merges {
        let mut merge = program();
        // Keeps few files: one for each edge that no other file reaches, regardless of counts.
        merge.args(["-set_cover_merge=1", "-use_counters=0"]).arg(&kept).arg(&found);
        step::run(&format!("merge what {target} found into {}", kept.display()), &mut merge, Show::Warnings)?;
        println!("{target}: {} files in {}", fs::read_dir(&kept)?.count(), kept.display());
    }
    Ok(())
}

/// The closing line of libFuzzer: `#5 DONE cov: 1 ft: 2 corp: 3/4b ...`, in words.
fn summary(output: &str) -> String {
    let words: Vec<&str> =
        output.lines().rev().find(|line| line.contains("\tDONE")).unwrap_or("").split_whitespace().collect();
    let behind =
        |name: &str| words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1)).unwrap_or(&"?");
    let inputs = words.first().unwrap_or(&"?").trim_start_matches('#');
    let corpus = behind("corp:").split('/').next().unwrap_or("?");
    format!("{inputs} inputs, {} edges, {} features, {corpus} inputs worth keeping", behind("cov:"), behind("ft:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments() {
        assert_eq!(Run::parse(&[]).unwrap(), Run::everything(60));
        let run = Run::parse(&["dtype", "--seconds", "5", "json", "--merge"]).unwrap();
        assert_eq!(run, Run { targets: vec!["dtype", "json"], seconds: 5, merges: true });
        for (arguments, expected) in [
            (&["jsn"][..], "unknown argument 'jsn'"),
            (&["--seconds"], "--seconds: expected a positive number"),
            (&["--seconds", "0"], "--seconds: expected a positive number"),
        ] {
            let error = Run::parse(arguments).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn the_targets_are_those_of_the_crate() {
        let list = include_str!("../../tests/fuzz/src/lib.rs");
        for target in TARGETS {
            assert!(list.contains(&format!("(\"{target}\", {target}::check)")), "{target}");
        }
        assert_eq!(list.matches("::check)").count(), TARGETS.len());
    }

    #[test]
    fn the_closing_line() {
        let output = "#1\tINITED cov: 1\n#487143\tDONE   cov: 4319 ft: 12133 corp: 968/222Kb lim: 1899 exec/s: 11881 rss: 483Mb\nDone\n";
        assert_eq!(summary(output), "487143 inputs, 4319 edges, 12133 features, 968 inputs worth keeping");
    }
}
