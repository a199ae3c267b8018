//! Graphs of operators on tensors with known shapes.

mod traces;

use std::collections::BTreeMap;
use std::sync::Arc;

use kernpack::DataType;
use kernpack_compiler::ir::Tensor;
use kernpack_compiler::with_reported;

use crate::attrs::Attrs;
use crate::constant::{Constant, stored};
use crate::error::Result;
use crate::op::checks::{Check, Input, checks};
use crate::op::places::Places;
use crate::op::{Call, NodeOp, Operand, half};

pub(crate) use traces::Traces;

/// The index of a value of a graph.
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

/// A call of an operator.
#[derive(Clone)]
pub struct Node {
    /// Its name, for messages.
    pub name: String,
    /// The operator.
    pub op: NodeOp,
    /// The attributes.
    pub attrs: Arc<Attrs>,
    /// The operator set version that the model requires.
    pub version: i64,
    /// The inputs. Missing ones are `None`.
    pub inputs: Vec<Option<ValueId>>,
    /// True for each input that is read when the model runs.
    pub reads: Vec<bool>,
    /// The outputs. Unused ones are `None`.
    pub outputs: Vec<Option<ValueId>>,
    /// The graphs inside a loop that is not unrolled, or inside a conditional.
    pub(crate) body: Option<Arc<Body>>,
}

/// The meaning of an input of the body in an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// The index of the iteration, an `int64` without dimensions.
    Round,
    /// A state by its index: an input of the node before the first iteration, then the result of
    /// the body.
    State(usize),
    /// A slice of an input of the node along its first axis: the one of the iteration, or counted
    /// from the end.
    Slice {
        /// The index of the input in the node.
        input: usize,
        /// True if the first iteration gets the last slice.
        backwards: bool,
    },
    /// An input of the node.
    Whole(usize),
}

/// The purpose of an output of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gives {
    /// The condition for another iteration: a bool of one element.
    Condition,
    /// A state by its index.
    State(usize),
    /// A row of an output of the node.
    Row {
        /// The index of the output in the node.
        output: usize,
        /// True if the first iteration gives the last row.
        backwards: bool,
    },
}

/// A loop that is not unrolled: its body is a separate graph, whose kernels run once in each
/// iteration.
///
/// The node of such a loop reads the outside values that its body reads, and returns the last
/// states, then rows, then the extents of rows whose number is data-dependent. States alternate
/// between two buffers, so the memory of a loop does not grow with the number of iterations. Only
/// rows do.
#[derive(Clone)]
pub(crate) struct NativeLoop {
    /// The graph of an iteration.
    pub(crate) body: Graph,
    /// The meanings of the inputs of the body.
    pub(crate) given: Vec<Given>,
    /// The purposes of the outputs of the body.
    pub(crate) gives: Vec<Gives>,
    /// The inputs of the node that are states before the first iteration. The outputs of the node
    /// begin with the states after the last one.
    pub(crate) states: Vec<usize>,
    /// The input of the node with the number of iterations.
    pub(crate) count: Option<usize>,
    /// The input of the node with the condition for the first iteration.
    pub(crate) condition: Option<usize>,
    /// The maximum number of iterations.
    pub(crate) most: i64,
    /// True if more iterations are an error at run time, because there is no memory for their rows.
    pub(crate) is_bounded: bool,
    /// Outputs of the node with one row per iteration, and the outputs with their extents.
    pub(crate) extents: Vec<(usize, usize)>,
}

impl NativeLoop {
    /// Returns true if a condition may end the loop before its number of iterations.
    pub(crate) fn has_condition(&self) -> bool {
        self.condition.is_some() || self.gives.contains(&Gives::Condition)
    }
}

/// Two graphs, one of which is selected by a condition at run time. The other one is not run.
///
/// The node of a conditional has the condition as its first input, and its outputs are those of the
/// selected graph.
#[derive(Clone)]
pub(crate) struct Choice {
    /// The graph for a true condition, and the other one.
    pub(crate) branches: [Branch; 2],
}

/// A graph of a conditional.
#[derive(Clone)]
pub(crate) struct Branch {
    /// The computation.
    pub(crate) body: Graph,
    /// For each of its inputs, the input of the node.
    pub(crate) given: Vec<usize>,
}

/// The graphs inside a node.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "it is always in an `Arc`")]
pub(crate) enum Body {
    /// The body of a loop.
    Loop(NativeLoop),
    /// The branches of a conditional.
    Choice(Choice),
}

impl Body {
    /// Returns the graphs for modification.
    pub(crate) fn graphs_mut(&mut self) -> Vec<&mut Graph> {
        match self {
            Self::Loop(native) => vec![&mut native.body],
            Self::Choice(choice) => choice.branches.iter_mut().map(|branch| &mut branch.body).collect(),
        }
    }
}

/// The bytes that a known tensor was dequantized from.
#[derive(Clone, Debug)]
pub struct Dequantized {
    /// The bytes.
    pub bytes: ValueId,
    /// The scale: a single one, or one for each index of an axis.
    pub scale: ValueId,
    /// The zero point, in the same form as the scale.
    pub zero: Option<ValueId>,
    /// The axis.
    pub axis: i64,
}

/// The labels of the columns of a value.
#[derive(Clone, Debug)]
pub(crate) enum Columns {
    /// A value with integers.
    Labels(ValueId),
    /// Texts.
    Names(Vec<String>),
}

/// The split of a model into parts. The graph that has this is that of the largest part.
#[derive(Clone)]
pub struct Parts {
    /// The name of the dimension.
    pub dim: String,
    /// Its largest extent.
    pub most: i64,
    /// The extent of the graph itself.
    pub size: i64,
    /// For each argument, inputs first: the number of indices of its first axis for one index of
    /// the dimension. 0 means that each part has the whole argument.
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

/// The extents of a dynamic dimension for which a model is compiled. Each call has one of them. The
/// graph that has this is that of the largest.
#[derive(Clone)]
pub struct Sizes {
    /// The name of the dimension.
    pub dim: String,
    /// The extent of the graph itself.
    pub size: i64,
    /// Graphs for the other extents, largest first, with arguments of the same names, types and
    /// ranks.
    pub others: Vec<(i64, Graph)>,
}

/// A dynamic dimension with a range of extents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeDim {
    /// Its name in the model.
    pub name: String,
    /// The least extent, a multiple of the step.
    pub least: i64,
    /// The largest extent, a multiple of the step.
    pub most: i64,
    /// The step from one extent to the next one: all of them are multiples of it.
    pub step: i64,
}

/// The dimensions of a model that have any extents of a range. Its kernels serve all of them.
///
/// The graph that has this is that for the largest extents. It is compared with graphs for other
/// extents: numbers that differ follow from the extents.
#[derive(Clone)]
pub struct Ranges {
    /// The dimensions.
    pub dims: Vec<RangeDim>,
    /// Their extents in the graph that has this. No other graph has larger ones.
    pub extents: Vec<i64>,
    /// Graphs with the same nodes and values for other extents.
    pub others: Vec<(Vec<i64>, Graph)>,
}

/// A snapshot of the contents of a graph: values, nodes and warnings.
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
    /// The nodes in an order in which they can be computed.
    pub nodes: Vec<Node>,
    /// The inputs of a call.
    pub inputs: Vec<ValueId>,
    /// The results: names, and values that nodes compute.
    pub outputs: Vec<(String, ValueId)>,
    /// Values with data-dependent extents: each is at the start of a buffer of the largest possible
    /// shape, along each axis. The other value has its extents, as `int64`.
    pub extents: BTreeMap<ValueId, ValueId>,
    /// Known tensors that are dequantized bytes, by the dequantized value.
    pub dequantized: BTreeMap<ValueId, Dequantized>,
    /// The split into parts for a dynamic dimension.
    pub parts: Option<Arc<Parts>>,
    /// The other extents of a dimension that it is compiled for.
    pub sizes: Option<Arc<Sizes>>,
    /// The dimensions with ranges of extents.
    pub ranges: Option<Arc<Ranges>>,
    /// Formulas of values that follow from positions alone.
    pub(crate) places: BTreeMap<ValueId, Places>,
    /// Known tensors with the elements of values that repeat them, by the values.
    pub(crate) repeated: BTreeMap<ValueId, ValueId>,
    /// Values that were lists of maps, with the labels of their columns.
    pub(crate) columns: BTreeMap<ValueId, Columns>,
    /// Texts of the model by the names of outputs, whose elements or columns are their places in
    /// these lists.
    pub labels: BTreeMap<String, Vec<String>>,
    /// Findings that are not errors: shapes that a model declares incorrectly.
    pub warnings: Vec<String>,
    /// The known values that follow from extents, of a reading for ranges of extents.
    pub(crate) traces: Option<Traces>,
    /// The effort of evaluating known values so far, in steps of the evaluator.
    pub(crate) effort: u64,
    /// True if the graph may never be run. Invalid known values of a node are an error of the call
    /// then.
    pub(crate) is_conditional: bool,
    /// For each value that was checked, whether a node that computes it may fail.
    pub(crate) of_failing: Vec<Option<bool>>,
}

impl Node {
    /// Returns the place for messages: `node 'conv_1' (Conv)`.
    pub fn place(&self) -> String {
        format!("node '{}' ({})", self.name, self.op.name())
    }

    /// Computes the results of the node from these tensors, which replace its inputs.
    ///
    /// # Errors
    /// Returns an error for inputs that do not match the operator, with the node.
    pub fn instantiate(&self, graph: &Graph, tensor: impl FnMut(ValueId) -> Tensor) -> Result<Vec<Tensor>> {
        with_reported(|| self.make(graph, tensor)).map_err(|error| error.within_once(&self.place()))
    }

    fn make(&self, graph: &Graph, mut tensor: impl FnMut(ValueId) -> Tensor) -> Result<Vec<Tensor>> {
        // An invalid input is an error of the call, not of an expression.
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
        half::make(&self.op, call)
    }
}

impl Graph {
    /// Adds a tensor.
    pub fn add_value(&mut self, value: Value) -> ValueId {
        self.values.push(value);
        self.values.len() - 1
    }

    /// Returns the conditions on the data that a node depends on.
    ///
    /// # Errors
    /// Returns an error for attributes of another type.
    pub(crate) fn checks(&self, node: &Node) -> Result<Vec<Check>> {
        let input = |id: &Option<ValueId>| -> Input<'_> {
            let value = &self.values[(*id)?];
            Some((&value.shape, value.dtype))
        };
        let inputs: Vec<Input<'_>> = node.inputs.iter().map(input).collect();
        checks(&node.op, &node.attrs, &inputs).map_err(|error| error.within(&node.place()))
    }

    /// Returns an element of a known input that violates a check.
    ///
    /// # Errors
    /// Returns an error for elements that are not integers.
    pub(crate) fn known_misfit(&self, node: &Node, check: &Check) -> Result<Option<i128>> {
        let known = node.inputs[check.input].and_then(|id| self.values[id].known.as_ref());
        let misfit = known.map(|known| check.first_misfit(known)).transpose();
        Ok(misfit.map_err(|error| error.within(&node.place()))?.flatten())
    }

    /// Returns a snapshot for [`Graph::take_back`].
    pub(crate) fn mark(&self) -> Mark {
        Mark { values: self.values.len(), nodes: self.nodes.len(), warnings: self.warnings.len() }
    }

    /// Removes values and nodes that were added after a snapshot.
    pub(crate) fn take_back(&mut self, mark: Mark) {
        self.values.truncate(mark.values);
        self.of_failing.truncate(mark.values);
        self.nodes.truncate(mark.nodes);
        self.warnings.truncate(mark.warnings);
        self.extents.retain(|id, _| *id < mark.values);
        self.places.retain(|id, _| *id < mark.values);
        self.repeated.retain(|id, once| *id < mark.values && *once < mark.values);
        self.columns.retain(|id, _| *id < mark.values);
        if let Some(traces) = &mut self.traces {
            traces.take_back(mark.values);
        }
        self.dequantized.retain(|id, _| *id < mark.values);
    }

    /// Adds a tensor with known elements.
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
