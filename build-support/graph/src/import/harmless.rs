//! Nodes that may run speculatively: they are cheap, and cannot fail.

use crate::constant::num_elements;
use crate::error::Result;
use crate::graph::Graph;
use crate::op::Pattern;

/// The maximum number of elements that nodes read and write in total.
const FEW: usize = 1 << 12;

impl Graph {
    /// Returns true if no node from `first` on can fail.
    ///
    /// # Errors
    /// Returns an error for attributes of another type.
    pub(super) fn is_safe_from(&self, first: usize) -> Result<bool> {
        for node in &self.nodes[first..] {
            if node.body.is_some() || self.may_fail(node)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns true if all nodes from `first` on are cheap and cannot fail.
    ///
    /// # Errors
    /// Returns an error for attributes of another type.
    pub(super) fn is_harmless_from(&self, first: usize) -> Result<bool> {
        if !self.is_safe_from(first)? {
            return Ok(false);
        }
        let mut elements = 0_usize;
        for node in &self.nodes[first..] {
            let is_simple = match node.op.pattern() {
                Pattern::View | Pattern::Elementwise | Pattern::Injective | Pattern::Reduction => true,
                Pattern::Heavy | Pattern::Opaque => false,
            };
            if !is_simple || node.op.listed().is_none() {
                return Ok(false);
            }
            for id in node.inputs.iter().chain(&node.outputs).flatten() {
                elements = elements.saturating_add(num_elements(&self.values[*id].shape)?);
            }
        }
        Ok(elements <= FEW)
    }
}
