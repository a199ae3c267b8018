//! `cargo xtask test --aarch64`: only the tests that build for 64-bit ARM, and run what they built under qemu.

use crate::Result;
use crate::artifacts::Imagekit;
use crate::cross_compiler;
use crate::environment::Environment;
use crate::runner::Report;
use crate::totals::Totals;

/// The tests: package, test program, and the part of it.
const TESTS: [(&str, &str, &str); 2] =
    [("kernpack-tests", "aarch64", ""), ("kernpack-build", "scratch", "other_machine::")];

/// Prepares what they need and runs them.
pub(crate) fn run() -> Result {
    let environment = Environment::prepare()?;
    let variables = cross_compiler::prepare(&environment);
    let imagekit = Imagekit::build(&environment)?.library;
    let mut report = Report::default();
    for (package, program, part) in TESTS {
        let mut cargo = environment.cargo("test");
        cargo.args(["--package", package, "--test", program, part]).envs(variables.clone());
        cargo.env("IMAGEKIT_LIBRARY", &imagekit);
        report.add(&format!("cargo test --package {package} --test {program} {part}"), &mut cargo, Totals::of_cargo)?;
    }
    report.close()
}
