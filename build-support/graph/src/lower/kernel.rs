//! Kernels of groups of nodes.

use std::collections::{HashMap, HashSet};

use kernpack_compiler::ir::{FuncKind, LoweredFunc, LoweredFuncNode, Operation, Tensor};
use kernpack_compiler::te::operation::post_order;
use kernpack_compiler::te::placeholder;
use kernpack_compiler::{Kernel, with_reported};

use super::Kernels;
use super::ranged::ranged_kernel;
use crate::constant::stored;
use crate::error::Result;
use crate::fuse::Group;
use crate::graph::{Graph, ValueId};
use crate::op::extents;

/// Returns true if a group computes nothing, because its results have no elements.
pub(super) fn is_empty(graph: &Graph, group: &Group) -> bool {
    group
        .nodes
        .last()
        .is_some_and(|last| graph.nodes[*last].outputs.iter().flatten().all(|id| graph.values[*id].shape.contains(&0)))
}

/// Returns the values that are used outside a group and have elements, by kernels: the results of
/// one operation stay together.
pub(super) fn kernels_of(graph: &Graph, group: &Group) -> Result<Vec<Vec<ValueId>>> {
    let last = group.nodes.last().map(|last| &graph.nodes[*last]);
    let outputs = last.into_iter().flat_map(|last| last.outputs.iter().flatten().copied());
    let outputs: Vec<ValueId> = outputs.filter(|id| !graph.values[*id].shape.contains(&0)).collect();
    if let [_] = outputs[..] {
        return Ok(vec![outputs]);
    }
    let results = instantiate(graph, group, &outputs, |_, stand| stand())?;
    let mut kernels: Vec<(Operation, Vec<ValueId>)> = Vec::new();
    for (id, result) in outputs.into_iter().zip(results) {
        match kernels.iter_mut().find(|(op, _)| *op == result.op) {
            Some((_, ids)) => ids.push(id),
            None => kernels.push((result.op.clone(), vec![id])),
        }
    }
    Ok(kernels.into_iter().map(|(_, ids)| ids).collect())
}

/// Returns the nodes of a group, for messages.
pub(super) fn places(graph: &Graph, group: &Group) -> String {
    let places: Vec<String> = group.nodes.iter().map(|node| graph.nodes[*node].place()).collect();
    places.join(" + ")
}

/// Builds the kernel for the results of `make` on values of a group. Returns it with the values
/// that it reads. `make` is called for each reading of a graph with ranges.
pub(super) fn kernel(
    graph: &Graph,
    group: &Group,
    outputs: &[ValueId],
    make: impl FnMut(&Graph, Vec<Tensor>) -> Result<Vec<Tensor>>,
    name: &str,
    kernels: &Kernels<'_>,
) -> Result<(LoweredFunc, Vec<ValueId>)> {
    if let Some(ranges) = &graph.ranges {
        return with_reported(|| ranged_kernel((graph, ranges), group, outputs, make, name, kernels));
    }
    with_reported(|| lower_group(graph, group, outputs, make, name, kernels))
}

fn lower_group(
    graph: &Graph,
    group: &Group,
    outputs: &[ValueId],
    mut make: impl FnMut(&Graph, Vec<Tensor>) -> Result<Vec<Tensor>>,
    name: &str,
    kernels: &Kernels<'_>,
) -> Result<(LoweredFunc, Vec<ValueId>)> {
    // Values that only other outputs read are not arguments: a first pass determines them.
    let mut stands: Vec<(ValueId, Tensor)> = Vec::new();
    let results = instantiate(graph, group, outputs, |id, stand| {
        stands.push((id, stand()));
        stands[stands.len() - 1].1.clone()
    })?;
    let results = make(graph, results)?;
    let order = post_order(&results.iter().map(|result| result.op.clone()).collect::<Vec<_>>());
    let read: HashSet<&Operation> = order.iter().collect();
    let inputs: Vec<ValueId> =
        stands.iter().filter(|(_, tensor)| read.contains(&tensor.op)).map(|(id, _)| *id).collect();
    let mut kernel = Kernel::new(name);
    // Operators check their indices themselves. Registered ones may not.
    if group.nodes.iter().all(|&node| graph.nodes[node].op.listed().is_some()) {
        kernel.trust_reads();
    }
    if !kernels.options.schedule {
        kernel.schedule(|_, _| Ok(()));
    }
    let results = instantiate(graph, group, outputs, |id, stand| {
        let value = &graph.values[id];
        match inputs.iter().position(|input| *input == id) {
            Some(number) => kernel.input(&format!("x{number}"), extents(&value.shape), stored(value.dtype)),
            None => stand(),
        }
    })?;
    let results = make(graph, results)?;
    for (number, result) in results.into_iter().enumerate() {
        kernel.output(&if number == 0 { "y".to_owned() } else { format!("y{number}") }, result);
    }
    let function = kernel
        .lower(kernels.target, kernels.context)
        .map_err(|error| crate::error::GraphError::from(error).within(&places(graph, group)))?;
    let function = LoweredFunc::from_node(LoweredFuncNode { kind: FuncKind::Internal, ..function.to_node() });
    Ok((function, inputs))
}

/// Returns the tensors of a group for some of its outputs. `input` returns the tensor of each
/// outside value, once; its second argument creates a tensor that represents the value.
pub(super) fn instantiate(
    graph: &Graph,
    group: &Group,
    outputs: &[ValueId],
    mut input: impl FnMut(ValueId, &dyn Fn() -> Tensor) -> Tensor,
) -> Result<Vec<Tensor>> {
    let mut tensors: HashMap<ValueId, Tensor> = HashMap::new();
    for number in &group.nodes {
        let node = &graph.nodes[*number];
        let made = node.instantiate(graph, |id| {
            let value = &graph.values[id];
            let stand = || placeholder(extents(&value.shape), stored(value.dtype), &value.name);
            tensors.entry(id).or_insert_with(|| input(id, &stand)).clone()
        })?;
        tensors.extend(node.outputs.iter().zip(made).filter_map(|(id, tensor)| Some(((*id)?, tensor))));
    }
    let results = outputs.iter().map(|id| {
        let value = &graph.values[*id];
        let stand = || placeholder(extents(&value.shape), stored(value.dtype), &value.name);
        tensors.entry(*id).or_insert_with(|| input(*id, &stand)).clone()
    });
    Ok(results.collect())
}
