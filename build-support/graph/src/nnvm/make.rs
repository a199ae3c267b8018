//! Nodes that passes add.

use core::cell::Cell;

use kernpack::{Map, Str};

use crate::error::Result;
use crate::symbol::{Node, Value, registry};

/// The first output of a new node. Its operator is registered, and its attributes are checked; inputs are not completed, as all are there.
pub(super) fn op(op: &str, name: &str, inputs: &[&Value], attrs: &[(&str, &str)]) -> Result<Value> {
    let attrs: Map<Str, Str> = attrs.iter().map(|(key, value)| (Str::from(*key), Str::from(*value))).collect();
    registry::find(op)?.check_attrs(&attrs)?;
    let inputs: Vec<Value> = inputs.iter().map(|value| (*value).clone()).collect();
    Ok(Value::of(Node::new(Some(op), name, attrs, &inputs)))
}

/// Makes nodes whose names begin with that of the node that they stand for.
pub(super) struct Make<'a> {
    name: &'a str,
    count: Cell<usize>,
}

impl<'a> Make<'a> {
    /// For a node of this name.
    pub(super) fn new(name: &'a str) -> Self {
        Self { name, count: Cell::new(0) }
    }

    /// The first output of a new node.
    pub(super) fn apply(&self, name: &str, inputs: &[&Value], attrs: &[(&str, &str)]) -> Result<Value> {
        let number = self.count.replace(self.count.get() + 1);
        op(name, &format!("{}_{}{number}", self.name, name.trim_matches('_')), inputs, attrs)
    }
}
