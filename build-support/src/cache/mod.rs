//! A content-addressed cache of compiler outputs. The key covers the source and the headers that
//! were read, the flags, the compiler, the target and the relevant variables. A cached result
//! equals the result that the compiler would produce again. The cache is in `OUT_DIR`, so it
//! belongs to one package and one configuration, and `cargo clean` removes it.
//!
//! A *recipe* is a fingerprint of every input except the files that are read. For each recipe, the
//! cache stores the lists of files that earlier runs read (compilers report them afterwards). The
//! recipe and the contents of the files of one list identify an *entry*: the products and the
//! output that the compiler printed. Every file of the cache is written to a temporary path and
//! renamed, and ends in a fingerprint of itself, so a truncated or damaged file counts as missing.

pub(crate) mod digest;
pub(crate) mod step;

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::cache::digest::{Digest, Digester};
use crate::{Error, Result};

/// The size limit of the cache, in bytes.
const LIMIT: u64 = 256 << 20;

/// The maximum number of lists of read files for one recipe.
const LISTS: usize = 8;

/// The magic of cache files. It changes with their format.
const MAGIC: &[u8; 16] = b"kernpack cache 2";

/// A file that a run read, or searched for without success.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Input {
    /// Absolute, or relative to the package.
    pub(crate) path: PathBuf,
    pub(crate) exists: bool,
}

impl Input {
    fn to_text(&self) -> Option<String> {
        Some(format!("{}{}", if self.exists { '+' } else { '-' }, self.path.to_str()?))
    }

    fn of_text(text: &str) -> Option<Self> {
        let exists = match text.get(..1)? {
            "+" => true,
            "-" => false,
            _ => return None,
        };
        Some(Self { path: PathBuf::from(text.get(1..)?), exists })
    }
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Made {
    /// Contents of the products, in the order of the recipe.
    pub(crate) products: Vec<Vec<u8>>,
    /// The output that the tool printed.
    pub(crate) printed: String,
}

pub(crate) struct Cache {
    folder: PathBuf,
    limit: u64,
    package_dir: PathBuf,
    /// Kernpack may write files of this folder at any time.
    work_dir: PathBuf,
    started: SystemTime,
    contents: Mutex<HashMap<PathBuf, Option<Digest>>>,
    used: Mutex<BTreeSet<PathBuf>>,
    hits: AtomicUsize,
}

impl Cache {
    /// Opens the cache below `out_dir`.
    pub(crate) fn new(package_dir: &Path, out_dir: &Path, work_dir: &Path, started: SystemTime) -> Result<Self> {
        let folder = out_dir.join("kernpack-cache");
        fs::create_dir_all(&folder)
            .map_err(|e| Error::new(format!("{}: the folder of the cache cannot be created: {e}", folder.display())))?;
        Ok(Self {
            folder,
            limit: LIMIT,
            package_dir: package_dir.to_owned(),
            work_dir: work_dir.to_owned(),
            started,
            contents: Mutex::default(),
            used: Mutex::default(),
            hits: AtomicUsize::new(0),
        })
    }

    /// Returns the number of cache hits so far.
    pub(crate) fn hits(&self) -> usize {
        self.hits.load(Ordering::Relaxed)
    }

    /// Returns the cached result of the recipe for the current contents of its files, and those
    /// files.
    pub(crate) fn find(&self, recipe: Digest) -> Option<(Made, Vec<Input>)> {
        let list_file = self.folder.join(format!("{recipe}.inputs"));
        for list in lists(&read_file(&list_file)?) {
            let inputs: Option<Vec<Input>> = list.iter().map(|text| Input::of_text(text)).collect();
            let Some(inputs) = inputs else { continue };
            let Some(entry) = self.entry(recipe, &inputs) else { continue };
            let path = self.folder.join(format!("{entry}.made"));
            let Some(made) = read_file(&path).and_then(made) else { continue };
            self.mark_used(&[&list_file, &path]);
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Some((made, inputs));
        }
        None
    }

    /// Stores the result of a recipe. A result whose inputs changed in the meantime is not stored.
    /// Failures to write the cache are ignored.
    pub(crate) fn keep(&self, recipe: Digest, inputs: &[Input], made: &Made) {
        if inputs.iter().any(|input| self.is_unstable(input)) {
            return;
        }
        let (Some(entry), Some(list)) =
            (self.entry(recipe, inputs), inputs.iter().map(Input::to_text).collect::<Option<Vec<_>>>())
        else {
            return;
        };
        let mut fields = vec![made.printed.as_bytes().to_vec()];
        fields.extend(made.products.iter().cloned());
        let path = self.folder.join(format!("{entry}.made"));
        if write_file(&path, &fields).is_err() {
            return;
        }
        let list_file = self.folder.join(format!("{recipe}.inputs"));
        let list = list.join("\0").into_bytes();
        let mut known = read_file(&list_file).unwrap_or_default();
        known.retain(|other| *other != list);
        known.insert(0, list);
        known.truncate(LISTS);
        if write_file(&list_file, &known).is_ok() {
            self.mark_used(&[&list_file, &path]);
        }
    }

    /// Removes the least recently used files until the rest fits. Files that this run used are
    /// kept.
    pub(crate) fn trim(&self) {
        let used = lock(&self.used).clone();
        let mut files = Vec::new();
        let mut size = 0;
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            let ours = entry.path().extension().is_some_and(|e| e == "made" || e == "inputs" || e == "part");
            if metadata.is_file() && ours {
                size += metadata.len();
                files.push((metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), entry.path(), metadata.len()));
            }
        }
        files.sort();
        for (_, path, len) in files {
            if size <= self.limit {
                break;
            }
            if !used.contains(&path) && fs::remove_file(path).is_ok() {
                size -= len;
            }
        }
    }

    /// Updates the modification times, so that [`Self::trim`] knows which files are used.
    fn mark_used(&self, paths: &[&Path]) {
        let now = SystemTime::now();
        for path in paths {
            // Once an hour is enough.
            let old = fs::metadata(path).and_then(|metadata| metadata.modified());
            if old.is_ok_and(|old| now.duration_since(old).is_ok_and(|age| age.as_secs() > 3600)) {
                let _ = fs::File::options().append(true).open(path).and_then(|file| file.set_modified(now));
            }
            lock(&self.used).insert(path.to_path_buf());
        }
    }

    /// Returns true if a file may have changed since the tool read it.
    fn is_unstable(&self, input: &Input) -> bool {
        let path = self.package_dir.join(&input.path);
        if !input.exists || path.starts_with(&self.work_dir) {
            return false;
        }
        let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
        modified.map_or(true, |modified| modified > self.started)
    }

    /// Returns the name of the entry, or `None` if a file exists that should not, or the other way
    /// around.
    fn entry(&self, recipe: Digest, inputs: &[Input]) -> Option<Digest> {
        let mut digester = Digester::new("entry");
        digester.field(recipe.to_bytes());
        for input in inputs {
            let content = self.content(&input.path);
            if content.is_some() != input.exists {
                return None;
            }
            digester.field(input.to_text()?).list(content.map(Digest::to_bytes));
        }
        Some(digester.finish())
    }

    /// The fingerprint of a file, read once.
    fn content(&self, path: &Path) -> Option<Digest> {
        let path = self.package_dir.join(path);
        if let Some(known) = lock(&self.contents).get(&path) {
            return *known;
        }
        let content = Digest::of_file(&path);
        lock(&self.contents).insert(path, content);
        content
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lists(fields: &[Vec<u8>]) -> Vec<Vec<String>> {
    let texts = fields.iter().filter_map(|field| std::str::from_utf8(field).ok());
    // A run that read no files has one empty list.
    texts.map(|text| text.split('\0').filter(|item| !item.is_empty()).map(str::to_owned).collect()).collect()
}

fn made(fields: Vec<Vec<u8>>) -> Option<Made> {
    let mut fields = fields.into_iter();
    let printed = String::from_utf8(fields.next()?).ok()?;
    Some(Made { products: fields.collect(), printed })
}

/// Returns the fields of a cache file, or `None` if it is missing or incomplete.
fn read_file(path: &Path) -> Option<Vec<Vec<u8>>> {
    parse(&fs::read(path).ok()?)
}

fn parse(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (body, end) = bytes.split_at_checked(bytes.len().checked_sub(16)?)?;
    if end != Digest::of(body).to_bytes() {
        return None;
    }
    let mut rest = body.strip_prefix(MAGIC)?;
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let (len, after) = rest.split_first_chunk::<8>()?;
        let (field, after) = after.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)?;
        fields.push(field.to_vec());
        rest = after;
    }
    Some(fields)
}

fn write_file(path: &Path, fields: &[Vec<u8>]) -> std::io::Result<()> {
    let mut bytes = MAGIC.to_vec();
    for field in fields {
        bytes.extend((field.len() as u64).to_le_bytes());
        bytes.extend(field);
    }
    let digest = Digest::of(&bytes);
    bytes.extend(digest.to_bytes());
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let part = path.with_extension(format!("{}-{number}.part", std::process::id()));
    let written = fs::File::create(&part).and_then(|mut file| file.write_all(&bytes));
    written.and_then(|()| fs::rename(&part, path)).inspect_err(|_| {
        let _ = fs::remove_file(&part);
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("kernpack-cache-{name}-{}", std::process::id()));
            fs::create_dir_all(folder.join("out/kernpack")).unwrap();
            Self(folder)
        }

        fn write(&self, path: &str, text: &str) -> &Self {
            fs::write(self.0.join(path), text).unwrap();
            self
        }

        fn cache(&self) -> Cache {
            let out = self.0.join("out");
            let started = SystemTime::now() + Duration::from_secs(1);
            Cache::new(&self.0, &out, &out.join("kernpack"), started).unwrap()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn inputs(paths: &[&str]) -> Vec<Input> {
        let input = |path: &&str| Input { path: path.trim_start_matches('!').into(), exists: !path.starts_with('!') };
        paths.iter().map(input).collect()
    }

    fn made(text: &str) -> Made {
        Made { products: vec![text.as_bytes().to_vec(), Vec::new()], printed: format!("warning: {text}\n") }
    }

    fn found(folder: &Folder, recipe: Digest) -> Option<Made> {
        folder.cache().find(recipe).map(|(made, _)| made)
    }

    #[test]
    fn results_are_found_by_content() {
        let folder = Folder::new("content");
        folder.write("a.c", "1").write("a.h", "1").write("b.h", "1");
        let recipe = Digest::of(b"recipe");
        assert_eq!(found(&folder, recipe), None);
        folder.cache().keep(recipe, &inputs(&["a.c", "a.h", "!early.h"]), &made("one"));
        assert_eq!(found(&folder, recipe), Some(made("one")));
        assert_eq!(found(&folder, Digest::of(b"other flags")), None);
        // Another content, then another list of files, then back.
        folder.write("a.h", "2");
        assert_eq!(found(&folder, recipe), None);
        folder.cache().keep(recipe, &inputs(&["a.c", "a.h", "b.h"]), &made("two"));
        assert_eq!(found(&folder, recipe), Some(made("two")));
        folder.write("a.h", "1");
        assert_eq!(found(&folder, recipe), Some(made("one")));
        // A header that would be found first.
        folder.write("early.h", "");
        assert_eq!(found(&folder, recipe), None);
        fs::remove_file(folder.0.join("early.h")).unwrap();
        fs::remove_file(folder.0.join("a.c")).unwrap();
        assert_eq!(found(&folder, recipe), None);
    }

    #[test]
    fn what_changes_while_it_is_compiled_is_not_kept() {
        let folder = Folder::new("unstable");
        folder.write("a.c", "1");
        let mut cache = folder.cache();
        cache.started = SystemTime::now() - Duration::from_secs(60);
        cache.keep(Digest::of(b""), &inputs(&["a.c"]), &made("one"));
        assert_eq!(found(&folder, Digest::of(b"")), None);
    }

    #[test]
    fn damaged_files_count_as_missing() {
        let folder = Folder::new("damage");
        folder.write("a.c", "1");
        let recipe = Digest::of(b"recipe");
        folder.cache().keep(recipe, &inputs(&["a.c"]), &made("one"));
        let files = fs::read_dir(folder.0.join("out/kernpack-cache")).unwrap();
        let files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
        assert_eq!(files.len(), 2);
        for file in files {
            let bytes = fs::read(&file).unwrap();
            for len in 0..bytes.len() {
                assert_eq!(parse(&bytes[..len]), None);
                let mut damaged = bytes.clone();
                damaged[len] ^= 1;
                assert_eq!(parse(&damaged), None);
            }
            for content in [&b""[..], &bytes[..bytes.len() / 2]] {
                fs::write(&file, content).unwrap();
                assert_eq!(found(&folder, recipe), None);
            }
            // It is recreated.
            folder.cache().keep(recipe, &inputs(&["a.c"]), &made("one"));
            assert_eq!(found(&folder, recipe), Some(made("one")));
        }
    }

    #[test]
    fn the_oldest_results_go_first() {
        let folder = Folder::new("trim");
        folder.write("a.c", "1");
        for number in 0..4 {
            folder.cache().keep(Digest::of(&[number]), &inputs(&["a.c"]), &made(&"x".repeat(1000)));
        }
        let files = folder.0.join("out/kernpack-cache");
        for file in fs::read_dir(&files).unwrap() {
            let hour = SystemTime::now() - Duration::from_secs(7200);
            fs::File::options().append(true).open(file.unwrap().path()).unwrap().set_modified(hour).unwrap();
        }
        let mut cache = folder.cache();
        cache.limit = 2500;
        assert!(cache.find(Digest::of(&[0])).is_some());
        cache.trim();
        assert!(fs::read_dir(&files).unwrap().count() < 8);
        assert!(found(&folder, Digest::of(&[0])).is_some(), "it is in use");
    }
}
