//! Loops that stay loops when the model runs: the body is a graph of its own, whose kernels run once in each round.
//!
//! The node of such a loop reads what its body reads from outside, and gives the last states, then rows, then the extents of rows whose number depends on data.
//! States lie in two places by turns, so the memory of a loop does not grow with its rounds; only rows do.

use crate::graph::Graph;

/// What an input of the body is in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// The number of the round, an `int64` without dimensions.
    Round,
    /// A state by its number: before the first round an input of the node, then what the body gave.
    State(usize),
    /// A part of an input of the node along its first axis: that of the round, or counted from the end.
    Slice {
        /// Which input of the node.
        input: usize,
        /// Whether the first round gets the last part.
        backwards: bool,
    },
    /// An input of the node.
    Whole(usize),
}

/// What an output of the body is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gives {
    /// Whether there is a next round: a bool of one element.
    Condition,
    /// A state by its number.
    State(usize),
    /// A row of an output of the node.
    Row {
        /// Which output of the node.
        output: usize,
        /// Whether the first round gives the last row.
        backwards: bool,
    },
}

/// A loop whose body is compiled once.
#[derive(Clone)]
pub(crate) struct NativeLoop {
    /// The operator: `Loop` or `Scan`.
    pub(crate) name: &'static str,
    /// What a round computes.
    pub(crate) body: Graph,
    /// What the inputs of the body are.
    pub(crate) given: Vec<Given>,
    /// What the outputs of the body are.
    pub(crate) gives: Vec<Gives>,
    /// The inputs of the node that are states before the first round. The outputs of the node begin with the states after the last one.
    pub(crate) states: Vec<usize>,
    /// The input of the node that tells the number of rounds.
    pub(crate) count: Option<usize>,
    /// The input of the node that tells whether there is a first round.
    pub(crate) condition: Option<usize>,
    /// Rounds, at most.
    pub(crate) most: i64,
    /// Whether more rounds than that are an error when the model runs, since there is no memory for their rows.
    pub(crate) is_bounded: bool,
    /// Outputs of the node that have as many rows as there were rounds, and those that tell their extents.
    pub(crate) extents: Vec<(usize, usize)>,
}

impl NativeLoop {
    /// Whether a condition may end the loop before its number of rounds.
    pub(crate) fn has_condition(&self) -> bool {
        self.condition.is_some() || self.gives.contains(&Gives::Condition)
    }
}
