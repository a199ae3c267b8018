//! Names and extents of the dimensions of inputs that a model leaves open.
//!
//! Most exporters name them. Others write -1 or nothing, such as paddle2onnx and skl2onnx: such a
//! dimension has the name `INPUT.AXIS` here, so that it can be set like others.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::dynamic::listed;
use crate::error::{Result, require};
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

/// Returns the extent of a dimension, if the options set it, or set all dimensions of a sum that it
/// is: the options have the sum by its name, or the name is one, as exporters write for caches:
/// `past_sequence_length + 1`.
pub(super) fn extent(name: &str, options: &ModelOptions) -> Option<i64> {
    let sum = || total(options.sums.get(name).map_or(name, String::as_str), &options.dims);
    options.dims.get(name).copied().or_else(sum)
}

/// Returns the value of a sum of products of dimensions and numbers.
fn total(sum: &str, dims: &BTreeMap<String, i64>) -> Option<i64> {
    let factor = |text: &str| {
        let name = text.trim();
        dims.get(name).copied().or_else(|| name.parse().ok())
    };
    let product = |text: &str| text.split('*').try_fold(1_i64, |product, text| product.checked_mul(factor(text)?));
    sum.split('+').try_fold(0_i64, |total, text| total.checked_add(product(text)?))
}

/// Returns an error for a sum whose parts are not dimensions or numbers, or for a dimension that is
/// also set otherwise.
pub(super) fn check_sums(options: &ModelOptions, named: &[String]) -> Result<()> {
    for (name, sum) in &options.sums {
        let is_set = options.dims.contains_key(name) || options.ranges.iter().any(|dim| dim.name == *name);
        require!(
            !is_set,
            "the dimension '{name}' is given the sum `{sum}`, and an extent or a range: one of them is enough"
        );
        require!(named.contains(name), "the model has no dimension '{name}' that is open; it has: {}", listed(named));
        for part in sum.split(['+', '*']).map(str::trim) {
            let is_dim = options.dims.contains_key(part) || options.ranges.iter().any(|dim| dim.name == part);
            require!(
                is_dim || part.parse::<i64>().is_ok(),
                "the dimension '{name}' is given the sum `{sum}`, and '{part}' is not a number or a dimension with an extent or a range"
            );
        }
    }
    Ok(())
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
