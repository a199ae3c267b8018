//! The native columns of operators: Rust functions, without conversions to values of other
//! languages.

use kernpack::DataType;
use kernpack_compiler::ir::Tensor;
use kernpack_graph::Result;
use kernpack_graph::op::Operand;

use super::node::{NodeRef, Value};
use super::registry::Use;

/// A partially known shape: no extents at all, or extents of 0 for unknown ones.
pub type PartialShape = Vec<i64>;

/// `FInferShape`: completes the shapes of inputs and outputs, as far as they follow from each
/// other.
pub type InferShape = fn(&Use, &mut [PartialShape], &mut [PartialShape]) -> Result<()>;
/// `FInferType`: the same for element types.
pub type InferType = fn(&Use, &mut [Option<DataType>], &mut [Option<DataType>]) -> Result<()>;

/// `FInplaceOption`: pairs of an input and an output.
pub type Pairs = fn(&Use) -> Result<Vec<(usize, usize)>>;

/// The inputs of an operator's computation.
pub struct Compute<'a> {
    /// The operator and its attributes.
    pub used: Use<'a>,
    /// The inputs.
    pub inputs: Vec<Operand>,
    /// Shapes and types of the outputs, if they are known.
    pub outputs: Vec<(Vec<i64>, DataType)>,
}

/// The layouts of a node, for `FCorrectLayout`. An empty text is an unknown layout.
pub struct LayoutCall<'a> {
    /// The operator and its attributes.
    pub used: Use<'a>,
    /// The layouts of the inputs; then those that the operator requires.
    pub inputs: Vec<String>,
    /// The layouts of the inputs from the previous correction.
    pub last_inputs: Vec<String>,
    /// The layouts of the outputs.
    pub outputs: Vec<String>,
}

/// The inputs of a node's gradient function.
pub struct Gradient<'a> {
    /// The node.
    pub node: &'a NodeRef,
    /// Its inputs.
    pub inputs: Vec<Value>,
    /// The gradients of its outputs.
    pub head: Vec<Value>,
}

/// A native function of an operator in a column.
#[derive(Clone, Copy)]
pub enum Native {
    /// `FInferShape`.
    InferShape(InferShape),
    /// `FInferType`.
    InferType(InferType),
    /// `FListInputNames`, `FListOutputNames`.
    Names(fn(&Use) -> Result<Vec<String>>),
    /// `FMutateInputs`, `FIgnoreInputs`.
    Indices(fn(&Use) -> Result<Vec<usize>>),
    /// `FInplaceOption`: an input and an output that may share memory.
    Pairs(Pairs),
    /// `FTVMCompute`.
    Compute(fn(&Compute) -> Result<Vec<Tensor>>),
    /// `FCorrectLayout`.
    Layout(fn(&mut LayoutCall) -> Result<()>),
    /// `FGradient`.
    Gradient(fn(&Gradient) -> Result<Vec<Value>>),
}
