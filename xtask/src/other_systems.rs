//! `cargo xtask systems`: checks that the runtime, the macros and the build helper compile for
//! macOS and Windows. Nothing is linked or run, because no such machine is available. README.md
//! states this as well.

use crate::Result;
use crate::environment::{Environment, on_ci};
use crate::rust_target;
use crate::step::{self, Show};

const TARGETS: [&str; 2] = ["aarch64-apple-darwin", "x86_64-pc-windows-gnu"];
const PACKAGES: [&str; 3] = ["kernpack", "kernpack-macros", "kernpack-build"];

/// Checks all packages for each target. A target without an available standard library is reported
/// and skipped, except on CI.
pub(crate) fn run(environment: &Environment) -> Result {
    for target in TARGETS {
        let flags = match rust_target::prepare(environment, target) {
            Ok(flags) => flags,
            Err(error) if on_ci() => return Err(format!("{target} cannot be skipped on CI: {error}").into()),
            Err(error) => {
                println!("skipped: {target} is not checked: {error}");
                continue;
            }
        };
        let mut cargo = environment.cargo("check");
        cargo.args(["--target", target]).args(PACKAGES.iter().flat_map(|package| ["--package", package]));
        // Nothing is linked, and LLVM for these systems is not available here: as on docs.rs, the
        // build script does not look for it.
        cargo.env("DOCS_RS", "1");
        if let Some(flags) = flags {
            cargo.env("RUSTFLAGS", flags);
        }
        step::run(&format!("cargo check --target {target}"), &mut cargo, Show::Warnings)?;
    }
    Ok(())
}
