//! `cargo xtask imagenet`: ResNet-18 in a library, on photographs, beside onnxruntime.

use crate::Result;
use crate::magika;
use crate::pytest;
use crate::python::Python;
use crate::step::{self, Show};
use crate::workspace::{Workspace, shared_library};
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the model and the photographs, below `target/`.
const FOLDER: &str = "imagenet";

/// A program that makes the model, with weights from a seed.
const MAKE: &str = "import pathlib, sys; sys.path.insert(0, sys.argv[1]); import make_models; make_models.resnet18(pathlib.Path(sys.argv[2]))";

/// A program that prints the folder of scikit-learn's photographs.
const PHOTOS: &str =
    "import importlib.util as u; print(u.find_spec('sklearn.datasets').submodule_search_locations[0] + '/images')";

/// `cargo xtask imagenet [PATH..]`: makes the model, builds the example, classifies these
/// photographs (or default ones), and compares the results with onnxruntime.
pub(crate) fn run(paths: &[&str]) -> Result {
    let workspace = Workspace::find()?;
    // The environment with onnxruntime and the package onnx.
    let interpreter = magika::prepare(&workspace)?;
    let folder = workspace.folder(FOLDER)?;
    let model = model(&workspace, &interpreter, &folder)?;
    let photos = photographs(&workspace, &folder)?;
    let mut cargo = workspace.cargo("build");
    cargo.args(["--release", "--package", "imagenet"]).env("IMAGENET_MODEL", &model);
    step::run("build examples/imagenet", &mut cargo, Show::Warnings)?;
    let built = workspace.cargo_target().join("release");
    let mut program = workspace.command(built.join(format!("imagenet{}", std::env::consts::EXE_SUFFIX)));
    // Paths are relative to the folder of the caller.
    program.current_dir(std::env::current_dir()?);
    if paths.is_empty() {
        program.args(&photos);
    } else {
        program.args(paths);
    }
    step::run("what is in these photographs", &mut program, Show::Lines)?;
    let mut pytest = workspace.command(&interpreter);
    pytest::arguments(&mut pytest).args(["-q", "examples/imagenet/python"]);
    pytest.env("IMAGENET_LIBRARY", shared_library(&built, "imagenet")).env("IMAGENET_MODEL", &model);
    pytest.env("IMAGENET_PHOTOS", &folder);
    pytest::run("the same by onnxruntime", &mut pytest)
}

/// The model. Writes it if it is missing or outdated.
fn model(workspace: &Workspace, interpreter: &Path, folder: &Path) -> Result<PathBuf> {
    let path = folder.join("resnet18.onnx");
    let mut python = workspace.command(interpreter);
    python.args(["-c", MAKE]).arg(workspace.root().join("tests/bench/python")).arg(&path);
    step::run("make the model", python.env("PYTHONDONTWRITEBYTECODE", "1"), Show::Warnings)?;
    Ok(path)
}

/// Copies of scikit-learn's photographs.
fn photographs(workspace: &Workspace, folder: &Path) -> Result<Vec<PathBuf>> {
    let source = PathBuf::from(Python::prepare(workspace)?.say(workspace, PHOTOS)?);
    ["china.jpg", "flower.jpg"]
        .into_iter()
        .map(|name| {
            let (from, to) = (source.join(name), folder.join(name));
            fs::copy(&from, &to).map_err(|error| format!("{}: {error}", from.display()))?;
            Ok(to)
        })
        .collect()
}
