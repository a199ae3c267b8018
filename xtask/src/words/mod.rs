//! `cargo xtask words`: the form of comments and of Markdown.
//!
//! It reads every tracked `*.rs` and `*.md` file and reports, by line:
//!
//! - doc comments whose first word, or the first word of a paragraph, is What, Whether, How, ...;
//! - lines of prose over 100 columns, unless they cannot be broken;
//! - words that are not the usual terms ([`phrases`]).
//!
//! Any problem fails the check. `cargo xtask words PATH..` checks these files and folders alone,
//! `cargo xtask words --wrap [PATH..]` wraps comments of Rust files, and Markdown files that are
//! named.

mod comments;
mod paragraphs;
mod phrases;
mod problems;
mod wrap;

#[cfg(test)]
mod tests;

use crate::Result;
use crate::workspace::Workspace;
use std::fs;

/// Columns of a line of prose, with its indentation.
const WIDTH: usize = 100;

/// Runs the command with its arguments.
pub(crate) fn run(arguments: &[&str]) -> Result {
    let workspace = Workspace::find()?;
    let (is_wrap, paths) = match arguments {
        ["--wrap", paths @ ..] => (true, paths),
        paths => (false, paths),
    };
    if let Some(option) = paths.iter().find(|path| path.starts_with('-')) {
        return Err(format!("words: no option '{option}'").into());
    }
    let files = tracked(&workspace)?;
    if let Some(path) = unknown(&files, paths) {
        return Err(format!("words: no tracked file is '{path}' or in it: give paths from the root").into());
    }
    if is_wrap { wrap(&workspace, &files, paths) } else { check(&workspace, &files, paths) }
}

/// Prints the problems of these files and folders, and fails if there are any.
fn check(workspace: &Workspace, files: &[String], paths: &[&str]) -> Result {
    let mut count = 0;
    let is_checked = |path: &&String| (path.ends_with(".rs") || path.ends_with(".md")) && is_below(path, paths);
    for path in files.iter().filter(is_checked) {
        let text = fs::read_to_string(workspace.root().join(path))?;
        for problem in problems::of(path, &text).map_err(|error| format!("{path}: {error}"))? {
            println!("{problem}");
            count += 1;
        }
    }
    if count == 0 { Ok(()) } else { Err(format!("words: {count} problems").into()) }
}

/// Wraps the comments of tracked Rust files, and Markdown files that are named.
fn wrap(workspace: &Workspace, files: &[String], paths: &[&str]) -> Result {
    let is_wrapped = |path: &&String| match path.ends_with(".rs") {
        true => is_below(path, paths),
        false => path.ends_with(".md") && paths.contains(&path.as_str()),
    };
    for path in files.iter().filter(is_wrapped) {
        // Messages of the compiler that are compared name lines of this file.
        if path.strip_suffix(".rs").is_some_and(|stem| files.contains(&format!("{stem}.stderr"))) {
            continue;
        }
        let file = workspace.root().join(path);
        let text = fs::read_to_string(&file)?;
        let wrapped = wrap::file(path, &text).map_err(|error| format!("{path}: {error}"))?;
        if wrapped != text {
            fs::write(file, wrapped)?;
            println!("{path}");
        }
    }
    Ok(())
}

/// The tracked files that exist, from the root.
fn tracked(workspace: &Workspace) -> Result<Vec<String>> {
    let output = workspace.command("git").args(["ls-files", "-z"]).output()?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    let names = String::from_utf8(output.stdout)?;
    let exists = |path: &&str| workspace.root().join(path).is_file();
    Ok(names.split_terminator('\0').filter(exists).map(str::to_string).collect())
}

/// Returns the first of these paths that is neither a file nor a folder of files.
fn unknown<'p>(files: &[String], paths: &[&'p str]) -> Option<&'p str> {
    paths.iter().copied().find(|path| !files.iter().any(|file| is_below(file, &[*path])))
}

/// Returns whether a path is one of these, or in one of these folders. No paths name all.
fn is_below(path: &str, folders: &[&str]) -> bool {
    let folders: Vec<&str> = folders.iter().map(|folder| folder.trim_end_matches('/')).collect();
    let within = |folder: &&str| path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    folders.is_empty() || folders.contains(&".") || folders.iter().any(within)
}
