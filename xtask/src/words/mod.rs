//! `cargo xtask words`: the form of comments and of Markdown.
//!
//! It reads every tracked `*.rs` and `*.md` file and reports, by line:
//!
//! - doc comments whose first word, or the first word of a paragraph, is What, Whether, How, ...;
//! - lines of prose over 100 columns, unless they cannot be broken;
//! - words that are not the usual terms ([`phrases`]).
//!
//! `words/allowed.txt` has the number of problems that each crate may still have. A number that is
//! exceeded fails the check, and so does one that is too high: `cargo xtask words --bless` lowers
//! it. `cargo xtask words PATH..` lists the problems of these files and folders,
//! `cargo xtask words --wrap [PATH..]` wraps comments of Rust files, and Markdown files that are
//! named.

mod allowed;
mod comments;
mod paragraphs;
mod phrases;
mod problems;
mod wrap;

#[cfg(test)]
mod tests;

use self::allowed::Counts;
use self::problems::Problem;
use crate::Result;
use crate::workspace::Workspace;
use std::fs;

/// Columns of a line of prose, with its indentation.
const WIDTH: usize = 100;

/// The table of allowed counts, from the root.
const ALLOWED: &str = "xtask/src/words/allowed.txt";

/// Runs the command with its arguments.
pub(crate) fn run(arguments: &[&str]) -> Result {
    let workspace = Workspace::find()?;
    match arguments {
        [] => check(&workspace),
        ["--bless"] => bless(&workspace),
        ["--wrap", paths @ ..] => wrap(&workspace, paths),
        paths => list(&workspace, paths),
    }
}

/// Compares the counts with the allowed ones; prints the problems of crates that have more.
fn check(workspace: &Workspace) -> Result {
    let (problems, counts) = problems_and_counts(workspace)?;
    let allowed = read_allowed(workspace)?;
    for problem in problems.iter().filter(|problem| allowed.is_exceeded(&counts, problem)) {
        println!("{problem}");
    }
    print!("{}", counts.summary());
    let different = allowed.differences(&counts);
    for line in &different {
        println!("{line}");
    }
    if different.is_empty() { Ok(()) } else { Err(format!("words: {}", different.join("; ")).into()) }
}

/// Lowers the allowed counts to those of today.
fn bless(workspace: &Workspace) -> Result {
    let (_, counts) = problems_and_counts(workspace)?;
    let path = workspace.root().join(ALLOWED);
    // A table that was removed is written anew.
    let lowered = if path.exists() { read_allowed(workspace)?.lowered_to(&counts) } else { counts };
    match lowered.is_empty() {
        true if path.exists() => Ok(fs::remove_file(path)?),
        true => Ok(()),
        false => Ok(fs::write(path, lowered.to_string())?),
    }
}

/// Prints all problems of these files and folders.
fn list(workspace: &Workspace, paths: &[&str]) -> Result {
    let (mut problems, _) = problems_and_counts(workspace)?;
    problems.retain(|problem| is_below(&problem.path, paths));
    for problem in &problems {
        println!("{problem}");
    }
    if problems.is_empty() { Ok(()) } else { Err(format!("words: {} problems", problems.len()).into()) }
}

/// Wraps the comments of tracked Rust files, and Markdown files that are named.
fn wrap(workspace: &Workspace, paths: &[&str]) -> Result {
    let files = tracked(workspace)?;
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

/// The problems of all files, and their number by crate.
fn problems_and_counts(workspace: &Workspace) -> Result<(Vec<Problem>, Counts)> {
    let files = tracked(workspace)?;
    let crates: Vec<&str> = files.iter().filter_map(|path| path.strip_suffix("/Cargo.toml")).collect();
    let mut problems = Vec::new();
    for path in files.iter().filter(|path| path.ends_with(".rs") || path.ends_with(".md")) {
        let text = fs::read_to_string(workspace.root().join(path))?;
        problems.extend(problems::of(path, &text).map_err(|error| format!("{path}: {error}"))?);
    }
    let counts = Counts::of(&problems, &crates);
    Ok((problems, counts))
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

/// The table of allowed counts. Without the file nothing is allowed.
fn read_allowed(workspace: &Workspace) -> Result<Counts> {
    let path = workspace.root().join(ALLOWED);
    if !path.exists() {
        return Ok(Counts::default());
    }
    let text = fs::read_to_string(path).map_err(|error| format!("{ALLOWED}: {error}"))?;
    Counts::read(&text).map_err(|error| format!("{ALLOWED}: {error}").into())
}

/// Returns whether a path is one of these, or in one of these folders. No paths name all.
fn is_below(path: &str, folders: &[&str]) -> bool {
    let folders: Vec<&str> = folders.iter().map(|folder| folder.trim_end_matches('/')).collect();
    let within = |folder: &&str| path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    folders.is_empty() || folders.contains(&".") || folders.iter().any(within)
}
