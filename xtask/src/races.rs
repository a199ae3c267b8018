//! `cargo xtask races`: tests of concurrent operations. loom explores the interleavings of the
//! lock-free protocols; ThreadSanitizer watches threads that register and look up.

use crate::Result;
use crate::step::{self, Show};
use crate::totals::Totals;
use crate::workspace::Workspace;

/// The only target that is tested with the sanitizer.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Runs both, regardless of the outcome of the first.
pub(crate) fn run() -> Result {
    let workspace = Workspace::find()?;
    let outcomes = [loom(&workspace), thread_sanitizer(&workspace)];
    let failures: Vec<String> =
        outcomes.into_iter().filter_map(|outcome| outcome.err().map(|e| e.to_string())).collect();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("; ").into()) }
}

/// Runs the models in `tests/loom`, a crate of its own that includes the sources of the protocols.
fn loom(workspace: &Workspace) -> Result {
    let mut cargo = workspace.cargo("test");
    cargo.args(["--release", "--manifest-path", "tests/loom/Cargo.toml"]);
    cargo.env("CARGO_TARGET_DIR", workspace.folder("loom")?);
    watch("loom: the models of tests/loom", &mut cargo)
}

/// Runs the stress tests, instrumented. The standard library is not instrumented, so the locks of
/// the runtime are built in a way that the sanitizer understands (`kernpack_tsan`).
fn thread_sanitizer(workspace: &Workspace) -> Result {
    let mut cargo = workspace.cargo("test");
    cargo.args(["--package", "kernpack", "--test", "threads", "--target", TARGET]);
    cargo.env("CARGO_TARGET_DIR", workspace.folder("tsan")?).env("RUSTC_BOOTSTRAP", "1");
    cargo.env("RUSTFLAGS", "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg kernpack_tsan");
    let suppressions = workspace.root().join("tests/tsan.supp");
    cargo.env("TSAN_OPTIONS", format!("suppressions={}", suppressions.display()));
    watch("ThreadSanitizer: runtime/tests/threads.rs", &mut cargo)
}

/// Runs the tests. It is a failure if there are none.
fn watch(name: &str, command: &mut std::process::Command) -> Result {
    let finished = step::watch(name, command, Show::Lines)?;
    let totals = Totals::of_cargo(&finished.output);
    println!("{name}: {totals}");
    match (finished.success, totals.passed) {
        (true, 1..) => Ok(()),
        (true, 0) => Err(format!("{name}: no test ran").into()),
        (false, _) => Err(format!("{name}: failed").into()),
    }
}
