//! Compares two graphs for equivalence.

use kernpack_graph::Result;

use super::compose::written;
use super::index::{Entry, IndexedGraph};
use super::node::{Graph, Node};
use super::registry;

/// Returns the first difference between two graphs, if there is one: other operators, attributes,
/// edges or outputs.
///
/// Like NNVM, it compares the values of the operators' parameters: a default equals the same value
/// in writing. Names, attributes of variables and attributes beside the parameters are only
/// compared if `names` is true.
///
/// # Errors
/// Returns an error for an invalid graph.
pub fn difference(left: &Graph, right: &Graph, names: bool) -> Result<Option<String>> {
    let (a, b) = (IndexedGraph::new(left)?, IndexedGraph::new(right)?);
    if a.nodes.len() != b.nodes.len() {
        return Ok(Some(format!("{} and {} nodes", a.nodes.len(), b.nodes.len())));
    }
    // Versions tell apart reads of a variable before and after nodes that write to it. Without such
    // nodes they mean nothing.
    let versioned = |is_written: &[bool], entry: &Entry| {
        let version = if is_written[entry.node] { entry.version } else { 0 };
        Entry { version, ..*entry }
    };
    let (written_a, written_b) = (written(&a)?, written(&b)?);
    let same = |of_a: &[Entry], of_b: &[Entry]| {
        let of_a = of_a.iter().map(|entry| versioned(&written_a, entry));
        of_a.eq(of_b.iter().map(|entry| versioned(&written_b, entry)))
    };
    for (one, other) in a.nodes.iter().zip(&b.nodes) {
        let (x, y) = (&one.node, &other.node);
        let places = format!("{} and {}", x.place(), y.place());
        if x.op_name() != y.op_name() {
            return Ok(Some(format!("{places}: other operators")));
        }
        if names && x.name != y.name {
            return Ok(Some(format!("{places}: other names")));
        }
        if attributes(x, names) != attributes(y, names) {
            return Ok(Some(format!("{places}: other attributes")));
        }
        if !same(&one.inputs, &other.inputs) || one.control_deps != other.control_deps {
            return Ok(Some(format!("{places}: other inputs")));
        }
    }
    Ok((!same(&a.outputs, &b.outputs)).then(|| "other outputs".to_owned()))
}

/// Returns the attributes that are compared, sorted: those in writing if `all` is true, else the
/// values of the parameters.
fn attributes(node: &Node, all: bool) -> Vec<(String, String)> {
    let values = match &node.op {
        _ if all => None,
        None => return Vec::new(),
        Some(op) => registry::find(op).ok().and_then(|op| op.param_values(&node.attrs)),
    };
    let mut attrs = values.unwrap_or_else(|| {
        node.attrs.iter().map(|(key, value)| (key.as_str().to_owned(), value.as_str().to_owned())).collect()
    });
    attrs.sort();
    attrs
}
