//! `cargo xtask demo`: one library, two hosts, a photograph.

use crate::Result;
use crate::artifacts::Imagekit;
use crate::environment::Environment;
use crate::step::{self, Show};
use std::path::Path;
use std::time::Instant;

/// Prepares everything, then runs the demo.
pub(crate) fn run() -> Result {
    run_in(&Environment::prepare()?)
}

/// Builds the example, makes the picture and its references, and lets both hosts filter and check it.
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
    println!("demo: every check passed in {:.1} s; pictures:", start.elapsed().as_secs_f64());
    for host in ["rust", "python"] {
        let folder = folder.join(host);
        println!("  {}: {}", folder.display(), pictures(&folder)?.join(" "));
    }
    Ok(())
}

/// The names of the pictures that a host left, at least one.
fn pictures(folder: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("no pictures in {}: {error}", folder.display()))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".png"))
        .collect();
    names.sort();
    if names.is_empty() { Err(format!("no picture in {}", folder.display()).into()) } else { Ok(names) }
}
