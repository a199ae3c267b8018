//! A shared library of LLVM.

use std::fs;
use std::path::{Path, PathBuf};

use crate::elf::{Elf, ElfError};
use crate::{HASH_RECOGNIZE, OLDEST, Problem, TESTED, functions, tested};

/// The place where a library was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the folder in this variable.
    Prefix(&'static str),
    /// In the Rust toolchain.
    RustToolchain,
    /// In the system, found by this `llvm-config`.
    System(PathBuf),
}

/// A usable shared library of LLVM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// The file.
    pub path: PathBuf,
    /// The version, such as `22.1.2`.
    pub version: String,
    /// The major version.
    pub major: u32,
    /// The place where the library was found.
    pub origin: Origin,
    /// True if the exported functions were compared, which is only possible in ELF files.
    pub is_checked: bool,
    /// True if the library has the switch [`HASH_RECOGNIZE`], a byte, and is of a tested version.
    pub has_switch: bool,
}

impl Library {
    /// Returns true if kernpack is tested with this major version.
    #[must_use]
    pub fn is_tested(&self) -> bool {
        TESTED.contains(&self.major)
    }

    /// The warning for a version that kernpack is not tested with.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        (!self.is_tested()).then(|| {
            format!(
                "kernpack is not tested with LLVM {} ({}); it is tested with {}",
                self.version,
                self.path.display(),
                tested()
            )
        })
    }
}

/// Parses the major version of `22.1.2`, `23.1.4-rust-1.99.1-stable` or `22.0.0git`. Returns `None`
/// if the text is not a version.
pub(crate) fn major(version: &str) -> Option<u32> {
    version.split('.').next()?.trim().parse().ok()
}

/// Finds the library of this version in the first of some folders that has one.
pub(crate) fn library_in(folders: &[PathBuf], version: &str, arch: &str, origin: Origin) -> Result<Library, Problem> {
    let Some(major) = major(version) else {
        let folder = folders.first().map(|folder| folder.display().to_string()).unwrap_or_default();
        return Err(Problem::Absent(format!(
            "the LLVM of {folder} has the version `{version}`, which is not a number"
        )));
    };
    let mut first = None;
    for path in folders.iter().flat_map(|folder| candidates(folder, Some(major))) {
        match examine(&path, arch) {
            // The version in the file decides. The name is only used without one.
            Ok(found) if found.major.is_none_or(|found| found == major) => {
                return check(path, version.to_owned(), major, origin, found);
            }
            Ok(_) => {}
            Err(problem) => first = first.or(Some(problem)),
        }
    }
    let folders = folders.to_vec();
    Err(first.unwrap_or(Problem::NoSharedLibrary { version: version.to_owned(), folders }))
}

/// Finds a library of any version in these folders, which have no `llvm-config`.
pub(crate) fn any_library_in(folders: &[PathBuf], arch: &str, origin: &Origin) -> Option<Result<Library, Problem>> {
    let paths: Vec<PathBuf> = folders.iter().flat_map(|folder| candidates(folder, None)).collect();
    let mut first = None;
    for path in paths {
        match examine(&path, arch) {
            Ok(examined) => {
                if let (Some(major), Some(version)) = (examined.major, examined.version.clone()) {
                    return Some(check(path, version, major, origin.clone(), examined));
                }
            }
            Err(problem) => first = first.or(Some(problem)),
        }
    }
    first.map(Err)
}

/// Returns the files of a folder that have the name of LLVM's shared library, those with the
/// version in the name first.
fn candidates(folder: &Path, major: Option<u32>) -> Vec<PathBuf> {
    let names = fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> = names
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| is_library(name, major))
        .collect();
    // Programs search for the name inside the library, which is `libLLVM.so.22.1` on Linux.
    let is_own_name = |name: &str| name.starts_with("libLLVM.so.");
    let has_version = |name: &str| major.is_some_and(|major| name.contains(&major.to_string()));
    names.sort_by_key(|name| (!is_own_name(name), !has_version(name), name.len(), name.clone()));
    names.into_iter().map(|name| folder.join(name)).collect()
}

/// Returns true for `libLLVM.so`, `libLLVM-22.so`, `libLLVM.so.22.1`,
/// `libLLVM.so.22.1-rust-1.95.0-stable`, `libLLVM.dylib`.
fn is_library(name: &str, major: Option<u32>) -> bool {
    let Some(rest) = name.strip_prefix("libLLVM") else { return false };
    if matches!(rest, ".dylib" | ".so") {
        return true;
    }
    let fits = |text: &str| {
        let digits = text.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        digits.parse::<u32>().is_ok_and(|number| major.map_or(number > 1, |major| number == major))
    };
    match rest.strip_prefix(".so.") {
        Some(version) => fits(version),
        // `libLLVM-22.so`, but not `libLLVM-22-rust-1.95.0-stable.so`, which is a linker script.
        None => rest
            .strip_prefix('-')
            .and_then(|rest| rest.strip_suffix(".so"))
            .is_some_and(|version| fits(version) && version.chars().all(|c| c.is_ascii_digit() || c == '.')),
    }
}

/// The relevant parts of a file.
struct Examined {
    major: Option<u32>,
    version: Option<String>,
    /// The names of exported functions. `None` if the file is not ELF, and they are unknown.
    exports: Option<Vec<String>>,
    has_switch: bool,
}

fn examine(path: &Path, arch: &str) -> Result<Examined, Problem> {
    let unreadable = |reason: String| Problem::Unreadable { path: path.to_owned(), reason };
    let elf = match Elf::open(path) {
        Ok(elf) => elf,
        // Mach-O files of macOS: the linker checks their exports.
        Err(ElfError::OtherFormat) if path.extension().is_some_and(|end| end == "dylib") => {
            return Ok(Examined { major: None, version: None, exports: None, has_switch: false });
        }
        Err(error) => return Err(unreadable(error.to_string())),
    };
    let found = elf.architecture();
    if found != arch {
        return Err(Problem::OtherArchitecture { path: path.to_owned(), found, expected: arch.to_owned() });
    }
    let exports = elf.exports("LLVM").map_err(|error| unreadable(error.to_string()))?;
    // `LLVM_22.1`
    let versions = elf.version_names().map_err(|error| unreadable(error.to_string()))?;
    let version = versions.iter().find_map(|name| name.strip_prefix("LLVM_")).map(str::to_owned);
    let has_switch = elf.size_of(HASH_RECOGNIZE) == Some(1);
    Ok(Examined { major: version.as_deref().and_then(major), version, exports: Some(exports), has_switch })
}

/// Compares version and functions with the requirements of kernpack.
fn check(path: PathBuf, version: String, major: u32, origin: Origin, examined: Examined) -> Result<Library, Problem> {
    if major < OLDEST {
        return Err(Problem::TooOld { place: path.display().to_string(), version });
    }
    if let Some(exports) = &examined.exports {
        let missing: Vec<&str> =
            functions().filter(|name| exports.binary_search_by(|export| export.as_str().cmp(name)).is_err()).collect();
        if !missing.is_empty() {
            return Err(Problem::TooNew { path, version, missing });
        }
    }
    let (is_checked, has_switch) = (examined.exports.is_some(), examined.has_switch && TESTED.contains(&major));
    Ok(Library { path, version, major, origin, is_checked, has_switch })
}
