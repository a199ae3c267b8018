//! `filetype [--mime] PATH..`: prints the kinds of files. Folders are walked recursively; `-` is
//! standard input.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use filetype::{Identification, identify_bytes, identify_path};
use kernpack::ObjRef;

const USAGE: &str = "usage: filetype [--mime] PATH..    (folders are walked through, - is the standard input)";

fn main() -> ExitCode {
    let (options, paths): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let mime = match options.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--mime"] => true,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    if paths.is_empty() {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    }
    let mut failed = false;
    for path in paths {
        if path == "-" {
            let mut content = Vec::new();
            let read = std::io::stdin().read_to_end(&mut content);
            let known = read.map_err(|error| error.to_string()).and_then(|_| said(identify_bytes(&content)));
            failed |= !report("-", known, mime);
            continue;
        }
        for file in files(Path::new(&path)) {
            let name = file.to_string_lossy();
            failed |= !report(&name, said(identify_path(&name)), mime);
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn said(known: kernpack::Result<ObjRef<Identification>>) -> Result<ObjRef<Identification>, String> {
    known.map_err(|error| error.message().to_owned())
}

/// Prints one line. Returns false for a file that cannot be read.
fn report(name: &str, known: Result<ObjRef<Identification>, String>, mime: bool) -> bool {
    match known {
        Ok(known) if mime => println!("{name}: {}", known.mime_type),
        Ok(known) => println!("{name}: {} ({}), {:.0} %", known.label, known.description, 100.0 * known.score),
        Err(error) => {
            eprintln!("filetype: {error}");
            return false;
        }
    }
    true
}

/// Returns the path, or the files below the folder, in the order of their names. Links to folders
/// are not followed.
fn files(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![path.to_owned()];
    while let Some(next) = left.pop() {
        let entries = match fs::read_dir(&next) {
            Ok(entries) if next == path || !next.is_symlink() => entries,
            _ => {
                found.push(next);
                continue;
            }
        };
        let mut inside: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        inside.sort_unstable_by(|a, b| b.cmp(a));
        left.append(&mut inside);
    }
    found
}
