//! Pass PlaceDevice: assigns a device to each node, and inserts copies where a value changes
//! devices.
//!
//! Graph attributes: `device_group_attr_key` names the node attribute with the group (keys of the
//! form `__name__` are allowed on every node), `device_assign_map` has the device of each group,
//! `device_copy_op` the operator that copies. `device` contains the placement of earlier passes by
//! node, with -1 for unplaced nodes; the pass replaces it by its result.

use std::collections::HashMap;

use kernpack::{Array, Map, Str};
use kernpack_graph::{GraphError, Result, require};

use super::index::{Entry, IndexedGraph, address};
use super::node::{Graph, GraphRef, Node, NodeRef, Value};
use super::registry::{self, Use};

/// The device of unplaced nodes.
const NOWHERE: i64 = -1;

/// Returns the device of each node: that of its group, or of an input, or of a reader. Nodes
/// without a connection to a group are on the device of all others, or on device 0.
fn devices(graph: &GraphRef, index: &IndexedGraph) -> Result<Vec<i64>> {
    let key: String = graph.attr("device_group_attr_key")?;
    let assigned: Map<Str, i64> = graph.attr("device_assign_map")?;
    let mut devices = match graph.attrs.get("device") {
        Some(known) => known.to::<Vec<i64>>()?,
        None => vec![NOWHERE; index.nodes.len()],
    };
    require!(
        devices.len() == index.nodes.len(),
        "attribute `device` is of another graph: it has {} nodes",
        devices.len()
    );
    for (number, node) in index.nodes.iter().enumerate() {
        if devices[number] != NOWHERE {
            continue;
        }
        if let Some(group) = node.node.attrs.get(key.as_str()) {
            let device = assigned.get(group.as_str()).filter(|device| *device >= 0).ok_or_else(|| {
                GraphError::new(format!(
                    "{}: `device_assign_map` has no device for group `{group}` of attribute `{key}`",
                    node.node.place()
                ))
            })?;
            devices[number] = device;
        } else if let Some(input) = node.inputs.iter().find(|input| devices[input.node] != NOWHERE) {
            devices[number] = devices[input.node];
        }
    }
    for (number, node) in index.nodes.iter().enumerate().rev() {
        for input in &node.inputs {
            if devices[input.node] == NOWHERE {
                devices[input.node] = devices[number];
            }
        }
    }
    let mut placed: Vec<i64> = devices.iter().copied().filter(|device| *device != NOWHERE).collect();
    placed.sort_unstable();
    placed.dedup();
    let rest = if let [only] = placed[..] { only } else { 0 };
    Ok(devices.into_iter().map(|device| if device == NOWHERE { rest } else { device }).collect())
}

/// Places nodes, and adds copies.
pub(super) fn place_device(graph: &GraphRef) -> Result<GraphRef> {
    let index = IndexedGraph::new(graph)?;
    let devices = devices(graph, &index)?;
    let copy_op: String = graph.attr("device_copy_op")?;
    let _ = registry::find(&copy_op)?;
    // One copy of an entry for each device that reads it.
    let mut copies: HashMap<(Entry, i64), Value> = HashMap::new();
    let mut made: Vec<NodeRef> = Vec::with_capacity(index.nodes.len());
    let mut placed: HashMap<usize, i64> = HashMap::new();
    for (node, device) in index.nodes.iter().zip(&devices) {
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for (place, entry) in node.inputs.iter().enumerate() {
            let value = Value { node: made[entry.node].clone(), ..index.value(*entry) };
            let own = devices[entry.node];
            if own == *device {
                inputs.push(value);
                continue;
            }
            let written = Use::new(&node.node.operator()?, &node.node).indices("FMutateInputs")?;
            require!(
                !written.contains(&place),
                "{} writes to input {place}, which is on device {own}, and runs on device {device}: only a copy would change",
                node.node.place()
            );
            let copy = copies.entry((*entry, *device)).or_insert_with(|| {
                let name = format!("{}_{}_copy{device}", value.node.name, value.index);
                let copy = Node::new(Some(&copy_op), &name, Map::default(), core::slice::from_ref(&value));
                let _ = placed.insert(address(&copy), *device);
                Value::of(copy)
            });
            inputs.push(copy.clone());
        }
        let control: Vec<NodeRef> = node.control_deps.iter().map(|before| made[*before].clone()).collect();
        let same = node.node.input_values().iter().zip(&inputs).all(|(old, new)| old.same_as(new))
            && node.node.control_deps.iter().zip(&control).all(|(old, new)| old.ptr_eq(new));
        let kept = if same {
            node.node.clone()
        } else {
            node.node.with_inputs(&inputs, control.into_iter().collect::<Array<_>>())
        };
        let _ = placed.insert(address(&kept), *device);
        made.push(kept);
    }
    let outputs: Vec<Value> =
        index.outputs.iter().map(|entry| Value { node: made[entry.node].clone(), ..index.value(*entry) }).collect();
    // Copies are nodes as well, so the facts for the old indices are not valid for the new ones.
    let attrs = graph.without_attrs(&["device", "shape", "dtype", "layout"]).attrs.clone();
    let changed = Graph::with(&outputs, attrs);
    let numbers = IndexedGraph::new(&changed)?;
    let device: Array<i64> = numbers.nodes.iter().map(|node| placed[&address(&node.node)]).collect();
    Ok(changed.with_attr("device", device))
}
