//! Options of a build script for a model.

use std::collections::{BTreeMap, BTreeSet};

use kernpack::DataType;

use crate::constant::Constant;
use crate::op::CustomOperator;

/// Options of a build script for a model.
#[derive(Clone, Debug, Default)]
pub struct ModelOptions {
    /// Extents of dimensions by their names in the model.
    pub dims: BTreeMap<String, i64>,
    /// The largest extent of a dimension that each call tells, by its name in the model: one of them at most.
    pub up_to: BTreeMap<String, i64>,
    /// Several extents of a dimension, one of which each call has, by its name in the model: one dimension at most.
    pub dims_in: BTreeMap<String, Vec<i64>>,
    /// Shapes of inputs by their names.
    pub inputs: BTreeMap<String, Vec<i64>>,
    /// Inputs that always have the same value, by their names.
    pub constants: BTreeMap<String, Constant>,
    /// Inputs that are sequences of tensors: the shape of each tensor, by the names of the inputs.
    pub sequences: BTreeMap<String, Vec<Vec<i64>>>,
    /// The most rounds of loops whose number of rounds is known at run time only, by the names of their nodes.
    pub bounds: BTreeMap<String, i64>,
    /// Inputs that may be missing, and are.
    pub absent: BTreeSet<String>,
    /// The type that weights of products and convolutions are kept in; none: their own.
    pub weights: Option<DataType>,
    /// The outputs that are wanted; none: all.
    pub outputs: Vec<String>,
    /// Tells whether weights may have elements that are not numbers; without it they are an error.
    pub allow_nan: bool,
    /// Operators that ONNX does not have.
    pub operators: Vec<CustomOperator>,
    /// Tells whether nodes stay as the model has them, where others would do the same faster.
    pub plain: bool,
}
