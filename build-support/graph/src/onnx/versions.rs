//! Versions of the format and of operators that are supported.

use std::iter;

use super::proto::{Attribute, AttributeValue, Model, Node, OpsetId};
use crate::error::{GraphError, Result, require};

/// The oldest supported operator set version.
const OLDEST: i64 = 6;
pub(crate) const NEWEST: i64 = 28;
/// The newest supported version of the file format: that of ONNX 1.23.
const NEWEST_FORMAT: i64 = 14;
/// The newest versions of operators of other domains of ONNX, and of that of onnxruntime.
const OTHERS: [(&str, i64); 4] =
    [("ai.onnx.ml", 5), ("ai.onnx.preview", 1), ("ai.onnx.preview.training", 1), ("com.microsoft", 1)];
/// Operators with the same meaning in all versions.
const SINCE_1: [&str; 12] = [
    "Constant",
    "Conv",
    "Flatten",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "Identity",
    "Not",
    "Shape",
    "Size",
    "Softplus",
    "Softsign",
    "Transpose",
];

/// Returns the version of ONNX's own operators.
pub(crate) fn version_of(opsets: &[OpsetId]) -> Option<i64> {
    opsets.iter().find(|opset| opset.domain.is_empty()).map(|opset| opset.version)
}

/// Returns the nodes of all graphs of a model, including those inside nodes and functions.
pub(crate) fn all_nodes<'m, 'a>(model: &'m Model<'a>) -> Vec<&'m [Node<'a>]> {
    all_graphs(model).into_iter().map(|(_, nodes)| nodes).collect()
}

/// As [`all_nodes`], with the versions of the operators of each graph.
pub(crate) fn all_graphs<'m, 'a>(model: &'m Model<'a>) -> Vec<(&'m [OpsetId], &'m [Node<'a>])> {
    let graph_of = |attribute: &'m Attribute<'a>| match &attribute.value {
        AttributeValue::Graph(graph) => Some(&graph.nodes[..]),
        _ => None,
    };
    let mut left = vec![(&model.opsets[..], &model.graph.nodes[..])];
    for function in &model.functions {
        let graphs = iter::once(&function.nodes[..]).chain(function.defaults.iter().filter_map(graph_of));
        left.extend(graphs.map(|nodes| (&function.opsets[..], nodes)));
    }
    let mut found = Vec::new();
    while let Some((opsets, nodes)) = left.pop() {
        found.push((opsets, nodes));
        let inside = nodes.iter().flat_map(|node| &node.attributes).filter_map(graph_of);
        left.extend(inside.map(|nodes| (opsets, nodes)));
    }
    found
}

/// Checks the versions of a model. Newer versions than the known ones are rejected, as their
/// meaning could differ.
///
/// # Errors
/// Returns an error for an unsupported version, and for a missing one that is required.
pub(crate) fn check(model: &Model<'_>) -> Result<()> {
    require!(
        model.ir_version <= NEWEST_FORMAT,
        "the model is of version {} of the file format of ONNX (ir_version); the newest that is supported is {NEWEST_FORMAT}, which is that of ONNX 1.23: export it with an older version",
        model.ir_version
    );
    check_others(model)?;
    for function in &model.functions {
        if let Some(version) = version_of(&function.opsets) {
            check_own(version, true).map_err(|error| error.within(&format!("function '{}'", function.name)))?;
        }
    }
    let Some(version) = version_of(&model.opsets) else {
        let is_other = model.graph.nodes.iter().all(|node| !node.domain.is_empty());
        require!(
            is_other || !model.functions.is_empty(),
            "the model does not say which version of the operators it uses"
        );
        return Ok(());
    };
    check_own(version, !uses_only(model, &SINCE_1))
}

/// Checks a version of ONNX's own operators. A version that is too old is only rejected if
/// operators have changed.
fn check_own(version: i64, has_changed: bool) -> Result<()> {
    require!(
        version <= NEWEST && (version >= OLDEST || (version >= 1 && !has_changed)),
        "the model uses operators of version {version}; supported are {OLDEST} to {NEWEST}: convert it with onnx.version_converter"
    );
    Ok(())
}

/// Checks the versions of other domains that nodes use.
fn check_others(model: &Model<'_>) -> Result<()> {
    let functions = model.functions.iter().flat_map(|function| &function.opsets);
    let newer = model.opsets.iter().chain(functions).filter_map(|opset| {
        let (domain, newest) = OTHERS.iter().find(|(domain, _)| *domain == opset.domain)?;
        let is_used = || all_nodes(model).into_iter().flatten().any(|node| node.domain == *domain);
        (opset.version > *newest && is_used()).then(|| {
            GraphError::new(format!(
                "the model uses operators of version {} of the domain {domain}; the newest that is supported is {newest}",
                opset.version
            ))
        })
    });
    GraphError::all(newer.collect()).map_or(Ok(()), Err)
}

/// Returns true if all nodes of a model use these operators.
fn uses_only(model: &Model<'_>, names: &[&str]) -> bool {
    let mut nodes = all_nodes(model).into_iter().flatten();
    nodes.all(|node| node.domain.is_empty() && names.contains(&node.op_type.as_str()))
}
