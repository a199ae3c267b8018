//! ONNX models.

use kernpack_compiler::codegen::Target;
use kernpack_compiler::{PassContext, PassOptions, TargetDescription};
use kernpack_graph::{Graph, LowerOptions, ModelOptions, element_bytes, import, lower, num_elements};

/// The maximum number of nodes of a graph that is lowered, and of bytes of all its values.
const NODES: usize = 6;
const BYTES: usize = 1 << 16;

/// Checks the input as a model; symbolic dimensions are 3.
pub fn check(input: &[u8]) {
    let graph = match import(input, None, &options()) {
        Ok(imported) => imported.graph,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    check_order(&graph);
    let bytes = |value: &kernpack_graph::Value| num_elements(&value.shape).unwrap() * element_bytes(value.dtype);
    let total: usize = graph.values.iter().map(bytes).fold(0, usize::saturating_add);
    if graph.nodes.len() > NODES || total > BYTES {
        return;
    }
    let target = TargetDescription::of(&Target::parse("c").expect("a target"));
    for fuse in [true, false] {
        let context = PassContext::new(PassOptions::default());
        match lower(&graph, "model", &target, &context, LowerOptions { fuse, ..LowerOptions::default() }) {
            // Each value takes its own place, rounded up, at most.
            Ok(lowered) => assert!(lowered.arena <= total + 64 * graph.values.len(), "{} bytes", lowered.arena),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

fn options() -> ModelOptions {
    let mut options = ModelOptions::default();
    options.dims.extend(["N", "M"].map(|name| (name.to_owned(), 3)));
    options
}

/// Each value that a node reads is an input, is known, or was computed before.
fn check_order(graph: &Graph) {
    let mut is_there: Vec<bool> = graph.values.iter().map(|value| value.known.is_some()).collect();
    for input in &graph.inputs {
        is_there[*input] = true;
    }
    for (number, node) in graph.nodes.iter().enumerate() {
        for (id, _) in node.inputs.iter().zip(&node.reads).filter(|(_, reads)| **reads) {
            let id = id.expect("an input that is read");
            assert!(is_there[id], "{} reads '{}'", node.place(), graph.values[id].name);
        }
        for id in node.outputs.iter().flatten() {
            assert_eq!(graph.values[*id].producer, Some(number));
            is_there[*id] = true;
        }
    }
    for (name, id) in &graph.outputs {
        assert!(is_there[*id], "output {name}");
    }
    for value in &graph.values {
        if let Some(known) = &value.known {
            assert_eq!((known.shape(), known.dtype()), (&*value.shape, value.dtype), "{}", value.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn the_models_of_the_corpus_are_read_and_lowered() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/onnx");
        for file in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if file.extension().is_none_or(|extension| extension != "onnx") {
                continue; // Found by the fuzzer.
            }
            let outcome = import(&fs::read(&file).unwrap(), None, &options());
            if file.file_stem().unwrap() == "unknown-value" {
                let error = outcome.err().unwrap().to_string();
                assert!(error.contains("computes its inputs w"), "{error}");
                continue;
            }
            let graph = outcome.unwrap_or_else(|error| panic!("{}: {error}", file.display())).graph;
            let context = PassContext::new(PassOptions::default());
            let target = TargetDescription::of(&Target::parse("c").unwrap());
            let lowered = lower(&graph, "model", &target, &context, LowerOptions::default());
            let lowered = lowered.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            assert!(!lowered.module.functions.is_empty(), "{}", file.display());
        }
    }
}
