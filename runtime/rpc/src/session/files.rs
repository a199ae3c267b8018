use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use kernpack::{Error, Module, Result, bail, ensure, error};

use super::linking;

/// The folder of a session: uploaded files, and files that functions write. Names refer only to
/// places inside it.
pub(super) struct Files {
    folder: PathBuf,
    limit: u64,
    uploaded: AtomicU64,
}

impl Files {
    /// The files of a folder, into which at most `limit` bytes may be uploaded; 0 is unlimited.
    pub(super) fn new(folder: PathBuf, limit: u64) -> Self {
        Self { folder, limit: if limit == 0 { u64::MAX } else { limit }, uploaded: AtomicU64::new(0) }
    }

    /// The path that a name refers to.
    pub(super) fn path(&self, name: &str) -> Result<PathBuf> {
        let inside = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        ensure!(
            !name.is_empty() && !name.contains('\0') && Path::new(name).components().all(inside),
            ValueError,
            "'{}' is not a name of a file of the session; give a relative path without `..`",
            name.escape_debug()
        );
        Ok(self.folder.join(name))
    }

    /// Creates a file for an upload of `length` bytes.
    pub(super) fn create(&self, name: &str, length: u64) -> Result<File> {
        let path = self.path(name)?;
        let before = self.uploaded.fetch_add(length, Ordering::Relaxed);
        if before.checked_add(length).is_none_or(|sum| sum > self.limit) {
            self.uploaded.fetch_sub(length, Ordering::Relaxed);
            bail!(
                MemoryError,
                "the upload of '{name}' ({length} bytes) is too large: a session may upload {} bytes, {before} of them are used; \
                 start the server with a larger `--upload`",
                self.limit
            );
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|problem| failed("create the folder of", name, &problem))?;
        }
        // A library may be loaded from the existing file: that file must not change.
        match fs::remove_file(&path) {
            Err(problem) if problem.kind() != io::ErrorKind::NotFound => Err(failed("replace", name, &problem)),
            _ => File::create(&path).map_err(|problem| failed("create", name, &problem)),
        }
    }

    /// Writes an uploaded file.
    pub(super) fn upload(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let mut file = self.create(name, bytes.len() as u64)?;
        io::Write::write_all(&mut file, bytes).map_err(|problem| failed("write", name, &problem))
    }

    /// Opens a file for reading; returns its length, too.
    pub(super) fn open(&self, name: &str) -> Result<(File, u64)> {
        let opened = File::open(self.path(name)?).and_then(|file| file.metadata().map(|data| (file, data)));
        let (file, data) = opened.map_err(|problem| failed("read", name, &problem))?;
        ensure!(data.is_file(), ValueError, "'{name}' is not a file");
        Ok((file, data.len()))
    }

    /// Removes a file, or a folder with its content.
    pub(super) fn remove(&self, name: &str) -> Result<()> {
        let path = self.path(name)?;
        ensure!(path != self.folder.join("."), ValueError, "the folder of the session stays as long as the session");
        let removed = match fs::symlink_metadata(&path) {
            Ok(data) if data.is_dir() => fs::remove_dir_all(&path),
            _ => fs::remove_file(&path),
        };
        removed.map_err(|problem| failed("remove", name, &problem))
    }

    /// The sorted names in a folder, separated by commas.
    pub(super) fn list(&self, name: &str) -> Result<String> {
        let name = if matches!(name, "" | "/") { "." } else { name };
        let entries = fs::read_dir(self.path(name)?).map_err(|problem| failed("list", name, &problem))?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|problem| failed("list", name, &problem))?;
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names.join(","))
    }

    /// The shared library for a name: the file itself, or the result of linking objects (`.o`,
    /// `.tar`).
    pub(super) fn library(&self, name: &str) -> Result<PathBuf> {
        let path = self.path(name)?;
        ensure!(path.is_file(), RuntimeError, "there is no file '{name}' in the session; upload it first");
        linking::shared_library(&path)
    }

    /// Loads an uploaded library.
    pub(super) fn load(&self, name: &str) -> Result<Module> {
        Module::load(self.library(name)?).map_err(|problem| {
            let message = problem.message();
            let message = with_glibc(message, glibc().as_deref()).or_else(|| with_missing(message));
            message.map_or_else(|| problem.clone(), |message| Error::new(problem.kind(), message))
        })
    }
}

/// Adds to a message about the glibc version that a library needs the version of this machine;
/// `None` for other messages.
fn with_glibc(message: &str, here: Option<&str>) -> Option<String> {
    let is_missing = message.contains("version `GLIBC_") && message.contains("not found");
    let here = here.filter(|_| is_missing)?;
    Some(format!(
        "{message}; this server has glibc {here}: link the library on a system with that version or an older one"
    ))
}

/// Adds advice to a message about another library that a library needs; `None` for other messages.
fn with_missing(message: &str) -> Option<String> {
    // The messages of glibc and musl.
    let of_glibc = || message.split_once(": cannot open shared object file")?.0.rsplit([' ', '\n']).next();
    let of_musl = || {
        let (_, rest) = message.split_once("Error loading shared library ")?;
        Some(rest.split_once(": No such file")?.0)
    };
    let name = of_glibc().or_else(of_musl).filter(|name| !name.is_empty() && !name.contains('/'))?;
    let package = match name {
        "libgcc_s.so.1" => " (Alpine: `apk add libgcc`; Debian: libgcc-s1)",
        "libstdc++.so.6" => " (Alpine: `apk add libstdc++`; Debian: libstdc++6)",
        "libgomp.so.1" => " (Alpine: `apk add libgomp`; Debian: libgomp1)",
        _ => "",
    };
    Some(format!(
        "{message}; the library needs {name}, which this server's machine does not have: install it there{package}, or upload it into \
         the session first, where it is found, too"
    ))
}

/// The version of this process's glibc.
fn glibc() -> Option<String> {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: a string that ends with NUL and stays.
        let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
        Some(version.to_string_lossy().into_owned())
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    None
}

fn failed(verb: &str, name: &str, problem: &io::Error) -> Error {
    error!(RuntimeError, "cannot {verb} '{name}': {problem}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(test: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("kernpack-rpc-files-{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn files_come_and_go() {
        let folder = folder("come");
        let files = Files::new(folder.clone(), 10);
        files.upload("a/b.txt", b"12345").unwrap();
        files.upload("c", b"678").unwrap();
        assert_eq!(files.list("").unwrap(), "a,c");
        assert_eq!(files.list("a").unwrap(), "b.txt");
        assert_eq!(files.open("a/b.txt").unwrap().1, 5);
        let error = files.upload("d", b"901").unwrap_err();
        assert!(error.message().contains("may upload 10 bytes, 8 of them"), "{error}");
        files.upload("c", b"90").unwrap();
        assert_eq!(fs::read(folder.join("c")).unwrap(), b"90");
        files.remove("a").unwrap();
        assert!(files.open("a").is_err());
        assert!(files.remove("nothing").unwrap_err().message().contains("cannot remove 'nothing'"));
        assert!(files.load("nothing.so").unwrap_err().message().contains("upload it first"));
        assert!(files.open(".").unwrap_err().message().contains("is not a file"));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_glibc_that_is_too_old_is_named() {
        let message = "cannot load lib.so: /lib/libc.so.6: version `GLIBC_2.38' not found (required by lib.so)";
        let text = with_glibc(message, Some("2.31")).unwrap();
        assert!(text.starts_with(message) && text.contains("this server has glibc 2.31"), "{text}");
        assert_eq!((with_glibc("no such file", Some("2.31")), with_glibc(message, None)), (None, None));
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        assert!(glibc().unwrap().starts_with("2."));
    }

    #[test]
    fn libraries_that_are_missing_are_named() {
        for (message, name) in [
            (
                "cannot load lib.so: libgcc_s.so.1: cannot open shared object file: No such file or directory",
                "needs libgcc_s.so.1, which this server's machine does not have: install it there (Alpine: `apk add libgcc`",
            ),
            (
                "cannot load lib.so: Error loading shared library libother.so: No such file or directory (needed by lib.so)",
                "needs libother.so, which this server's machine does not have: install it there, or upload it",
            ),
        ] {
            let text = with_missing(message).unwrap();
            assert!(text.starts_with(message) && text.contains(name), "{text}");
        }
        for message in
            ["", "no such file", ": cannot open shared object file", "/a/b.so: cannot open shared object file: x"]
        {
            assert_eq!(with_missing(message), None, "{message}");
        }
    }

    #[test]
    fn names_stay_inside() {
        let files = Files::new(PathBuf::from("/nowhere"), 0);
        for name in ["", "/etc/passwd", "..", "a/../../b", "a\0b"] {
            assert!(files.path(name).unwrap_err().message().contains("relative path"), "{name}");
        }
        assert_eq!(files.path("./a b/c.so").unwrap(), Path::new("/nowhere/a b/c.so"));
        assert!(files.remove(".").unwrap_err().message().contains("stays"));
    }
}
