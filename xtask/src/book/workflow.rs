//! Checks the workflow file of the page "Wheels in your CI": the page shows the whole file, and it
//! follows the schema of GitHub's workflows.

use super::Result;
use crate::python::{self, Recipe};
use crate::step::{self, Show};
use crate::workspace::Workspace;
use std::fs;

/// The workflow, and the page that shows it.
const FILE: &str = "docs/assets/wheels.yml";
const PAGE: &str = "docs/wheels-in-ci.md";

/// The environment of the program that contains the schema.
const SCHEMA: Recipe = Recipe {
    folder: "venv-schema",
    list: "xtask/requirements-schema.txt",
    packages: include_str!("../../requirements-schema.txt"),
};

/// Checks the file and the page.
///
/// # Errors
/// A page that shows another text, and violations of the schema.
pub(crate) fn check(workspace: &Workspace) -> Result {
    let read = |path: &str| {
        fs::read_to_string(workspace.root().join(path)).map_err(|error| format!("cannot read {path}: {error}"))
    };
    if !shows(&read(PAGE)?, &read(FILE)?) {
        return Err(format!("{PAGE} does not show {FILE} as it is: copy the file into the page's block").into());
    }
    let interpreter = python::environment(workspace, &SCHEMA)?;
    let mut command = workspace.command(interpreter);
    command.args(["-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", FILE]);
    step::run(&format!("check {FILE} against the schema of workflows"), &mut command, Show::Warnings).map(drop)
}

/// Returns whether a page has a block that ends with exactly this text, after the command that
/// prints it.
fn shows(page: &str, text: &str) -> bool {
    page.contains(&format!("\n$ cat .github/workflows/wheels.yml\n{text}```\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_shows_the_whole_file() {
        let page = |text: &str| format!("# P\n```console\n$ cat .github/workflows/wheels.yml\n{text}```\nend\n");
        assert!(shows(&page("name: a\n"), "name: a\n"));
        assert!(!shows(&page("name: b\n"), "name: a\n"));
        assert!(!shows(&page("name: a\nmore: b\n"), "name: a\n"));
        assert!(!shows(&page("more: b\nname: a\n"), "name: a\n"));
    }
}
