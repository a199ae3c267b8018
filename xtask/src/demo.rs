//! `cargo xtask demo`: one library, two hosts, a photograph; and a neural network that determines
//! the types of files: sources, the photograph, a library and a program.

use crate::Result;
use crate::artifacts::Imagekit;
use crate::environment::Environment;
use crate::magika;
use crate::step::{self, Show};
use crate::workspace::shared_library;
use std::path::Path;
use std::time::Instant;

/// Prepares everything, then runs the demo.
pub(crate) fn run() -> Result {
    run_in(&Environment::prepare()?)
}

/// Builds the example, makes the picture and its references, and runs both hosts, which filter it
/// and check the result.
pub(crate) fn run_in(environment: &Environment) -> Result {
    let start = Instant::now();
    let imagekit = Imagekit::build(environment)?;
    let folder = environment.workspace.folder("demo")?;
    let scripts = environment.workspace.root().join("examples/imagekit/python");
    let python = environment.python.interpreter();
    let steps = [
        ("the photograph, and references by NumPy and SciPy", python, Some(scripts.join("prepare.py"))),
        ("the Rust host", imagekit.host.as_path(), None),
        ("the Python host", python, Some(scripts.join("demo.py"))),
    ];
    for (name, program, script) in steps {
        let mut command = environment.command(program);
        command.args(script).env("KERNPACK_DEMO_DIR", &folder).env("IMAGEKIT_LIBRARY", &imagekit.library);
        step::run(name, &mut command, Show::Lines)?;
    }
    identify(environment, &folder)?;
    println!("demo: every check passed in {:.1} s; pictures:", start.elapsed().as_secs_f64());
    for host in ["rust", "python"] {
        let folder = folder.join(host);
        println!("  {}: {}", folder.display(), pictures(&folder)?.join(" "));
    }
    Ok(())
}

/// Determines the types of the demo's files with examples/filetype: by its program, and in Python.
fn identify(environment: &Environment, folder: &Path) -> Result {
    let workspace = &environment.workspace;
    // examples/filetype needs the model.
    environment.magika()?;
    let program = magika::build(workspace)?;
    let library = shared_library(&workspace.cargo_target().join("release"), "filetype");
    let photo = folder.join("photo.png");
    let example = Path::new("examples/imagekit");
    let mut command = environment.command(&program);
    command
        .args([example.join("kernels"), example.join("src/lib.rs"), example.join("README.md"), photo.clone()])
        .arg(&program);
    step::run("what kinds of files these are, by the program", &mut command, Show::Lines)?;
    let mut command = environment.command(environment.python.interpreter());
    command.arg("examples/filetype/python/identify.py").args([&photo, &library]).arg("Cargo.toml");
    command.env("FILETYPE_LIBRARY", &library);
    step::run("the same in Python", &mut command, Show::Lines).map(drop)
}

/// The names of the pictures that a host wrote, at least one.
fn pictures(folder: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("no pictures in {}: {error}", folder.display()))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".png"))
        .collect();
    names.sort();
    if names.is_empty() { Err(format!("no picture in {}", folder.display()).into()) } else { Ok(names) }
}
