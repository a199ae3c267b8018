//! The source of Kernpack for a new crate: a checkout, a git repository, or the registry.

use std::path::{Path, PathBuf};

use crate::Result;

/// The source of the packages that a new crate depends on.
pub(crate) enum Dependencies {
    /// The checkout's folder.
    Checkout(PathBuf),
    /// A git repository, at this commit if one is given.
    Git { url: String, commit: Option<String> },
    /// The release with the version of this tool.
    Released,
}

impl Dependencies {
    /// Chooses the requested source, else the checkout that contains `parent`, else the source of
    /// `tool`.
    pub(crate) fn choose(asked: Option<&Asked>, parent: &Path, tool: &Tool<'_>) -> Result<Self> {
        match asked {
            Some(Asked::Checkout(asked)) => {
                let folder = asked.canonicalize().ok().filter(|folder| is_checkout(folder)).ok_or_else(|| {
                    format!(
                        "--kernpack-path {0} is not a checkout of Kernpack: {0}/runtime/Cargo.toml is missing or not of the package kernpack",
                        asked.display()
                    )
                })?;
                return Ok(Self::Checkout(folder));
            }
            Some(Asked::Git(url)) => return Ok(Self::Git { url: url.clone(), commit: None }),
            None => {}
        }
        let checkout = |folder: &Path| folder.ancestors().find(|folder| is_checkout(folder)).map(Path::to_owned);
        if let Some(folder) = checkout(parent) {
            return Ok(Self::Checkout(folder));
        }
        // Before the sources: those of a git repository are in a folder of cargo, which cargo
        // cleans.
        if let Some((url, commit)) = tool.root.and_then(installed_from_git) {
            return Ok(Self::Git { url, commit: Some(commit) });
        }
        Ok(checkout(tool.sources).map_or(Self::Released, Self::Checkout))
    }

    /// Formats a dependency for Cargo.toml.
    pub(crate) fn entry(&self, folder: &str, features: &[&str]) -> String {
        let source = match self {
            Self::Released => format!("version = \"{}\"", env!("CARGO_PKG_VERSION")),
            Self::Checkout(root) => format!("path = {}", toml_text(&root.join(folder).to_string_lossy())),
            Self::Git { url, commit: None } => format!("git = {}", toml_text(url)),
            Self::Git { url, commit: Some(commit) } => format!("git = {}, rev = {}", toml_text(url), toml_text(commit)),
        };
        match features {
            [] => format!("{{ {source} }}"),
            features => format!("{{ {source}, features = {features:?} }}"),
        }
    }

    /// Formats the source for people.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Released => format!("kernpack {}", env!("CARGO_PKG_VERSION")),
            Self::Checkout(root) => format!("kernpack of the checkout {}", root.display()),
            Self::Git { url, commit: None } => format!("kernpack of {url}"),
            Self::Git { url, commit: Some(commit) } => format!("kernpack of {url}, commit {commit}"),
        }
    }
}

/// The source that the command line requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Checkout(PathBuf),
    Git(String),
}

/// The tool that creates the crate.
pub(crate) struct Tool<'a> {
    /// Its sources at build time: in a checkout, if cargo installed it from one, otherwise in
    /// cargo's copy of the release.
    pub(crate) sources: &'a Path,
    /// The folder that cargo installed it into, with the program in `bin`, and the file in which
    /// cargo records the origin of programs.
    pub(crate) root: Option<&'a Path>,
}

/// Returns the repository and the commit that cargo installed this tool from:
/// `cargo install --git URL kernpack-cli`.
fn installed_from_git(root: &Path) -> Option<(String, String)> {
    let notes = std::fs::read_to_string(root.join(".crates.toml")).ok()?;
    // "kernpack-cli 0.1.0 (git+URL?branch=main#COMMIT)" = ["cargo-kernpack"]
    let line = notes.lines().find(|line| line.starts_with("\"kernpack-cli "))?;
    let (_, source) = line.split_once(" (git+")?;
    let (source, commit) = source.split_once(")\"")?.0.rsplit_once('#')?;
    let url = source.split_once('?').map_or(source, |(url, _)| url);
    Some((without_credentials(url), commit.to_owned()))
}

/// Removes the user and the password or token from a URL, because others can see the contents of a
/// new crate. URLs with `ssh` only have a user.
fn without_credentials(url: &str) -> String {
    let parts = url.split_once("://").filter(|(scheme, _)| scheme.to_ascii_lowercase().starts_with("http"));
    let Some((scheme, rest)) = parts else { return url.to_owned() };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    format!("{scheme}://{}{path}", host.rsplit_once('@').map_or(host, |(_, host)| host))
}

/// Formats a basic string of TOML.
fn toml_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn is_checkout(folder: &Path) -> bool {
    let manifest = std::fs::read_to_string(folder.join("runtime/Cargo.toml")).unwrap_or_default();
    manifest.lines().any(|line| line.trim() == "name = \"kernpack\"")
}

/// Returns true if cargo would treat a crate in this folder as a member of an existing workspace.
pub(crate) fn is_below_workspace(folder: &Path) -> bool {
    folder.ancestors().any(|folder| {
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        manifest.lines().any(|line| line.trim_start().starts_with("[workspace"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_was_installed_from_git() {
        let root = std::env::temp_dir().join(format!("kernpack-dependencies-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let tool = Tool { sources: Path::new(env!("CARGO_MANIFEST_DIR")), root: Some(&root) };
        let entry = |notes: &str| {
            let text = format!("[v1]\n\"mdbook 0.5.4 (git+file:///m#1)\" = [\"mdbook\"]\n{notes}");
            std::fs::write(root.join(".crates.toml"), text).unwrap();
            let chosen = Dependencies::choose(None, &root, &tool).unwrap();
            (chosen.entry("runtime", &["python"]), chosen.shown())
        };
        for query in ["", "?branch=main"] {
            let notes =
                format!("\"kernpack-cli 0.1.0 (git+ssh://git@host/k.git{query}#d047)\" = [\"cargo-kernpack\"]\n");
            assert_eq!(
                entry(&notes),
                (
                    "{ git = \"ssh://git@host/k.git\", rev = \"d047\", features = [\"python\"] }".to_owned(),
                    "kernpack of ssh://git@host/k.git, commit d047".to_owned()
                )
            );
        }
        for (written, kept) in [
            ("https://user:token@host/k@2.git", "https://host/k@2.git"),
            ("HTTP://token@host:80", "HTTP://host:80"),
            ("https://host/a@b", "https://host/a@b"),
        ] {
            let (entry, shown) =
                entry(&format!("\"kernpack-cli 0.1.0 (git+{written}#d047)\" = [\"cargo-kernpack\"]\n"));
            assert!(entry.starts_with(&format!("{{ git = \"{kept}\", rev = \"d047\"")), "{entry}");
            assert_eq!(shown, format!("kernpack of {kept}, commit d047"));
        }
        let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().display().to_string();
        for notes in ["", "\"kernpack-cli 0.1.0 (path+file:///k/build-support/cli)\" = [\"cargo-kernpack\"]\n"] {
            assert_eq!(entry(notes).1, format!("kernpack of the checkout {checkout}"));
        }
        // The request takes precedence.
        let asked = Asked::Git("https://host/k".to_owned());
        let chosen = Dependencies::choose(Some(&asked), &root, &tool).unwrap();
        assert_eq!(chosen.entry("build-support", &[]), "{ git = \"https://host/k\" }");
        assert_eq!(chosen.shown(), "kernpack of https://host/k");
        std::fs::remove_dir_all(root).unwrap();
    }
}
