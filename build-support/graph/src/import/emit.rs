//! Nodes that the importer adds itself.

use std::sync::Arc;

use crate::attrs::{Attr, Attrs};
use crate::constant::Constant;
use crate::error::{GraphError, Result};
use crate::graph::{Graph, ValueId};
use crate::op::{self, NodeOp};

/// The version of the operators of these nodes.
const VERSION: i64 = 23;

/// Adds nodes of ONNX operators, all of which belong to one node of the model.
pub(super) struct Emitter<'g> {
    /// The graph.
    pub(super) graph: &'g mut Graph,
    /// The name of the nodes.
    pub(super) name: &'g str,
}

impl Emitter<'_> {
    /// Adds a node and returns its first output.
    pub(super) fn node(&mut self, op: &str, attrs: &[(&str, Attr)], inputs: &[ValueId]) -> Result<ValueId> {
        let inputs: Vec<Option<ValueId>> = inputs.iter().copied().map(Some).collect();
        self.several(op, attrs, &inputs, 1).map(|made| made[0])
    }

    /// Adds a node with optional inputs. Returns its outputs, as many as `count`.
    pub(super) fn several(
        &mut self,
        op: &str,
        attrs: &[(&str, Attr)],
        inputs: &[Option<ValueId>],
        count: usize,
    ) -> Result<Vec<ValueId>> {
        let operator = op::find(op).ok_or_else(|| GraphError::new(format!("operator {op} is not supported")))?;
        let mut all = Attrs::default();
        for (name, value) in attrs {
            all.set(name, value.clone());
        }
        self.add(operator.into(), all, inputs, count)
    }

    /// Adds a node of an operator with optional inputs. Returns its outputs, as many as `count`.
    pub(super) fn add(
        &mut self,
        operator: NodeOp,
        attrs: Attrs,
        inputs: &[Option<ValueId>],
        count: usize,
    ) -> Result<Vec<ValueId>> {
        let (names, op) = (vec![self.name.to_owned(); count], operator.name().to_owned());
        let made = self.graph.add_node(operator, self.name, Arc::new(attrs), VERSION, inputs, &names)?;
        let made: Option<Vec<ValueId>> = made.into_iter().collect();
        let fits = made.filter(|made| made.len() == count);
        fits.ok_or_else(|| GraphError::new(format!("{op} has fewer than {count} results")))
    }

    /// Adds a list of integers.
    pub(super) fn ints(&mut self, values: &[i64]) -> ValueId {
        self.graph.add_known(self.name, Constant::of_ints(values))
    }

    /// Adds an integer without dimensions.
    pub(super) fn int(&mut self, value: i64) -> Result<ValueId> {
        let constant = Constant::of_ints(&[value]).reshaped(&[])?;
        Ok(self.graph.add_known(self.name, constant))
    }

    /// Adds the slice at an index of an axis, without that axis.
    pub(super) fn slice(&mut self, x: ValueId, axis: i64, index: i64) -> Result<ValueId> {
        let index = self.int(index)?;
        self.node("Gather", &[("axis", Attr::Int(axis))], &[x, index])
    }

    /// Stacks tensors of the same shape along a new axis.
    pub(super) fn stack(&mut self, parts: &[ValueId], axis: i64) -> Result<ValueId> {
        let axes = self.ints(&[axis]);
        let mut rows = Vec::new();
        for part in parts {
            rows.push(self.node("Unsqueeze", &[], &[*part, axes])?);
        }
        match rows[..] {
            [row] => Ok(row),
            _ => self.node("Concat", &[("axis", Attr::Int(axis))], &rows),
        }
    }

    /// Returns the value of a condition, if it is known.
    pub(super) fn known_bool(&self, id: ValueId) -> Result<Option<bool>> {
        Ok(self.known_int(id)?.map(|value| value != 0))
    }

    /// Returns the integer of a value with one element, if it is known.
    pub(super) fn known_int(&self, id: ValueId) -> Result<Option<i64>> {
        match &self.graph.values[id].known {
            Some(known) if known.len() == 1 => Ok(known.to_ints()?.first().copied()),
            _ => Ok(None),
        }
    }
}
