//! Builds the library for both machines with cargo.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;
use crate::options::Options;

/// The library's file.
pub(crate) const LIBRARY: &str = "libimagekit.so";

/// The linker for 64-bit ARM: Debian's and Ubuntu's package `gcc-aarch64-linux-gnu`.
const LINKER: (&str, &str) = ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");

/// The libraries that cargo built.
pub(crate) struct Built {
    /// The library for this machine.
    pub(crate) here: PathBuf,
    /// The library for the board.
    pub(crate) there: PathBuf,
    /// The server for the board.
    pub(crate) server: PathBuf,
}

/// Builds the library for this machine and for the board, and the server for the board if there is
/// none.
pub(crate) fn build(options: &Options) -> Result<Built, Failure> {
    let target = target_folder();
    let profile = if options.profile == "dev" { "debug" } else { &options.profile };
    cargo(options, &["--package", "imagekit", "--lib"])?;
    let for_board = ["--target", &options.target, "--package", "imagekit", "--lib"];
    let server = ["--package", "kernpack-rpc", "--features", "kernpack-rpc/program", "--bins"];
    match options.board {
        Some(_) => cargo(options, &for_board)?,
        None => cargo(options, &[&for_board[..], &server].concat())?,
    }
    let there = target.join(&options.target).join(profile);
    Ok(Built {
        here: target.join(profile).join(LIBRARY),
        server: there.join("kernpack-rpc-server"),
        there: there.join(LIBRARY),
    })
}

fn cargo(options: &Options, arguments: &[&str]) -> Result<(), Failure> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--profile", &options.profile]).args(arguments);
    cargo.current_dir(root()).env("CARGO_TARGET_DIR", target_folder());
    if std::env::var_os(LINKER.0).is_none() {
        cargo.env(LINKER.0, LINKER.1);
    }
    // `cargo run` adds libraries of this machine's toolchain to it.
    cargo.env_remove("LD_LIBRARY_PATH");
    let status = cargo.status().map_err(|error| format!("cannot start cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo build {}: {status}", arguments.join(" ")).into()) }
}

/// Returns the root of the workspace.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Returns the folder that cargo built this program into.
fn target_folder() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    program.ancestors().nth(2).map_or_else(|| root().join("target"), Path::to_path_buf)
}
