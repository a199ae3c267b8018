//! The kit run here: against the stand-in for the driver, with kernels that run on the host, in an
//! empty environment, and without a network if root runs it.

use crate::Result;
use crate::environment::Environment;
use crate::step::{self, Show};
use crate::workspace::Workspace;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The outcome of each step, in order. A step that needs more than the stand-in is skipped, with
/// the reason.
const OUTCOMES: [(&str, &str); 31] = [
    ("versions", "passed"),
    ("device", "passed"),
    ("launches", "passed"),
    ("arithmetic", "passed"),
    ("streams", "passed"),
    ("memory", "passed"),
    ("threads", "passed"),
    ("copies", "passed"),
    ("python extension", "passed"),
    ("torch", "skipped: needs torch"),
    ("tvm_ffi", "passed"),
    ("cupy", "skipped: needs cupy"),
    ("jax", "skipped: needs jax"),
    ("nvrtc", "skipped: needs a real GPU: this is the stand-in for the driver"),
    ("image several-architectures", "passed"),
    ("image ptx", "passed"),
    ("image compressed", "passed"),
    ("mistake bad-ptx", "passed"),
    ("mistake wrong-architecture", "passed"),
    ("mistake cut-off", "passed"),
    ("mistake out-of-memory", "passed"),
    ("mistake illegal-address", "passed"),
    ("mistake too-many-threads", "passed"),
    ("mistake too-large-grid", "passed"),
    ("mistake too-much-shared-memory", "passed"),
    ("mistake tensor-elsewhere", "passed"),
    ("sanitizer memcheck", "skipped: needs a real GPU: this is the stand-in for the driver"),
    ("sanitizer racecheck", "skipped: needs a real GPU: this is the stand-in for the driver"),
    ("sanitizer initcheck", "skipped: needs a real GPU: this is the stand-in for the driver"),
    ("sanitizer finds a planted error", "skipped: needs a real GPU: this is the stand-in for the driver"),
    ("launch cost", "passed"),
];

/// The status of a run.py that finds no GPU.
const NO_GPU: i32 = 3;

/// Runs the kit twice: against the stand-in, where every step must have its outcome of the table,
/// and without any driver, where each step that needs a GPU must report so.
pub(super) fn run(environment: &Environment, kit: &Path) -> Result {
    let work = environment.workspace.folder("gpu-kit-work")?;
    let driver = stand_in(&environment.workspace, &work)?;
    let results = work.join("results");

    let mut command = alone(environment, kit);
    command.arg("LD_LIBRARY_PATH=".to_string() + &driver.to_string_lossy());
    command.arg("FAKE_CUDA_KERNELS=".to_string() + &driver.join("host_kernels.so").to_string_lossy());
    run_py(environment, &mut command, kit, &results).args(["--seed", "27"]);
    let finished = step::watch("gpu-kit: run.py with the stand-in", &mut command, Show::Warnings)?;
    let found = outcomes(&fs::read_to_string(results.join("results.jsonl"))?)?;
    let expected: Vec<_> = OUTCOMES.iter().map(|(step, outcome)| ((*step).to_owned(), (*outcome).to_owned())).collect();
    differences(&found, &expected, &finished.output)?;
    if !finished.success {
        return Err(format!("gpu-kit: every step is as expected, but {}", finished.status).into());
    }

    if Path::new("/dev/nvidiactl").exists() {
        println!("skipped: this machine has a driver, so no run of the kit can be without one");
        return Ok(());
    }
    let mut command = alone(environment, kit);
    run_py(environment, &mut command, kit, &results);
    let output = command.output()?;
    if output.status.code() != Some(NO_GPU) {
        return Err(format!(
            "gpu-kit: run.py without a driver: expected status {NO_GPU}, it {}:\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
        .into());
    }
    let found = outcomes(&fs::read_to_string(results.join("results.jsonl"))?)?;
    let wrong =
        found.iter().find(|(step, outcome)| step != "versions" && !outcome.starts_with("skipped: needs a GPU: "));
    match wrong {
        Some((step, outcome)) => Err(format!("gpu-kit: without a driver: {step}: {outcome}").into()),
        None => Ok(()),
    }
}

/// The differences between steps and outcomes, with the output of run.py.
fn differences(found: &[(String, String)], expected: &[(String, String)], output: &str) -> Result {
    let lacking: Vec<String> = expected
        .iter()
        .filter(|row| !found.contains(row))
        .map(|(step, outcome)| {
            let other = found.iter().find(|(name, _)| name == step).map_or("no such step", |(_, outcome)| outcome);
            format!("{step}: expected {outcome}, got {other}")
        })
        .collect();
    let new: Vec<&String> =
        found.iter().map(|(step, _)| step).filter(|step| !expected.iter().any(|(name, _)| name == *step)).collect();
    if !new.is_empty() {
        return Err(format!("gpu-kit: steps that the table in xtask/src/gpu_kit/check.rs lacks: {new:?}").into());
    }
    if lacking.is_empty() {
        return Ok(());
    }
    println!("{output}");
    Err(format!("gpu-kit: {}", lacking.join("; ")).into())
}

/// The steps and outcomes of results.jsonl; `skipped` with its reason.
fn outcomes(lines: &str) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for line in lines.lines() {
        let value: serde_json::Value = serde_json::from_str(line)?;
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        if value.get("step").is_none() {
            continue;
        }
        let outcome = match text("outcome") {
            skipped if skipped == "skipped" => format!("skipped: {}", text("why")),
            outcome => outcome,
        };
        found.push((text("step"), outcome));
    }
    Ok(found)
}

/// A command with an empty environment, and without a network if this user may leave it
/// (`unshare --net`).
fn alone(environment: &Environment, kit: &Path) -> Command {
    let mut unshare = environment.workspace.command("unshare");
    let can = unshare.args(["--net", "true"]).output().is_ok_and(|output| output.status.success());
    let mut command = environment.workspace.command(if can { "unshare" } else { "env" });
    if can {
        command.args(["--net", "env"]);
    } else {
        println!("gpu-kit: this user cannot leave the network (unshare --net), so the steps could reach it");
    }
    command.arg("-i").current_dir(kit);
    command
}

/// Adds run.py with its folder for results.
fn run_py<'c>(environment: &Environment, command: &'c mut Command, kit: &Path, results: &Path) -> &'c mut Command {
    command.arg(environment.python.interpreter()).arg(kit.join("run.py")).arg("--out").arg(results)
}

/// The folder with the stand-in for the driver, under the names that programs look for, and the
/// kernels.
fn stand_in(workspace: &Workspace, work: &Path) -> Result<PathBuf> {
    let folder = work.join("driver");
    fs::create_dir_all(&folder)?;
    let shared = ["-shared", "-fPIC", "-O2", "-pthread"];
    let mut cc = workspace.command("cc");
    cc.args(shared).arg("-Wl,-soname,libcuda.so").arg("-o").arg(folder.join("libcuda.so"));
    cc.arg(workspace.root().join("tests/c/fake_libcuda.c"));
    step::run("compile tests/c/fake_libcuda.c", &mut cc, Show::Warnings)?;
    fs::copy(folder.join("libcuda.so"), folder.join("libcuda.so.1"))?;
    let mut cc = workspace.command("cc");
    cc.args(shared).arg("-o").arg(folder.join("host_kernels.so"));
    cc.arg(workspace.root().join(super::SOURCES).join("host_kernels.c")).arg("-lm");
    step::run("compile host_kernels.c", &mut cc, Show::Warnings)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_outcomes() {
        let lines = "{\"machine\": {}, \"seed\": 1}\n\
                     {\"step\": \"a\", \"outcome\": \"passed\", \"why\": \"\"}\n\
                     {\"step\": \"b\", \"outcome\": \"skipped\", \"why\": \"needs torch\"}\n";
        let found = outcomes(lines).unwrap();
        let row = |step: &str, outcome: &str| (step.to_owned(), outcome.to_owned());
        assert_eq!(found, [row("a", "passed"), row("b", "skipped: needs torch")]);
        let expected = [row("a", "passed"), row("b", "passed"), row("c", "passed")];
        assert_eq!(
            differences(&found, &expected, "").unwrap_err().to_string(),
            "gpu-kit: b: expected passed, got skipped: needs torch; c: expected passed, got no such step"
        );
        assert_eq!(
            differences(&found, &expected[..1], "").unwrap_err().to_string(),
            "gpu-kit: steps that the table in xtask/src/gpu_kit/check.rs lacks: [\"b\"]"
        );
    }

    /// The table of steps and that of outcomes have the same steps, in the same order.
    #[test]
    fn every_step_has_an_outcome() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/gpu/kit/steps.json");
        let steps: serde_json::Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let names: Vec<&str> =
            steps["steps"].as_array().unwrap().iter().map(|step| step["name"].as_str().unwrap()).collect();
        assert_eq!(names, OUTCOMES.map(|(step, _)| step));
    }
}
