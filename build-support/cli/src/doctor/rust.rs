//! The Rust toolchain, and the LLVM inside it.

use std::path::PathBuf;

use kernpack_llvm_find::{Origin, Problem};

use super::environment::Environment;
use super::finding::{Finding, State};
use super::install;

/// The oldest supported Rust: the `rust-version` of kernpack-build.
const OLDEST: &str = "1.89";

fn rustc(environment: &Environment) -> Option<PathBuf> {
    environment.find(environment.variable("RUSTC").unwrap_or("rustc".as_ref()))
}

/// Returns the value of a line of `rustc -vV`.
fn line<'a>(verbose: &'a str, name: &str) -> &'a str {
    verbose.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap_or("unknown")
}

/// Parses `1.95.0-nightly` as numbers. Other text counts as 0.
fn numbers(version: &str) -> Vec<u32> {
    version.split(['.', '-', '+']).take(3).map(|part| part.parse().unwrap_or(0)).collect()
}

/// Checks rustc and cargo.
pub(super) fn rust(environment: &Environment) -> Finding {
    let finding =
        |state, summary: String| Finding::new("Rust", "every library", &install::RUST, state, summary).required();
    let Some(path) = rustc(environment) else {
        return finding(State::Missing, "rustc not found in RUSTC or PATH".to_owned());
    };
    let verbose = match environment.run(&path, &["-vV"]) {
        Ok(verbose) => verbose,
        Err(problem) => return finding(State::Broken, problem),
    };
    let version = line(&verbose, "release").to_owned();
    let cargo = environment.find(environment.variable("CARGO").unwrap_or("cargo".as_ref()));
    let cargo = cargo.ok_or_else(|| "cargo not found in PATH".to_owned());
    let cargo = cargo.and_then(|cargo| environment.run(&cargo, &["--version"]));
    let (state, summary) = match &cargo {
        _ if numbers(&version) < numbers(OLDEST) => {
            (State::Broken, format!("rustc {version} is too old: {OLDEST} or newer is needed"))
        }
        Err(problem) => (State::Broken, problem.clone()),
        Ok(cargo) => (State::Found, format!("rustc {version}, {cargo}")),
    };
    finding(state, summary).with("path", path.display().to_string()).with("host", line(&verbose, "host"))
}

/// Checks the LLVM that compiles kernels in LLVM IR: the one that kernpack-llvm-link links.
pub(super) fn llvm(environment: &Environment) -> Finding {
    let finding = |state, summary: String| {
        let purpose = "kernels in LLVM IR (the feature `llvm` of kernpack-build)";
        Finding::new("LLVM", purpose, &install::LLVM, state, summary)
    };
    let library = match kernpack_llvm_find::find(environment, &architecture(environment)) {
        Ok(library) => library,
        Err(problems) => {
            let is_absent = problems.0.iter().all(|problem| matches!(problem, Problem::Absent(_)));
            return finding(if is_absent { State::Missing } else { State::Broken }, problems.summary());
        }
    };
    let origin = match &library.origin {
        Origin::Prefix(variable) => format!("of {variable}"),
        Origin::RustToolchain => "of the Rust toolchain".to_owned(),
        Origin::System(_) => "of the system".to_owned(),
    };
    let tested = if library.is_tested() { "tested" } else { "not tested with this major version" };
    finding(State::Found, format!("LLVM {} {origin}, {tested}", library.version))
        .with("path", library.path.display().to_string())
}

/// Returns the architecture that rustc builds for, or that of this program if rustc is missing.
fn architecture(environment: &Environment) -> String {
    let verbose = rustc(environment).and_then(|rustc| environment.run(&rustc, &["-vV"]).ok());
    let host = verbose.as_deref().map(|verbose| line(verbose, "host").to_owned());
    let cpu = host.as_deref().and_then(|host| host.split('-').next());
    match cpu {
        Some("i586" | "i686") => "x86".to_owned(),
        Some(cpu) if cpu != "unknown" => cpu.to_owned(),
        _ => std::env::consts::ARCH.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::OLDEST;

    #[test]
    fn the_oldest_rust_is_that_of_kernpack_build() {
        let manifest = include_str!("../../../Cargo.toml");
        assert!(manifest.contains(&format!("\nrust-version = \"{OLDEST}\"\n")), "{manifest}");
    }
}
