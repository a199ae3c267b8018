//! `cargo xtask rpc-server`: builds `kernpack-rpc-server` as one file for boards, at most 2 MB.
//!
//! The file is the static program of runtime/rpc/launcher, which contains the compressed server: a
//! program that uses the board's own C library, and can load libraries. The server is linked for
//! glibc 2.17, and does not use functions that musl lacks.

mod c_library;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::environment::Environment;
use crate::rust_target;
use crate::step::{self, Show};
use crate::workspace::{Workspace, find_on_path};

/// Processors, with the compiler that links for them, and the compiler's package in Debian.
const PROCESSORS: [(&str, &str, &str); 2] =
    [("x86_64", "gcc", "gcc"), ("aarch64", "aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu")];

/// The size limit of the file.
const LARGEST: u64 = 2_000_000;

/// `cargo xtask rpc-server [--target TARGET]`: builds for both processors, or for the named one.
pub(crate) fn run(arguments: &[&str]) -> Result {
    let chosen = match arguments {
        [] => &PROCESSORS[..],
        ["--target", target] => {
            let processor = target.split('-').next().unwrap_or_default();
            let index = PROCESSORS.iter().position(|(name, ..)| *name == processor);
            let known = || {
                format!(
                    "rpc-server: no target {target}; x86_64-unknown-linux-musl and aarch64-unknown-linux-musl are known"
                )
            };
            std::slice::from_ref(&PROCESSORS[index.ok_or_else(known)?])
        }
        _ => return Err("rpc-server: expected --target TARGET".into()),
    };
    let workspace = Workspace::find()?;
    for (processor, compiler, package) in chosen {
        if find_on_path(compiler).is_none() {
            return Err(format!("rpc-server: there is no {compiler}: apt-get install {package}").into());
        }
        let built = build(&workspace, processor, compiler)?;
        start(&workspace, processor, &built)?;
        println!("{}: {} bytes", built.display(), fs::metadata(&built)?.len());
    }
    Ok(())
}

/// Builds the file for a processor, and prints its path.
fn build(workspace: &Workspace, processor: &str, compiler: &str) -> Result<PathBuf> {
    let folder = workspace.folder(&format!("rpc-server/{processor}"))?;
    let linked = c_library::prepare(workspace, compiler, &folder.join("link"))?;
    let target = format!("{processor}-unknown-linux-gnu");
    // `rustc`, not `build`: the linker arguments are only for the last step.
    let mut server = cargo(workspace, "rustc", &target, compiler)?;
    server.args(["--package", "kernpack-rpc", "--features", "program,tls", "--bin", "kernpack-rpc-server", "--"]);
    server.arg(format!("-Lnative={}", linked.folder.display())).arg("-Clink-arg=-nostartfiles");
    server.arg(format!("-Clink-arg={}", linked.start.display()));
    // Before glibc 2.34, these libraries contain functions that the server needs.
    server.arg("-Clink-arg=-Wl,--no-as-needed,-lpthread,-ldl");
    step::run(&format!("build the server for {target}"), &mut server, Show::Warnings)?;
    let program = product(workspace, &target, "kernpack-rpc-server");
    println!(
        "  {}: {} bytes, for glibc {} and newer",
        program.display(),
        size(&program)?,
        c_library::needed(workspace, &program)?
    );

    let target = format!("{processor}-unknown-linux-musl");
    let mut launcher = cargo(workspace, "build", &target, compiler)?;
    launcher.args(["--package", "kernpack-rpc-launcher"]).env("KERNPACK_RPC_SERVER", &program);
    step::run(&format!("build the launcher for {target}"), &mut launcher, Show::Warnings)?;
    let file = folder.join("kernpack-rpc-server");
    fs::copy(product(workspace, &target, "kernpack-rpc-launcher"), &file)?;
    let size = size(&file)?;
    if size > LARGEST {
        return Err(format!("{} has {size} bytes, more than {LARGEST}", file.display()).into());
    }
    Ok(file)
}

/// Starts the file with `--help`, so that the server that it carries prints its options: here, or
/// under qemu if it is installed.
fn start(workspace: &Workspace, processor: &str, file: &Path) -> Result {
    let emulator: &[&str] = match processor {
        std::env::consts::ARCH => &[],
        "aarch64" if find_on_path("qemu-aarch64").is_some() => &["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"],
        _ => {
            println!("  not started: this machine has another processor, and no qemu-{processor}");
            return Ok(());
        }
    };
    let mut words = emulator.iter().map(OsStr::new).chain([file.as_os_str()]);
    let mut command = workspace.command(words.next().unwrap_or_default());
    command.args(words);
    if !emulator.is_empty() {
        command.arg("--emulator").arg(emulator.join(" "));
    }
    let said = step::run("start it", command.arg("--help"), Show::Warnings)?;
    if said.contains("--allow-run") {
        Ok(())
    } else {
        Err(format!("{} does not say its options", file.display()).into())
    }
}

fn size(file: &Path) -> Result<u64> {
    Ok(fs::metadata(file).map_err(|error| format!("{}: {error}", file.display()))?.len())
}

/// cargo for a target, with the linker for it.
fn cargo(workspace: &Workspace, command: &str, target: &str, compiler: &str) -> Result<Command> {
    let mut cargo = workspace.cargo(command);
    cargo.args(["--profile", "board", "--target", target]);
    let name = target.replace('-', "_");
    cargo.env(format!("CC_{name}"), compiler);
    let name = name.to_uppercase();
    cargo.env(format!("CARGO_TARGET_{name}_LINKER"), compiler);
    if !rust_target::is_there(workspace, target)
        && let Some(flags) = rust_target::prepare(&Environment::prepare()?, target)?
    {
        cargo.env(format!("CARGO_TARGET_{name}_RUSTFLAGS"), flags);
    }
    Ok(cargo)
}

fn product(workspace: &Workspace, target: &str, name: &str) -> PathBuf {
    workspace.cargo_target().join(target).join("board").join(name)
}
