//! Pass SimplifyInference: removes operators that are only used for training.

use kernpack::Map;
use kernpack_graph::op::axis_of;
use kernpack_graph::{GraphError, Result};

use super::make::{Make, op};
use crate::symbol::infer::shapes;
use crate::symbol::{GraphRef, IndexedGraph, Node, Use, Value, rewrite};

/// Replaces `batch_norm` by a scale and a shift per channel, and `dropout` by its input. Other
/// outputs of both must be unused.
pub(super) fn simplify_inference(graph: &GraphRef) -> Result<GraphRef> {
    let old = IndexedGraph::new(graph)?;
    let shapes = shapes(graph, &old)?;
    let undefined = |name: &str| Value::of(Node::new(Some("__undef__"), &format!("{name}_undef"), Map::default(), &[]));
    let simplified = rewrite(graph, |index, number, inputs| {
        let node = &index.nodes[number].node;
        match node.op_name() {
            "dropout" => Ok(Some(vec![inputs[0].clone(), undefined(&node.name)])),
            "batch_norm" => {
                let rank_of = |input: usize| shapes[index.entry_id(index.nodes[number].inputs[input])].len();
                let rank = rank_of(0);
                if rank == 0 {
                    return Err(GraphError::new(
                        "the shape of its data is not known: apply InferShape before, with the shapes of the inputs",
                    )
                    .within(&node.place()));
                }
                let used = Use::new(&node.operator()?, node).clone();
                let result = scale_and_shift(&used, &node.name, inputs, rank, rank_of(3))
                    .map_err(|error| error.within(&node.place()))?;
                let undefined = undefined(&node.name);
                Ok(Some(vec![result, undefined.clone(), undefined]))
            }
            _ => Ok(None),
        }
    })?;
    Ok(keep_inputs(graph, &simplified))
}

/// Keeps the attributes of the variables, which are valid for the new graph as well.
pub(super) fn keep_inputs(old: &GraphRef, new: &GraphRef) -> GraphRef {
    let mut graph = new.clone();
    for (name, value) in old.attrs.iter() {
        if KEPT.contains(&name.as_str()) {
            graph = graph.with_attr(&name, value);
        }
    }
    graph
}

/// Attributes of graphs that do not depend on its nodes.
const KEPT: &[&str] = &["shape_inputs", "dtype_inputs", "layout_inputs", "target", "opt_level", "param_name_list"];

/// `rank` is the rank of the data. Parameters have one axis, or two in C16c.
fn scale_and_shift(used: &Use, name: &str, inputs: &[Value], rank: usize, parameters: usize) -> Result<Value> {
    let [data, gamma, beta, mean, var] = inputs else { return Err(GraphError::new("it has five inputs")) };
    let axis = axis_of(used.int("axis")?, rank)?;
    let make = Make::new(name);
    let grown = make.apply("__add_scalar__", &[var], &[("scalar", &used.float("epsilon")?.to_string())])?;
    let root = make.apply("sqrt", &[&grown], &[])?;
    let mut scale = make.apply("__rdiv_scalar__", &[&root], &[("scalar", "1")])?;
    if used.flag("scale")? {
        scale = make.apply("elemwise_mul", &[&scale, gamma], &[])?;
    }
    let negative = make.apply("negative", &[mean], &[])?;
    let mut shift = make.apply("elemwise_mul", &[&negative, &scale], &[])?;
    if used.flag("center")? {
        shift = make.apply("elemwise_add", &[&shift, beta], &[])?;
    }
    // A channel axis with room for the axes behind it.
    let behind = rank.saturating_sub(axis + parameters.max(1));
    let along = |value: &Value| -> Result<Value> {
        if behind == 0 {
            return Ok(value.clone());
        }
        make.apply("expand_dims", &[value], &[("axis", "1"), ("num_newaxis", &behind.to_string())])
    };
    let scaled = op("broadcast_mul", &format!("{name}_scaled"), &[data, &along(&scale)?], &[])?;
    op("broadcast_add", name, &[&scaled, &along(&shift)?], &[])
}
