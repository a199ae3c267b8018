//! `cargo kernpack model`: `diff MODEL.onnx` compares the optimized model with the definitions of
//! its nodes, and reports the first node whose result differs; `weights MODEL.onnx` writes weights
//! for a library that is built already.

#[cfg(feature = "graph")]
mod npy;
mod options;
#[cfg(feature = "graph")]
mod report;
#[cfg(feature = "graph")]
mod values;
#[cfg(feature = "graph")]
mod weights;

pub(crate) use options::{HELP, Options, Request, parse};

use crate::Result;

/// Runs a command, and returns its report.
pub(crate) fn run(request: &Request) -> Result<String> {
    match request {
        Request::Diff(options) => diff(options),
        #[cfg(feature = "graph")]
        Request::Weights(options) => weights::make(options),
        #[cfg(not(feature = "graph"))]
        Request::Weights(options) => Err(without_compiler(&options.file)),
    }
}

/// Compares, and returns the report. A difference is an error.
#[cfg(feature = "graph")]
fn diff(options: &Options) -> Result<String> {
    use std::fs;

    use kernpack_graph::diff::{Target, compare, plain_values, random_inputs};
    use kernpack_graph::{LowerOptions, ModelOptions, import};

    let shown = options.file.display();
    let within = |error: kernpack_graph::GraphError| format!("{shown}: {error}");
    let bytes = fs::read(&options.file).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let mut asked = ModelOptions { plain: true, ..ModelOptions::default() };
    asked.dims.extend(options.dims.iter().cloned());
    asked.bounds.extend(options.bounds.iter().cloned());
    asked.inputs.extend(options.inputs.iter().cloned());
    let import = |asked: &ModelOptions| import(&bytes, options.file.parent(), asked).map_err(within);
    let plain = import(&asked)?.graph;
    let target = Target::host();
    let inputs = match &options.values {
        Some(path) => values::read(path, "input", &plain)?,
        None => random_inputs(&plain, options.seed).map_err(within)?,
    };
    let expected = plain_values(&plain, &inputs, &target).map_err(within)?;
    let mut reports = Vec::new();
    if let Some(path) = &options.reference {
        let reference = values::read(path, "output", &plain)?;
        let level = LowerOptions::of_level(0);
        let found = compare(&plain, &inputs, &reference, &target, level, options.tolerance).map_err(within)?;
        if found.compared == 0 {
            return Err(format!("{}: it has no value that the model computes", path.display()));
        }
        reports.push(("unoptimized, with the reference", found));
    }
    let graph = import(&ModelOptions { plain: false, ..asked })?.graph;
    let usual = LowerOptions::default();
    let found = compare(&graph, &inputs, &expected, &target, usual, options.tolerance).map_err(within)?;
    reports.push(("optimized, with unoptimized", found));
    report::write(&reports, options.tolerance, options.json)
}

#[cfg(not(feature = "graph"))]
fn diff(options: &Options) -> Result<String> {
    Err(without_compiler(&options.file))
}

/// Explains how to get a program with this command.
#[cfg(not(feature = "graph"))]
fn without_compiler(file: &std::path::Path) -> String {
    format!(
        "{}: this cargo-kernpack was built without the compiler of models; build it again with its feature `graph`: cargo install \
         --path build-support/cli --features graph",
        file.display()
    )
}
