//! Pass CommonSubExpression: nodes that compute the same become one.

use std::collections::HashMap;

use kernpack_graph::Result;

use super::precompute::writes;
use super::simplify::keep_inputs;
use crate::symbol::{GraphRef, Value, address, rewrite};

/// The operator of a node, its sorted attributes, and its inputs: node, output, version.
type Key = (String, Vec<(String, String)>, Vec<(usize, usize, i64)>);

/// Replaces a node by an earlier one with the same operator, attributes and inputs. Nodes that
/// write to variables, have nodes that run before them, or contain graphs stay.
pub(super) fn common_sub_expression(graph: &GraphRef) -> Result<GraphRef> {
    let mut known: HashMap<Key, Vec<Value>> = HashMap::new();
    let merged = rewrite(graph, |index, number, inputs| {
        let indexed = &index.nodes[number];
        let node = &indexed.node;
        let stays = node.is_variable()
            || node.is_op("__undef__")
            || !node.control_deps.is_empty()
            || !node.subgraphs.is_empty()
            || writes(index, number)?;
        if stays {
            return Ok(None);
        }
        let mut attrs: Vec<(String, String)> =
            node.attrs.iter().map(|(key, value)| (key.as_str().to_owned(), value.as_str().to_owned())).collect();
        attrs.sort();
        let places = inputs.iter().map(|value| (address(&value.node), value.index, value.version)).collect();
        let values = known.entry((node.op_name().to_owned(), attrs, places)).or_insert_with(|| {
            let same = node.input_values().iter().zip(inputs).all(|(old, new)| old.same_as(new));
            let kept = if same { node.clone() } else { node.with_inputs(inputs, node.control_deps.clone()) };
            let first = Value::of(kept);
            (0..indexed.num_outputs).map(|output| first.output(output)).collect()
        });
        Ok(Some(values.clone()))
    })?;
    Ok(keep_inputs(graph, &merged))
}
