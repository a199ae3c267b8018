//! Compiles the model into the library, and the table of its labels.
//!
//! The environment variable `IMAGENET_MODEL` is the path of the model, and `IMAGENET_LABELS` that
//! of a text with one label per line. Without a model the crate still compiles, so that commands
//! for the whole workspace need no model and take no time for it; its functions then return an
//! error with advice.

use std::path::{Path, PathBuf};
use std::{env, fs};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result {
    println!("cargo::rustc-check-cfg=cfg(has_model)");
    let model = variable("IMAGENET_MODEL");
    let labels = match variable("IMAGENET_LABELS") {
        Some(path) => {
            println!("cargo::rerun-if-changed={}", path.display());
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?
        }
        None => String::new(),
    };
    let labels: Vec<&str> = labels.lines().map(str::trim).collect();
    fs::write(Path::new(&env::var("OUT_DIR")?).join("labels.rs"), format!("&{labels:?}"))?;
    let library = kernpack_build::Library::new();
    let Some(model) = model else {
        return Ok(library.build()?);
    };
    println!("cargo::rustc-cfg=has_model");
    library.model_with(model, |model| model.name("resnet18")).multiversion(["x86-64-v3", "x86-64-v4"]).build()?;
    Ok(())
}

/// Returns the path in a variable.
fn variable(name: &str) -> Option<PathBuf> {
    println!("cargo::rerun-if-env-changed={name}");
    env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from)
}
