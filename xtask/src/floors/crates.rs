//! The crates of the workspace and their dependencies, from their manifests.

use super::order::{Exception, Order};
use crate::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The crates of a workspace by name.
pub(super) struct Crates(BTreeMap<String, Member>);

struct Member {
    folder: PathBuf,
    manifest: PathBuf,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, PartialEq)]
struct Dependency {
    name: String,
    line: usize,
}

impl Crates {
    /// Reads the manifests of all members.
    pub(super) fn of_workspace(root: &Path) -> Result<Self> {
        let manifest = std::fs::read_to_string(root.join("Cargo.toml"))?;
        let (_, members) = manifest.split_once("members = [").ok_or("Cargo.toml has no members")?;
        let (members, _) = members.split_once(']').ok_or("Cargo.toml: members without an end")?;
        let mut crates = BTreeMap::new();
        for member in members.split('"').skip(1).step_by(2) {
            let folder = root.join(member);
            let text = std::fs::read_to_string(folder.join("Cargo.toml"))
                .map_err(|error| format!("{member}/Cargo.toml: {error}"))?;
            let name = text.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
            let name = name.ok_or_else(|| format!("{member}/Cargo.toml has no name"))?.to_owned();
            let manifest = Path::new(member).join("Cargo.toml");
            crates.insert(name, Member { folder, manifest, dependencies: dependencies(&text) });
        }
        Ok(Self(crates))
    }

    /// The folder of a crate.
    pub(super) fn folder(&self, name: &str) -> Option<&Path> {
        self.0.get(name).map(|member| member.folder.as_path())
    }

    /// The dependencies on crates that are not below, and names in the orders that are not crates.
    pub(super) fn against(&self, orders: &[Order], exceptions: &[Exception], used: &mut [bool]) -> Vec<String> {
        let named: BTreeSet<&String> = orders.iter().flat_map(Order::rooms).collect();
        let mut problems = Vec::new();
        for name in named {
            let Some(member) = self.0.get(name) else {
                problems.push(format!("ARCHITECTURE.md: {name} is not a crate of the workspace"));
                continue;
            };
            for dependency in member.dependencies.iter().filter(|dependency| self.0.contains_key(&dependency.name)) {
                let is_below = |order: &Order| {
                    order.place(name).zip(order.place(&dependency.name)).is_some_and(|(above, below)| below < above)
                };
                if orders.iter().any(is_below) {
                    continue;
                }
                let is_excepted = |exception: &Exception| exception.from == *name && exception.to == dependency.name;
                if let Some(exception) = exceptions.iter().position(is_excepted) {
                    used[exception] = true;
                } else {
                    problems.push(format!(
                        "{}:{}: {name} depends on {}, which is not below it",
                        member.manifest.display(),
                        dependency.line,
                        dependency.name
                    ));
                }
            }
        }
        problems
    }
}

/// The dependencies of a crate and of its build script. Dependencies for development are left out.
fn dependencies(manifest: &str) -> Vec<Dependency> {
    let mut found = Vec::new();
    let mut is_list = false;
    for (line, text) in (1..).zip(manifest.lines().map(str::trim)) {
        if let Some(section) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
            let (table, name) = match section.rsplit_once('.') {
                Some((table, name)) if !name.ends_with("dependencies") => (table, Some(name)),
                _ => (section, None),
            };
            let is_dependencies = table.ends_with("dependencies") && !table.ends_with("dev-dependencies");
            is_list = is_dependencies && name.is_none();
            if let Some(name) = name.filter(|_| is_dependencies) {
                found.push(Dependency { name: name.trim_matches('"').to_owned(), line });
            }
        } else if is_list && let Some((name, value)) = text.split_once('=').filter(|_| !text.starts_with('#')) {
            let package = value.split_once("package = \"").and_then(|(_, package)| package.split('"').next());
            let name = name.split('.').next().unwrap_or_default().trim().trim_matches('"');
            found.push(Dependency { name: package.unwrap_or(name).to_owned(), line });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_dependency() {
        let manifest = "[package]\nname = \"a\"\n\n[dependencies]\nb.workspace = true\n# c = \"1\"\nd = { package = \"e\", version = \"1\" }\n\
                        [dependencies.f]\nversion = \"1\"\n[dev-dependencies]\ng = \"1\"\n[build-dependencies]\nh = \"1\"\n\
                        [target.'cfg(unix)'.dependencies]\ni = \"1\"\n[features]\nj = [\"dep:b\"]\n";
        let found: Vec<_> = dependencies(manifest).into_iter().map(|found| (found.name, found.line)).collect();
        let expected = [("b", 5), ("e", 7), ("f", 8), ("h", 13), ("i", 15)];
        assert_eq!(found, expected.map(|(name, line)| (name.to_owned(), line)));
    }
}
