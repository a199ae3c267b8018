//! The text of a graph, for people.

use std::fmt::Write as _;

use kernpack_compiler::ir::DataTypeExt;

use crate::dynamic::OpenDim;
use crate::graph::{Graph, ValueId};

/// Formats `scores: f32[2, 3]`.
fn typed(graph: &Graph, id: ValueId) -> String {
    let value = &graph.values[id];
    format!("{}: {}{:?}", value.name, value.dtype.short_name(), value.shape)
}

/// Formats a graph: a line for each node, with its results, the operator, and its inputs.
pub(crate) fn print(graph: &Graph) -> String {
    let list = |ids: &mut dyn Iterator<Item = ValueId>| ids.map(|id| typed(graph, id)).collect::<Vec<_>>().join(", ");
    let mut text = format!("graph {}({})\n", graph.name, list(&mut graph.inputs.iter().copied()));
    for OpenDim { name, extents, .. } in graph.open_dims() {
        // Writing to a text does not fail.
        let _ = writeln!(text, "  {name} is {extents}; shown is the graph of the largest for which there are kernels");
    }
    for node in &graph.nodes {
        let inputs = node.inputs.iter().map(|input| match input {
            Some(id) if graph.values[*id].producer.is_none() && graph.values[*id].known.is_some() => typed(graph, *id),
            Some(id) => graph.values[*id].name.clone(),
            None => "_".to_owned(),
        });
        let outputs = list(&mut node.outputs.iter().flatten().copied());
        // Writing to a text does not fail.
        let _ = writeln!(text, "  {outputs} = {}({})", node.op.name(), inputs.collect::<Vec<_>>().join(", "));
    }
    let results = graph.outputs.iter().map(|(name, id)| {
        let own = &graph.values[*id].name;
        if own == name { name.clone() } else { format!("{name} = {own}") }
    });
    let _ = writeln!(text, "  return {}", results.collect::<Vec<_>>().join(", "));
    text
}
