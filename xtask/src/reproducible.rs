//! `cargo xtask reproducible`: checks that the same sources give the same libraries and wheels,
//! byte for byte, in any folder.
//!
//! The files of the checkout are copied into two folders with names of different lengths; in each,
//! the examples are built as a release builds them, in a separate target folder. A difference is
//! reported with its place, and with the paths of the folder that the library contains, which are
//! the usual cause.

use crate::step::{self, Show};
use crate::workspace::{Workspace, shared_library};
use crate::{Result, magika};
use std::fs;
use std::path::{Path, PathBuf};

/// The examples to build: kernels in C, C++, LLVM IR and tensor expressions, a model with its
/// weights, classes for Python.
const EXAMPLES: [&str; 5] = ["imagekit", "tensor-kernels", "filetype", "dspkit", "extension"];

/// The two folders.
const FOLDERS: [&str; 2] = ["a", "a folder of another length"];

/// The maximum number of paths that are reported for a library.
const TOLD: usize = 5;

/// Builds and compares.
pub(crate) fn run() -> Result {
    let workspace = Workspace::find()?;
    let files = tracked(&workspace)?;
    let mut build = workspace.cargo("build");
    step::run("cargo build -p kernpack-cli", build.args(["--package", "kernpack-cli"]), Show::Warnings)?;
    let program = workspace.cargo_target().join("debug/cargo-kernpack");
    // Installs the model of filetype.
    magika::prepare(&workspace)?;
    let folders = FOLDERS.map(|name| workspace.root().join("target/reproducible").join(name));
    for folder in &folders {
        copy(workspace.root(), &files, folder)?;
        for example in EXAMPLES {
            make(&workspace, &program, folder, example)?;
        }
    }
    let mut problems = Vec::new();
    for example in EXAMPLES {
        let library = |folder: &PathBuf| shared_library(&folder.join("target/release"), &example.replace('-', "_"));
        problems.extend(difference(example, &folders, library)?);
        problems.extend(difference(example, &folders, |folder| wheel(folder, example))?);
    }
    if problems.is_empty() {
        println!("reproducible: {} libraries and their wheels are the same from two folders", EXAMPLES.len());
        return Ok(());
    }
    Err(format!("reproducible:\n{}", problems.join("\n")).into())
}

/// The files of the checkout that git knows, with uncommitted changes.
fn tracked(workspace: &Workspace) -> Result<Vec<PathBuf>> {
    let output = workspace.command("git").args(["ls-files", "-z"]).output();
    let output = output.map_err(|error| format!("git does not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    let names = String::from_utf8(output.stdout)?;
    Ok(names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect())
}

/// Copies changed files into a folder, so that a second run is incremental.
fn copy(root: &Path, files: &[PathBuf], folder: &Path) -> Result {
    for file in files {
        let (from, to) = (root.join(file), folder.join(file));
        // The file was removed, and the removal is not committed yet.
        if !from.exists() {
            continue;
        }
        let bytes = fs::read(&from).map_err(|error| format!("{}: {error}", from.display()))?;
        if fs::read(&to).is_ok_and(|there| there == bytes) {
            continue;
        }
        fs::create_dir_all(to.parent().ok_or("a file without a folder")?)?;
        fs::write(&to, bytes).map_err(|error| format!("{}: {error}", to.display()))?;
        fs::set_permissions(&to, fs::metadata(&from)?.permissions())?;
    }
    Ok(())
}

/// Builds the wheel of an example in a folder, and the library with it.
fn make(workspace: &Workspace, program: &Path, folder: &Path, example: &str) -> Result {
    let name = format!("cargo kernpack wheel --package {example}, in {}", folder.display());
    let mut wheel = workspace.command(program);
    wheel.args(["kernpack", "wheel", "--package", example, "--manifest-path"]).arg(folder.join("Cargo.toml"));
    wheel.current_dir(folder).env("CARGO_TARGET_DIR", folder.join("target")).env("CARGO_INCREMENTAL", "0");
    wheel.env("CARGO_TERM_COLOR", "never").env("FILETYPE_MODEL", workspace.root().join("target/magika"));
    wheel.arg("--out").arg(wheels(folder, example));
    step::run(&name, &mut wheel, Show::Warnings).map(drop)
}

fn wheels(folder: &Path, example: &str) -> PathBuf {
    folder.join("target/wheels").join(example)
}

/// The wheel of an example; the path of a missing file if there is none.
fn wheel(folder: &Path, example: &str) -> PathBuf {
    let folder = wheels(folder, example);
    let files = fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    files.into_iter().find(|path| path.extension() == Some("whl".as_ref())).unwrap_or_else(|| folder.join("a wheel"))
}

/// The message about a file of an example that differs between the folders.
fn difference(example: &str, folders: &[PathBuf; 2], file: impl Fn(&PathBuf) -> PathBuf) -> Result<Option<String>> {
    let read = |folder: &PathBuf| {
        let path = file(folder);
        let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok::<_, Box<dyn std::error::Error>>((path, bytes))
    };
    let ((path, first), (other, second)) = (read(&folders[0])?, read(&folders[1])?);
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if path.file_name() != other.file_name() {
        return Ok(Some(format!("{example}: {name} is called {} in the other folder", other.display())));
    }
    let Some(place) = first_difference(&first, &second) else { return Ok(None) };
    let mut text = format!("{example}: {name} differs at byte {place} of {} and {}", first.len(), second.len());
    for (folder, bytes) in [(&folders[0], &first), (&folders[1], &second)] {
        for path in paths(bytes, folder.as_os_str().as_encoded_bytes()).iter().take(TOLD) {
            text.push_str(&format!("\n  it has the path {path}"));
        }
    }
    Ok(Some(text))
}

/// The first position at which two files differ; if one is a prefix of the other, its length.
fn first_difference(first: &[u8], second: &[u8]) -> Option<usize> {
    let place = first.iter().zip(second).position(|(a, b)| a != b);
    place.or_else(|| (first.len() != second.len()).then(|| first.len().min(second.len())))
}

/// The strings of a file that begin with a folder, without duplicates.
fn paths(bytes: &[u8], folder: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let mut start = 0;
    while let Some(at) = bytes[start..].windows(folder.len()).position(|window| window == folder) {
        let text = &bytes[start + at..];
        let end = text.iter().position(|byte| !(b' '..=b'~').contains(byte)).unwrap_or(text.len()).min(300);
        let text = String::from_utf8_lossy(&text[..end]).into_owned();
        if !found.contains(&text) {
            found.push(text);
        }
        start += at + folder.len();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_have_a_place() {
        for (first, second, place) in
            [("", "", None), ("abc", "abc", None), ("abc", "abd", Some(2)), ("ab", "abc", Some(2)), ("", "a", Some(0))]
        {
            assert_eq!(first_difference(first.as_bytes(), second.as_bytes()), place, "{first} {second}");
        }
    }

    #[test]
    fn paths_in_a_file() {
        let bytes = b"\x7fELF\0/w/a/src/lib.rs\0/w/a/out/x.rs\x01/w/a/src/lib.rs\0/w/b";
        assert_eq!(paths(bytes, b"/w/a"), ["/w/a/src/lib.rs", "/w/a/out/x.rs"]);
        assert_eq!(paths(b"", b"/w/a"), Vec::<String>::new());
    }
}
