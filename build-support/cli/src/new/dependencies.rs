//! Where a new crate gets Kernpack from: a checkout, or the registry.

use std::path::{Path, PathBuf};

use crate::Result;

/// The packages that a new crate depends on.
pub(crate) enum Dependencies {
    /// The checkout's folder.
    Checkout(PathBuf),
    /// Released, of this tool's version.
    Released,
}

impl Dependencies {
    /// The checkout that was asked for, else that in which `parent` lies, else `built_from` if it is a checkout, else releases.
    pub(crate) fn choose(asked: Option<&Path>, parent: &Path, built_from: &Path) -> Result<Self> {
        if let Some(asked) = asked {
            let folder = asked.canonicalize().ok().filter(|folder| is_checkout(folder)).ok_or_else(|| {
                format!(
                    "--kernpack-path {0} is not a checkout of Kernpack: {0}/runtime/Cargo.toml is missing or not of the package kernpack",
                    asked.display()
                )
            })?;
            return Ok(Self::Checkout(folder));
        }
        let found = parent.ancestors().chain(built_from.ancestors()).find(|folder| is_checkout(folder));
        Ok(match found {
            Some(folder) => Self::Checkout(folder.to_owned()),
            None => Self::Released,
        })
    }

    /// A dependency as Cargo.toml has it.
    pub(crate) fn entry(&self, folder: &str, features: &[&str]) -> String {
        let source = match self {
            Self::Released => format!("version = \"{}\"", env!("CARGO_PKG_VERSION")),
            Self::Checkout(root) => format!("path = {}", toml_text(&root.join(folder).to_string_lossy())),
        };
        match features {
            [] => format!("{{ {source} }}"),
            features => format!("{{ {source}, features = {features:?} }}"),
        }
    }

    /// For people.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Released => format!("kernpack {}", env!("CARGO_PKG_VERSION")),
            Self::Checkout(root) => format!("kernpack of the checkout {}", root.display()),
        }
    }
}

/// The folder of this tool's sources when it was built: in a checkout, if cargo installed it from one, else in cargo's copy of the release.
pub(crate) fn sources_of_this_tool() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A basic string of TOML.
fn toml_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn is_checkout(folder: &Path) -> bool {
    let manifest = std::fs::read_to_string(folder.join("runtime/Cargo.toml")).unwrap_or_default();
    manifest.lines().any(|line| line.trim() == "name = \"kernpack\"")
}

/// Whether cargo would take a crate in this folder for a member of an existing workspace.
pub(crate) fn is_below_workspace(folder: &Path) -> bool {
    folder.ancestors().any(|folder| {
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        manifest.lines().any(|line| line.trim_start().starts_with("[workspace"))
    })
}
