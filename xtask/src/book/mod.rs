//! `cargo xtask book`: builds the book of `docs/` with mdBook, and checks that every block of every
//! page compiles or runs.
//!
//! The comments of a page, which its readers do not see, control the check of a block; see
//! README.md beside this file. README.md beside this file.

mod checker;
mod comment;
mod examples;
mod folder;
mod links;
mod machine;
mod manifest;
mod mdbook;
mod output;
mod page;
mod places;
mod session;
mod sessions;
mod shell;
mod variables;
mod workflow;

use crate::Result;
use crate::bench::plots;
use crate::environment::Environment;
use crate::workspace::Workspace;
use checker::Outcome;
use page::Page;
use places::Places;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Pages outside of `docs/`, from the root.
const OUTSIDE: [&str; 2] = ["README.md", "build-support/cli/README.md"];

/// Documents that are not pages: their links are checked, their blocks are not.
const DOCUMENTS: [&str; 5] = ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", examples::INDEX];

/// `cargo xtask book`: builds the book and checks all its links;
/// `cargo xtask book blocks [PAGE...]`: checks the blocks of all pages, or of these.
pub(crate) fn run(arguments: &[&str]) -> Result {
    match arguments {
        [] => {
            let workspace = Workspace::find()?;
            links::check(workspace.root(), &linked(workspace.root())?)?;
            variables::check(workspace.root())?;
            examples::check(workspace.root())?;
            plots::check(workspace.root())?;
            workflow::check(&workspace)?;
            mdbook::build(&workspace)
        }
        ["blocks", names @ ..] => {
            let environment = Environment::prepare()?;
            let checked = check_blocks(&environment, names)?;
            match checked.failures[..] {
                [] => Ok(()),
                _ => {
                    // The format that `cargo xtask test` recognizes as a failure.
                    checked.failures.iter().for_each(|failure| println!("FAILED {failure}"));
                    Err("blocks of pages failed".into())
                }
            }
        }
        _ => Err("usage: cargo xtask book [blocks [PAGE...]]".into()),
    }
}

/// The blocks in C and C++ of all pages, as files: their paths below a folder, and their text.
/// Blocks of a crate that a page builds to show an error (its folder is `broken`) are left out.
pub(crate) fn c_blocks(root: &Path) -> Result<Vec<(PathBuf, String)>> {
    let mut files: Vec<(PathBuf, String)> = Vec::new();
    for page in read_pages(root)? {
        for block in page.blocks() {
            let ending = match block.language.as_str() {
                "c" => "c",
                "c++" | "cpp" => "cc",
                _ => continue,
            };
            let file = match &block.file {
                Some((file, _)) if file.starts_with("broken/") => continue,
                Some((file, _)) => file.clone(),
                None => format!("line-{}.{ending}", block.line),
            };
            let path = Path::new(&page.name()).join(file);
            let begins_anew = block.file.as_ref().is_none_or(|(_, anew)| *anew);
            match files.iter_mut().rev().find(|(known, _)| *known == path) {
                Some((_, text)) if !begins_anew => text.push_str(&block.whole_code()),
                Some(_) => {
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    files.push((path.with_file_name(format!("line-{}-{name}", block.line)), block.whole_code()));
                }
                None => files.push((path, block.whole_code())),
            }
        }
    }
    Ok(files)
}

/// The result of checking all blocks.
#[derive(Default)]
pub(crate) struct Checked {
    /// Blocks that compiled, ran, or are the output of others, and drawings.
    pub(crate) passed: usize,
    /// The failures, as messages.
    pub(crate) failures: Vec<String>,
    /// Blocks that cannot run on this machine.
    pub(crate) skipped: Vec<String>,
}

/// Checks the blocks of all pages, or of the pages with these names. Prints a line for each page,
/// and one for the sum.
pub(crate) fn check_blocks(environment: &Environment, names: &[&str]) -> Result<Checked> {
    let all = read_pages(environment.workspace.root())?;
    let chosen: Vec<&Page> =
        all.iter().filter(|page| names.is_empty() || names.contains(&page.name().as_str())).collect();
    if chosen.is_empty() {
        let known: Vec<String> = all.iter().map(Page::name).collect();
        return Err(format!("there is no page '{}'; pages are {}", names.join("', '"), known.join(", ")).into());
    }
    let places = Places::prepare(environment)?;
    let start = Instant::now();
    let mut checked = Checked::default();
    let mut lines = Vec::new();
    for page in &chosen {
        let outcome = checker::check(&places, page)?;
        let count = page.blocks().count();
        lines.push(line_of(page, &outcome, count));
        if outcome.failure.is_none() && outcome.blocks() != count {
            checked.failures.push(format!("{}: {count} blocks, but {} were checked", page.path, outcome.blocks()));
        }
        checked.passed += outcome.blocks() - outcome.skipped.len();
        checked.failures.extend(outcome.failure);
        checked.skipped.extend(outcome.skipped);
    }
    lines.iter().for_each(|line| println!("{line}"));
    for skipped in &checked.skipped {
        println!("skipped: {skipped}");
    }
    let blocks: usize = chosen.iter().map(|page| page.blocks().count()).sum();
    println!(
        "book: {} pages, {blocks} blocks: {} checked, {} skipped, {} pages failed, in {:.0} s",
        chosen.len(),
        checked.passed,
        checked.skipped.len(),
        checked.failures.len(),
        start.elapsed().as_secs_f64()
    );
    Ok(checked)
}

fn line_of(page: &Page, outcome: &Outcome, count: usize) -> String {
    let Outcome { files, ran, without_tvm_ffi, outputs, drawings, skipped, failure } = outcome;
    let bare = if *without_tvm_ffi > 0 { format!(" ({without_tvm_ffi} without tvm_ffi)") } else { String::new() };
    let end = if failure.is_some() { ", FAILED" } else { "" };
    format!(
        "{}: {count} blocks: {files} compiled, {ran} run{bare}, {outputs} outputs, {drawings} drawings, {} skipped{end}",
        page.path,
        skipped.len()
    )
}

/// Reads every page, and checks that each pair of fences became a block.
fn read_pages(root: &Path) -> Result<Vec<Page>> {
    let mut all: Vec<Page> = Vec::new();
    for path in pages(root)? {
        let file = root.join(&path);
        let text = fs::read_to_string(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        let page = Page::parse(&path.to_string_lossy(), &text)?;
        let fences = text.lines().filter(|line| line.trim_start().starts_with("```")).count();
        if fences != 2 * page.blocks().count() {
            return Err(format!("{}: {fences} fences, but {} blocks", page.path, page.blocks().count()).into());
        }
        if let Some(other) = all.iter().find(|other| other.name() == page.name()) {
            return Err(format!("{} and {} have one name, '{}'", other.path, page.path, page.name()).into());
        }
        all.push(page);
    }
    Ok(all)
}

/// The paths of all documents whose links are checked, from the root: the pages, the documents in
/// the root and the READMEs of all members of the workspace.
fn linked(root: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = pages(root)?;
    paths.extend(DOCUMENTS.iter().map(PathBuf::from));
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    let members = manifest.split_once("members = [").and_then(|(_, rest)| rest.split_once(']'));
    let (members, _) = members.ok_or("Cargo.toml has no members")?;
    for member in members.split('"').skip(1).step_by(2) {
        paths.extend(Some(Path::new(member).join("README.md")).filter(|path| root.join(path).is_file()));
    }
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// The paths of all pages, from the root, in the order of their names.
fn pages(root: &Path) -> Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> = OUTSIDE.iter().map(PathBuf::from).collect();
    for folder in ["docs", "docs/design"] {
        for entry in fs::read_dir(root.join(folder))?.flatten() {
            if entry.path().extension().is_some_and(|extension| extension == "md") {
                paths.push(Path::new(folder).join(entry.file_name()));
            }
        }
    }
    for entry in fs::read_dir(root.join("examples"))?.flatten() {
        let path = Path::new("examples").join(entry.file_name()).join("README.md");
        if root.join(&path).is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    #[test]
    fn every_block_of_every_page_has_a_rule() {
        let pages = read_pages(&root()).unwrap();
        assert!(pages.len() >= 10 && pages.iter().map(|page| page.blocks().count()).sum::<usize>() > 100);
        for page in &pages {
            for block in page.blocks() {
                let by_itself = ["rust", "rust,test", "python", "pycon", "sh", "console", "text"];
                assert!(
                    block.file.is_some() || by_itself.contains(&block.language.as_str()),
                    "{}:{}: no rule checks a block of '{}'",
                    page.path,
                    block.line,
                    block.language
                );
            }
        }
    }

    #[test]
    fn links_lead_somewhere() {
        let linked = linked(&root()).unwrap();
        for page in ["docs/versions.md", "SECURITY.md", "runtime/README.md", "build-support/cli/README.md"] {
            assert_eq!(linked.iter().filter(|other| *other == Path::new(page)).count(), 1, "{page}");
        }
        links::check(&root(), &linked).unwrap();
    }

    #[test]
    fn every_environment_variable_is_in_the_book() {
        variables::check(&root()).unwrap();
    }
}
