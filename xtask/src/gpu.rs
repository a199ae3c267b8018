//! `cargo xtask test --gpu`: the tests that need an NVIDIA GPU. On a machine without a GPU they are
//! built, their images are tested, and each other test says in one line that nothing was launched.

use crate::Result;
use crate::artifacts::{self, Imagekit};
use crate::bench::devices::{self, Launches};
use crate::environment::Environment;
use crate::pytest;
use crate::runner::Report;
use crate::totals::Totals;

/// The folder with the Python tests.
pub(crate) const PYTHON_TESTS: &str = "tests/gpu/python";

/// Builds the kernels, runs the tests from Rust and from Python, and measures launches.
pub(crate) fn run() -> Result {
    let environment = Environment::prepare()?;
    let libraries = [
        ("IMAGEKIT_LIBRARY", Imagekit::build(&environment)?.library),
        ("GPU_LIBRARY", artifacts::build_gpu_kernels(&environment)?),
    ];
    let mut report = Report::default();

    let mut rust = environment.cargo("test");
    rust.args(["--package", "kernpack-gpu-tests", "--no-fail-fast"]).envs(libraries.clone());
    report.add("cargo test --package kernpack-gpu-tests", &mut rust, Totals::of_cargo)?;

    let mut pytest = environment.command(environment.python.interpreter());
    pytest::arguments(&mut pytest).arg(PYTHON_TESTS).envs(libraries);
    report.add(&format!("pytest {PYTHON_TESTS}"), &mut pytest, Totals::of_pytest)?;

    let programs = Launches::build(&environment.workspace, &environment.python)?;
    for (title, measured) in [
        ("a launch, by a driver that does nothing", programs.without_driver(&environment.workspace)?),
        ("a launch, by this machine's driver", programs.with_driver(&environment.workspace)?),
    ] {
        if !measured.is_empty() {
            println!("\n{}", devices::table(title, "cudarc", &measured));
        }
    }
    report.close()
}
