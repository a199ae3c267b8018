//! Operators that are written with statements, and that treat each index of some axes by itself.
//!
//! Statements are not compared. By the definition of these operators, an index of such an axis in
//! the results depends only on this index in the inputs: `TopK` orders along one axis, and the
//! steps of a recurrent network never mix two rows of a batch.

use super::open::{Open, Outcome, STATEMENTS};
use crate::graph::{Graph, Node};
use crate::op::axis_of;

/// The axes of a dimension in a node.
struct Axes {
    /// The inputs that have the dimension, and the axis in each. Missing inputs do not count.
    inputs: Vec<(usize, usize)>,
    /// The axis in each result.
    outputs: Vec<usize>,
}

impl Axes {
    /// Returns the axes of a node whose first input has the dimension along an axis. `None` if the
    /// node may mix its indices.
    fn of(node: &Node, graph: &Graph, at: usize) -> Option<Self> {
        let rank = graph.values[node.inputs.first().copied().flatten()?].shape.len();
        let is_other = |default: i64| {
            let axis = node.attrs.int("axis", default).ok()?;
            (axis_of(axis, rank).ok()? != at).then_some(())
        };
        let (inputs, outputs) = match node.op.listed()?.name {
            "TopK" => {
                is_other(-1)?;
                (vec![(0, at)], vec![at, at])
            }
            "Scatter" | "ScatterElements" => {
                is_other(0)?;
                (vec![(0, at), (1, at), (2, at)], vec![at])
            }
            // The indices count in the first axes of the data, and the updates have the others
            // last.
            "ScatterND" => {
                let indices = &graph.values[node.inputs.get(1).copied().flatten()?].shape;
                let behind = at.checked_sub(usize::try_from(*indices.last()?).ok()?)?;
                (vec![(0, at), (2, indices.len() - 1 + behind)], vec![at])
            }
            "Det" if at + 2 < rank => (vec![(0, at)], vec![at]),
            // The products of the input are [T, B, ..]; states and cells are [B, ..], lengths [B].
            "RNN" | "GRU" if at == 1 => (vec![(0, 1), (2, 0), (3, 0)], vec![2, 1]),
            "LSTM" if at == 1 => (vec![(0, 1), (2, 0), (3, 0), (4, 0)], vec![2, 1, 1]),
            _ => return None,
        };
        Some(Self { inputs, outputs })
    }
}

/// Returns the position of the dimension in each result of a node that is written with statements,
/// if it treats the indices of the dimension by themselves. `None` for other nodes.
pub(super) fn places(node: &Node, graph: &Graph, open: &[Option<Open>]) -> Option<Outcome<Vec<Option<Open>>>> {
    let first = open[node.inputs.first().copied().flatten()?]?;
    let axes = Axes::of(node, graph, first.axis)?;
    for (index, id) in node.inputs.iter().enumerate() {
        let Some(id) = id else { continue };
        let axis = axes.inputs.iter().find(|(input, _)| *input == index).map(|(_, axis)| *axis);
        if open[*id] != axis.map(|axis| Open { axis, ..first }) {
            return Some(Err(STATEMENTS));
        }
    }
    let result = |axis: usize| Some(Open { axis, ..first });
    Some(Ok(axes.outputs.into_iter().map(result).collect()))
}
