//! The columns of operators of ours: functions, without a detour through values of other languages.

use kernpack::DataType;
use kernpack_compiler::ir::Tensor;

use super::node::{NodeRef, Value};
use super::registry::Use;
use crate::error::Result;
use crate::op::Operand;

/// A shape of which not all may be known: no extents at all, or extents of 0.
pub type PartialShape = Vec<i64>;

/// `FInferShape`: completes the shapes of inputs and outputs, as far as they follow from each other.
pub type InferShape = fn(&Use, &mut [PartialShape], &mut [PartialShape]) -> Result<()>;
/// `FInferType`: the same for element types.
pub type InferType = fn(&Use, &mut [Option<DataType>], &mut [Option<DataType>]) -> Result<()>;

/// `FInplaceOption`: pairs of an input and an output.
pub type Pairs = fn(&Use) -> Result<Vec<(usize, usize)>>;

/// The things that an operator is computed from.
pub struct Compute<'a> {
    /// The operator and its attributes.
    pub used: Use<'a>,
    /// The inputs.
    pub inputs: Vec<Operand>,
    /// Shapes and types of the outputs, where they are known.
    pub outputs: Vec<(Vec<i64>, DataType)>,
}

/// Layouts of one node, for `FCorrectLayout`. An empty text is a layout that is not known.
pub struct LayoutCall<'a> {
    /// The operator and its attributes.
    pub used: Use<'a>,
    /// The layouts of the inputs; then those that the operator wants.
    pub inputs: Vec<String>,
    /// The layouts of the inputs when layouts were corrected before.
    pub last_inputs: Vec<String>,
    /// The layouts of the outputs.
    pub outputs: Vec<String>,
}

/// The things that the gradient of a node is made from.
pub struct Gradient<'a> {
    /// The node.
    pub node: &'a NodeRef,
    /// Its inputs.
    pub inputs: Vec<Value>,
    /// Gradients of its outputs.
    pub head: Vec<Value>,
}

/// A function of an operator in a column.
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
