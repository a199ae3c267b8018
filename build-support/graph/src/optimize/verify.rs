//! The verifier of graphs, which runs after each pass in builds with debug assertions.

use crate::error::{Result, require};
use crate::graph::{Graph, Node, ValueId};

impl Graph {
    /// Checks that each value that a node or a caller reads is an input, is known, or is computed
    /// by an earlier node, and that no dead value is known.
    ///
    /// # Errors
    /// Returns an error that names the node or the output.
    pub(crate) fn verify(&self) -> Result<()> {
        for (number, node) in self.nodes.iter().enumerate() {
            self.verify_node(number, node).map_err(|error| error.within(&node.place()))?;
        }
        for (name, id) in &self.outputs {
            require!(self.is_defined(*id, self.nodes.len()), "output '{name}' is value {id}, which has no definition");
        }
        for (id, count) in self.reads().counts().iter().enumerate() {
            let value = &self.values[id];
            require!(*count > 0 || value.known.is_none(), "value {id} ('{}') is known, and dead", value.name);
        }
        Ok(())
    }

    fn verify_node(&self, number: usize, node: &Node) -> Result<()> {
        let (inputs, reads) = (node.inputs.len(), node.reads.len());
        require!(inputs == reads, "expected a flag for each of {inputs} inputs, found {reads}");
        for (index, id) in node.inputs.iter().enumerate() {
            let Some(id) = *id else { continue };
            require!(self.is_defined(id, number), "input {index} is value {id}, which no earlier node computes");
        }
        for (index, id) in node.outputs.iter().enumerate() {
            let producer = id.and_then(|id| self.values.get(id)).and_then(|value| value.producer);
            require!(
                producer.is_none_or(|producer| producer == number),
                "output {index} has another node as its producer"
            );
        }
        Ok(())
    }

    /// Returns true if a value is available to a node with this number.
    fn is_defined(&self, id: ValueId, number: usize) -> bool {
        let Some(value) = self.values.get(id) else { return false };
        let is_computed = value
            .producer
            .is_some_and(|producer| producer < number && self.nodes[producer].outputs.contains(&Some(id)));
        value.known.is_some() || is_computed || self.inputs.contains(&id)
    }
}
