//! Flushes subnormal weights to zero: some CPUs take a hundred times as long for them.

use crate::constant::Constant;
use crate::graph::{Graph, ValueId};
use crate::op::half::WIDENING;

impl Graph {
    /// Replaces subnormal numbers in the weights of matrix products and convolutions by zeros.
    pub(crate) fn flush_weights(&mut self) {
        let weights = self.nodes.iter().filter(|node| WIDENING.contains(&node.op.name()));
        let mut ids: Vec<ValueId> = weights.filter_map(|node| node.inputs.get(1).copied().flatten()).collect();
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            if let Some(flushed) = self.values[id].known.as_ref().and_then(Constant::flushed) {
                self.values[id].known = Some(flushed);
            }
        }
    }
}
