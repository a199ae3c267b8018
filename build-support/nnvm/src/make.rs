//! Nodes that passes add.

use core::cell::Cell;

use kernpack::{Map, Str};
use kernpack_graph::Result;

use crate::symbol::{Node, Value, registry};

/// Returns the first output of a new node. Its operator must be registered, and its attributes are
/// checked. Inputs are not completed, so all must be given.
pub(super) fn op(op: &str, name: &str, inputs: &[&Value], attrs: &[(&str, &str)]) -> Result<Value> {
    let attrs: Map<Str, Str> = attrs.iter().map(|(key, value)| (Str::from(*key), Str::from(*value))).collect();
    registry::find(op)?.check_attrs(&attrs)?;
    let inputs: Vec<Value> = inputs.iter().map(|value| (*value).clone()).collect();
    Ok(Value::of(Node::new(Some(op), name, attrs, &inputs)))
}

/// Creates nodes whose names start with that of the node that they replace.
pub(super) struct Make<'a> {
    name: &'a str,
    count: Cell<usize>,
}

impl<'a> Make<'a> {
    /// Creates nodes for a node with this name.
    pub(super) fn new(name: &'a str) -> Self {
        Self { name, count: Cell::new(0) }
    }

    /// Returns the first output of a new node.
    pub(super) fn apply(&self, name: &str, inputs: &[&Value], attrs: &[(&str, &str)]) -> Result<Value> {
        let number = self.count.replace(self.count.get() + 1);
        op(name, &format!("{}_{}{number}", self.name, name.trim_matches('_')), inputs, attrs)
    }
}
