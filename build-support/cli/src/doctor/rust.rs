//! The Rust toolchain, and the LLVM inside it.

use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::finding::{Finding, State};
use super::install;
use crate::Result;

/// The LLVM that kernpack-build is made for.
const LLVM: u32 = 22;

/// The oldest Rust that compiles what a library needs: the `rust-version` of kernpack-build.
const OLDEST: &str = "1.89";

fn rustc(environment: &Environment) -> Option<PathBuf> {
    environment.find(environment.variable("RUSTC").unwrap_or("rustc".as_ref()))
}

/// The value of a line of `rustc -vV`.
fn line<'a>(verbose: &'a str, name: &str) -> &'a str {
    verbose.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap_or("unknown")
}

/// `1.95.0-nightly` as numbers; other text counts as 0.
fn numbers(version: &str) -> Vec<u32> {
    version.split(['.', '-', '+']).take(3).map(|part| part.parse().unwrap_or(0)).collect()
}

/// rustc and cargo.
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

/// The LLVM that compiles kernels in LLVM IR: where kernpack-llvm-link looks, in its order.
pub(super) fn llvm(environment: &Environment) -> Finding {
    let finding = |state, summary: String| {
        Finding::new(
            "LLVM",
            "kernels in LLVM IR (the feature `llvm` of kernpack-build)",
            &install::LLVM,
            state,
            summary,
        )
    };
    if let Some(prefix) = environment.variable("LLVM_SYS_221_PREFIX") {
        let config = Path::new(prefix).join("bin/llvm-config");
        return match system(environment, &config) {
            Ok((version, folder)) => {
                finding(State::Found, format!("LLVM {version} of LLVM_SYS_221_PREFIX")).with("path", folder)
            }
            Err(problem) => {
                finding(State::Broken, format!("LLVM_SYS_221_PREFIX is {}, but {problem}", prefix.display()))
            }
        };
    }
    let inside = in_toolchain(environment);
    if let Ok((version, file)) = &inside {
        return finding(State::Found, format!("LLVM {version} inside the Rust toolchain")).with("path", file.clone());
    }
    let config = environment.find(format!("llvm-config-{LLVM}"));
    let outside = config.ok_or(format!("llvm-config-{LLVM} not found in PATH")).and_then(|it| system(environment, &it));
    match (inside, outside) {
        (_, Ok((version, folder))) => {
            finding(State::Found, format!("LLVM {version} of the system")).with("path", folder)
        }
        (Err(first), Err(second)) => finding(State::Missing, format!("{first}, and {second}")),
        (Ok(_), Err(problem)) => finding(State::Missing, problem),
    }
}

/// Version, and the library's file.
fn in_toolchain(environment: &Environment) -> Result<(String, String)> {
    let rustc = rustc(environment).ok_or("rustc not found")?;
    let version = line(&environment.run(&rustc, &["-vV"])?, "LLVM version").to_owned();
    if numbers(&version).first() != Some(&LLVM) {
        return Err(format!("the Rust toolchain carries LLVM {version}, not {LLVM}"));
    }
    let folder = Path::new(&environment.run(&rustc, &["--print", "sysroot"])?).join("lib");
    let files = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    match names.find(|name| name == "libLLVM.dylib" || name.starts_with("libLLVM.so") || name.starts_with("libLLVM-")) {
        Some(name) => Ok((version, folder.join(name).display().to_string())),
        None => Err(format!("the Rust toolchain has no libLLVM of its own in {}", folder.display())),
    }
}

/// Version, and the folder of the library.
fn system(environment: &Environment, config: &Path) -> Result<(String, String)> {
    let version = environment.run(config, &["--version"])?;
    match numbers(&version).first() == Some(&LLVM) {
        true => Ok((version, environment.run(config, &["--libdir"])?)),
        false => Err(format!("that is LLVM {version}, not {LLVM}")),
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
