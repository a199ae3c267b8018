//! mdBook: installed below `target/`, once for each version, and run.

use super::Result;
use crate::step::{self, Show};
use crate::workspace::{Workspace, find_on_path};
use std::fs;
use std::path::{Path, PathBuf};

/// The version that the book is built with: without its server and its watcher, with the search index, not optimized. That takes 107 s of CPU time to compile; optimized, 249 s.
const VERSION: &str = "0.5.4";

/// Builds the book into `target/book`, and checks each link of what it made.
pub(crate) fn build(workspace: &Workspace) -> Result {
    let program = program(workspace)?;
    let output = workspace.folder("book")?;
    let mut command = workspace.command(&program);
    command.arg("build").arg("--dest-dir").arg(&output).arg(workspace.root());
    let said = step::run("build the book", &mut command, Show::Warnings)?;
    if let Some(line) = said.lines().find(|line| line.contains("WARN") || line.contains("ERROR")) {
        return Err(format!("mdbook: {line}").into());
    }
    let mut pages = 0;
    for entry in fs::read_dir(&output)?.flatten().filter(|entry| is_html(&entry.path())) {
        check_html(&output, &entry.path())?;
        pages += 1;
    }
    println!("the book: {} ({pages} pages)", output.join("index.html").display());
    Ok(())
}

/// mdbook of our version: the one on PATH, else the one below `target/`, which cargo compiles there.
fn program(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.folder(&format!("mdbook-{VERSION}"))?;
    let ours = folder.join("bin/mdbook");
    let serves = |program: &Path| {
        let output = workspace.command(program).arg("--version").output();
        output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == format!("mdbook v{VERSION}"))
    };
    if let Some(found) = find_on_path("mdbook").into_iter().chain([ours.clone()]).find(|program| serves(program)) {
        return Ok(found);
    }
    let mut install = workspace.cargo("install");
    install.args([
        "mdbook",
        "--debug",
        "--locked",
        "--version",
        VERSION,
        "--no-default-features",
        "--features",
        "search",
    ]);
    install.arg("--root").arg(&folder).arg("--target-dir").arg(folder.join("build"));
    step::run(&format!("install mdbook {VERSION} into target/mdbook-{VERSION}"), &mut install, Show::Warnings)
        .map_err(|error| format!("{error}: cargo could not install mdbook (it comes from the crate registry)"))?;
    // Only the program is needed from now on.
    fs::remove_dir_all(folder.join("build"))?;
    Ok(ours)
}

fn is_html(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "html")
}

/// Whether the links of a page that mdBook made lead to files and anchors of the book.
fn check_html(book: &Path, page: &Path) -> Result {
    // All pages in one, for printing: its links are those of the pages.
    if page.file_name().is_some_and(|name| name == "print.html" || name == "toc.html" || name == "404.html") {
        return Ok(());
    }
    let text = fs::read_to_string(page)?;
    for target in text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let file = if path.is_empty() { page.to_path_buf() } else { book.join(path) };
        let shown = page.strip_prefix(book).unwrap_or(page).display();
        if !file.exists() {
            return Err(format!("the book's {shown} has a link that leads nowhere: {target}").into());
        }
        if !anchor.is_empty() && !fs::read_to_string(&file)?.contains(&format!("id=\"{anchor}\"")) {
            return Err(format!("the book's {shown} has a link to a heading that is not there: {target}").into());
        }
    }
    Ok(())
}
