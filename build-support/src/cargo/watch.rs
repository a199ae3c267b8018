//! Places where a tool may appear later.
//!
//! Cargo reruns a build script when a path that it printed changes, but also whenever such a path
//! is missing. So a place without a file is watched in one of two ways. A folder of `PATH` that
//! contains only files is printed itself: its modification time changes with every file that is
//! added to it, even an old file from a package. All other places (they do not exist yet, or cargo
//! would walk through nested folders) get a dangling symbolic link in a folder of Kernpack that
//! cargo walks through. Cargo skips dangling links, and sees the target of a link as soon as it
//! exists. The links and their folder have an old date, since cargo rebuilds if a path is newer
//! than the build.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// A folder with more files is not worth walking through at each build.
const MOST_FILES: usize = 10_000;

/// The places where a tool may appear later.
#[derive(Debug)]
pub(crate) struct Watch {
    out_dir: PathBuf,
    places: Mutex<BTreeSet<Place>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    path: PathBuf,
    /// True if the tool is missing altogether. Otherwise it is present, and this place would take
    /// precedence over it.
    is_missing: bool,
}

impl Watch {
    pub(crate) fn new(out_dir: &Path) -> Self {
        Self { out_dir: out_dir.to_owned(), places: Mutex::default() }
    }

    /// Records a place where a tool was searched for without success, and not found elsewhere.
    pub(crate) fn missing(&self, path: &Path) {
        self.add(path, true);
    }

    /// Records a place where a tool was searched for before it was found elsewhere.
    pub(crate) fn passed(&self, path: &Path) {
        self.add(path, false);
    }

    fn add(&self, path: &Path, is_missing: bool) {
        if path.is_absolute() {
            let place = Place { path: path.to_owned(), is_missing };
            self.places.lock().unwrap_or_else(PoisonError::into_inner).insert(place);
        }
    }

    /// Returns the paths to print for cargo, and creates the links.
    pub(crate) fn paths(&self) -> BTreeSet<PathBuf> {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut paths = BTreeSet::new();
        let mut links = BTreeSet::new();
        for place in places {
            match place.path.parent() {
                Some(folder) if place.is_missing && self.is_flat(folder) => {
                    paths.insert(folder.to_owned());
                }
                _ => {
                    links.insert(first_missing(&place.path));
                }
            }
        }
        if let Some(folder) = link_folder(&self.out_dir, &links) {
            paths.insert(folder);
        }
        paths
    }

    /// Returns true if a folder exists, contains only files, not too many, and is not one that
    /// builds write to.
    fn is_flat(&self, folder: &Path) -> bool {
        let builds = self.out_dir.ancestors().nth(4).unwrap_or(&self.out_dir);
        let Ok(entries) = fs::read_dir(folder) else { return false };
        if folder.starts_with(builds) {
            return false;
        }
        let now = SystemTime::now();
        let is_past = |metadata: &fs::Metadata| metadata.modified().is_ok_and(|time| time <= now);
        let mut count = 0;
        for entry in entries.flatten() {
            count += 1;
            // The metadata of the target of a link.
            let fits = match fs::metadata(entry.path()) {
                Ok(metadata) if metadata.is_dir() => leads_back(&entry.path(), folder),
                Ok(metadata) => is_past(&metadata),
                Err(_) => true,
            };
            if count > MOST_FILES || !fits {
                return false;
            }
        }
        fs::metadata(folder).is_ok_and(|metadata| is_past(&metadata))
    }
}

/// Returns true if a folder is a link to the folder that contains it, such as `/usr/bin/X11`. Cargo
/// stops there.
fn leads_back(path: &Path, folder: &Path) -> bool {
    matches!((path.canonicalize(), folder.canonicalize()), (Ok(path), Ok(folder)) if path == folder)
}

/// Returns the path itself, or its first parent folder that does not exist.
fn first_missing(path: &Path) -> PathBuf {
    let missing = path.ancestors().take_while(|ancestor| !ancestor.exists());
    missing.last().unwrap_or(path).to_owned()
}

/// Creates the folder of links, or returns `None` if no links are needed.
#[cfg(unix)]
fn link_folder(out_dir: &Path, targets: &BTreeSet<PathBuf>) -> Option<PathBuf> {
    use crate::cache::digest::Digest;
    use filetime::FileTime;

    let folder = out_dir.join("kernpack-watch");
    let _ = fs::remove_dir_all(&folder);
    if targets.is_empty() {
        return None;
    }
    let old = FileTime::from_unix_time(1, 0);
    let make = || -> std::io::Result<()> {
        fs::create_dir_all(&folder)?;
        for target in targets {
            let link = folder.join(Digest::of(target.as_os_str().as_encoded_bytes()).to_string());
            std::os::unix::fs::symlink(target, &link)?;
            filetime::set_symlink_file_times(&link, old, old)?;
        }
        filetime::set_file_mtime(&folder, old)
    };
    // Without links, a new tool is noticed at the next build that runs for another reason.
    make().is_ok().then_some(folder)
}

#[cfg(not(unix))]
fn link_folder(_out_dir: &Path, _targets: &BTreeSet<PathBuf>) -> Option<PathBuf> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn folders_and_links() {
        let root = std::env::temp_dir().join(format!("kernpack-watch-{}", std::process::id()));
        for folder in ["flat", "deep/inner", "target/debug/build/p/out", "target/bin"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(root.join("flat/tool"), "").unwrap();
        std::os::unix::fs::symlink(".", root.join("flat/X11")).unwrap();
        let out = root.join("target/debug/build/p/out");
        let paths_for = |missing: &[&str], passed: &[&str]| {
            let watch = Watch::new(&out);
            missing.iter().for_each(|path| watch.missing(&root.join(path)));
            passed.iter().for_each(|path| watch.passed(&root.join(path)));
            watch.missing(Path::new("relative/nvcc"));
            watch.paths().into_iter().collect::<Vec<_>>()
        };
        let links = out.join("kernpack-watch");
        let targets = || {
            let entries = fs::read_dir(&links).unwrap().map(|entry| fs::read_link(entry.unwrap().path()).unwrap());
            entries.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
        };
        assert_eq!(paths_for(&["flat/nvcc"], &[]), [root.join("flat")]);
        assert!(!links.exists());
        assert_eq!(
            paths_for(&["deep/nvcc", "none/bin/nvcc", "target/bin/nvcc"], &["flat/cc"]),
            std::slice::from_ref(&links)
        );
        let expected = ["deep/nvcc", "flat/cc", "none", "target/bin/nvcc"].map(|path| root.join(path));
        assert_eq!(targets(), expected);
        let old = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1);
        assert_eq!(fs::metadata(&links).unwrap().modified().unwrap(), old);
        fs::remove_dir_all(root).unwrap();
    }
}
