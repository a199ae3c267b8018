//! The compilers of C, C++ and CUDA.

use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::finding::{Finding, State};
use super::install::{self, Install};
use crate::Result;

/// Checks the C compiler. rustc links with it, so no library can be built without one.
pub(super) fn c(environment: &Environment) -> Finding {
    let purpose = "every library: rustc links with it";
    compiler(environment, "C compiler", "CC", &["cc", "gcc", "clang"], purpose, &install::C, "c").required()
}

/// Checks the C++ compiler.
pub(super) fn cpp(environment: &Environment) -> Finding {
    let purpose = "kernels in C++";
    compiler(environment, "C++ compiler", "CXX", &["c++", "g++", "clang++"], purpose, &install::CPP, "cc")
}

fn compiler(
    environment: &Environment,
    topic: &'static str,
    variable: &str,
    names: &[&str],
    purpose: &'static str,
    install: &'static Install,
    extension: &str,
) -> Finding {
    let finding = |state, summary: String| Finding::new(topic, purpose, install, state, summary);
    let path = match environment.variable(variable) {
        Some(asked) => match environment.find(asked) {
            Some(path) => Some(path),
            None => {
                return finding(
                    State::Broken,
                    format!("{variable} is {}, but that program is missing", asked.display()),
                );
            }
        },
        None => names.iter().find_map(|name| environment.find(name)),
    };
    let Some(path) = path else {
        return finding(State::Missing, format!("{} not found in {variable} or PATH", names.join(", ")));
    };
    let version = environment.run(&path, &["--version"]).unwrap_or_default();
    let version = version.lines().next().unwrap_or_default().to_owned();
    let summary = if version.is_empty() { path.display().to_string() } else { version };
    match links(environment, &path, extension) {
        Ok(()) => finding(State::Found, summary).with("path", path.display().to_string()),
        // Debian's gcc does not include the C library's headers.
        Err(problem) => finding(State::Broken, format!("{} links no program: {problem}", path.display())),
    }
}

/// Links a program that needs the language's library.
fn links(environment: &Environment, compiler: &Path, extension: &str) -> Result<()> {
    let text = if extension == "c" {
        "#include <stdlib.h>\nint main(void) { return EXIT_SUCCESS; }\n"
    } else {
        "#include <string>\nint main() { return (int)std::string().size(); }\n"
    };
    let folder = std::env::temp_dir().join(format!("kernpack-doctor-{}-{extension}", std::process::id()));
    let (source, program) = (folder.join(format!("empty.{extension}")), folder.join("empty"));
    let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&source, text));
    let outcome = match written {
        Err(error) => Err(format!("{} cannot be written: {error}", source.display())),
        Ok(()) => {
            let (source, program) = (source.to_string_lossy(), program.to_string_lossy());
            environment.run(compiler, &[&source, "-o", &program]).map(drop)
        }
    };
    let _ = std::fs::remove_dir_all(&folder);
    outcome
}

/// Checks nvcc, in the same places and order as kernpack-build.
pub(super) fn cuda(environment: &Environment) -> Finding {
    let purpose = "kernels in CUDA C++; without it they are left out of the library, with a warning";
    let finding = |state, summary: String| Finding::new("CUDA compiler", purpose, &install::NVCC, state, summary);
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(|name| environment.variable(name));
    let mut in_homes = homes.map(|home| Path::new(home).join("bin/nvcc")).filter(|path| path.is_file());
    let path: Option<PathBuf> = match environment.variable("NVCC") {
        Some(asked) => match environment.find(asked) {
            Some(path) => Some(path),
            None => {
                return finding(State::Broken, format!("NVCC is {}, but that program is missing", asked.display()));
            }
        },
        None => in_homes.next().or_else(|| environment.find("nvcc")),
    };
    let Some(path) = path else {
        let usual = Path::new("/usr/local/cuda");
        let hint = match usual.join("bin/nvcc").is_file() {
            true => "; /usr/local/cuda has one: export CUDA_HOME=/usr/local/cuda",
            false => "",
        };
        return finding(State::Missing, format!("nvcc not found in NVCC, CUDA_HOME, CUDA_PATH or PATH{hint}"));
    };
    let version = match environment.run(&path, &["--version"]) {
        Ok(version) => version,
        Err(problem) => return finding(State::Broken, problem),
    };
    // "Cuda compilation tools, release 13.0, V13.0.88"
    let release = version.lines().find_map(|line| line.split_once("release ")).map_or("unknown", |(_, rest)| rest);
    let release = release.split(", ").last().unwrap_or(release).trim_start_matches('V').to_owned();
    match environment.run(&path, &["--list-gpu-arch"]) {
        Err(problem) => finding(State::Broken, problem),
        Ok(listed) => {
            let names = listed.split_whitespace().filter_map(|word| word.strip_prefix("compute_"));
            let names = names.map(|name| format!("sm_{name}")).collect::<Vec<_>>().join(", ");
            let found = finding(State::Found, format!("nvcc {release}"));
            found.with("path", path.display().to_string()).with("architectures", names)
        }
    }
}
