use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::{Error, Result};

/// The files that a build read. Cargo reruns the build script when one of them changes.
pub(crate) struct Tracker {
    package_dir: PathBuf,
    out_dir: PathBuf,
    paths: Mutex<BTreeSet<PathBuf>>,
}

impl Tracker {
    pub(crate) fn new(package_dir: &Path, out_dir: &Path) -> Self {
        Self { package_dir: package_dir.to_owned(), out_dir: out_dir.to_owned(), paths: Mutex::default() }
    }

    /// Tracks one file, relative to the package or absolute.
    ///
    /// Files that this build creates and missing files are left out, because they would make cargo
    /// rebuild every time.
    pub(crate) fn file(&self, path: &Path) {
        let full = self.package_dir.join(path);
        if !full.starts_with(&self.out_dir) && full.exists() {
            self.paths.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
        }
    }

    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// Returns every prerequisite in a dependency file that a compiler wrote (`-MD -MF`).
pub(crate) fn dependencies(depfile: &Path) -> Result<Vec<PathBuf>> {
    let text = fs::read(depfile)
        .map_err(|e| Error::new(format!("{}: cannot read the list of included headers: {e}", depfile.display())))?;
    Ok(prerequisites(&String::from_utf8_lossy(&text)).into_iter().map(PathBuf::from).collect())
}

/// Parses the prerequisites of a make rule: the words after the first colon that ends a word. `\`
/// escapes spaces, `#` and line ends, and `$$` is a dollar sign.
fn prerequisites(rule: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut chars = rule.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some('\n')) => {
                chars.next();
                words.push(std::mem::take(&mut word));
            }
            ('\\', Some('\r')) => {}
            ('\\', Some(&next @ (' ' | '#' | '\\' | ':'))) => {
                word.push(next);
                chars.next();
            }
            ('$', Some('$')) => {
                word.push('$');
                chars.next();
            }
            (c, _) if c.is_whitespace() => words.push(std::mem::take(&mut word)),
            (c, _) => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    let target_end = words.iter().position(|word| word.ends_with(':')).map_or(0, |position| position + 1);
    words.split_off(target_end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn make_rules() {
        let rows: &[(&str, &[&str])] = &[
            ("kernel: a.c b.h\n", &["a.c", "b.h"]),
            ("kernel: a.c \\\n /usr/include/stdio.h \\\n  b.h\n", &["a.c", "/usr/include/stdio.h", "b.h"]),
            ("kernel: dir\\ with\\ spaces/a.c x\\#y.h z$$.h\n", &["dir with spaces/a.c", "x#y.h", "z$.h"]),
            ("kernel : \\\r\n a.c\r\n", &["a.c"]),
            ("kernel:\n", &[]),
            ("", &[]),
        ];
        for (rule, expected) in rows {
            assert_eq!(prerequisites(rule), *expected, "{rule:?}");
        }
    }

    #[test]
    fn only_files_that_exist_and_are_not_made_here() {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let tracker = Tracker::new(package, &package.join("src"));
        for path in ["Cargo.toml", "Cargo.toml", "src/lib.rs", "no such file"] {
            tracker.file(Path::new(path));
        }
        assert_eq!(tracker.paths(), [Path::new("Cargo.toml")]);
    }
}
