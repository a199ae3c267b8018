//! `cargo xtask rpc`: the tests of runtime/rpc alone, with the peers of Apache TVM. `cargo xtask test` runs them among all others.

use crate::Result;
use crate::apache_tvm;
use crate::step::{self, Show};
use crate::workspace::{Workspace, shared_library};

/// Runs the tests of the crate; words choose among them as for `cargo test`.
pub(crate) fn run(words: &[&str]) -> Result {
    let workspace = Workspace::find()?;
    let peers = apache_tvm::interpreter(&workspace)?;
    let mut build = workspace.cargo("build");
    build.args(["--package", "conversions"]);
    step::run("build the library that the tests upload", &mut build, Show::Warnings)?;
    let library = shared_library(&workspace.cargo_target().join("debug"), "conversions");
    let mut tests = workspace.cargo("test");
    tests.args(["--package", "kernpack-rpc", "--no-fail-fast", "--"]).args(words);
    tests.env("KERNPACK_APACHE_TVM", peers).env("CONVERSIONS_LIBRARY", library);
    step::run("test runtime/rpc with the peers of Apache TVM", &mut tests, Show::Lines)?;
    Ok(())
}
