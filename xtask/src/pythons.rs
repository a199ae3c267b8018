//! `cargo xtask pythons`: tests the extension module with versions of Python that this machine may
//! not have. CI runs it with the versions that pyenv or PATH has; this command uses those of Debian
//! unstable, and builds a free-threaded one.

use crate::Result;
use crate::environment::Environment;
use crate::step::{self, Show};
use crate::workspace::shared_library;

/// The only target that is tested with the thread sanitizer.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// The name of the instrumented Python.
const WATCHED: &str = "3.13t-tsan";

/// Runs the checks with these versions, or with all but the instrumented one.
pub(crate) fn run(versions: &[&str]) -> Result {
    let environment = Environment::prepare()?;
    let (watched, others): (Vec<&str>, Vec<&str>) = versions.iter().partition(|version| **version == WATCHED);
    if watched.is_empty() || !others.is_empty() {
        let mut cargo = environment.cargo("build");
        step::run("build tests/extension-lib", cargo.args(["--package", "extmod"]), Show::Warnings)?;
        check(&environment, &environment.workspace.cargo_target().join("debug"), &others)?;
    }
    if watched.is_empty() {
        return Ok(());
    }
    let folder = environment.workspace.folder("tsan")?;
    let mut cargo = environment.cargo("build");
    cargo
        .args(["--package", "extmod", "--target", TARGET])
        .env("CARGO_TARGET_DIR", &folder)
        .env("RUSTC_BOOTSTRAP", "1");
    cargo.env("RUSTFLAGS", "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg kernpack_tsan");
    step::run("build tests/extension-lib for ThreadSanitizer", &mut cargo, Show::Warnings)?;
    check(&environment, &folder.join(TARGET).join("debug"), &watched)
}

/// Runs `versions.py` with the library in a folder.
fn check(environment: &Environment, folder: &std::path::Path, versions: &[&str]) -> Result {
    let pythons = environment.workspace.folder("pythons")?;
    let mut python = environment.command(environment.python.interpreter());
    python.arg("tests/python_extension/versions.py").arg(pythons).arg(shared_library(folder, "extmod")).args(versions);
    step::run("the extension module under other Pythons", &mut python, Show::Lines)?;
    Ok(())
}
