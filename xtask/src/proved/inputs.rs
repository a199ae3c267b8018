//! The inputs that a suite's outcome depends on, with a line with a digest for each part.

use crate::Result;
use crate::workspace::Workspace;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The parts, by their names, with their digests.
pub(crate) struct Inputs {
    root: PathBuf,
    /// The files that git tracks or would track, from the root, without the records.
    files: Vec<String>,
    parts: BTreeMap<String, String>,
}

impl Inputs {
    /// Creates an empty set. The files are those that git knows in `root`, without the folder
    /// `without`.
    pub(crate) fn new(root: &Path, without: &str) -> Result<Self> {
        let mut git = Command::new("git");
        git.current_dir(root).args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]);
        let output = git.output().map_err(|error| format!("cannot start git: {error}"))?;
        if !output.status.success() {
            return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
        }
        let text = String::from_utf8(output.stdout)?;
        let is_input = |file: &&str| !file.is_empty() && !is_in(file, without);
        let files: BTreeSet<String> = text.split('\0').filter(is_input).map(str::to_string).collect();
        Ok(Inputs { root: root.to_path_buf(), files: files.into_iter().collect(), parts: BTreeMap::new() })
    }

    /// Adds packages of the workspace with all their dependencies: the files of our packages, the
    /// `Cargo.lock` entries of others.
    pub(crate) fn packages(&mut self, workspace: &Workspace, packages: &[&str]) -> Result {
        let mut tree = workspace.cargo("tree");
        tree.args(["--locked", "--edges", "normal,build,dev", "--prefix", "none", "--no-dedupe", "--format", "{p}"]);
        tree.args(packages.iter().flat_map(|package| ["--package", package]));
        let output = tree.output()?;
        if !output.status.success() {
            return Err(format!("cargo tree: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
        }
        let lock = fs::read_to_string(self.root.join("Cargo.lock"))?;
        for line in String::from_utf8(output.stdout)?.lines() {
            let Some(package) = Package::parse(line) else { continue };
            match package.folder {
                Some(folder) => {
                    let folder = Path::new(folder).strip_prefix(&self.root)?.display().to_string();
                    self.package(&folder)?;
                }
                None => {
                    let entry = lock_entry(&lock, package.name, package.version);
                    let entry = entry.ok_or_else(|| format!("{line}: not in Cargo.lock"))?;
                    self.parts.insert(format!("crate {} {}", package.name, package.version), digest([entry]));
                }
            }
        }
        Ok(())
    }

    /// Adds the files of the package in a folder, without those of packages below it.
    fn package(&mut self, folder: &str) -> Result {
        let name = format!("package {folder}");
        if self.parts.contains_key(&name) {
            return Ok(());
        }
        let below: Vec<String> = self
            .files
            .iter()
            .filter_map(|file| file.strip_suffix("/Cargo.toml"))
            .filter(|other| *other != folder && is_in(other, folder))
            .map(str::to_string)
            .collect();
        let own = |file: &String| is_in(file, folder) && !below.iter().any(|other| is_in(file, other));
        let files: Vec<String> = self.files.iter().filter(|file| own(file)).cloned().collect();
        self.add(name, &files)
    }

    /// Adds a file, or all files of a folder. A missing one is an error: it was renamed.
    pub(crate) fn file(&mut self, path: &str) -> Result {
        let files: Vec<String> = self.files.iter().filter(|file| *file == path || is_in(file, path)).cloned().collect();
        if files.is_empty() {
            return Err(format!("{path}: git knows no such file").into());
        }
        self.add(path.to_string(), &files)
    }

    fn add(&mut self, name: String, files: &[String]) -> Result {
        let mut parts = Vec::new();
        for file in files {
            parts.push(file.clone().into_bytes());
            let path = self.root.join(file);
            // git also lists links and deleted files.
            parts.push(match fs::read_link(&path) {
                Ok(target) => target.into_os_string().into_encoded_bytes(),
                Err(_) => fs::read(&path).unwrap_or_else(|error| format!("{:?}", error.kind()).into_bytes()),
            });
        }
        self.parts.insert(name, digest(&parts));
        Ok(())
    }

    /// Adds the version that a program prints; a program that does not start has no version.
    pub(crate) fn program(&mut self, name: &str, command: &mut Command) {
        let said = command.output().map(|output| output.stdout).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let line = said.lines().next().unwrap_or("none").trim();
        self.parts.insert(format!("program {name}: {line}"), digest([said.as_bytes()]));
    }

    /// The text of a record.
    pub(crate) fn record(&self, suite: &str) -> String {
        let mut text = format!("# Inputs of the last pass of {suite}, by `cargo xtask ci`; see CONTRIBUTING.md.\n");
        for (name, digest) in &self.parts {
            text.push_str(&format!("{digest} {name}\n"));
        }
        text
    }
}

/// Returns whether a path is below a folder; the empty one is the root.
fn is_in(path: &str, folder: &str) -> bool {
    folder.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// The first 16 bytes of the SHA-256 of these parts, each with its length in front, in hexadecimal.
fn digest<T: AsRef<[u8]>>(parts: impl IntoIterator<Item = T>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        let part = part.as_ref();
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// A line of `cargo tree`: `name v1.2.3`, followed by `(proc-macro)` and, for our packages, the
/// folder.
struct Package<'a> {
    name: &'a str,
    version: &'a str,
    folder: Option<&'a str>,
}

impl<'a> Package<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim().trim_end_matches(" (*)");
        let (name, rest) = line.split_once(" v")?;
        let (version, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let folder = rest.find("(/").map(|start| &rest[start + 1..rest.len() - 1]);
        Some(Package { name, version, folder })
    }
}

/// The entry of a crate in `Cargo.lock`, which contains the checksum of its package.
fn lock_entry<'a>(lock: &'a str, name: &str, version: &str) -> Option<&'a str> {
    let start = format!("name = \"{name}\"\nversion = \"{version}\"\n");
    lock.split("[[package]]\n").find(|entry| entry.starts_with(&start))
}

/// The differences between two records, as text.
pub(crate) fn changes(before: &str, now: &str) -> String {
    let names = |text: &str| -> BTreeMap<String, String> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines
            .filter_map(|line| line.split_once(' '))
            .map(|(digest, name)| (name.to_string(), digest.to_string()))
            .collect()
    };
    let (before, now) = (names(before), names(now));
    let changed: Vec<&str> = now
        .iter()
        .filter(|(name, digest)| before.get(*name) != Some(digest))
        .map(|(name, _)| name.as_str())
        .chain(before.keys().filter(|name| !now.contains_key(*name)).map(String::as_str))
        .collect();
    let shown = changed.iter().take(3).copied().collect::<Vec<_>>().join(", ");
    match changed.len() {
        0..=3 => format!("changed since its last pass: {shown}"),
        count => format!("changed since its last pass: {shown} and {} more", count - 3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::shell;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A checkout with a package, one below it, and other files.
    struct Checkout(PathBuf);

    impl Checkout {
        fn new() -> Self {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let root = std::env::temp_dir().join(format!("kernpack-inputs-{}-{number}", std::process::id()));
            let checkout = Checkout(root);
            for (file, text) in [
                ("a/Cargo.toml", "a"),
                ("a/src/lib.rs", "one"),
                ("a/below/Cargo.toml", "b"),
                ("a/below/src/lib.rs", "two"),
                ("suite/list.txt", "three"),
                ("suite2/list.txt", "four"),
                ("passed/suite.txt", "five"),
                (".gitignore", "/target\n"),
            ] {
                checkout.write(file, text);
            }
            let mut git = shell("git init -q && git add -A");
            assert!(git.current_dir(&checkout.0).status().unwrap().success());
            checkout
        }

        fn write(&self, file: &str, text: &str) {
            let path = self.0.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn record(&self) -> String {
            let mut inputs = Inputs::new(&self.0, "passed").unwrap();
            inputs.package("a").unwrap();
            inputs.file("suite").unwrap();
            inputs.program("tool", &mut shell("echo tool 1.0; echo more"));
            inputs.record("suite")
        }
    }

    impl Drop for Checkout {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_changed_byte_in_an_input_changes_the_record() {
        for (file, part) in [("a/src/lib.rs", "package a"), ("a/Cargo.toml", "package a"), ("suite/list.txt", "suite")]
        {
            let checkout = Checkout::new();
            let before = checkout.record();
            assert_eq!(before, checkout.record());
            checkout.write(file, "Three");
            let now = checkout.record();
            assert_ne!(before, now, "{file}");
            assert_eq!(changes(&before, &now), format!("changed since its last pass: {part}"));
        }
    }

    #[test]
    fn files_that_come_and_go_change_the_record() {
        let checkout = Checkout::new();
        let before = checkout.record();
        checkout.write("a/src/new.rs", "");
        let with = checkout.record();
        assert_ne!(before, with);
        fs::remove_file(checkout.0.join("a/src/new.rs")).unwrap();
        assert_eq!(before, checkout.record());
        fs::rename(checkout.0.join("a/src/lib.rs"), checkout.0.join("a/src/main.rs")).unwrap();
        assert_ne!(before, checkout.record());
    }

    #[test]
    fn what_is_no_input_changes_nothing() {
        let checkout = Checkout::new();
        let before = checkout.record();
        for file in ["a/below/src/lib.rs", "suite2/list.txt", "passed/suite.txt", "target/a.txt", "README.md"] {
            checkout.write(file, "changed");
        }
        assert_eq!(before, checkout.record());
    }

    #[test]
    fn a_record_is_the_same_in_every_place() {
        let (one, other) = (Checkout::new(), Checkout::new());
        let record = one.record();
        assert_eq!(record, other.record());
        assert!(!record.contains(one.0.to_str().unwrap()), "{record}");
    }

    #[test]
    fn another_version_of_a_program_is_another_record() {
        let checkout = Checkout::new();
        let record = |script: &str| {
            let mut inputs = Inputs::new(&checkout.0, "passed").unwrap();
            inputs.program("tool", &mut shell(script));
            inputs.record("suite")
        };
        let records = ["echo 1.0", "echo 1.1", "echo 1.0; echo other", "exit 1"].map(record);
        let different: BTreeSet<&String> = records.iter().collect();
        assert_eq!(different.len(), records.len());
        assert!(records[0].ends_with(" program tool: 1.0\n") && records[3].ends_with(" program tool: none\n"));
    }

    #[test]
    fn a_path_that_is_gone_is_an_error() {
        let checkout = Checkout::new();
        let mut inputs = Inputs::new(&checkout.0, "passed").unwrap();
        assert_eq!(inputs.file("list.txt").unwrap_err().to_string(), "list.txt: git knows no such file");
    }

    #[test]
    fn lines_of_cargo_tree() {
        let parse = |line| Package::parse(line).map(|package| (package.name, package.version, package.folder));
        assert_eq!(parse("libc v0.2.1 (*)"), Some(("libc", "0.2.1", None)));
        assert_eq!(parse("serde_derive v1.0.0 (proc-macro)"), Some(("serde_derive", "1.0.0", None)));
        assert_eq!(parse("k-m v0.1.0 (proc-macro) (/r s/macros) (*)"), Some(("k-m", "0.1.0", Some("/r s/macros"))));
        assert_eq!(parse(""), None);
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"x\"\n\n[[package]]\nname = \"a\"\nversion = \"1.0.1\"\n";
        assert_eq!(lock_entry(lock, "a", "1.0.0"), Some("name = \"a\"\nversion = \"1.0.0\"\nchecksum = \"x\"\n\n"));
        assert_eq!(lock_entry(lock, "a", "2.0.0"), None);
    }
}
