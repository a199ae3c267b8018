//! A node of the model, and the nodes that replace it.

use super::emit::Emitter;
use crate::attrs::{Attr, Attrs};
use crate::error::{GraphError, Result, fail, require};
use crate::graph::{Graph, ValueId};
use kernpack::DataType;
use std::cell::Cell;

/// A node while it is replaced by others.
pub(super) struct Site<'s> {
    pub(super) emitter: Emitter<'s>,
    pub(super) inputs: &'s [Option<ValueId>],
    pub(super) attrs: &'s Attrs,
    outputs: &'s [String],
    /// The number of inputs that the operator has, as far as it has asked for them.
    asked: Cell<usize>,
}

impl<'s> Site<'s> {
    /// Returns a node with the names of its outputs.
    pub(super) fn new(
        graph: &'s mut Graph,
        name: &'s str,
        attrs: &'s Attrs,
        inputs: &'s [Option<ValueId>],
        outputs: &'s [String],
    ) -> Self {
        Self { emitter: Emitter { graph, name }, inputs, attrs, outputs, asked: Cell::new(0) }
    }

    /// Returns an optional input.
    pub(super) fn optional(&self, index: usize) -> Option<ValueId> {
        self.asked.set(self.asked.get().max(index + 1));
        self.inputs.get(index).copied().flatten()
    }

    /// Returns a required input.
    pub(super) fn input(&self, index: usize) -> Result<ValueId> {
        self.optional(index).ok_or_else(|| GraphError::new(format!("input {index} is missing")))
    }

    /// Refuses inputs behind the last one that the operator has.
    pub(super) fn check_inputs(&self) -> Result<()> {
        let behind = (self.asked.get()..self.inputs.len()).find(|index| self.inputs[*index].is_some());
        match behind {
            Some(index) => fail!("input {index} is not supported: the operator does not have it"),
            None => Ok(()),
        }
    }

    /// Returns true if an output is used.
    pub(super) fn wants(&self, index: usize) -> bool {
        self.outputs.get(index).is_some_and(|name| !name.is_empty())
    }

    /// Refuses an optional input.
    pub(super) fn refuse(&self, index: usize, what: &str) -> Result<()> {
        require!(self.optional(index).is_none(), "input {index}, {what}, is not supported");
        Ok(())
    }

    /// Refuses a flag that changes the meaning of the node.
    pub(super) fn refuse_flag(&self, name: &str) -> Result<()> {
        require!(!self.attrs.flag(name, false)?, "attribute `{name}` other than 0 is not supported");
        Ok(())
    }

    pub(super) fn shape(&self, id: ValueId) -> Vec<i64> {
        self.emitter.graph.values[id].shape.clone()
    }

    pub(super) fn rank(&self, id: ValueId) -> usize {
        self.emitter.graph.values[id].shape.len()
    }

    pub(super) fn dtype(&self, id: ValueId) -> DataType {
        self.emitter.graph.values[id].dtype
    }

    /// Adds a node and returns its first output.
    pub(super) fn node(&mut self, op: &str, attrs: &[(&str, Attr)], inputs: &[ValueId]) -> Result<ValueId> {
        self.emitter.node(op, attrs, inputs)
    }

    /// Adds a node with optional inputs. Returns its outputs, as many as `count`.
    pub(super) fn several(
        &mut self,
        op: &str,
        attrs: &[(&str, Attr)],
        inputs: &[Option<ValueId>],
        count: usize,
    ) -> Result<Vec<ValueId>> {
        self.emitter.several(op, attrs, inputs, count)
    }

    /// Adds a node with optional inputs and returns its first output.
    pub(super) fn with_optional(
        &mut self,
        op: &str,
        attrs: &[(&str, Attr)],
        inputs: &[Option<ValueId>],
    ) -> Result<ValueId> {
        self.several(op, attrs, inputs, 1).map(|made| made[0])
    }

    /// Gives a value another shape, if it has another one.
    pub(super) fn reshaped(&mut self, x: ValueId, shape: &[i64]) -> Result<ValueId> {
        if self.shape(x) == shape {
            return Ok(x);
        }
        let shape = self.emitter.ints(shape);
        self.node("Reshape", &[("allowzero", Attr::Int(1))], &[x, shape])
    }

    /// Adds axes with one element, which are those of the result.
    pub(super) fn unsqueezed(&mut self, x: ValueId, axes: &[i64]) -> Result<ValueId> {
        let axes = self.emitter.ints(axes);
        self.node("Unsqueeze", &[], &[x, axes])
    }

    /// Broadcasts a value to a shape, if it has another one.
    pub(super) fn expanded(&mut self, x: ValueId, shape: &[i64]) -> Result<ValueId> {
        let own = self.shape(x);
        if own == shape {
            return Ok(x);
        }
        let wanted = self.emitter.ints(shape);
        let made = self.node("Expand", &[], &[x, wanted])?;
        require!(self.shape(made) == shape, "a value {own:?} is not broadcast to {shape:?}");
        Ok(made)
    }
}
