//! Magika, Google's detector of file types: the model that examples/filetype compiles, and the
//! package that it is compared with.

use crate::Result;
use crate::pytest;
use crate::python::{self, Recipe};
use crate::step::{self, Show};
use crate::workspace::{Workspace, shared_library};
use std::fs;
use std::path::{Path, PathBuf};

/// The environment with the package.
const MAGIKA: Recipe = Recipe {
    folder: "venv-magika",
    list: "xtask/requirements-magika.txt",
    packages: include_str!("../requirements-magika.txt"),
};

/// The folder, below `target/`, in which the example's build script looks for the files.
const FOLDER: &str = "magika";

/// The files, from the folder of the package.
const FILES: [&str; 3] =
    ["models/standard_v3_3/model.onnx", "models/standard_v3_3/config.min.json", "config/content_types_kb.min.json"];

/// The limit for the size of the library, which includes 3.1 MB of the network.
const MOST_BYTES: u64 = 4_500_000;

/// `cargo xtask filetype [--wheel] [PATH..]`: installs the model, builds the example, and
/// determines the types of these files; or makes a wheel of the example, and tests it.
pub(crate) fn run(arguments: &[&str]) -> Result {
    let (options, paths): (Vec<&str>, Vec<&str>) = arguments.iter().copied().partition(|word| word.starts_with("--"));
    let workspace = Workspace::find()?;
    let interpreter = prepare(&workspace)?;
    let program = build(&workspace)?;
    match options[..] {
        [] => {}
        ["--wheel"] if paths.is_empty() => return wheel(&workspace, &interpreter),
        _ => return Err("usage: cargo xtask filetype [--wheel | PATH..]".into()),
    }
    let mut command = workspace.command(&program);
    // Paths are relative to the folder of the caller.
    command.current_dir(std::env::current_dir()?);
    command.args(if paths.is_empty() {
        vec![program.as_os_str()]
    } else {
        paths.iter().map(|path| (*path).as_ref()).collect()
    });
    step::run("what kinds of files these are", &mut command, Show::Lines).map(drop)
}

/// Makes the wheel `filetype-kernpack` in `target/wheels`, installs it into a fresh environment,
/// and tests it there.
fn wheel(workspace: &Workspace, interpreter: &Path) -> Result {
    let mut cargo = workspace.cargo("build");
    step::run("build cargo kernpack", cargo.args(["--package", "kernpack-cli"]), Show::Warnings)?;
    let target = workspace.cargo_target();
    let cargo_kernpack = target.join("debug").join(format!("cargo-kernpack{}", std::env::consts::EXE_SUFFIX));
    let wheels = workspace.folder("wheels")?;
    let mut pytest = workspace.command(interpreter);
    pytest::arguments(&mut pytest).arg("examples/filetype/python/test_package.py");
    pytest.env("CARGO_KERNPACK", cargo_kernpack).env("CARGO_TARGET_DIR", target);
    pytest.env("FILETYPE_WHEELS", &wheels);
    pytest::run("the wheel in a fresh environment", &mut pytest)?;
    println!("the wheel is in {}", wheels.display());
    Ok(())
}

/// Copies the model's files to the folder in which the example's build script looks for them.
/// Returns a Python that has the package and onnxruntime.
pub(crate) fn prepare(workspace: &Workspace) -> Result<PathBuf> {
    let interpreter = python::environment(workspace, &MAGIKA)?;
    let program = "import importlib.util as u; print(u.find_spec('magika').submodule_search_locations[0])";
    let package = python::say(workspace, &interpreter, program)?;
    let folder = workspace.folder(FOLDER)?;
    for file in FILES {
        let source = Path::new(&package).join(file);
        let bytes = fs::read(&source).map_err(|error| format!("{}: {error}", source.display()))?;
        let place = folder.join(source.file_name().unwrap_or_default());
        // Writing an unchanged file would make cargo rebuild its dependents.
        if fs::read(&place).is_ok_and(|known| known == bytes) {
            continue;
        }
        fs::write(&place, bytes).map_err(|error| format!("cannot write {}: {error}", place.display()))?;
    }
    Ok(interpreter)
}

/// Builds the library and the program with optimization, and returns the program.
///
/// It is built separately, as it is shipped, because its size is checked: together with other
/// crates of the workspace, the runtime would have their features as well.
pub(crate) fn build(workspace: &Workspace) -> Result<PathBuf> {
    let mut cargo = workspace.cargo("build");
    cargo.args(["--release", "--package", "filetype"]);
    step::run("build examples/filetype", &mut cargo, Show::Warnings)?;
    let folder = workspace.cargo_target().join("release");
    let library = shared_library(&folder, "filetype");
    let size = fs::metadata(&library).map_err(|error| format!("{}: {error}", library.display()))?.len();
    if size >= MOST_BYTES {
        return Err(format!("{} has {size} bytes, and less than {MOST_BYTES} are promised", library.display()).into());
    }
    Ok(folder.join(format!("filetype{}", std::env::consts::EXE_SUFFIX)))
}
