use std::path::{Path, PathBuf};

use proc_macro2::Span;

use crate::dependencies::{self, Dependency};
use crate::enclosing::is_in_impl;
use crate::mistakes::Mistakes;

/// The information that cargo and `build.rs` give the macros about the crate that is being
/// compiled.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// The crate's name as Rust code spells it. It is the first part of the global names of its
    /// functions.
    pub crate_name: Option<String>,
    /// The package's version.
    pub crate_version: Option<String>,
    /// The file that `build.rs` wrote for `library!()` to include.
    pub library_file: Option<PathBuf>,
    /// The file that calls `library!()`, as passed to the compiler. Only
    /// [`Environment::read_for_library`] sets it.
    pub source_file: Option<PathBuf>,
    /// The crates on the compiler's command line. Only [`Environment::read_for_library`] reads
    /// them.
    pub dependencies: Vec<Dependency>,
    /// The folder of the package's manifest. Only [`Environment::read_for_library`] reads it.
    pub package_dir: Option<PathBuf>,
    /// True if the compiler's command line requests a library of no particular kind because the
    /// manifest specifies none, in a package that is built as the primary package.
    pub no_crate_type: bool,
    /// True if the attribute is in an `impl` or a `trait`, as far as the source shows it. Only
    /// [`Environment::read_for_item`] sets it.
    pub in_impl: bool,
}

impl Environment {
    /// The variable in which `build.rs` passes the path of its file.
    pub const LIBRARY_FILE: &'static str = "KERNPACK_LIBRARY_RS";

    /// Reads the environment of the compiler that runs the macro.
    pub fn read() -> Self {
        Self {
            crate_name: std::env::var("CARGO_CRATE_NAME").ok().filter(|name| !name.is_empty()),
            crate_version: std::env::var("CARGO_PKG_VERSION").ok(),
            library_file: std::env::var_os(Self::LIBRARY_FILE).filter(|path| !path.is_empty()).map(PathBuf::from),
            ..Self::default()
        }
    }

    /// Also reads the information for `library!()` in this file.
    pub fn read_for_library(source_file: Option<PathBuf>) -> Self {
        Self {
            source_file,
            dependencies: Dependency::of_compiler(),
            package_dir: std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from),
            no_crate_type: dependencies::has_no_crate_type() && std::env::var_os("CARGO_PRIMARY_PACKAGE").is_some(),
            ..Self::read()
        }
    }

    /// Also reads the information for an attribute of an item. Items without indentation are not in
    /// an `impl`.
    pub fn read_for_item(file: Option<&Path>, line: usize, column: usize) -> Self {
        Self { in_impl: column > 1 && file.is_some_and(|file| is_in_impl(file, line)), ..Self::read() }
    }

    /// Returns the crate's name. Without it nothing can be registered.
    pub(crate) fn required_crate_name(&self, mistakes: &mut Mistakes) -> Option<&str> {
        if self.crate_name.is_none() {
            mistakes.at_span(
                Span::call_site(),
                "the name of this crate is not known: CARGO_CRATE_NAME is not set; build with cargo, or set it",
            );
        }
        self.crate_name.as_deref()
    }
}
