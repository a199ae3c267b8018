//! Pass FoldScaleAxis: moves factors per channel into the weights of convolutions and products.
//!
//! A factor moves backwards, from after a convolution into it, through sums and means; or forwards,
//! from before a convolution into it. It does not move through nonlinear operators: `relu(x * s)`
//! is `relu(x) * s` only if `s` is positive.

use std::collections::HashMap;

use kernpack::Shape;
use kernpack_graph::Result;

use super::make::{Make, op};
use super::simplify::keep_inputs;
use crate::symbol::{GraphRef, Node, Use, Value, address, rewrite};

/// Facts about the values of the new graph: the number of reads, and their shapes.
#[derive(Default)]
struct Known(HashMap<usize, (usize, Vec<i64>)>);

/// A factor along an axis: the values, and the axis of the data.
struct Factor {
    values: Value,
    axis: usize,
}

impl Known {
    fn is_read_once(&self, value: &Value) -> bool {
        self.0.get(&address(&value.node)).is_some_and(|(uses, _)| *uses == 1)
    }

    fn shape(&self, value: &Value) -> &[i64] {
        self.0.get(&address(&value.node)).map_or(&[], |(_, shape)| shape)
    }

    /// Returns the factor of a value that is broadcast along one axis of data with this rank: a
    /// vector, or one with axes of extent 1 after it.
    fn factor(&self, value: &Value, rank: usize) -> Option<Factor> {
        let shape = self.shape(value);
        if shape.len() == 1 && rank > 0 && shape[0] != 1 {
            return Some(Factor { values: value.clone(), axis: rank - 1 });
        }
        if !value.node.is_op("expand_dims") || value.node.attrs.get("axis").is_none_or(|axis| axis.as_str() != "1") {
            return None;
        }
        let inner = value.node.input_values().into_iter().next()?;
        let behind = shape.len().checked_sub(1)?;
        let is_vector = shape[1..].iter().all(|extent| *extent == 1)
            && value.node.attrs.get("num_newaxis").map_or(behind == 1, |more| more.parse() == Ok(behind));
        (is_vector && behind < rank).then(|| Factor { values: inner, axis: rank - 1 - behind })
    }
}

/// Appends axes of extent 1 to a vector.
fn with_axes(make: &Make, values: &Value, behind: usize) -> Result<Value> {
    if behind == 0 {
        return Ok(values.clone());
    }
    make.apply("expand_dims", &[values], &[("axis", "1"), ("num_newaxis", &behind.to_string())])
}

/// Returns true if a node is a convolution whose channels are axis 1 and whose weights start with
/// the channels of the result.
fn is_plain_conv(node: &Node) -> bool {
    let text = |name: &str, usual: &str| node.attrs.get(name).is_none_or(|value| value.as_str() == usual);
    let out =
        node.attrs.get("out_layout").is_none_or(|value| value.as_str() == "NCHW" || value.as_str() == "__undef__");
    node.is_op("conv2d") && text("layout", "NCHW") && text("kernel_layout", "OIHW") && out && text("out_dtype", "same")
}

/// Returns the value times a factor, if the factor can be folded into an earlier operator.
fn scaled(known: &Known, value: &Value, factor: &Factor, rank: usize) -> Result<Option<Value>> {
    if !known.is_read_once(value) || value.index != 0 {
        return Ok(None);
    }
    let node = &value.node;
    let make = Make::new(&node.name);
    let inputs = node.input_values();
    let again = |inputs: &[Value]| Value::of(node.with_inputs(inputs, node.control_deps.clone()));
    let is_dense = node.is_op("dense") && factor.axis + 1 == rank;
    if is_plain_conv(node) && factor.axis == 1 || is_dense {
        let behind = if is_dense { 1 } else { 3 };
        let mut inputs = inputs;
        inputs[1] = make.apply("broadcast_mul", &[&inputs[1], &with_axes(&make, &factor.values, behind)?], &[])?;
        if let Some(bias) = inputs.get_mut(2) {
            *bias = make.apply("elemwise_mul", &[bias, &factor.values], &[])?;
        }
        return Ok(Some(again(&inputs)));
    }
    match node.op_name() {
        "broadcast_add" | "broadcast_sub" | "broadcast_mul" => {
            let Some(other) = inputs.get(1).and_then(|other| known.factor(other, rank)) else { return Ok(None) };
            if other.axis != factor.axis || known.shape(&inputs[0]).len() != rank {
                return Ok(None);
            }
            let product = make.apply("elemwise_mul", &[&other.values, &factor.values], &[])?;
            if node.is_op("broadcast_mul") {
                return scaled(known, &inputs[0], &Factor { values: product, axis: factor.axis }, rank);
            }
            let Some(data) = scaled(known, &inputs[0], factor, rank)? else { return Ok(None) };
            Ok(Some(again(&[data, with_axes(&make, &product, rank - 1 - factor.axis)?])))
        }
        "avg_pool2d" | "global_avg_pool2d"
            if factor.axis == 1 && node.attrs.get("layout").is_none_or(|layout| layout.as_str() == "NCHW") =>
        {
            Ok(scaled(known, &inputs[0], factor, rank)?.map(|data| again(&[data])))
        }
        _ => Ok(None),
    }
}

/// Folds a factor of the data of a convolution or a product into its weights.
fn absorbed(known: &Known, node: &Node, inputs: &[Value]) -> Result<Option<Value>> {
    let data = &inputs[0];
    if !data.node.is_op("broadcast_mul") || !known.is_read_once(data) {
        return Ok(None);
    }
    let (parts, rank) = (data.node.input_values(), known.shape(data).len());
    let Some(factor) = known.factor(&parts[1], rank) else { return Ok(None) };
    if known.shape(&parts[0]).len() != rank {
        return Ok(None);
    }
    let make = Make::new(&node.name);
    let operator = node.operator()?;
    let used = Use::new(&operator, node);
    let along = if node.is_op("dense") {
        (factor.axis + 1 == rank).then_some(0)
    } else {
        let (groups, channels) = (used.int("groups")?, known.shape(data).get(1).copied().unwrap_or(0));
        match (factor.axis, groups) {
            (1, 1) => Some(2),
            // Each channel is separate: its weights are the first axis.
            (1, groups) if groups == channels && used.int("channels")? == channels => Some(3),
            _ => None,
        }
    };
    let Some(behind) = along else { return Ok(None) };
    let mut inputs = inputs.to_vec();
    inputs[0] = parts[0].clone();
    inputs[1] = op(
        "broadcast_mul",
        &format!("{}_weight_scaled", node.name),
        &[&inputs[1], &with_axes(&make, &factor.values, behind)?],
        &[],
    )?;
    Ok(Some(Value::of(node.with_inputs(&inputs, node.control_deps.clone()))))
}

/// Folds until nothing can be folded.
pub(super) fn fold_scale_axis(graph: &GraphRef) -> Result<GraphRef> {
    let shapes: Vec<Shape> = graph.attr("shape")?;
    let mut known = Known::default();
    let mut uses: Vec<usize> = Vec::new();
    let folded = rewrite(graph, |index, number, inputs| {
        if uses.is_empty() {
            uses = index.node_uses();
        }
        let node = &index.nodes[number];
        for (entry, value) in node.inputs.iter().zip(inputs) {
            let shape = shapes.get(index.entry_id(*entry)).map(|shape| shape.to_vec()).unwrap_or_default();
            known.0.insert(address(&value.node), (uses[entry.node], shape));
        }
        let result = if node.node.is_op("broadcast_mul") {
            let rank = shapes.get(index.row_ptr[number]).map_or(0, |shape| shape.len());
            match known.factor(&inputs[1], rank).filter(|_| known.shape(&inputs[0]).len() == rank) {
                Some(factor) => scaled(&known, &inputs[0], &factor, rank)?,
                None => None,
            }
        } else if is_plain_conv(&node.node) || node.node.is_op("dense") {
            absorbed(&known, &node.node, inputs)?
        } else {
            None
        };
        Ok(result.map(|value| vec![value]))
    })?;
    Ok(keep_inputs(graph, &folded))
}
