//! Rewrites graphs: the basis of passes that change nodes.

use kernpack::Array;
use kernpack_graph::Result;

use super::index::{Entry, IndexedGraph};
use super::node::{Graph, GraphRef, NodeRef, Value};

/// Creates a graph node by node. The closure gets the index of a node and its new inputs, and
/// returns its new outputs, or `None` for the same node with these inputs. Nodes whose inputs do
/// not change are shared with the old graph. The new graph has no attributes.
///
/// # Errors
/// Returns the errors of the closure, and an error for an invalid graph.
pub fn rewrite(
    graph: &Graph,
    mut change: impl FnMut(&IndexedGraph, usize, &[Value]) -> Result<Option<Vec<Value>>>,
) -> Result<GraphRef> {
    let index = IndexedGraph::new(graph)?;
    let mut made: Vec<Vec<Value>> = Vec::with_capacity(index.nodes.len());
    let get = |made: &[Vec<Value>], entry: Entry| -> Value {
        let value = &made[entry.node][entry.index];
        Value { version: if value.node.is_variable() { entry.version } else { 0 }, ..value.clone() }
    };
    for (number, node) in index.nodes.iter().enumerate() {
        let inputs: Vec<Value> = node.inputs.iter().map(|entry| get(&made, *entry)).collect();
        let outputs = match change(&index, number, &inputs)? {
            Some(outputs) => outputs,
            None => {
                let control: Vec<NodeRef> =
                    node.control_deps.iter().map(|before| made[*before][0].node.clone()).collect();
                let same = node.node.input_values().iter().zip(&inputs).all(|(old, new)| old.same_as(new))
                    && node.node.control_deps.iter().zip(&control).all(|(old, new)| old.ptr_eq(new));
                let kept = if same {
                    node.node.clone()
                } else {
                    node.node.with_inputs(&inputs, control.into_iter().collect::<Array<_>>())
                };
                let first = Value::of(kept);
                (0..node.num_outputs).map(|output| first.output(output)).collect()
            }
        };
        made.push(outputs);
    }
    let outputs: Vec<Value> = index.outputs.iter().map(|entry| get(&made, *entry)).collect();
    Ok(Graph::new(&outputs))
}
