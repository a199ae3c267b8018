//! Dead values: the readers of each value, and the removal of known tensors without readers.
//!
//! A model has hundreds of megabytes of weights. Dead ones are dropped while weights are packed, so
//! that only one copy of them is in memory.

use crate::graph::{Graph, ValueId};

/// The number of readers of each value in a graph.
pub(crate) struct Reads(Vec<usize>);

impl Reads {
    /// The number of readers of each value.
    pub(crate) fn counts(&self) -> &[usize] {
        &self.0
    }
}

impl Graph {
    /// Counts the readers of each value: nodes, whether or not they need it at run time, outputs,
    /// and the records of dequantized bytes.
    pub(crate) fn reads(&self) -> Reads {
        let mut counts = vec![0; self.values.len()];
        let by_nodes = self.nodes.iter().flat_map(|node| node.inputs.iter().flatten());
        let by_outputs = self.outputs.iter().map(|(_, id)| id);
        let of_bytes = self.dequantized.iter().flat_map(|(id, from)| [id, &from.bytes, &from.scale]);
        let zeros = self.dequantized.values().filter_map(|from| from.zero.as_ref());
        for id in by_nodes.chain(by_outputs).chain(of_bytes).chain(zeros) {
            counts[*id] += 1;
        }
        Reads(counts)
    }

    /// Replaces an input of a node. The previous value is dropped if nothing else reads it.
    pub(crate) fn replace_input(&mut self, reads: &mut Reads, node: usize, index: usize, new: ValueId) {
        let old = self.nodes[node].inputs[index].replace(new);
        reads.0.resize(self.values.len(), 0);
        reads.0[new] += 1;
        if let Some(old) = old {
            reads.0[old] -= 1;
            if reads.0[old] == 0 {
                self.values[old].known = None;
            }
        }
    }

    /// Drops the elements of dead known values.
    pub(crate) fn drop_dead_values(&mut self) {
        let Reads(counts) = self.reads();
        for (value, count) in self.values.iter_mut().zip(counts) {
            if count == 0 {
                value.known = None;
            }
        }
    }

    /// Returns true for each value that is read as anything other than the second input of these
    /// operators.
    pub(crate) fn read_otherwise(&self, operators: &[&str]) -> Vec<bool> {
        let mut others = vec![false; self.values.len()];
        for node in &self.nodes {
            for (index, id) in node.inputs.iter().enumerate() {
                if let Some(id) = id {
                    others[*id] |= index != 1 || !operators.contains(&node.op.name());
                }
            }
        }
        for (_, id) in &self.outputs {
            others[*id] = true;
        }
        others
    }
}
