//! The order of the search.

use std::path::{Path, PathBuf};

use crate::library::{any_library_in, library_in, major};
use crate::{Library, Machine, OLDEST, Origin, PREFIX_VARIABLES, Problem, Problems, TESTED};

/// The number of untested major versions above the newest tested one that are searched for in
/// `PATH`.
const AHEAD: u32 = 16;

/// Finds the LLVM to link into programs for an architecture, in rustc's name for it.
///
/// The folder in a variable is binding: it is used, or it is an error. Without one the Rust
/// toolchain comes first (`RUSTC`, else `rustc`), then `llvm-config-NN` in `PATH`: the newest
/// tested version, the other tested ones, untested ones from the oldest on, and `llvm-config`
/// itself.
///
/// # Errors
/// Returns every place that was searched, with the reason why it was rejected.
pub fn find(machine: &dyn Machine, arch: &str) -> Result<Library, Problems> {
    for &variable in PREFIX_VARIABLES {
        let Some(folder) = machine.variable(variable).map(PathBuf::from) else { continue };
        return in_prefix(machine, arch, variable, &folder)
            .map_err(|problem| Problems(vec![Problem::Prefix { variable, folder, problem: Box::new(problem) }]));
    }
    match in_rust_toolchain(machine, arch) {
        Ok(library) => Ok(library),
        Err(first) => in_system(machine, arch).map_err(|others| {
            let mut problems = vec![first];
            problems.extend(others);
            Problems(problems)
        }),
    }
}

fn in_prefix(machine: &dyn Machine, arch: &str, variable: &'static str, prefix: &Path) -> Result<Library, Problem> {
    let config = prefix.join("bin").join(format!("llvm-config{}", std::env::consts::EXE_SUFFIX));
    if config.is_file() {
        // A program for another machine does not start, but its library contains the version.
        if let Ok(version) = machine.run(&config, &["--version"]) {
            return by_config(machine, arch, &config, &version, Origin::Prefix(variable));
        }
    }
    let folders = [prefix.join("lib"), prefix.join("lib64")];
    any_library_in(&folders, arch, &Origin::Prefix(variable)).unwrap_or_else(|| {
        Err(Problem::Absent(format!(
            "neither {} nor a shared library of LLVM in {} serves",
            config.display(),
            folders[0].display()
        )))
    })
}

/// Finds the LLVM of an `llvm-config` of this version.
fn by_config(
    machine: &dyn Machine,
    arch: &str,
    config: &Path,
    version: &str,
    origin: Origin,
) -> Result<Library, Problem> {
    if major(version).is_none_or(|major| major < OLDEST) {
        return Err(Problem::TooOld { place: config.display().to_string(), version: version.to_owned() });
    }
    let folder = machine.run(config, &["--libdir"]).map_err(Problem::Absent)?;
    library_in(&[PathBuf::from(folder)], version, arch, origin)
}

/// Finds the LLVM that rustc itself uses.
fn in_rust_toolchain(machine: &dyn Machine, arch: &str) -> Result<Library, Problem> {
    let rustc = machine.variable("RUSTC").map_or_else(|| PathBuf::from("rustc"), PathBuf::from);
    let found = machine.program(&rustc);
    let rustc = found.ok_or_else(|| Problem::Absent(format!("there is no {} in PATH", rustc.display())))?;
    let verbose = machine.run(&rustc, &["-vV"]).map_err(Problem::Absent)?;
    let line = |name: &str| verbose.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let (version, host) = (line("LLVM version").unwrap_or("unknown"), line("host").unwrap_or_default());
    if major(version).is_none_or(|major| major < OLDEST) {
        let place = format!("the Rust toolchain ({})", rustc.display());
        return Err(Problem::TooOld { place, version: version.to_owned() });
    }
    let sysroot = machine.run(&rustc, &["--print", "sysroot"]).map_err(Problem::Absent)?;
    let sysroot = Path::new(&sysroot);
    // rustup's toolchains have it in `lib`. Those of distributions use the one of the system, which
    // is in `lib64` (Fedora) or `lib/x86_64-linux-gnu` (Debian).
    let mut folders = vec![sysroot.join("lib"), sysroot.join("lib64")];
    if let [cpu, _, system @ ..] = &host.split('-').collect::<Vec<_>>()[..] {
        folders.push(sysroot.join("lib").join(format!("{cpu}-{}", system.join("-"))));
    }
    library_in(&folders, version, arch, Origin::RustToolchain)
}

fn in_system(machine: &dyn Machine, arch: &str) -> Result<Library, Vec<Problem>> {
    let newest = TESTED.iter().copied().max().unwrap_or(OLDEST);
    let untested = (OLDEST..=newest + AHEAD).filter(|major| !TESTED.contains(major));
    let majors = TESTED.iter().rev().copied().chain(untested);
    let names = majors.map(|major| format!("llvm-config-{major}")).chain(["llvm-config".to_owned()]);
    let mut problems = Vec::new();
    for config in names.filter_map(|name| machine.program(Path::new(&name))) {
        let found = machine.run(&config, &["--version"]).map_err(Problem::Absent);
        let origin = Origin::System(config.clone());
        match found.and_then(|version| by_config(machine, arch, &config, &version, origin)) {
            Ok(library) => return Ok(library),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() {
        let name = format!("llvm-config-{newest}");
        problems.push(Problem::Absent(format!("there is no {name}, llvm-config-{OLDEST} or llvm-config in PATH")));
    }
    Err(problems)
}
