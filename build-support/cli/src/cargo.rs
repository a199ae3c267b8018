//! Runs cargo, and reads its machine-readable output.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use cargo_metadata::Message;

use crate::Result;

/// The cargo that runs this program as its subcommand, or else the one in `PATH`.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// `cargo build`, for [`messages`].
pub(crate) fn build() -> Command {
    building("build")
}

/// `cargo rustc`, which builds and takes options for the crate alone, for [`messages`].
pub(crate) fn rustc() -> Command {
    building("rustc")
}

fn building(command: &str) -> Command {
    let mut cargo = cargo();
    cargo.args([command, "--message-format=json-render-diagnostics"]);
    cargo
}

/// Runs a build, which errors call `name`, and returns its messages. Messages for people go to
/// standard error.
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

/// Runs cargo, which errors call `name`, and returns its output.
pub(crate) fn text_of(mut command: Command, name: &str) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("cannot run {name}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!("{name} failed: {}", text(&output.stderr).trim().trim_start_matches("error: "))),
    }
}

/// Returns the Cargo.toml that cargo uses in this folder.
pub(crate) fn manifest_here() -> Result<PathBuf> {
    let mut command = cargo();
    command.args(["locate-project", "--message-format=plain"]);
    Ok(text_of(command, "cargo locate-project")?.trim().into())
}
