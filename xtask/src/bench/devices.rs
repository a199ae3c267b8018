//! The cost of devices: launching a CUDA kernel, ours beside cudarc's `launch_builder`, and
//! OpenCL's copies and launches, ours beside clEnqueue*. CUDA is measured with a driver whose
//! launches do nothing, which shows our own cost, and with the machine's driver if it has a GPU.

use super::figures::{duration, verdict};
use super::programs;
use crate::Result;
use crate::opencl::OpenCl;
use crate::python::Python;
use crate::step::{self, Show};
use crate::workspace::{Workspace, shared_library};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The limit for our time, as a multiple of the peer's.
const LIMIT: f64 = 1.1;

/// One row: the operation, and the nanoseconds of one call.
pub(crate) struct Line {
    name: String,
    ours: f64,
    peer: f64,
}

/// The built program.
pub(crate) struct Launches {
    program: PathBuf,
    stand_in: PathBuf,
}

impl Launches {
    /// Builds the program with optimization, and the driver that does nothing.
    pub(crate) fn build(workspace: &Workspace, python: &Python) -> Result<Self> {
        let sources = workspace.root().join("tests/bench");
        let package = "kernpack-bench-cuda-launch";
        let folder =
            programs::build_cargo(workspace, python, &sources, "bench-ours", "release", &["--package", package])?;
        let stand_in = shared_library(&workspace.folder("bench")?, "cuda_that_does_nothing");
        let mut command = workspace.command("cc");
        command.args(["-DQUIET", "-shared", "-fPIC", "-O2", "-pthread", "-Wl,-soname,libcuda.so", "-o"]).arg(&stand_in);
        command.arg(workspace.root().join("tests/c/fake_libcuda.c"));
        step::run("compile tests/c/fake_libcuda.c", &mut command, Show::Warnings)?;
        Ok(Launches { program: folder.join(package), stand_in })
    }

    /// Measures with the driver that does nothing.
    pub(crate) fn without_driver(&self, workspace: &Workspace) -> Result<Vec<Line>> {
        self.measure(workspace, Some(&self.stand_in))
    }

    /// Measures with the machine's driver; empty without a GPU, which the program reports.
    pub(crate) fn with_driver(&self, workspace: &Workspace) -> Result<Vec<Line>> {
        self.measure(workspace, None)
    }

    fn measure(&self, workspace: &Workspace, driver: Option<&Path>) -> Result<Vec<Line>> {
        let mut command = workspace.command(&self.program);
        if let Some(driver) = driver {
            command.arg("--driver").arg(driver);
        }
        let name = if driver.is_some() { "launches without a driver" } else { "launches with the machine's driver" };
        let output = step::run(name, &mut command, Show::Lines)?;
        // Other lines are messages, which have been shown.
        Ok(output.lines().filter_map(Line::parse).collect())
    }
}

impl Line {
    fn parse(line: &str) -> Option<Self> {
        let mut columns = line.split('\t');
        let (name, ours, peer) = (columns.next()?, columns.next()?.parse().ok()?, columns.next()?.parse().ok()?);
        Some(Line { name: name.to_owned(), ours, peer })
    }
}

/// Measures copies between the CPU and opencl:0, and launches there; empty without an OpenCL
/// device, which the message reports.
pub(crate) fn opencl(workspace: &Workspace, python: &Python, opencl: &OpenCl) -> Result<Vec<Line>> {
    if let OpenCl::Missing(why) = opencl {
        println!("no OpenCL device was measured: {why}");
        return Ok(Vec::new());
    }
    let package = "kernpack-bench-opencl";
    let sources = workspace.root().join("tests/bench");
    let folder = programs::build_cargo(workspace, python, &sources, "bench-ours", "release", &["--package", package])?;
    let mut command = workspace.command(folder.join(package));
    opencl.describe(workspace, &mut command);
    let output = step::run("copies and launches on opencl:0", &mut command, Show::Lines)?;
    Ok(output.lines().filter_map(Line::parse).collect())
}

/// The lines as a table beside a peer.
pub(crate) fn table(title: &str, peer: &str, lines: &[Line]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut table = format!("\n| {title} | ours | {peer} | ours / peer | goal {LIMIT} |\n|---|---:|---:|---:|---|\n");
    for Line { name, ours, peer } in lines {
        let ratio = ours / peer;
        let verdict = verdict(ratio <= LIMIT);
        let [ours, peer] = [*ours, *peer].map(duration);
        let _ = writeln!(table, "| {} | {ours} | {peer} | {ratio:.2} | {verdict} |", name.replace('_', " "));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_a_table() {
        let output = "no launch was measured: why\nlaunch_4\t21.5\t20.0\nlaunch_9\t30\t20.0\nlaunch\tx\t1\n";
        let lines: Vec<Line> = output.lines().filter_map(Line::parse).collect();
        assert_eq!(
            table("a launch", "cudarc", &lines),
            "\n| a launch | ours | cudarc | ours / peer | goal 1.1 |\n|---|---:|---:|---:|---|\n\
             | launch 4 | 21.5 ns | 20.0 ns | 1.07 | met |\n| launch 9 | 30.0 ns | 20.0 ns | 1.50 | missed |\n"
        );
    }
}
