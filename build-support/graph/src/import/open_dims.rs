//! Names and extents of the dimensions of inputs that a model leaves open.
//!
//! Most exporters name them. Others write -1 or nothing, such as paddle2onnx and skl2onnx: such a
//! dimension has the name `INPUT.AXIS` here, so that it can be set like others.

use std::borrow::Cow;

use crate::onnx::{Dim, ValueInfo, ValueType};
use crate::options::ModelOptions;

/// Returns the name of a dimension that the model leaves open: `x.0` if it has none.
pub(super) fn name<'d>(input: &str, axis: usize, dim: &'d str) -> Cow<'d, str> {
    if dim.is_empty() { Cow::Owned(format!("{input}.{axis}")) } else { Cow::Borrowed(dim) }
}

/// Returns the names of the dimensions that a model leaves open, sorted. Inputs whose shape or
/// value the options set do not count.
pub(super) fn names(inputs: Vec<ValueInfo>, options: &ModelOptions) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for input in inputs {
        let is_set = options.inputs.contains_key(&input.name) || options.constants.contains_key(&input.name);
        if let (false, ValueType::Tensor(_, Some(dims))) = (is_set, &input.ty) {
            names.extend(dims.iter().enumerate().filter_map(|(axis, dim)| match dim {
                Dim::Named(dim) => Some(name(&input.name, axis, dim).into_owned()),
                Dim::Known(_) => None,
            }));
        }
    }
    names.sort();
    names.dedup();
    names
}

/// Returns the extent of the first dimension of inputs in which it has no name, if the options set
/// it for one of them, or the same for several: it is the batch.
pub(super) fn batch(inputs: &[ValueInfo], options: &ModelOptions) -> Option<i64> {
    let mut extents = inputs.iter().filter_map(|input| match &input.ty {
        ValueType::Tensor(_, Some(dims)) if dims.first() == Some(&Dim::Named(String::new())) => {
            options.dims.get(&*name(&input.name, 0, "")).copied()
        }
        _ => None,
    });
    let first = extents.next()?;
    extents.all(|extent| extent == first).then_some(first)
}
