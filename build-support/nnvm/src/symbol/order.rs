//! Pass OrderMutation: nodes that read a variable run before the node that writes to it next.

use std::collections::{BTreeMap, HashMap};

use kernpack::Array;
use kernpack_graph::Result;

use super::index::IndexedGraph;
use super::node::{Graph, GraphRef, NodeRef, Value};
use super::registry::Use;

/// Adds control dependencies by the versions of variables: a node that writes version n waits for
/// all that read it, and one that reads version n for the one that wrote it.
pub(super) fn order_mutation(graph: &GraphRef) -> Result<GraphRef> {
    let index = IndexedGraph::new(graph)?;
    // Readers and writers by variable and version.
    let mut readers: BTreeMap<(usize, i64), Vec<usize>> = BTreeMap::new();
    let mut writers: BTreeMap<(usize, i64), usize> = BTreeMap::new();
    for (number, node) in index.nodes.iter().enumerate().filter(|(_, node)| !node.node.is_variable()) {
        let op = node.node.operator()?;
        let written = Use::new(&op, &node.node).indices("FMutateInputs")?;
        for (place, entry) in node.inputs.iter().enumerate() {
            if !index.nodes[entry.node].node.is_variable() {
                continue;
            }
            if written.contains(&place) {
                writers.insert((entry.node, entry.version), number);
            } else {
                readers.entry((entry.node, entry.version)).or_default().push(number);
            }
        }
    }
    let mut before: HashMap<usize, Vec<usize>> = HashMap::new();
    for ((variable, version), writer) in &writers {
        let own = readers.get(&(*variable, *version)).into_iter().flatten();
        before.entry(*writer).or_default().extend(own.filter(|reader| *reader != writer));
        for reader in readers.get(&(*variable, version + 1)).into_iter().flatten() {
            before.entry(*reader).or_default().push(*writer);
        }
        if let Some(next) = writers.get(&(*variable, version + 1)) {
            before.entry(*next).or_default().push(*writer);
        }
    }
    // New control dependencies may point forward in the old order: nodes are created in an order
    // that respects both.
    let order = ordered(&index, &before)?;
    let mut made: HashMap<usize, NodeRef> = HashMap::new();
    for number in order {
        let node = &index.nodes[number];
        let inputs: Vec<Value> =
            node.inputs.iter().map(|entry| Value { node: made[&entry.node].clone(), ..index.value(*entry) }).collect();
        let old = node.control_deps.iter();
        let mut control: Vec<usize> = old.chain(before.get(&number).into_iter().flatten()).copied().collect();
        control.sort_unstable();
        control.dedup();
        let same = control.iter().eq(&node.control_deps)
            && node.node.input_values().iter().zip(&inputs).all(|(old, new)| old.same_as(new));
        let kept = if same {
            node.node.clone()
        } else {
            node.node.with_inputs(&inputs, control.iter().map(|before| made[before].clone()).collect::<Array<_>>())
        };
        made.insert(number, kept);
    }
    let outputs: Vec<Value> =
        index.outputs.iter().map(|entry| Value { node: made[&entry.node].clone(), ..index.value(*entry) }).collect();
    Ok(Graph::with(&outputs, graph.attrs.clone()))
}

/// Returns an order of the nodes in which inputs and control dependencies come first.
fn ordered(index: &IndexedGraph, before: &HashMap<usize, Vec<usize>>) -> Result<Vec<usize>> {
    let count = index.nodes.len();
    let mut waits = vec![0_usize; count];
    let mut followers: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (number, node) in index.nodes.iter().enumerate() {
        let needs = node.inputs.iter().map(|entry| entry.node).chain(node.control_deps.iter().copied());
        for need in needs.chain(before.get(&number).into_iter().flatten().copied()) {
            waits[number] += 1;
            followers[need].push(number);
        }
    }
    let mut ready: std::collections::BTreeSet<usize> = (0..count).filter(|number| waits[*number] == 0).collect();
    let mut order = Vec::with_capacity(count);
    while let Some(number) = ready.pop_first() {
        order.push(number);
        for follower in &followers[number] {
            waits[*follower] -= 1;
            if waits[*follower] == 0 {
                ready.insert(*follower);
            }
        }
    }
    if order.len() != count {
        let stuck = (0..count)
            .find(|number| waits[*number] > 0)
            .map_or_else(String::new, |number| index.nodes[number].node.place());
        kernpack_graph::fail!(
            "{stuck} would wait for itself: it reads a variable both before and after it is written to"
        );
    }
    Ok(order)
}
