//! `cargo xtask demo`: one library, two hosts, a photograph.

use crate::Result;
use crate::artifacts::Imagekit;
use crate::environment::Environment;
use crate::step::{self, Show};
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
    let mut pictures: Vec<String> = std::fs::read_dir(&folder)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".png"))
        .collect();
    pictures.sort();
    if pictures.is_empty() {
        return Err(format!("the hosts left no picture in {}", folder.display()).into());
    }
    println!("demo: every check passed in {:.1} s; pictures in {}:", start.elapsed().as_secs_f64(), folder.display());
    println!("  {}", pictures.join(" "));
    Ok(())
}
