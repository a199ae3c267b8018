//! The program `cargo-kernpack`, as a library: `inspect` looks into libraries of packed functions, `wheel` ships one for Python,
//! `new` starts a crate, `doctor` says what a machine has and lacks, `outputs` where things are that builds made.
//!
//! For `inspect` a file is data: nothing in it runs, unless `--load` asks for that, and then it runs in a process of its own.

mod architecture;
mod arguments;
mod doctor;
#[cfg(test)]
mod hostile_tests;
mod inspection;
mod json;
mod library_file;
mod loaded;
mod new;
mod outputs;
mod picture;
mod report;
mod signature;
mod tree;
mod wheel;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use arguments::{Command, Inspect};
use inspection::Inspection;

/// What went wrong, as one sentence for the user.
type Result<T> = std::result::Result<T, String>;

/// Does what the command line of this process asks for.
pub fn run() -> ExitCode {
    let outcome = match arguments::parse(std::env::args_os().skip(1)) {
        Ok(Command::Help(text)) => print(text),
        Ok(Command::Describe(file)) => loaded::describe(&file).and_then(|text| print(&text)),
        Ok(Command::Probe(word)) => doctor::probe(&word).and_then(|text| print(&text)),
        Ok(Command::Inspect(options)) => inspect(&options),
        Ok(Command::Wheel(options)) => wheel::make(&options).and_then(|made| print(&made.report(options.json))),
        Ok(Command::New(options)) => new::make(&options).and_then(|text| print(&text)),
        Ok(Command::Outputs(options)) => outputs::show(&options).and_then(|text| print(&text)),
        Ok(Command::Doctor(options)) => match doctor::examine(&options) {
            Ok((text, true)) => print(&text),
            Ok((text, false)) => print(&text).and_then(|()| Err(doctor::UNABLE.to_owned())),
            Err(problem) => Err(problem),
        },
        Err(problem) => Err(problem),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn inspect(options: &Inspect) -> Result<()> {
    let shown = options.file.display();
    let bytes = library_file::read(&options.file)?;
    let mut inspection = Inspection::read(&bytes).map_err(|problem| format!("{shown}: {problem}"))?;
    if let Some(image) = &options.extract {
        let tree = inspection.tree.as_ref().ok_or_else(|| format!("{shown}: it has no import tree, so no images"))?;
        let code = tree.find(image).map_err(|problem| format!("{shown}: {problem}"))?.code();
        let out = options.out.as_deref().ok_or("--extract needs -o FILE")?;
        write(out, code)?;
        return print(&format!("wrote {} bytes to {}\n", code.len(), out.display()));
    }
    if options.load {
        inspection.loaded = Some(loaded::load(&options.file)?);
    }
    if let Some(out) = &options.svg {
        write(out, picture::svg(&inspection).as_bytes())?;
    }
    let name = options.file.to_string_lossy();
    print(&if options.json { json::write(&name, &inspection) } else { report::write(&name, &inspection) })
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    std::fs::write(path, content).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn print(text: &str) -> Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        // Who reads has seen enough: `| head`.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(format!("cannot write to the standard output: {error}")),
        Ok(()) => Ok(()),
    }
}
