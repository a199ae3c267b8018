use std::path::PathBuf;

use proc_macro2::Span;

use crate::dependencies::Dependency;
use crate::mistakes::Mistakes;

/// What cargo and `build.rs` tell the macros about the crate that is being compiled.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// The crate's name as Rust code spells it; the first part of its functions' global names.
    pub crate_name: Option<String>,
    /// The package's version.
    pub crate_version: Option<String>,
    /// The file that `build.rs` wrote for `library!()` to include.
    pub library_file: Option<PathBuf>,
    /// The crates that the compiler was given; only [`Environment::read_for_library`] looks.
    pub dependencies: Vec<Dependency>,
}

impl Environment {
    /// The variable in which `build.rs` names its file.
    pub const LIBRARY_FILE: &'static str = "KERNPACK_LIBRARY_RS";

    /// Reads the environment of the compiler that runs the macro.
    pub fn read() -> Self {
        Self {
            crate_name: std::env::var("CARGO_CRATE_NAME").ok().filter(|name| !name.is_empty()),
            crate_version: std::env::var("CARGO_PKG_VERSION").ok(),
            library_file: std::env::var_os(Self::LIBRARY_FILE).filter(|path| !path.is_empty()).map(PathBuf::from),
            dependencies: Vec::new(),
        }
    }

    /// Reads what `library!()` needs, too.
    pub fn read_for_library() -> Self {
        Self { dependencies: Dependency::of_compiler(), ..Self::read() }
    }

    /// The crate's name; without it nothing can be registered.
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
