//! The program `cargo-kernpack`, as a library:
//!
//! - `inspect` shows the contents of libraries of packed functions;
//! - `wheel` builds a Python wheel of one;
//! - `develop` installs one in editable mode;
//! - `new` creates a crate;
//! - `doctor` reports the tools that a machine has or lacks;
//! - `outputs` lists the files that builds made;
//! - `sbom` lists the crates that a library consists of;
//! - `model` finds the node of a model that computes wrong results, and writes weights for a
//!   library;
//! - `rpc` runs libraries on other machines.

mod arguments;
mod cargo;
mod command;
mod develop;
mod doctor;
mod inspect;
mod library;
mod model;
mod new;
mod outputs;
mod rpc;
mod sbom;
mod text;
mod wheel;

use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

use command::Command;

/// Errors are one sentence for the user.
type Result<T> = std::result::Result<T, String>;

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    // `rpc serve` starts this program again for each session.
    kernpack_rpc::run_session_if_asked();
    let command = Command::parse(std::env::args_os().skip(1));
    match command.and_then(run_command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            kernpack_rpc::program::say(format_args!("error: {problem}"));
            ExitCode::FAILURE
        }
    }
}

fn run_command(command: Command) -> Result<()> {
    match command {
        Command::Help(text) => print(text),
        Command::Describe { file, time } => print(&library::loaded::describe(&file, time.as_ref())?),
        Command::Probe(word) => print(&doctor::probe(&word)?),
        Command::Inspect(options) => print(&inspect::show(&options)?),
        Command::Wheel(options) => print(&wheel::make(&options)?.report(options.json)),
        Command::Develop(mut options) => print(&develop::install(&mut options)?),
        Command::New(options) => print(&new::make(&options)?),
        Command::Model(options) => print(&model::run(&options)?),
        Command::Rpc(options) => rpc::run(options),
        Command::Outputs(options) => print(&outputs::show(&options)?),
        Command::Sbom(options) => print(&sbom::bill(&options)?),
        Command::Doctor(options) => {
            let (text, able) = doctor::examine(&options);
            print(&text)?;
            if able { Ok(()) } else { Err(doctor::UNABLE.to_owned()) }
        }
    }
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    std::fs::write(path, content).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn print(text: &str) -> Result<()> {
    match kernpack_rpc::program::print(text) {
        // The reader closed the pipe: `| head`.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(format!("cannot write to the standard output: {error}")),
        Ok(()) => Ok(()),
    }
}
