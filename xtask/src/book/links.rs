//! Checks that every link of every document has a target, and that every page of `docs/` is in the
//! book.

use super::Result;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The book's table of contents.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Checks the links of these pages; `root` is the checkout.
///
/// # Errors
/// Links without a target, links that leave the book, and pages that the table of contents lacks.
pub(crate) fn check(root: &Path, pages: &[PathBuf]) -> Result {
    let mut problems = Vec::new();
    for page in pages {
        let text = read(root, page)?;
        for (line, target) in links(&text) {
            if let Err(problem) = follow(root, page, &target) {
                problems.push(format!("{}:{line}: the link '{target}' {problem}", page.display()));
            }
        }
    }
    let summary = read(root, Path::new(SUMMARY))?;
    let listed: Vec<String> = links(&summary).map(|(_, target)| target).collect();
    for page in pages.iter().filter_map(|page| page.strip_prefix("docs").ok()) {
        let name = page.to_string_lossy();
        if name != "SUMMARY.md" && !listed.contains(&name.to_string()) {
            problems.push(format!("{SUMMARY} does not list {name}"));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n").into()) }
}

fn read(root: &Path, page: &Path) -> Result<String> {
    fs::read_to_string(root.join(page)).map_err(|error| format!("cannot read {}: {error}", page.display()).into())
}

/// Checks that the target of a link of a page exists.
fn follow(root: &Path, page: &Path, target: &str) -> std::result::Result<(), String> {
    if ["https://", "http://", "mailto:"].iter().any(|scheme| target.starts_with(scheme)) {
        return Ok(());
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = if path.is_empty() {
        page.to_path_buf()
    } else {
        plain(&page.parent().unwrap_or(Path::new("")).join(path)).ok_or("leaves the checkout")?
    };
    if page.starts_with("docs") && !file.starts_with("docs") {
        return Err("leaves the book, which is read without the checkout; write the path as code".to_string());
    }
    if !root.join(&file).exists() {
        return Err(format!("leads nowhere: there is no {}", file.display()));
    }
    if anchor.is_empty() {
        return Ok(());
    }
    let text = fs::read_to_string(root.join(&file)).map_err(|error| error.to_string())?;
    let known: Vec<String> = headings(&text).collect();
    if known.iter().any(|heading| heading == anchor) {
        return Ok(());
    }
    Err(format!("leads nowhere: {} has no such heading, but {}", file.display(), known.join(", ")))
}

/// The path without `.` and `..`; `None` if it leaves its root.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                if !plain.pop() {
                    return None;
                }
            }
            other => plain.push(other),
        }
    }
    Some(plain)
}

/// Lines outside of code blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut inside = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        (!inside && !fence).then_some((index + 1, line))
    })
}

/// The targets of links `[text](target)`, outside of code.
fn links(text: &str) -> impl Iterator<Item = (usize, String)> {
    prose(text).flat_map(|(number, line)| {
        let outside_code: String =
            line.split('`').enumerate().map(|(index, part)| if index % 2 == 0 { part } else { "code" }).collect();
        let targets =
            outside_code.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.trim());
        targets.map(|target| (number, target.to_string())).collect::<Vec<_>>()
    })
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn headings(text: &str) -> impl Iterator<Item = String> {
    prose(text).filter_map(|(_, line)| {
        let title = line.trim_start_matches('#');
        (title.len() < line.len() && title.starts_with(' ')).then(|| anchor(title.trim()))
    })
}

fn anchor(title: &str) -> String {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_headings() {
        let text = "# A `b`: c, d\n[x](a.md#b) `[no](c)` [`f`](d.md)\n```rust\nx[1](2)\n# no\n```\n## Second_one\n";
        let found: Vec<_> = links(text).collect();
        assert_eq!(found, [(2, "a.md#b".to_string()), (2, "d.md".to_string())]);
        assert_eq!(headings(text).collect::<Vec<_>>(), ["a-b-c-d", "second_one"]);
    }

    #[test]
    fn links_that_lead_nowhere() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let problem = |page: &str, target: &str| follow(&root, Path::new(page), target).err().unwrap_or_default();
        assert_eq!(problem("docs/cuda.md", "devices.md#streams"), "");
        assert_eq!(problem("docs/cuda.md", "https://example.com/x"), "");
        assert!(problem("docs/cuda.md", "nowhere.md").starts_with("leads nowhere: there is no docs/nowhere.md"));
        assert!(problem("docs/cuda.md", "devices.md#stream").contains("has no such heading, but devices, "));
        assert!(problem("docs/cuda.md", "../README.md").starts_with("leaves the book"));
        assert_eq!(problem("README.md", "xtask/src/main.rs"), "");
        assert_eq!(problem("README.md", "../x"), "leaves the checkout");
    }
}
