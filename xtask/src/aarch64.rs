//! `cargo xtask test --aarch64`: only the tests that build for 64-bit ARM, and run what they built
//! under qemu.

use crate::Result;
use crate::artifacts::Imagekit;
use crate::cross_compiler::{self, TARGET};
use crate::environment::Environment;
use crate::runner::Report;
use crate::totals::Totals;

/// The tests: package, test program, and the part of it.
const TESTS: [(&str, &str, &str); 2] =
    [("kernpack-tests", "export", "on_aarch64::"), ("kernpack-build", "scratch", "other_machine::")];

/// Unit tests of the runtime, and the parts of them that are left out: features that the emulator
/// lacks (the child of a fork, the error of a program that does not exist), and tests that take
/// minutes under it.
const UNIT_TESTS: [&str; 10] = [
    "module::",
    "embedded::",
    "value::",
    "host",
    "function::",
    "object::",
    "container::",
    "device::",
    "tensor::",
    "reflect::",
];
const NOT_HERE: [&str; 5] = [
    "thread_pool::tests::the_child_of_a_fork",
    "compiler::tests::a_failure_shows",
    "zstd::tests::hostile_payloads",
    "deep",
    "depth",
];

/// Prepares the requirements of the tests and runs them.
pub(crate) fn run() -> Result {
    let environment = Environment::prepare()?;
    let variables = cross_compiler::prepare(&environment);
    let imagekit = Imagekit::build(&environment)?.library;
    let mut report = Report::default();
    for (package, program, part) in TESTS {
        let mut cargo = environment.cargo("test");
        cargo.args(["--package", package, "--test", program, part]).envs(variables.clone());
        cargo.env("IMAGEKIT_LIBRARY", &imagekit);
        let name = format!("cargo test --package {package} --test {program} {part}");
        report.add(name.trim_end(), &mut cargo, Totals::of_cargo)?;
    }
    let mut cargo = environment.cargo("test");
    cargo.args([
        "--target",
        TARGET,
        "--package",
        "kernpack-core",
        "--lib",
        "--features",
        "builtins,cuda,opencl,zstd",
        "--",
    ]);
    cargo.args(UNIT_TESTS).args(NOT_HERE.iter().flat_map(|test| ["--skip", test])).envs(variables);
    cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");
    cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", "qemu-aarch64 -L /usr/aarch64-linux-gnu");
    report.add("unit tests of the runtime for 64-bit ARM", &mut cargo, Totals::of_cargo)?;
    report.close()
}
