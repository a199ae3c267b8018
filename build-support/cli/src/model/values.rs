//! Values of a model in files: a `.npz`, or a folder with `NAME.npy`, or with `input_0.pb`,
//! `output_0.pb` and so on as in the tests of ONNX.

use std::fs;
use std::path::Path;

use kernpack_graph::diff::Values;
use kernpack_graph::{Constant, Graph, onnx};

use super::npy;
use crate::Result;

/// Reads the values of a file or folder, by name. `kind` is `input` or `output`: the kind of
/// numbered files.
pub(super) fn read(path: &Path, kind: &str, graph: &Graph) -> Result<Values> {
    if !path.is_dir() {
        return npy::arrays(path);
    }
    let names: Vec<&str> = match kind {
        "input" => graph.inputs.iter().map(|id| graph.values[*id].name.as_str()).collect(),
        _ => graph.outputs.iter().map(|(name, _)| name.as_str()).collect(),
    };
    let problem = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let mut values = Values::new();
    for entry in fs::read_dir(path).map_err(|error| problem(&error))? {
        let file = entry.map_err(|error| problem(&error))?.path();
        let problem = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let bytes = || fs::read(&file).map_err(|error| problem(&error));
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("npy") => _ = values.insert(stem, npy::array(&bytes()?).map_err(|error| problem(&error))?),
            Some("pb") => {
                let number = stem.strip_prefix(kind).and_then(|rest| rest.strip_prefix('_')?.parse::<usize>().ok());
                if let Some(name) = number.and_then(|number| names.get(number)) {
                    values.insert((*name).to_owned(), tensor(&bytes()?).map_err(|error| problem(&error))?);
                }
            }
            _ => {}
        }
    }
    if values.is_empty() {
        return Err(problem(&format!("no file NAME.npy or {kind}_NUMBER.pb in this folder")));
    }
    Ok(values)
}

/// Reads a tensor in ONNX's format.
fn tensor(bytes: &[u8]) -> std::result::Result<Constant, kernpack_graph::GraphError> {
    onnx::to_constant(&onnx::read_tensor(bytes)?, &|_, _, _| {
        Err(kernpack_graph::GraphError::new("its data is in another file, which is not read"))
    })
}
