//! The folder of a page: every file of the page, at the path that the page names.

use super::Result;
use super::manifest;
use super::page::{Block, Page};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The files of one page on disk.
pub(crate) struct Folder {
    root: PathBuf,
    /// The name of the page's own crate.
    name: String,
    files: BTreeMap<String, String>,
    /// The bodies of tests, with their lines.
    tests: Vec<(usize, String)>,
    /// Crates to build: folders below the root, "" for the root itself.
    changed: BTreeSet<String>,
}

/// Files that cargo finds by itself.
const CARGO_FILES: [&str; 6] = ["Cargo.toml", "build.rs", "src/", "tests/", "examples/", "benches/"];

impl Folder {
    /// An empty folder for a page.
    pub(crate) fn new(root: PathBuf, page: &Page) -> Result<Self> {
        if root.exists() {
            fs::remove_dir_all(&root).map_err(|error| format!("cannot empty {}: {error}", root.display()))?;
        }
        fs::create_dir_all(&root).map_err(|error| format!("cannot make {}: {error}", root.display()))?;
        Ok(Self { root, name: page.name(), files: BTreeMap::new(), tests: Vec::new(), changed: BTreeSet::new() })
    }

    /// The path of the folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Writes a file, or appends to it.
    pub(crate) fn write(&mut self, path: &str, text: &str, anew: bool) -> Result {
        let file = self.files.entry(path.to_string()).or_default();
        if anew {
            file.clear();
        }
        file.push_str(text);
        self.put(path)
    }

    /// Adds Rust code without a file: items, or a test.
    pub(crate) fn add_rust(&mut self, block: &Block, is_test: bool) -> Result {
        if is_test {
            self.tests.push((block.line, block.whole_code()));
            self.files.entry("src/lib.rs".to_string()).or_default();
            return self.put("src/lib.rs");
        }
        self.write("src/lib.rs", &block.whole_code(), false)
    }

    /// Copies a file or folder of the checkout.
    pub(crate) fn take(&mut self, from: &Path, to: &str) -> Result {
        let copy = |from: &Path, to: &Path| -> Result {
            fs::create_dir_all(to.parent().unwrap_or(&self.root))?;
            fs::copy(from, to).map_err(|error| format!("cannot copy {}: {error}", from.display()))?;
            Ok(())
        };
        if from.is_dir() {
            for entry in fs::read_dir(from)?.flatten().filter(|entry| entry.path().is_file()) {
                copy(&entry.path(), &self.root.join(to).join(entry.file_name()))?;
            }
            return Ok(());
        }
        copy(from, &self.root.join(to))
    }

    /// Returns the crates to build, as folders (the empty name is the root), and marks them as
    /// built.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.changed)
    }

    /// Notes that a command of the page has built the crate in this folder, or shown that it does
    /// not build.
    pub(crate) fn built(&mut self, folder: &Path) {
        if let Ok(inside) = folder.strip_prefix(&self.root) {
            self.changed.remove(&*inside.to_string_lossy());
        }
    }

    /// Returns whether the page has tests in its own crate.
    pub(crate) fn has_tests(&self) -> bool {
        !self.tests.is_empty()
    }

    /// Crates that have targets which only `cargo test` compiles.
    pub(crate) fn crates_with_tests(&self) -> BTreeSet<String> {
        let files = self.files.keys().filter(|path| {
            let inside = &path[self.crate_of(path).len()..];
            ["tests/", "examples/", "benches/"].iter().any(|folder| inside.trim_start_matches('/').starts_with(folder))
        });
        files.map(|path| self.crate_of(path)).collect()
    }

    /// A file that the page shows and does not use; `texts` is all code and commands of the page.
    pub(crate) fn unused(&self, texts: &str) -> Option<&str> {
        self.files.keys().map(String::as_str).find(|path| {
            let folder = self.made_crate_of(path).unwrap_or_else(|| self.crate_of(path));
            let inside = path[folder.len()..].trim_start_matches('/');
            let name = path.rsplit('/').next().unwrap_or(path);
            let used = |text: &str| text.contains(name);
            let by_file = self.files.iter().any(|(other, text)| other != path && used(text));
            !CARGO_FILES.iter().any(|cargo| inside.starts_with(cargo)) && !by_file && !used(texts)
        })
    }

    /// The folder of the crate that a file belongs to.
    fn crate_of(&self, path: &str) -> String {
        let folders = path.match_indices('/').map(|(end, _)| &path[..end]).rev();
        let own = folders.into_iter().find(|folder| self.files.contains_key(&format!("{folder}/Cargo.toml")));
        own.unwrap_or_default().to_string()
    }

    /// The folder of the crate that a file belongs to, if a command of the page has made it.
    fn made_crate_of(&self, path: &str) -> Option<String> {
        let mut folders = path.match_indices('/').map(|(end, _)| &path[..end]).rev();
        folders.find(|folder| self.root.join(folder).join("Cargo.toml").is_file()).map(str::to_owned)
    }

    /// Writes one file in its current state, and the additional files of the root's crate.
    fn put(&mut self, path: &str) -> Result {
        let folder = self.crate_of(path);
        let inside = path[folder.len()..].trim_start_matches('/').to_string();
        let is_cargo_file = CARGO_FILES.iter().any(|cargo| inside.starts_with(cargo));
        if is_cargo_file && folder.is_empty() {
            let shown = self.files.get("Cargo.toml").map_or("", String::as_str);
            self.put_text("Cargo.toml", &manifest::complete(&self.name, shown, self.files.contains_key("build.rs")))?;
            if !["src/lib.rs", "src/main.rs"].iter().any(|root| self.files.contains_key(*root)) {
                self.put_text("src/lib.rs", "kernpack::library!();\n")?;
            }
        }
        if path != "Cargo.toml" {
            let tests = if path == "src/lib.rs" { self.test_module() } else { String::new() };
            self.put_text(path, &format!("{}{tests}", self.files[path]))?;
        }
        if folder.is_empty() && !self.root.join("Cargo.toml").exists() {
            return Ok(());
        }
        self.changed.insert(folder);
        Ok(())
    }

    fn test_module(&self) -> String {
        if self.tests.is_empty() {
            return String::new();
        }
        let mut module = "\n#[cfg(test)]\nmod page_tests {\n#[allow(unused_imports)]\nuse super::*;\n".to_string();
        for (line, code) in &self.tests {
            write!(module, "#[test]\nfn line_{line}() -> kernpack::Result<()> {{\n{code}Ok(())\n}}\n")
                .expect("a string takes everything");
        }
        module.push_str("}\n");
        module
    }

    fn put_text(&self, path: &str, text: &str) -> Result {
        let file = self.root.join(path);
        fs::create_dir_all(file.parent().unwrap_or(&self.root))?;
        fs::write(&file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> Folder {
        let root = std::env::temp_dir().join(format!("kernpack-book-folder-{name}-{}", std::process::id()));
        Folder::new(root, &Page { path: "docs/my-page.md".to_string(), steps: Vec::new() }).unwrap()
    }

    fn read(folder: &Folder, path: &str) -> String {
        fs::read_to_string(folder.root().join(path)).unwrap()
    }

    #[test]
    fn a_page_becomes_a_crate() {
        let mut folder = folder("crate");
        folder.write("notes.txt", "nothing\n", false).unwrap();
        assert!(folder.take_changed().is_empty(), "a file alone is not a crate");
        assert_eq!(folder.unused("cat notes"), Some("notes.txt"));
        assert_eq!(folder.unused("cat notes.txt"), None);

        folder.write("build.rs", "fn main() {}\n", false).unwrap();
        assert_eq!(read(&folder, "src/lib.rs"), "kernpack::library!();\n");
        let block = |line, code: &str| Block { line, code: code.to_string(), ..Block::default() };
        folder.add_rust(&block(3, "fn a() {}\n"), false).unwrap();
        folder.add_rust(&block(7, "a();\n"), true).unwrap();
        folder.add_rust(&block(9, "fn b() {}\n"), false).unwrap();
        let code = read(&folder, "src/lib.rs");
        assert!(code.starts_with("fn a() {}\nfn b() {}\n\n#[cfg(test)]\nmod page_tests {"), "{code}");
        assert!(code.contains("#[test]\nfn line_7() -> kernpack::Result<()> {\na();\nOk(())\n}\n"), "{code}");
        assert!(read(&folder, "Cargo.toml").contains("name = \"my-page\""));

        folder.write("host/Cargo.toml", "[package]\nname = \"host\"\n", false).unwrap();
        folder.write("host/tests/a.rs", "", false).unwrap();
        assert_eq!(folder.take_changed(), BTreeSet::from([String::new(), "host".to_string()]));
        assert_eq!(folder.crates_with_tests(), BTreeSet::from(["host".to_string()]));
        assert!(folder.take_changed().is_empty());
        folder.write("host/src/main.rs", "", false).unwrap();
        folder.write("src/a.rs", "", false).unwrap();
        folder.built(&folder.root().join("host"));
        assert_eq!(folder.take_changed(), BTreeSet::from([String::new()]));
        fs::remove_dir_all(folder.root()).unwrap();
    }
}
