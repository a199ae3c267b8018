//! `cargo xtask rpc`: the tests of runtime/rpc and of its pure Python client, with the peers of
//! Apache TVM. `cargo xtask test` includes them.

use crate::Result;
use crate::apache_tvm;
use crate::pytest;
use crate::python::Python;
use crate::step::{self, Show};
use crate::workspace::{Workspace, shared_library};
use std::path::PathBuf;

fn soak() -> Result {
    let workspace = Workspace::find()?;
    let mut tests = workspace.cargo("test");
    tests.args([
        "--release",
        "--package",
        "kernpack-rpc",
        "--test",
        "server",
        "--",
        "soak",
        "--nocapture",
        "--test-threads",
        "1",
    ]);
    tests.env("KERNPACK_RPC_SOAK", "1");
    step::run("soak the server", &mut tests, Show::Lines)?;
    let mut tests = workspace.cargo("test");
    tests.args(["--package", "kernpack-rpc", "--test", "ours", "--", "nothing_is_left"]);
    tests.env("KERNPACK_RPC_SOAK", "1");
    step::run("soak the client", &mut tests, Show::Lines)?;
    Ok(())
}

/// Runs all tests; with words, the crate's tests with one of them in their names. `--soak` runs the
/// tests for leaks with the full number of calls, sessions, strangers and bytes: it takes minutes,
/// and 9 GiB of memory.
pub(crate) fn run(words: &[&str]) -> Result {
    if words == ["--soak"] {
        return soak();
    }
    let workspace = Workspace::find()?;
    let peers = apache_tvm::interpreter(&workspace)?;
    let mut build = workspace.cargo("build");
    build.args(["--package", "conversions", "--package", "python-rpc"]);
    step::run("build the library that the tests upload, and the client for Python", &mut build, Show::Warnings)?;
    let folder = workspace.cargo_target().join("debug");
    let library = shared_library(&folder, "conversions");
    let mut tests = workspace.cargo("test");
    tests.args(["--package", "kernpack-rpc", "--features", "tls", "--no-fail-fast", "--"]).args(words);
    tests.env("KERNPACK_APACHE_TVM", &peers).env("CONVERSIONS_LIBRARY", &library);
    step::run("test runtime/rpc with the peers of Apache TVM", &mut tests, Show::Lines)?;
    if !words.is_empty() {
        return Ok(());
    }
    let python = Python::prepare(&workspace)?;
    let mut pytest = workspace.command(python.interpreter());
    pytest::arguments(&mut pytest).arg("examples/python-rpc/python");
    pytest.env("KERNPACK_APACHE_TVM", &peers).env("CONVERSIONS_LIBRARY", &library);
    pytest.env("PYTHON_RPC_LIBRARY", shared_library(&folder, "python_rpc"));
    pytest::run("pytest examples/python-rpc/python", &mut pytest)?;
    let mut board = workspace.cargo("test");
    board.args(["--package", "remote", "--", "--nocapture"]).env("KERNPACK_APACHE_TVM", &peers);
    board.env("REMOTE_PHOTO", photograph(&workspace, &python)?);
    step::run("examples/remote on a board that qemu makes of this machine", &mut board, Show::Lines)?;
    Ok(())
}

/// The photograph of the demo.
fn photograph(workspace: &Workspace, python: &Python) -> Result<PathBuf> {
    let folder = workspace.folder("demo")?;
    let photo = folder.join("photo.ppm");
    if !photo.is_file() {
        let mut prepare = workspace.command(python.interpreter());
        prepare.arg("examples/imagekit/python/prepare.py").env("KERNPACK_DEMO_DIR", &folder);
        step::run("the photograph", prepare.env("PYTHONDONTWRITEBYTECODE", "1"), Show::Warnings)?;
    }
    Ok(photo)
}
