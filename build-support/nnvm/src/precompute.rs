//! Pass PrecomputePrune: moves nodes that depend only on parameters to a separate graph.

use std::collections::{HashMap, HashSet};

use kernpack::{Array, Str};
use kernpack_graph::Result;

use super::simplify::keep_inputs;
use crate::symbol::{Entry, Graph, GraphRef, IndexedGraph, Use, Value, rewrite, written};

/// Splits the graph: attribute `precompute_graph` computes the variables `output_names` of the
/// remaining graph. Without values that are computed from parameters, the attribute is missing.
pub(super) fn precompute_prune(graph: &GraphRef) -> Result<GraphRef> {
    let params: HashSet<String> = graph.attr::<Vec<String>>("param_name_list")?.into_iter().collect();
    let index = IndexedGraph::new(graph)?;
    // Nodes that depend only on parameters, or on nothing; and those that depend on some.
    let mut is_fixed = vec![false; index.nodes.len()];
    let mut has_params = vec![false; index.nodes.len()];
    let is_written = written(&index)?;
    for (number, node) in index.nodes.iter().enumerate() {
        if node.node.is_variable() {
            let is_param = params.contains(node.node.name.as_str()) && !is_written[number];
            (is_fixed[number], has_params[number]) = (is_param, is_param);
            continue;
        }
        let is_pure = !node.node.is_op("__undef__") && node.control_deps.is_empty() && !writes(&index, number)?;
        is_fixed[number] = is_pure && node.inputs.iter().all(|entry| is_fixed[entry.node]);
        has_params[number] = node.inputs.iter().any(|entry| has_params[entry.node]);
    }
    let mut made: HashMap<usize, (String, Value)> = HashMap::new();
    let mut order: Vec<(Entry, String)> = Vec::new();
    let moves = |entry: Entry| {
        let node = &index.nodes[entry.node].node;
        is_fixed[entry.node] && has_params[entry.node] && !node.is_variable()
    };
    let readers = index.nodes.iter().enumerate().filter(|(number, _)| !is_fixed[*number] || !has_params[*number]);
    let read = readers.flat_map(|(_, node)| node.inputs.iter().copied()).chain(index.outputs.iter().copied());
    for entry in read.filter(|entry| moves(*entry)) {
        let id = index.entry_id(entry);
        if made.contains_key(&id) {
            continue;
        }
        let name = crate::symbol::list_outputs(&Graph::new(&[index.value(entry)]))?.swap_remove(0);
        order.push((entry, name.clone()));
        made.insert(id, (name.clone(), Value::variable(&name)));
    }
    if order.is_empty() {
        return Ok(graph.clone());
    }
    let pruned = rewrite(graph, |index, number, _| {
        let node = &index.nodes[number];
        if !is_fixed[number] || !has_params[number] || node.node.is_variable() {
            return Ok(None);
        }
        let first = Value::of(node.node.clone());
        let outputs = (0..node.num_outputs).map(|output| match made.get(&(index.row_ptr[number] + output)) {
            Some((_, variable)) => variable.clone(),
            None => first.output(output),
        });
        Ok(Some(outputs.collect()))
    })?;
    let before: Vec<Value> = order.iter().map(|(entry, _)| index.value(*entry)).collect();
    let names: Array<Str> = order.into_iter().map(|(_, name)| Str::from(name)).collect();
    Ok(keep_inputs(graph, &pruned).with_attr("precompute_graph", Graph::new(&before)).with_attr("output_names", names))
}

/// Returns true if a node writes to a variable.
pub(super) fn writes(index: &IndexedGraph, number: usize) -> Result<bool> {
    let node = &index.nodes[number].node;
    Ok(!Use::new(&node.operator()?, node).indices("FMutateInputs")?.is_empty())
}
