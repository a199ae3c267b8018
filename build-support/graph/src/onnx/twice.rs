//! Attributes that a node has twice.

use std::collections::BTreeSet;

use super::proto::{Model, Node};
use super::versions::all_nodes;
use crate::error::{GraphError, Result, full_name};

/// Checks that no node of a model has two attributes with the same name, because readers would
/// disagree on which one to use.
///
/// # Errors
/// Returns an error with all such nodes, each with the operator and the attribute.
pub(crate) fn check_attributes(model: &Model<'_>) -> Result<()> {
    let problems = all_nodes(model).into_iter().flatten().filter_map(|node| {
        let mut names = BTreeSet::new();
        let again = node.attributes.iter().find(|attribute| !names.insert(&attribute.name))?;
        let (label, op) = (label(node), full_name(&node.domain, &node.op_type));
        Some(GraphError::new(format!("node '{label}' ({op}): attribute `{}` is given twice", again.name)))
    });
    GraphError::all(problems.collect()).map_or(Ok(()), Err)
}

/// Returns the name of a node in messages: its name, or that of its first output.
pub(crate) fn label<'n>(node: &'n Node<'_>) -> &'n str {
    if node.name.is_empty() { node.outputs.first().map_or("", String::as_str) } else { &node.name }
}
