//! `cargo kernpack inspect`: the contents of a library. The file is only read as data and not
//! executed, except with `--load`, which loads it in a separate process.

#[cfg(test)]
mod hostile_tests;
mod json;
mod models;
mod options;
mod picture;
pub(crate) mod report;

use std::collections::BTreeSet;

use serde_json::Value;

pub(crate) use options::{HELP, Options, parse};

use crate::library::file;
use crate::library::inspection::Inspection;
use crate::library::loaded::{self, Loaded};
use crate::library::model::dimensions;
use crate::library::shape::Shape;
use crate::{Result, write};

/// Returns the report in the requested format.
pub(crate) fn show(options: &Options) -> Result<String> {
    let shown = options.file.display();
    let bytes = file::read(&options.file)?;
    let mut inspection = Inspection::read(&bytes).map_err(|problem| format!("{shown}: {problem}"))?;
    if let Some(extract) = &options.extract {
        let tree = inspection.tree.as_ref().ok_or_else(|| format!("{shown}: it has no import tree, so no images"))?;
        let code = tree.find(&extract.image).map_err(|problem| format!("{shown}: {problem}"))?.code();
        write(&extract.out, code)?;
        return Ok(format!("wrote {} bytes to {}\n", code.len(), extract.out.display()));
    }
    if options.load {
        let loaded = loaded::load(&options.file, options.time.as_ref())?;
        known(&options.time, loaded.models()).map_err(|problem| format!("{shown}: {problem}"))?;
        inspection.loaded = Some(loaded);
    }
    if let Some(out) = &options.svg {
        write(out, picture::svg(&inspection).as_bytes())?;
        for model in inspection.loaded.as_ref().map(Loaded::models).unwrap_or_default() {
            // A library may report any name. Only a plain one becomes a part of a path.
            let name = model["name"].as_str().unwrap_or_default();
            if !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
                write(&out.with_extension(format!("{name}.svg")), models::svg(model).as_bytes())?;
            }
        }
    }
    let name = options.file.to_string_lossy();
    Ok(if options.json { json::write(&name, &inspection) } else { report::write(&name, &inspection) })
}

/// Checks that each dimension of `--shape` is one of a model.
fn known(shape: &Option<Shape>, models: &[Value]) -> Result<()> {
    let names: BTreeSet<&str> = models.iter().flat_map(dimensions).map(|(name, _)| name).collect();
    let unknown = shape.iter().flat_map(Shape::names).find(|name| !names.contains(name));
    let Some(unknown) = unknown else { return Ok(()) };
    let has: Vec<&str> = names.into_iter().collect();
    let has = if has.is_empty() { "none".to_owned() } else { has.join(", ") };
    Err(format!("--shape: no model has a dynamic dimension '{unknown}'; dynamic dimensions: {has}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn dimensions_of_a_shape_are_known() {
        let models = [json!({ "ranges": [{ "dimension": "batch", "least": 1, "most": 8 }] }), json!({})];
        let known = |text: &str| known(&Some(Shape::parse(text).unwrap()), &models);
        assert_eq!(known("batch=7"), Ok(()));
        assert_eq!(known(""), Ok(()));
        assert_eq!(
            known("batch=7,rows=2").unwrap_err(),
            "--shape: no model has a dynamic dimension 'rows'; dynamic dimensions: batch"
        );
    }
}
