//! Known values of a model that is read for ranges of extents: whether they follow from extents,
//! and whether they are positions that begin at one.
//!
//! A model with a cache has positions that begin behind the cached ones. Sums of them stay known,
//! because kernels compute them from the extents. Other results, such as the angles of rotary
//! embeddings and masks, are different numbers for each extent, so their nodes stay in the graph.
//! This follows from the nodes alone, not from the numbers, so that all readings have the same
//! nodes.

use std::collections::BTreeSet;

use kernpack_compiler::ir::DataTypeExt;

use super::{Graph, Node, ValueId};

/// Operators whose integer results are sums of positions if their inputs are.
const SUMS: &[&str] = &[
    "Add",
    "Cast",
    "CastLike",
    "Concat",
    "Expand",
    "Flatten",
    "Identity",
    "Mul",
    "Neg",
    "Range",
    "Reshape",
    "Slice",
    "Squeeze",
    "Sub",
    "Transpose",
    "Unsqueeze",
];

/// The known values of a graph that follow from extents.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traces {
    /// Extents, and numbers that follow from them.
    extents: BTreeSet<ValueId>,
    /// Positions, one for each index of a dimension.
    positions: BTreeSet<ValueId>,
    /// Positions that begin at an extent.
    shifted: BTreeSet<ValueId>,
}

impl Traces {
    /// Returns true if the results of a node may become known values.
    fn may_be_known(&self, node: &Node, are_integers: bool) -> bool {
        // Some of the positions, but not numbers at these positions.
        let is_part = || {
            node.op.name() == "Gather"
                && !node.inputs.get(1).is_some_and(|id| id.is_some_and(|id| self.shifted.contains(&id)))
        };
        let is_sum = || are_integers && (SUMS.contains(&node.op.name()) || is_part());
        !self.has(&self.shifted, node) || is_sum()
    }

    fn has(&self, set: &BTreeSet<ValueId>, node: &Node) -> bool {
        node.inputs.iter().flatten().any(|id| set.contains(id))
    }

    /// Forgets values from this one on.
    pub(crate) fn take_back(&mut self, values: usize) {
        for set in [&mut self.extents, &mut self.positions, &mut self.shifted] {
            set.split_off(&values);
        }
    }

    /// Notes what the known results of a node are.
    fn note(&mut self, node: &Node, results: &[ValueId]) {
        let name = node.op.name();
        let first = node.inputs.first().copied().flatten();
        let follows = self.has(&self.extents, node);
        let is_positions = self.has(&self.positions, node) || name == "Range" && follows;
        let is_shift = match name {
            "Range" => first.is_some_and(|start| self.extents.contains(&start)),
            "Add" | "Slice" | "Sub" => self.has(&self.positions, node) && follows,
            _ => false,
        };
        if self.has(&self.shifted, node) || is_shift {
            self.shifted.extend(results);
        } else if is_positions {
            self.positions.extend(results);
        } else if follows || matches!(name, "Shape" | "Size") {
            self.extents.extend(results);
        }
    }
}

impl Graph {
    /// Returns true if the results of a node, of these types, may become known values.
    pub(crate) fn may_be_known(&self, node: &Node, dtypes: impl Iterator<Item = kernpack::DataType>) -> bool {
        self.traces
            .as_ref()
            .is_none_or(|traces| traces.may_be_known(node, dtypes.into_iter().all(|dtype| dtype.is_integer())))
    }

    /// Notes what the results of a node are.
    pub(crate) fn trace(&mut self, node: &Node, results: &[Option<ValueId>]) {
        let known: Vec<ValueId> =
            results.iter().flatten().copied().filter(|id| self.values[*id].known.is_some()).collect();
        if let Some(traces) = &mut self.traces {
            traces.note(node, &known);
        }
    }
}
