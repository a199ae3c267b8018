//! Known values with the least extents: they have to follow from the extents as those of the
//! readings do.
//!
//! None of the readings has an extent of 1, so a number such as the larger one of `words` and 2, or
//! whether there is more than one word, may be one formula in all of them and another number there.

use std::collections::HashSet;

use kernpack_compiler::ir::DataTypeExt;

use super::{Formula, Threshold, whole};
use crate::constant::Constant;
use crate::error::{Result, fail};
use crate::graph::{Graph, Ranges, ValueId};

/// The maximum number of elements that are compared one by one with formulas.
const MOST: usize = 64;
/// The relative difference of an inverse that the file stores in single precision.
const ROUNDED: f64 = 1e-6;

/// Checks the known values that nodes read.
///
/// # Errors
/// Returns an error that names a value which does not follow from the extents in the same way.
pub(super) fn same_known(graph: &Graph, ranges: &Ranges, (smallest, least): (&Graph, &[i64])) -> Result<()> {
    let read: HashSet<ValueId> = smallest.nodes.iter().flat_map(|node| node.inputs.iter().flatten().copied()).collect();
    for (id, value) in smallest.values.iter().enumerate().filter(|(id, _)| read.contains(id)) {
        let Some(found) = &value.known else { continue };
        let all: Option<Vec<&Constant>> =
            ranges.readings(graph).map(|(_, graph)| graph.values[id].known.as_ref()).collect();
        let Some(all) = all else { continue };
        if !follows(ranges, &all, found, least)? {
            let shown = ranges.shown(least);
            fail!("the known value '{}' is computed in another way with {shown} than with larger extents", value.name);
        }
    }
    Ok(())
}

/// Returns true if a known value follows from the extents as those of the readings do, or if it is
/// not known how these do.
fn follows(ranges: &Ranges, all: &[&Constant], found: &Constant, least: &[i64]) -> Result<bool> {
    let first = all[0];
    if all.iter().all(|other| *other == first) {
        return Ok(found == first);
    }
    if all.iter().any(|other| other.shape() != first.shape()) {
        let is_corner = |other: &Constant| first.corner(other.shape()).is_ok_and(|corner| corner == *other);
        if all.iter().all(|other| is_corner(other)) {
            return Ok(is_corner(found));
        }
        let threshold = Threshold::of_readings(ranges, all);
        return Ok(threshold.is_none_or(|(numbers, first)| Threshold::follows(&numbers, &first, found, least)));
    }
    if first.len() > MOST || found.len() != first.len() {
        return Ok(true);
    }
    let numbers = |known: &Constant| {
        if known.dtype().is_integer() || known.dtype().is_bool() {
            #[expect(clippy::cast_precision_loss, reason = "numbers from extents are exact")]
            return Ok(known.to_ints()?.into_iter().map(|number| number as f64).collect());
        }
        known.to_floats()
    };
    let all: Vec<Vec<f64>> = all.iter().map(|known| numbers(known)).collect::<Result<_>>()?;
    let found = numbers(found)?;
    Ok(found.iter().enumerate().all(|(index, found)| {
        let values: Vec<f64> = all.iter().map(|numbers| numbers[index]).collect();
        expected(ranges, &values, least).is_none_or(|expected| {
            (expected - found).abs() <= ROUNDED * expected.abs() || expected.to_bits() == found.to_bits()
        })
    }))
}

/// Returns the number with the least extents, from those of the readings: the same one, a formula,
/// or its inverse. `None` if they are none of these.
fn expected(ranges: &Ranges, values: &[f64], least: &[i64]) -> Option<f64> {
    if values.iter().all(|value| value.to_bits() == values[0].to_bits()) {
        return Some(values[0]);
    }
    #[expect(clippy::cast_precision_loss, reason = "numbers from extents are exact")]
    let at = |values: &[i64]| Some(Formula::find(&ranges.extents(), &ranges.steps(), values)?.at(least)? as f64);
    if let Some(whole) = whole(values) {
        return at(&whole);
    }
    let inverses: Vec<f64> = values.iter().map(|value| (1.0 / value).round()).collect();
    let is_inverse = |(whole, value): (&f64, &f64)| (1.0 / whole - value).abs() <= ROUNDED * value.abs();
    let are_inverses = inverses.iter().zip(values).all(is_inverse);
    let at_least = if are_inverses { at(&whole(&inverses)?)? } else { return None };
    Some(1.0 / at_least)
}
