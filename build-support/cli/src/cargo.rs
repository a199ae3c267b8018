//! Runs cargo, and reads what it says for programs.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use cargo_metadata::Message;

use crate::Result;

/// The cargo that runs this program as its subcommand, else the one of PATH.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// `cargo build`, for [`messages`].
pub(crate) fn build() -> Command {
    building("build")
}

/// `cargo rustc`, which builds and has options for the crate alone, for [`messages`].
pub(crate) fn rustc() -> Command {
    building("rustc")
}

fn building(command: &str) -> Command {
    let mut cargo = cargo();
    cargo.args([command, "--message-format=json-render-diagnostics"]);
    cargo
}

/// Runs a build, which errors call `name`, and gives its messages. Those for people go to the standard error.
pub(crate) fn messages(mut build: Command, name: &str) -> Result<Vec<Message>> {
    let output = build.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot run {name}: {error}"))?;
    match output.status.success() {
        // Procedural macros may print lines between the messages.
        true => Ok(Message::parse_stream(output.stdout.as_slice()).filter_map(std::io::Result::ok).collect()),
        false => Err(format!("{name} failed ({}); its messages are above", output.status)),
    }
}

/// `cargo tree`, for [`text_of`].
pub(crate) fn tree() -> Command {
    let mut cargo = cargo();
    cargo.arg("tree");
    cargo
}

/// Runs cargo, which errors call `name`, and gives what it writes.
pub(crate) fn text_of(mut command: Command, name: &str) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("cannot run {name}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!("{name} failed: {}", text(&output.stderr).trim().trim_start_matches("error: "))),
    }
}

/// The Cargo.toml that cargo takes in this folder.
pub(crate) fn manifest_here() -> Result<PathBuf> {
    let mut command = cargo();
    command.args(["locate-project", "--message-format=plain"]);
    Ok(text_of(command, "cargo locate-project")?.trim().into())
}
