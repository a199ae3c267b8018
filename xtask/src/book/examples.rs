//! Checks that the index of examples has one row for each folder of `examples/`, and each row a
//! folder.

use super::Result;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The index, from the root of the checkout.
pub(crate) const INDEX: &str = "examples/README.md";

/// The cells of a row: folder, contents, command, needs, page.
const CELLS: usize = 5;

/// Compares the index with the folders beside it.
///
/// # Errors
/// Each folder without a row, each row without a folder, each folder with two rows, and rows that
/// lack a cell or a page of the book.
pub(crate) fn check(root: &Path) -> Result {
    let text = fs::read_to_string(root.join(INDEX)).map_err(|error| format!("cannot read {INDEX}: {error}"))?;
    let mut folders = BTreeSet::new();
    for entry in fs::read_dir(root.join("examples"))? {
        let path = entry?.path();
        // A folder without a README is a leftover of a build or an editor.
        if path.join("README.md").is_file() || path.join("Cargo.toml").is_file() {
            folders.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    let problems = compare(&text, &folders);
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n").into()) }
}

/// The differences between an index and the names of folders, as messages.
fn compare(index: &str, folders: &BTreeSet<String>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut rows = BTreeSet::new();
    for (number, line) in index.lines().enumerate().filter(|(_, line)| line.starts_with("| [")) {
        let place = format!("{INDEX}:{}", number + 1);
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let Some(name) = cells[0].strip_prefix('[').and_then(|rest| rest.split_once("](")).map(|(name, _)| name) else {
            problems.push(format!("{place}: the row begins with no link to a folder: {}", cells[0]));
            continue;
        };
        if cells[0] != format!("[{name}]({name}/README.md)") {
            problems.push(format!("{place}: expected [{name}]({name}/README.md), found {}", cells[0]));
        }
        if cells.len() != CELLS || cells.iter().any(|cell| cell.is_empty()) {
            problems.push(format!("{place}: the row of {name} has {} cells, expected {CELLS} with text", cells.len()));
        }
        if !cells.last().is_some_and(|cell| cell.contains("](../docs/")) {
            problems.push(format!("{place}: the row of {name} ends without a link to a page of docs/"));
        }
        if !folders.contains(name) {
            problems.push(format!("{place}: there is no folder examples/{name}"));
        }
        if !rows.insert(name.to_string()) {
            problems.push(format!("{place}: a second row of {name}"));
        }
    }
    problems.extend(folders.difference(&rows).map(|name| format!("{INDEX} has no row of examples/{name}")));
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_has_every_example() {
        check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
    }

    #[test]
    fn differences_between_index_and_folders() {
        let row = |name: &str| format!("| [{name}]({name}/README.md) | x | `y` | z | [P](../docs/p.md) |\n");
        let folders = BTreeSet::from(["a".to_string(), "b".to_string()]);
        let problems = |index: &str| compare(index, &folders);
        let whole = row("a") + &row("b");
        assert_eq!(problems(&whole), [""; 0]);
        assert_eq!(problems(&row("a")), ["examples/README.md has no row of examples/b"]);
        assert_eq!(problems(&(whole.clone() + &row("c"))), ["examples/README.md:3: there is no folder examples/c"]);
        assert_eq!(problems(&(whole.clone() + &row("a"))), ["examples/README.md:3: a second row of a"]);
        let found = problems(&whole.replace("(b/README.md)", "(c/README.md)"));
        assert_eq!(found, ["examples/README.md:2: expected [b](b/README.md), found [b](c/README.md)"]);
        let found = problems(&whole.replacen("| z ", "", 1));
        assert_eq!(found, ["examples/README.md:1: the row of a has 4 cells, expected 5 with text"]);
        let found = problems(&whole.replacen("../docs/p.md", "p.md", 1));
        assert_eq!(found, ["examples/README.md:1: the row of a ends without a link to a page of docs/"]);
    }
}
