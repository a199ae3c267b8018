//! The commands that compile sources, as a JSON Compilation Database
//! (<https://clang.llvm.org/docs/JSONCompilationDatabase.html>), which clangd and clang-tidy read.
//!
//! It is in `OUT_DIR`. On request it is also merged into a file of the user, which several packages
//! share: entries of this package are replaced, and all others are kept. That file is only written
//! when it changes, and cargo does not track it, so it never causes a build.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::cache::digest::Digest;
use crate::session::Session;
use crate::{Error, Result};

/// One command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    file: String,
    output: String,
    arguments: Vec<String>,
}

/// The commands of a build.
#[derive(Debug, Default)]
pub(crate) struct CompileCommands {
    entries: Mutex<Vec<Entry>>,
}

impl CompileCommands {
    /// Adds a command: `program` with the current arguments of `command` and then `more` compiles
    /// `file` in the package's folder to `output`.
    pub(crate) fn add<A: AsRef<OsStr>>(
        &self,
        package_dir: &Path,
        program: &Path,
        command: &Command,
        more: &[A],
        file: &Path,
        output: &Path,
    ) {
        let text = |text: &OsStr| text.to_string_lossy().into_owned();
        let mut arguments = vec![text(program.as_os_str())];
        arguments.extend(command.get_args().map(text));
        arguments.extend(more.iter().map(|argument| text(argument.as_ref())));
        let file = text(package_dir.join(file).as_os_str());
        let entry = Entry { file, output: text(output.as_os_str()), arguments };
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
    }

    /// Returns the entries as JSON objects, each on one line, in an order that does not depend on
    /// threads.
    fn lines(&self, package_dir: &Path) -> Vec<String> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner).clone();
        entries.sort();
        let directory = package_dir.to_string_lossy();
        let line = |Entry { file, output, arguments }: &Entry| {
            json!({"directory": directory, "file": file, "output": output, "arguments": arguments}).to_string()
        };
        entries.iter().map(line).collect()
    }
}

/// Writes `OUT_DIR/kernpack/compile_commands.json`, and merges it into the files that the build
/// script or `KERNPACK_COMPILE_COMMANDS` names. Returns the path of the file in `OUT_DIR`.
pub(crate) fn write(session: &Session, wanted: Option<&Path>) -> Result<PathBuf> {
    let lines = session.commands.lines(&session.package_dir);
    let own = session.work_dir.join("compile_commands.json");
    let failed = |path: &Path, e: std::io::Error| Error::new(format!("{}: cannot be written: {e}", path.display()));
    fs::write(&own, array(&lines)).map_err(|e| failed(&own, e))?;
    let variable = session.environment.user("KERNPACK_COMPILE_COMMANDS")?.map(PathBuf::from);
    if let Some(path) = variable.as_ref().filter(|path| !path.is_absolute()) {
        return Err(Error::new(format!(
            "KERNPACK_COMPILE_COMMANDS is \"{}\"; it must be an absolute path, since all packages of a workspace share it",
            path.display()
        )));
    }
    for path in wanted.map(|path| session.package_dir.join(path)).into_iter().chain(variable) {
        merge(&path, &session.package_dir, &lines).map_err(|e| failed(&path, e))?;
    }
    Ok(own)
}

fn array(lines: &[String]) -> String {
    match lines {
        [] => "[]\n".to_owned(),
        lines => format!("[\n{}\n]\n", lines.join(",\n")),
    }
}

/// Replaces the entries of one package in a file. A file that is not such an array is overwritten.
fn merge(path: &Path, package_dir: &Path, lines: &[String]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    // Build scripts of other packages run at the same time.
    let name = format!("kernpack-{}.lock", Digest::of(path.as_os_str().as_encoded_bytes()));
    let lock = File::create(std::env::temp_dir().join(name))?;
    lock.lock()?;
    let old = fs::read_to_string(path).unwrap_or_default();
    // Raw values, so that entries of other tools are kept byte for byte.
    let known: Vec<&RawValue> = serde_json::from_str(&old).unwrap_or_default();
    let others = known.into_iter().map(RawValue::get).filter(|entry| !is_of(entry, package_dir));
    let mut all: Vec<String> = others.map(str::to_owned).collect();
    all.extend(lines.iter().cloned());
    let new = array(&all);
    if new == old || (all.is_empty() && old.is_empty()) {
        return Ok(());
    }
    let part = path.with_extension(format!("{}.part", std::process::id()));
    fs::write(&part, new)?;
    fs::rename(&part, path)
}

/// Returns true if Kernpack wrote an entry for this package: its output is in a working folder of
/// Kernpack.
fn is_of(entry: &str, package_dir: &Path) -> bool {
    let entry: Value = serde_json::from_str(entry).unwrap_or_default();
    let member = |name: &str| entry[name].as_str().unwrap_or_default();
    let is_ours = Path::new(member("output")).parent().is_some_and(|folder| folder.ends_with("out/kernpack"));
    is_ours && member("directory") == package_dir.to_string_lossy()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(package: &str, files: &[&str]) -> (PathBuf, Vec<String>) {
        let commands = CompileCommands::default();
        let mut command = Command::new("cc");
        command.args(["-O3", "-DX=\"a b\""]);
        for file in files {
            let output = format!("/target/build/{package}/out/kernpack/{file}.o");
            let more = ["-c", file, "-o", &output];
            let program = Path::new("/usr/bin/cc");
            commands.add(Path::new(package), program, &command, &more, Path::new(file), Path::new(&output));
        }
        (package.into(), commands.lines(Path::new(package)))
    }

    #[test]
    fn packages_share_a_file() {
        let path = std::env::temp_dir().join(format!("kernpack-commands-{}/x/all.json", std::process::id()));
        let read = || fs::read_to_string(&path).unwrap();
        let files = || {
            let all: Vec<Value> = serde_json::from_str(&read()).unwrap();
            all.iter().map(|entry| entry["file"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let (a, a_lines) = commands("/a", &["y.c", "x.c"]);
        merge(&path, &a, &a_lines).unwrap();
        assert_eq!(
            read(),
            "[\n{\"directory\":\"/a\",\"file\":\"/a/x.c\",\"output\":\"/target/build//a/out/kernpack/x.c.o\",\"arguments\":[\"/usr/bin/cc\",\"-O3\",\"-DX=\\\"a b\\\"\",\"-c\",\"x.c\",\"-o\",\"/target/build//a/out/kernpack/x.c.o\"]},\n{\"directory\":\"/a\",\"file\":\"/a/y.c\",\"output\":\"/target/build//a/out/kernpack/y.c.o\",\"arguments\":[\"/usr/bin/cc\",\"-O3\",\"-DX=\\\"a b\\\"\",\"-c\",\"y.c\",\"-o\",\"/target/build//a/out/kernpack/y.c.o\"]}\n]\n"
        );
        let (b, b_lines) = commands("/b", &["z.c"]);
        merge(&path, &b, &b_lines).unwrap();
        assert_eq!(files(), ["/a/x.c", "/a/y.c", "/b/z.c"]);
        // Attributes of other tools are kept, in any form.
        let foreign = "{ \"directory\": \"/a\",\n \"file\": \"own.c\", \"command\": \"cc [own.c]\" }";
        fs::write(&path, read().replacen('[', &format!("[{foreign},"), 1)).unwrap();
        let (a, a_lines) = commands("/a", &["y.c"]);
        merge(&path, &a, &a_lines).unwrap();
        assert_eq!(files(), ["own.c", "/b/z.c", "/a/y.c"]);
        // Without changes, nothing is written.
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        merge(&path, &a, &a_lines).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), time);
        fs::write(&path, "torn [").unwrap();
        merge(&path, &b, &b_lines).unwrap();
        assert_eq!(files(), ["/b/z.c"]);
        fs::remove_dir_all(path.ancestors().nth(2).unwrap()).unwrap();
    }
}
