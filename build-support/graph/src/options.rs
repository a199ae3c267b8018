//! Options of a build script for a model.

use std::collections::{BTreeMap, BTreeSet};

use kernpack::DataType;

use crate::constant::Constant;
use crate::graph::RangeDim;
use crate::op::CustomOperator;

/// Options of a build script for a model.
#[derive(Clone, Debug, Default)]
pub struct ModelOptions {
    /// Extents of dimensions by their names in the model.
    pub dims: BTreeMap<String, i64>,
    /// The largest extent of a dynamic dimension, by its name in the model: at most one dimension.
    pub up_to: BTreeMap<String, i64>,
    /// The allowed extents of a dynamic dimension, by its name in the model: at most one dimension.
    pub dims_in: BTreeMap<String, Vec<i64>>,
    /// Dynamic dimensions with any extents of a range.
    pub ranges: Vec<RangeDim>,
    /// Extents of dimensions that follow from others, by their names: sums such as `past + tokens`.
    pub sums: BTreeMap<String, String>,
    /// Shapes of inputs by their names.
    pub inputs: BTreeMap<String, Vec<i64>>,
    /// Inputs that always have the same value, by their names.
    pub constants: BTreeMap<String, Constant>,
    /// Inputs that are sequences of tensors: the shape of each tensor, by the names of the inputs.
    pub sequences: BTreeMap<String, Vec<Vec<i64>>>,
    /// The maximum number of iterations of loops whose number of iterations is only known at run
    /// time, by the names of their nodes.
    pub bounds: BTreeMap<String, i64>,
    /// Optional inputs that are missing.
    pub absent: BTreeSet<String>,
    /// The type in which weights of matrix products and convolutions are stored. `None` keeps their
    /// own type.
    pub weights: Option<DataType>,
    /// The outputs to compute. Empty means all.
    pub outputs: Vec<String>,
    /// True if weights may have NaN elements, which are an error otherwise.
    pub allow_nan: bool,
    /// Operators that ONNX does not have.
    pub operators: Vec<CustomOperator>,
    /// True to keep the nodes of the model instead of replacing them with faster equivalents.
    pub plain: bool,
    /// True while a model is read for ranges of extents: the importer then does not replace nodes
    /// by others that are right only for these extents.
    #[doc(hidden)]
    pub for_any_extents: bool,
    /// True to keep the text of the graph after each pass.
    pub dump: bool,
}
