//! The reasons why an LLVM cannot be used.

use std::fmt;
use std::path::PathBuf;

use crate::{OLDEST, PREFIX_VARIABLES, tested};

/// A place that was searched, with the reason why it was rejected. The text describes what was
/// found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The place does not exist, or cannot be queried.
    Absent(String),
    /// The version is below [`OLDEST`].
    TooOld {
        /// The place: a program, a folder or a file.
        place: String,
        /// Its version.
        version: String,
    },
    /// Functions that kernpack calls are missing.
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: String,
        /// The missing functions.
        missing: Vec<&'static str>,
    },
    /// The LLVM has no shared library.
    NoSharedLibrary {
        /// The version of LLVM.
        version: String,
        /// The folders without one.
        folders: Vec<PathBuf>,
    },
    /// The library is for another architecture.
    OtherArchitecture {
        /// The file.
        path: PathBuf,
        /// Its architecture.
        found: String,
        /// The architecture of the build.
        expected: String,
    },
    /// The file is not a readable shared library.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A problem of the folder in a variable. The variable is binding, so no other place is
    /// searched.
    Prefix {
        /// The variable.
        variable: &'static str,
        /// Its value.
        folder: PathBuf,
        /// The problem there.
        problem: Box<Problem>,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent(text) => f.write_str(text),
            Self::TooOld { place, version } => {
                write!(f, "{place} is of LLVM {version}, which is too old: {OLDEST} is the oldest that serves")
            }
            Self::TooNew { path, version, missing } => {
                let shown = missing.iter().take(8).copied().collect::<Vec<_>>().join(", ");
                let more = match missing.len() {
                    count @ 9.. => format!(" and {} more", count - 8),
                    _ => String::new(),
                };
                write!(
                    f,
                    "{} (LLVM {version}) does not export {shown}{more}, which kernpack calls; tested are LLVM {}",
                    path.display(),
                    tested()
                )
            }
            Self::NoSharedLibrary { version, folders } => {
                let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
                write!(f, "LLVM {version} has no shared library (libLLVM) in {}", folders.join(", "))
            }
            Self::OtherArchitecture { path, found, expected } => {
                write!(f, "{} is a library for {found}, but the build is for {expected}", path.display())
            }
            Self::Unreadable { path, reason } => write!(f, "{} cannot be linked: {reason}", path.display()),
            Self::Prefix { variable, folder, problem } => {
                write!(f, "{variable} is {}, but {problem}", folder.display())
            }
        }
    }
}

impl Problem {
    /// Advice on how to solve the problem. `None` if the general advice applies.
    fn remedy(&self) -> Option<String> {
        match self {
            Self::Absent(_) => None,
            Self::TooOld { .. } => Some(format!(
                "update it: LLVM {OLDEST} or newer is needed, which Rust has since 1.95 (rustup update stable)"
            )),
            Self::TooNew { .. } => {
                Some(format!("update kernpack, or set {} to an LLVM of a tested version", PREFIX_VARIABLES[0]))
            }
            Self::NoSharedLibrary { version, .. } => {
                let major = version.split('.').next().unwrap_or_default();
                Some(format!(
                    "install its shared library (Debian, Ubuntu: llvm-{major}-dev; from source: \
                     -DLLVM_BUILD_LLVM_DYLIB=ON)"
                ))
            }
            Self::OtherArchitecture { expected, .. } => {
                Some(format!("set {} to the folder of an LLVM for {expected}", PREFIX_VARIABLES[0]))
            }
            Self::Unreadable { .. } => Some("install that LLVM again".to_owned()),
            Self::Prefix { variable, problem, .. } => {
                let general = || "name the folder of an LLVM with bin/llvm-config or lib/libLLVM.so".to_owned();
                Some(format!("{}, or unset {variable}", problem.remedy().unwrap_or_else(general)))
            }
        }
    }
}

/// All places that were searched without success. The text has a line for each, and then the
/// advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl std::error::Error for Problems {}

impl Problems {
    /// Returns the places in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        self.0.iter().map(Problem::to_string).collect::<Vec<_>>().join(", and ")
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "found no LLVM to link (version {OLDEST} or newer, as a shared library):\n")?;
        for problem in &self.0 {
            writeln!(f, "  - {problem}")?;
        }
        writeln!(f, "\nDo one of these:")?;
        for remedy in self.0.iter().filter_map(Problem::remedy) {
            writeln!(f, "  - {remedy}")?;
        }
        if !self.0.iter().any(|problem| matches!(problem, Problem::Prefix { .. })) {
            writeln!(f, "  - build with a Rust toolchain of rustup, 1.95 or newer: it has an LLVM inside")?;
            writeln!(f, "  - install LLVM with its shared library (Debian, Ubuntu: llvm-{OLDEST}-dev or newer)")?;
            writeln!(f, "  - set {} to the folder of an LLVM that has lib/libLLVM.so", PREFIX_VARIABLES[0])?;
        }
        write!(f, "  - do without LLVM: kernpack-build = {{ version = \"...\", default-features = false }}")
    }
}
