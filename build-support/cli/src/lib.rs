//! The program `cargo-kernpack`, as a library: `inspect` looks into libraries of packed functions, `wheel` ships one for Python,
//! `develop` installs one from where it is, `new` starts a crate, `doctor` says what a machine has and lacks, `outputs` where things are that builds made, `sbom` which crates a library
//! is made of, `model` which node of a model is wrong, `rpc` runs libraries on other machines.

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

/// Does what the command line of this process asks for.
pub fn run() -> ExitCode {
    // `rpc serve` starts this program once more for each session.
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
        Command::Describe { file, time } => print(&library::loaded::describe(&file, time)?),
        Command::Probe(word) => print(&doctor::probe(&word)?),
        Command::Inspect(options) => print(&inspect::show(&options)?),
        Command::Wheel(options) => print(&wheel::make(&options)?.report(options.json)),
        Command::Develop(mut options) => print(&develop::install(&mut options)?),
        Command::New(options) => print(&new::make(&options)?),
        Command::Model(options) => print(&model::diff(&options)?),
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
        // The reader has read enough: `| head`.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(format!("cannot write to the standard output: {error}")),
        Ok(()) => Ok(()),
    }
}
