//! Known values that follow from the extents: positions, masks, rows of a table.
//!
//! Passes pack weights and replace nodes by the elements of known values. That cannot be done with
//! elements that differ between the readings, so passes see these values as inputs.

use std::sync::Arc;

use crate::constant::Constant;
use crate::graph::{Graph, Ranges, ValueId};

/// The known values that the readings of a graph do not share.
pub(crate) struct Hidden {
    ids: Vec<ValueId>,
    /// The elements in each reading, with that of the graph itself first.
    elements: Vec<Vec<Option<Constant>>>,
}

impl Hidden {
    /// Hides these values of all readings. Those of one element are part of expressions.
    pub(crate) fn new(graph: &mut Graph, ranges: &mut Arc<Ranges>) -> Self {
        let differs = |id: &ValueId| {
            let known = graph.values[*id].known.as_ref();
            let is_read = || graph.nodes.iter().any(|node| node.inputs.contains(&Some(*id)));
            let is_several = known.is_some_and(|known| known.len() > 1);
            let differs = || ranges.others.iter().any(|(_, other)| other.values[*id].known.as_ref() != known);
            is_several && differs() && is_read()
        };
        let ids: Vec<ValueId> = (0..graph.values.len()).filter(differs).collect();
        let hide = |graph: &mut Graph| {
            graph.inputs.extend(&ids);
            ids.iter().map(|id| graph.values[*id].known.take()).collect()
        };
        let mut elements: Vec<Vec<Option<Constant>>> = vec![hide(graph)];
        elements.extend(Arc::make_mut(ranges).others.iter_mut().map(|(_, other)| hide(other)));
        Self { ids, elements }
    }

    /// Makes the values known again.
    pub(crate) fn show(self, graph: &mut Graph, ranges: &mut Arc<Ranges>) {
        let others = Arc::make_mut(ranges).others.iter_mut().map(|(_, other)| other);
        for (graph, elements) in core::iter::once(graph).chain(others).zip(self.elements) {
            graph.inputs.truncate(graph.inputs.len() - self.ids.len());
            for (id, known) in self.ids.iter().zip(elements) {
                graph.values[*id].known = known;
            }
        }
    }
}
