//! Infers shapes and types of inputs and outputs from each other.

use kernpack::DataType;
use kernpack_graph::{Result, fail};

use crate::symbol::{PartialShape, Use};

/// Merges two partially known shapes. Extents of 0 are unknown.
///
/// # Errors
/// Returns an error if they contradict each other.
pub(crate) fn merge(a: &[i64], b: &[i64]) -> Result<PartialShape> {
    if a.is_empty() || b.is_empty() {
        return Ok(if a.is_empty() { b.to_vec() } else { a.to_vec() });
    }
    let merged: Option<PartialShape> = if a.len() == b.len() {
        a.iter().zip(b).map(|(x, y)| if *x == 0 { Some(*y) } else { (*y == 0 || x == y).then_some(*x) }).collect()
    } else {
        None
    };
    match merged {
        Some(merged) => Ok(merged),
        None => fail!("shapes {a:?} and {b:?} do not fit"),
    }
}

/// Returns true if all extents are known.
pub(crate) fn is_known(shape: &[i64]) -> bool {
    !shape.is_empty() && !shape.contains(&0)
}

/// Sets a shape. The pass reports contradictions, with names.
pub(crate) fn set(shape: &mut PartialShape, found: &[i64]) -> Result<()> {
    *shape = merge(shape, found)?;
    Ok(())
}

/// All inputs and outputs have the same shape.
pub(crate) fn same_shape(_: &Use, ins: &mut [PartialShape], outs: &mut [PartialShape]) -> Result<()> {
    let mut all = PartialShape::new();
    for shape in ins.iter().chain(outs.iter()) {
        all = merge(&all, shape)?;
    }
    for shape in ins.iter_mut().chain(outs.iter_mut()) {
        shape.clone_from(&all);
    }
    Ok(())
}

/// Returns the product of extents, or `None` if one is not known or the product is too large.
pub(crate) fn count(shape: &[i64]) -> Option<i64> {
    if !is_known(shape) {
        return None;
    }
    shape.iter().try_fold(1_i64, |product, extent| product.checked_mul(*extent))
}

/// The outputs have the type of the first input, whatever the types of the others are.
pub(crate) fn first_type(_: &Use, ins: &mut [Option<DataType>], outs: &mut [Option<DataType>]) -> Result<()> {
    let known = ins.first().copied().flatten().or_else(|| outs.iter().find_map(|dtype| *dtype));
    for dtype in ins.iter_mut().take(1).chain(outs.iter_mut()) {
        *dtype = dtype.or(known);
    }
    Ok(())
}
