//! The outputs of a build, for people: a line for each product in `cargo build -vv`, and
//! `OUT_DIR/kernpack/outputs.json`, which `cargo kernpack outputs` finds and shows.
//!
//! ```text
//! {
//!   "package": "imagekit",
//!   "target": "x86_64-unknown-linux-gnu",
//!   "outputs": [
//!     {
//!       "kind": "object",
//!       "path": "/.../out/kernpack/c0_blur.o",
//!       "bytes": 5040,
//!       "source": "kernels/blur.c",
//!       "kernels": [
//!         "blur"
//!       ]
//!     }
//!   ]
//! }
//! ```
//!
//! Kinds:
//!
//! - `object`, `ptx`, `cubin`, `fatbin`;
//! - `opencl`: a source that is packed unchanged;
//! - `blob`: the object with all packed modules;
//! - `kir` and `notes`: a kernel of tensor expressions after each pass, and as its line tables name
//!   it; the comments of rules on it;
//! - `model` and `header`: the description of a model as JSON, and its functions for C;
//! - `weights`: the weights of a model that are in a file;
//! - `graph`: a model after each pass over its graph;
//! - `archive`: the archive that rustc links;
//! - `rust`: the code that `kernpack::library!()` includes;
//! - `compile_commands`.

pub(crate) mod compile_commands;
pub(crate) mod progress;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::session::Session;
use crate::{Error, Result};

/// One product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    kind: String,
    path: PathBuf,
    source: Option<String>,
    kernels: Vec<String>,
}

impl Output {
    /// An output that is not made from one source.
    pub(crate) fn new(kind: &str, path: &Path) -> Self {
        Self { kind: kind.to_owned(), path: path.to_owned(), source: None, kernels: Vec::new() }
    }

    /// An output that is made from a source, with these kernels.
    pub(crate) fn of<'a>(kind: &str, path: &Path, source: &str, kernels: impl IntoIterator<Item = &'a str>) -> Self {
        let kernels = kernels.into_iter().map(str::to_owned).collect();
        Self { source: Some(source.to_owned()), kernels, ..Self::new(kind, path) }
    }

    /// An image, and the files that it was combined from, which are next to it.
    pub(crate) fn of_image(format: &str, code: &Path, source: &str, kernels: &[&str]) -> Vec<Self> {
        let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let own = name(code);
        let stem = own.split_once('.').map_or(own.as_str(), |(stem, _)| stem);
        let entries = code.parent().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
        let mut pieces: Vec<PathBuf> = entries
            .map(|entry| entry.path())
            .filter(|path| path != code && name(path).starts_with(&format!("{stem}.")))
            .filter(|path| path.extension().is_some_and(|extension| extension == "ptx" || extension == "cubin"))
            .collect();
        pieces.sort();
        let piece = |path: &PathBuf| {
            let kind = path.extension().map(|extension| extension.to_string_lossy().into_owned()).unwrap_or_default();
            Self::of(&kind, path, source, kernels.iter().copied())
        };
        let mut outputs: Vec<Self> = pieces.iter().map(piece).collect();
        outputs.push(Self::of(format, code, source, kernels.iter().copied()));
        outputs
    }

    fn bytes(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |metadata| metadata.len())
    }

    /// `object .../c0_blur.o (5040 bytes) of kernels/blur.c: blur`
    fn line(&self) -> String {
        let mut line = format!("made {} {} ({} bytes)", self.kind, self.path.display(), self.bytes());
        if let Some(source) = &self.source {
            line.push_str(&format!(" of {source}"));
        }
        if !self.kernels.is_empty() {
            line.push_str(&format!(": {}", self.kernels.join(", ")));
        }
        line
    }

    fn json(&self) -> Value {
        let mut output = json!({"kind": self.kind, "path": self.path.to_string_lossy(), "bytes": self.bytes()});
        if let Some(source) = &self.source {
            output["source"] = json!(source);
            output["kernels"] = json!(self.kernels);
        }
        output
    }
}

/// Prints the outputs for `cargo build -vv`, and writes the list.
pub(crate) fn write(session: &Session, outputs: &[Output]) -> Result<()> {
    let path = session.work_dir.join("outputs.json");
    let list = json!({
        "package": session.package_name,
        "target": session.target.triple,
        "outputs": outputs.iter().map(Output::json).collect::<Vec<_>>(),
    });
    let text = format!("{list:#}\n");
    fs::write(&path, text).map_err(|e| Error::new(format!("{}: cannot be written: {e}", path.display())))?;
    for output in outputs {
        progress::line(&output.line());
    }
    Ok(())
}
