//! Operators: each defines its computation with tensor expressions.
//!
//! An operator sees one node at a time: attributes, and inputs with their shapes, element types
//! and, if they are known, values. Its results also determine the shapes and types of the outputs,
//! so there is no second description to keep in sync.

mod attention;
pub(crate) mod beside;
mod block_product;
pub(crate) mod bounds;
mod byte_conv;
mod call;
mod cast;
pub(crate) mod checks;
pub(crate) mod classic;
pub(crate) mod conv;
mod conv_integer;
mod conv_transpose;
mod custom;
mod det;
mod einsum;
mod elementwise;
#[doc(hidden)]
pub mod extremum;
mod formula;
mod gather;
mod generate;
mod grid;
pub(crate) mod half;
mod image;
mod loss;
pub(crate) mod matmul;
pub(crate) mod ml;
mod move_data;
pub(crate) mod narrow;
mod native_loop;
mod norm;
mod order;
mod pick;
pub(crate) mod places;
mod pool;
mod quantize;
mod recurrent;
mod reduce;
mod resize;
mod scatter;
mod shape;
mod signal;
mod state;
#[doc(hidden)]
pub mod statements;
mod training;

pub(crate) use block_product::BLOCK_PRODUCT;
pub(crate) use byte_conv::{BYTE_CONV, CHANNELS};
pub(crate) use call::known_element;
pub use call::{Call, Operand, extents, tensor as element_tensor};
#[doc(hidden)]
pub use call::{axis_of, broadcast, flatten, unflatten};
pub use custom::{CustomOperator, NodeOp};
pub(crate) use native_loop::{IF, LOOP, SCAN};
pub(crate) use quantize::saturated;
pub(crate) use recurrent::{Activation, GRU_STEPS, LSTM_STEPS, RNN_STEPS};

use kernpack_compiler::ir::Tensor;

use crate::error::Result;

/// The property of an operator that determines its fusion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// The same elements in the same order: no kernel.
    View,
    /// Each element of the result from one element of each input, by position or by broadcasting.
    Elementwise,
    /// Each element of the result from some element of the inputs.
    Injective,
    /// Sums, maxima, norms: operators before and after can be fused with it.
    Reduction,
    /// Matrix products and convolutions: operators after it can be fused with it.
    Heavy,
    /// Not fused.
    Opaque,
}

/// An operator.
pub struct Operator {
    /// Its name in ONNX, in the domain "".
    pub name: &'static str,
    /// The fusion pattern.
    pub pattern: Pattern,
    /// Computes the outputs in order. Unused ones may be omitted at the end.
    pub make: fn(&Call) -> Result<Vec<Tensor>>,
}

/// All operators, by family.
const FAMILIES: &[&[Operator]] = &[
    attention::OPERATORS,
    cast::OPERATORS,
    classic::OPERATORS,
    conv::OPERATORS,
    conv_integer::OPERATORS,
    conv_transpose::OPERATORS,
    det::OPERATORS,
    einsum::OPERATORS,
    elementwise::UNARY,
    elementwise::BROADCASTING,
    elementwise::OTHERS,
    gather::OPERATORS,
    generate::OPERATORS,
    grid::OPERATORS,
    image::OPERATORS,
    loss::OPERATORS,
    matmul::OPERATORS,
    ml::OPERATORS,
    move_data::OPERATORS,
    norm::OPERATORS,
    order::OPERATORS,
    pick::OPERATORS,
    pool::OPERATORS,
    quantize::OPERATORS,
    reduce::OPERATORS,
    resize::OPERATORS,
    scatter::OPERATORS,
    shape::OPERATORS,
    signal::OPERATORS,
    state::OPERATORS,
    training::OPERATORS,
];

/// The operators of domains other than that of ONNX itself.
const DOMAINS: &[(&str, &[&str])] = &[
    ("ai.onnx.ml", &["ArrayFeatureExtractor", "Binarizer", "TreeEnsemble"]),
    ("ai.onnx.preview", &["FlexAttention"]),
    ("ai.onnx.preview.training", &["Adagrad", "Adam", "Momentum"]),
];

/// Attributes that passes of this crate set, and that a model must not have.
pub(crate) const OWN_ATTRIBUTES: &[&str] = &[conv::LAID_OUT, conv::ANY_EXTENTS, matmul::PANELS];

/// Returns the domain of an operator. "" is that of ONNX itself.
pub(crate) fn domain_of(name: &str) -> &'static str {
    let is_imported = ml::IMPORTED.contains(&name).then_some("ai.onnx.ml");
    let listed = || DOMAINS.iter().find(|(_, names)| names.contains(&name)).map(|(domain, _)| *domain);
    is_imported.or_else(listed).unwrap_or_default()
}

/// Returns the operator with a name.
pub fn find(name: &str) -> Option<&'static Operator> {
    FAMILIES.iter().flat_map(|family| family.iter()).find(|operator| operator.name == name)
}

/// Returns the names of all operators, sorted.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = FAMILIES.iter().flat_map(|family| family.iter()).map(|operator| operator.name).collect();
    names.sort_unstable();
    names
}

/// Operators, in addition to those with one formula, that compute each element only from elements
/// at the same position, broadcast by their last axes.
const BY_POSITION: &[&str] = &["Binarizer", "BitCast", "Cast", "CastLike", "Clip", "Max", "Mean", "Min", "Where"];

/// Returns true if an operator computes each element from elements at the same position, of any
/// shape after broadcasting: a pass may give it other shapes.
///
/// Being elementwise is not enough: `BatchNormalization` has numbers per channel, `Trilu` depends
/// on rows and columns, `QuantizeLinear` has scales along an axis. An operator that is neither in
/// the families of formulas nor in the list is left unchanged.
pub(crate) fn is_by_position(operator: &NodeOp) -> bool {
    let formulas = elementwise::UNARY.iter().chain(elementwise::BROADCASTING);
    operator.listed().is_some_and(|listed| {
        BY_POSITION.contains(&listed.name) || formulas.clone().any(|formula| formula.name == listed.name)
    })
}

/// Operators with results whose extents are data-dependent: the number of their outputs, and the
/// indices of these. After the outputs they return the extents of each. The outputs themselves have
/// the largest possible extents.
const SIZED_BY_DATA: &[(&str, usize, &[usize])] =
    &[("Compress", 1, &[0]), ("NonMaxSuppression", 1, &[0]), ("NonZero", 1, &[0]), ("Unique", 4, &[0, 1, 3])];

/// Returns the number of outputs of an operator, and the indices of those with data-dependent
/// extents.
pub(crate) fn sized_by_data(operator: &NodeOp) -> Option<(usize, &'static [usize])> {
    let listed = operator.listed()?;
    SIZED_BY_DATA.iter().find(|(name, ..)| *name == listed.name).map(|(_, count, which)| (*count, *which))
}
