//! Graphs of operators on tensors whose shapes are known.

use std::collections::BTreeMap;
use std::sync::Arc;

use kernpack::DataType;
use kernpack_compiler::ir::Tensor;
use kernpack_compiler::take_reported;

use crate::attrs::Attrs;
use crate::constant::{Constant, stored};
use crate::error::{GraphError, Result};
use crate::op::checks::{Check, Input, checks};
use crate::op::{Call, NodeOp, Operand, half};

/// The number of a value of a graph.
pub type ValueId = usize;

/// A tensor of a graph.
#[derive(Clone, Debug)]
pub struct Value {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub dtype: DataType,
    /// Its extents.
    pub shape: Vec<i64>,
    /// Its elements, if they are known at build time.
    pub known: Option<Constant>,
    /// The node that computes it.
    pub producer: Option<usize>,
}

/// One use of an operator.
#[derive(Clone)]
pub struct Node {
    /// Its name, for messages.
    pub name: String,
    /// The operator.
    pub op: NodeOp,
    /// The attributes.
    pub attrs: Arc<Attrs>,
    /// The version of the operators that the model asks for.
    pub version: i64,
    /// The inputs; those that are not there are `None`.
    pub inputs: Vec<Option<ValueId>>,
    /// True for each input that is read when the model runs.
    pub reads: Vec<bool>,
    /// The outputs; those that are not wanted are `None`.
    pub outputs: Vec<Option<ValueId>>,
    /// The graphs inside of a loop that is not written out, or of a choice.
    pub(crate) body: Option<Arc<Body>>,
}

/// The meaning of an input of the body in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// The number of the round, an `int64` without dimensions.
    Round,
    /// A state by its number: before the first round an input of the node, then what the body gave.
    State(usize),
    /// A part of an input of the node along its first axis: that of the round, or counted from the end.
    Slice {
        /// The index of the input in the node.
        input: usize,
        /// Tells whether the first round gets the last part.
        backwards: bool,
    },
    /// An input of the node.
    Whole(usize),
}

/// The purpose of an output of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gives {
    /// Tells whether there is a next round: a bool of one element.
    Condition,
    /// A state by its number.
    State(usize),
    /// A row of an output of the node.
    Row {
        /// The index of the output in the node.
        output: usize,
        /// Tells whether the first round gives the last row.
        backwards: bool,
    },
}

/// A loop that stays a loop when the model runs: its body is a graph of its own, whose kernels run once in each round.
///
/// The node of such a loop reads what its body reads from outside, and gives the last states, then rows, then the extents of rows whose number depends on data.
/// States lie in two places by turns, so the memory of a loop does not grow with its rounds; only rows do.
#[derive(Clone)]
pub(crate) struct NativeLoop {
    /// The graph of a round.
    pub(crate) body: Graph,
    /// The meanings of the inputs of the body.
    pub(crate) given: Vec<Given>,
    /// The purposes of the outputs of the body.
    pub(crate) gives: Vec<Gives>,
    /// The inputs of the node that are states before the first round. The outputs of the node begin with the states after the last one.
    pub(crate) states: Vec<usize>,
    /// The input of the node that tells the number of rounds.
    pub(crate) count: Option<usize>,
    /// The input of the node that tells whether there is a first round.
    pub(crate) condition: Option<usize>,
    /// Rounds, at most.
    pub(crate) most: i64,
    /// Tells whether more rounds than that are an error when the model runs, since there is no memory for their rows.
    pub(crate) is_bounded: bool,
    /// Outputs of the node that have as many rows as there were rounds, and those that tell their extents.
    pub(crate) extents: Vec<(usize, usize)>,
}

impl NativeLoop {
    /// Tells whether a condition may end the loop before its number of rounds.
    pub(crate) fn has_condition(&self) -> bool {
        self.condition.is_some() || self.gives.contains(&Gives::Condition)
    }
}

/// One of two graphs, which a condition chooses when the model runs; the other one is not run.
///
/// The node of a choice has the condition as its first input, and its outputs are those of the graph that is chosen.
#[derive(Clone)]
pub(crate) struct Choice {
    /// The graph for a condition that holds, and the other one.
    pub(crate) branches: [Branch; 2],
}

/// A graph of a choice.
#[derive(Clone)]
pub(crate) struct Branch {
    /// The computation.
    pub(crate) body: Graph,
    /// For each of its inputs, the input of the node.
    pub(crate) given: Vec<usize>,
}

/// Graphs inside of a node.
#[derive(Clone)]
pub(crate) enum Body {
    /// The body of a loop.
    Loop(NativeLoop),
    /// The branches of a choice.
    Choice(Choice),
}

impl Body {
    /// The graphs, to be changed.
    pub(crate) fn graphs_mut(&mut self) -> Vec<&mut Graph> {
        match self {
            Self::Loop(native) => vec![&mut native.body],
            Self::Choice(choice) => choice.branches.iter_mut().map(|branch| &mut branch.body).collect(),
        }
    }
}

/// Bytes that a known tensor was computed of.
#[derive(Clone, Debug)]
pub struct Dequantized {
    /// The bytes.
    pub bytes: ValueId,
    /// The scale: one, or one for each index of an axis.
    pub scale: ValueId,
    /// The zero point, as the scale.
    pub zero: Option<ValueId>,
    /// The axis.
    pub axis: i64,
}

/// The way in which a model is computed in parts. The graph that has this is that of the largest part.
#[derive(Clone)]
pub struct Parts {
    /// The name of the dimension.
    pub dim: String,
    /// Its largest extent.
    pub most: i64,
    /// The extent that the graph itself was made for.
    pub size: i64,
    /// For each argument, inputs first: how many indices of its first axis belong to one of the dimension. 0: each part has the whole argument.
    pub shares: Vec<i64>,
    /// Graphs for smaller parts, the last one for one index.
    pub smaller: Vec<(i64, Graph)>,
}

impl Parts {
    /// The sizes of the parts, largest first.
    pub fn sizes(&self) -> impl Iterator<Item = i64> {
        core::iter::once(self.size).chain(self.smaller.iter().map(|(size, _)| *size))
    }
}

/// The way in which a model is compiled for several extents of a dimension, one of which each call has. The graph that has this is that of the largest.
#[derive(Clone)]
pub struct Sizes {
    /// The name of the dimension.
    pub dim: String,
    /// The extent that the graph itself was made for.
    pub size: i64,
    /// Graphs for the other extents, largest first, with arguments of the same names, types and numbers of dimensions.
    pub others: Vec<(i64, Graph)>,
}

/// The contents of a graph at some time: values, nodes and warnings.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    values: usize,
    nodes: usize,
    warnings: usize,
}

/// The computation of a model.
#[derive(Clone, Default)]
pub struct Graph {
    /// Its name.
    pub name: String,
    /// All tensors.
    pub values: Vec<Value>,
    /// In an order in which they can be computed.
    pub nodes: Vec<Node>,
    /// The inputs of a call.
    pub inputs: Vec<ValueId>,
    /// The results: names, and values that nodes compute.
    pub outputs: Vec<(String, ValueId)>,
    /// Values whose extents depend on data: each lies at the start of a block of the largest shape that is possible, along each axis. The other value tells
    /// its extents, as `int64`.
    pub extents: BTreeMap<ValueId, ValueId>,
    /// Known tensors that are dequantized bytes, by what they became.
    pub dequantized: BTreeMap<ValueId, Dequantized>,
    /// The way in which it is computed for a dimension that each call tells.
    pub parts: Option<Arc<Parts>>,
    /// For which other extents of a dimension it is compiled.
    pub sizes: Option<Arc<Sizes>>,
    /// Findings that are no errors: shapes that a model declares and does not have.
    pub warnings: Vec<String>,
    /// The effort of evaluating known values so far, in steps of the evaluator.
    pub(crate) effort: u64,
    /// Set where it may never be run: known values that a node does not accept are an error of the call then.
    pub(crate) is_conditional: bool,
    /// For each value that was asked about, whether a node behind it may fail.
    pub(crate) of_failing: Vec<Option<bool>>,
}

impl Node {
    /// The place for messages: `node 'conv_1' (Conv)`.
    pub fn place(&self) -> String {
        format!("node '{}' ({})", self.name, self.op.name())
    }

    /// Computes the results of the node of these tensors, which stand for its inputs.
    ///
    /// # Errors
    /// Inputs that do not fit the operator, with the node.
    pub fn instantiate(&self, graph: &Graph, mut tensor: impl FnMut(ValueId) -> Tensor) -> Result<Vec<Tensor>> {
        // What the node does not accept is an error of the call, not of an expression.
        let mut misfits = Vec::new();
        if graph.is_conditional {
            for check in graph.checks(self)? {
                misfits.extend(graph.known_misfit(self, &check)?.and(self.inputs[check.input]));
            }
        }
        let operand = |id: &ValueId| {
            let value = &graph.values[*id];
            let dtype = stored(value.dtype);
            let known = value
                .known
                .as_ref()
                .filter(|_| !misfits.contains(id))
                .map(|known| known.retyped(dtype).unwrap_or_else(|_| known.clone()));
            Operand { tensor: tensor(*id), shape: value.shape.clone(), dtype, element: value.dtype, value: known }
        };
        let call = Call {
            name: self.op.name(),
            version: self.version,
            attrs: &self.attrs,
            inputs: {
                let mut operand = operand;
                self.inputs.iter().map(|id| id.as_ref().map(&mut operand)).collect()
            },
            wanted: self.outputs.iter().map(Option::is_some).collect(),
        };
        let made = half::make(&self.op, call).and_then(|made| {
            take_reported()?;
            Ok(made)
        });
        made.map_err(|error: GraphError| error.within(&self.place()))
    }
}

impl Graph {
    /// Adds a tensor.
    pub fn add_value(&mut self, value: Value) -> ValueId {
        self.values.push(value);
        self.values.len() - 1
    }

    /// The conditions on the data that a node depends on.
    ///
    /// # Errors
    /// Attributes of another type.
    pub(crate) fn checks(&self, node: &Node) -> Result<Vec<Check>> {
        let input = |id: &Option<ValueId>| -> Input<'_> {
            let value = &self.values[(*id)?];
            Some((&value.shape, value.dtype))
        };
        let inputs: Vec<Input<'_>> = node.inputs.iter().map(input).collect();
        checks(&node.op, &node.attrs, &inputs).map_err(|error| error.within(&node.place()))
    }

    /// An element of a known input that a check does not accept.
    ///
    /// # Errors
    /// Elements that are not integers.
    pub(crate) fn known_misfit(&self, node: &Node, check: &Check) -> Result<Option<i128>> {
        let known = node.inputs[check.input].and_then(|id| self.values[id].known.as_ref());
        let misfit = known.map(|known| check.first_misfit(known)).transpose();
        Ok(misfit.map_err(|error| error.within(&node.place()))?.flatten())
    }

    /// The contents at this time, for [`Graph::take_back`].
    pub(crate) fn mark(&self) -> Mark {
        Mark { values: self.values.len(), nodes: self.nodes.len(), warnings: self.warnings.len() }
    }

    /// Forgets values and nodes that were added since.
    pub(crate) fn take_back(&mut self, mark: Mark) {
        self.values.truncate(mark.values);
        self.of_failing.truncate(mark.values);
        self.nodes.truncate(mark.nodes);
        self.warnings.truncate(mark.warnings);
        self.extents.retain(|id, _| *id < mark.values);
        self.dequantized.retain(|id, _| *id < mark.values);
    }

    /// Adds a tensor whose elements are known.
    pub fn add_known(&mut self, name: &str, constant: Constant) -> ValueId {
        self.add_value(Value {
            name: name.to_owned(),
            dtype: constant.dtype(),
            shape: constant.shape().to_vec(),
            known: Some(constant),
            producer: None,
        })
    }
}
