//! Computes a digest of the sources that determine the generated code, for caches of objects.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The sources between the last text form of a program and the object. Effects of earlier passes
/// are visible in the text.
const SOURCES: [&str; 4] = ["src/codegen", "src/intrin", "src/pass", "src/ir"];

fn main() -> io::Result<()> {
    let mut hasher = DefaultHasher::new();
    for folder in SOURCES {
        println!("cargo::rerun-if-changed={folder}");
        let mut files = Vec::new();
        collect(Path::new(folder), &mut files)?;
        files.sort();
        for file in files {
            file.to_string_lossy().hash(&mut hasher);
            fs::read(&file)?.hash(&mut hasher);
        }
    }
    println!("cargo::rustc-env=KERNPACK_CODEGEN_DIGEST={:016x}", hasher.finish());
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { collect(&path, files)? } else { files.push(path) }
    }
    Ok(())
}
