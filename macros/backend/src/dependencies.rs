//! The crates on the compiler's command line: the dependencies that `library!()` sees.
//!
//! cargo passes each direct dependency to rustc on the command line
//! (`--extern dep_a=/target/libdep_a-0123.rlib`), used or not; rustc itself reads, and links, only
//! the crates that code refers to. A crate that calls `library!()` has an item with a fixed name in
//! its root, and metadata contain names unencoded, so its file shows it. Without such a command
//! line (as in an editor that expands macros in a separate process), no dependency is known, and no
//! dependency is reported.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// A crate on the compiler's command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The name of the crate in code.
    pub name: String,
    /// The name that it was compiled under, which differs if the manifest renames it.
    pub crate_name: String,
    /// True if the crate calls `library!()` in its root.
    pub is_library: bool,
}

/// The item that `library!()` generates in the root of a crate.
pub(crate) const MARKER: &str = "KERNPACK_LIBRARY_V1";

impl Dependency {
    /// Returns the dependencies of the crate that this process, a compiler, is compiling. Empty for
    /// a test harness: its command line also contains packages that only tests need, and those need
    /// not be linked.
    pub(crate) fn of_compiler() -> Vec<Self> {
        let arguments = arguments();
        if arguments.iter().any(|argument| argument == "--test") {
            return Vec::new();
        }
        let mut found: Vec<Self> = Vec::new();
        for (name, path) in externs(&arguments) {
            let is_library = is_library(&path);
            match found.iter_mut().find(|known| known.name == name) {
                // Code and metadata in two files.
                Some(known) => known.is_library |= is_library,
                None => found.extend(crate_name(&path).map(|crate_name| Self {
                    name: name.to_owned(),
                    crate_name,
                    is_library,
                })),
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }
}

/// Returns the command line of this process, a compiler.
fn arguments() -> Vec<OsString> {
    let mut arguments = Vec::new();
    for argument in std::env::args_os().skip(1) {
        match argument.to_str().and_then(|text| text.strip_prefix('@')) {
            // A command line that was too long: a file with one argument per line.
            Some(path) => {
                arguments.extend(std::fs::read_to_string(path).unwrap_or_default().lines().map(OsString::from))
            }
            None => arguments.push(argument),
        }
    }
    arguments
}

/// Returns true if the compiler builds a library of the one kind that cargo requests for a manifest
/// without `crate-type`.
pub(crate) fn has_no_crate_type() -> bool {
    crate_types(&arguments()) == ["lib"]
}

/// Returns the values of `--crate-type`.
fn crate_types(arguments: &[OsString]) -> Vec<&str> {
    let values = arguments.iter().enumerate().filter_map(|(at, argument)| match argument.to_str()? {
        "--crate-type" => arguments.get(at + 1)?.to_str(),
        argument => argument.strip_prefix("--crate-type="),
    });
    values.flat_map(|value| value.split(',')).collect()
}

/// Returns the names and files of `--extern [options:]name=path`.
fn externs(arguments: &[OsString]) -> impl Iterator<Item = (&str, PathBuf)> {
    let values = arguments.iter().enumerate().filter_map(|(at, argument)| {
        let argument = argument.to_str()?;
        match argument {
            "--extern" => arguments.get(at + 1)?.to_str(),
            _ => argument.strip_prefix("--extern="),
        }
    });
    values.filter_map(|value| {
        let (name, path) = value.split_once('=')?;
        Some((name.rsplit(':').next().unwrap_or(name), PathBuf::from(path)))
    })
}

/// Returns the name of a crate from its file: `lib<crate>-<hash>.rlib`, `lib<crate>.rmeta`.
fn crate_name(path: &Path) -> Option<String> {
    let stem = path.file_stem()?.to_str()?.strip_prefix("lib")?;
    Some(stem.split('-').next().unwrap_or(stem).to_owned())
}

/// Returns true if the metadata in a file contains the item. A file that cannot be read counts as
/// false: the compiler reports it.
fn is_library(path: &Path) -> bool {
    let metadata = match path.extension().and_then(OsStr::to_str) {
        Some("rmeta") => std::fs::read(path).ok(),
        Some("rlib") => metadata_of_archive(path),
        _ => None,
    };
    // Both steps are compiled into std, with optimizations: this code itself is not optimized in
    // debug builds of the user.
    metadata.is_some_and(|metadata| String::from_utf8_lossy(&metadata).contains(MARKER))
}

/// Reads the member `lib.rmeta` of an archive.
fn metadata_of_archive(path: &Path) -> Option<Vec<u8>> {
    let mut file = File::open(path).ok()?;
    let mut magic = [0; 8];
    file.read_exact(&mut magic).ok()?;
    if &magic != b"!<arch>\n" {
        return None;
    }
    loop {
        let mut header = [0; 60];
        file.read_exact(&mut header).ok()?;
        let size: u64 = std::str::from_utf8(header.get(48..58)?).ok()?.trim_end().parse().ok()?;
        if header.starts_with(b"lib.rmeta/") {
            let mut metadata = Vec::new();
            file.take(size).read_to_end(&mut metadata).ok()?;
            return Some(metadata);
        }
        // Members begin at even offsets.
        file.seek(SeekFrom::Current(i64::try_from(size + size % 2).ok()?)).ok()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_the_compiler() {
        let arguments = ["--crate-name", "top", "--extern", "dep_a=/t/libdep_a-01ab.rlib", "-L", "/t", "--extern"];
        let more = ["priv,noprelude:dep_b=/t/libother.rmeta", "--extern=dep_c=/t/dep_c", "--extern", "proc_macro"];
        let arguments: Vec<OsString> = arguments.iter().chain(&more).map(OsString::from).collect();
        let found: Vec<_> = externs(&arguments).map(|(name, path)| (name.to_owned(), crate_name(&path))).collect();
        let expected = [("dep_a", Some("dep_a")), ("dep_b", Some("other")), ("dep_c", None)];
        assert_eq!(found, expected.map(|(name, crate_name)| (name.to_owned(), crate_name.map(str::to_owned))));
    }

    #[test]
    fn kinds_of_crates() {
        for (arguments, expected) in [
            (&["--crate-name", "top", "--crate-type", "lib", "--emit=link"][..], &["lib"][..]),
            (&["--crate-type", "cdylib", "--crate-type", "rlib"], &["cdylib", "rlib"]),
            (&["--crate-type=cdylib,lib"], &["cdylib", "lib"]),
            (&["--test", "--crate-type"], &[]),
        ] {
            let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
            assert_eq!(crate_types(&arguments), expected);
        }
    }

    /// Builds an archive with these members, in rustc's format.
    fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut bytes = b"!<arch>\n".to_vec();
        for (name, content) in members {
            bytes.extend(format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 644, content.len()).bytes());
            bytes.extend_from_slice(content);
            bytes.extend((content.len() % 2 == 1).then_some(b'\n'));
        }
        bytes
    }

    #[test]
    fn files_of_crates() {
        let folder = std::env::temp_dir().join(format!("kernpack-dependencies-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let marked = b"rust\xff\0KERNPACK_LIBRARY_V1\0";
        let cut = archive(&[("lib.rmeta/", marked)]);
        for (name, content, expected) in [
            ("libmarked.rmeta", marked.to_vec(), true),
            ("libplain.rmeta", b"rust\0KERNPACK_LIBRARIES_V1".to_vec(), false),
            ("liba.rlib", archive(&[("/", b"odd"), ("lib.rmeta/", marked), ("x.o/", b"code")]), true),
            ("libcode.rlib", archive(&[("lib.rmeta/", b"rust"), ("x.o/", marked)]), false),
            ("libcut.rlib", cut[..70].to_vec(), false),
            ("libhostile.rlib", archive(&[("lib.rmeta", marked)]).repeat(2), false),
            ("libempty.rlib", Vec::new(), false),
            ("libmacros.so", marked.to_vec(), false),
        ] {
            let path = folder.join(name);
            std::fs::write(&path, content).unwrap();
            assert_eq!(is_library(&path), expected, "{name}");
        }
        assert!(!is_library(&folder.join("libmissing.rlib")));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn this_very_process_is_no_compiler() {
        assert_eq!(Dependency::of_compiler(), []);
    }
}
