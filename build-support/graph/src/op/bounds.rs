//! Numbers of a model that become extents and places, within bounds that prevent overflow.
//!
//! No extent is larger than 2^40, so a padding, a stride or a size beyond that is an error. It is
//! reported here, before it wraps to a plausible number.

use super::Call;
use crate::attrs::Attrs;
use crate::constant::{MOST_ELEMENTS, num_elements};
use crate::error::{Result, require};

/// Returns a number of an attribute or an input that is at most 2^40 and at least -2^40.
///
/// # Errors
/// Returns an error with the name for a number out of range.
pub(crate) fn bounded(name: &str, value: i64) -> Result<i64> {
    let fits = value.unsigned_abs() <= MOST_ELEMENTS.unsigned_abs();
    require!(fits, "{name} is {value}: expected a number from -2^40 to 2^40, as no extent is larger");
    Ok(value)
}

/// Returns all numbers of a list, as for [`bounded`].
///
/// # Errors
/// As for [`bounded`].
pub(crate) fn all_bounded(name: &str, values: Vec<i64>) -> Result<Vec<i64>> {
    for value in &values {
        let fits = value.unsigned_abs() <= MOST_ELEMENTS.unsigned_abs();
        require!(fits, "{name} has the number {value}: expected numbers from -2^40 to 2^40, as no extent is larger");
    }
    Ok(values)
}

/// Returns an integer of an attribute, as for [`bounded`].
///
/// # Errors
/// As for [`bounded`], and for a value of another kind.
pub(crate) fn size(attrs: &Attrs, name: &str, default: i64) -> Result<i64> {
    bounded(&format!("attribute `{name}`"), attrs.int(name, default)?)
}

/// Returns the integers of an attribute, as for [`bounded`]; `count` times the default if it is
/// missing.
///
/// # Errors
/// As for [`bounded`], and for another number of integers.
pub(crate) fn sizes(attrs: &Attrs, name: &str, default: i64, count: usize) -> Result<Vec<i64>> {
    let values = attrs.ints(name)?.unwrap_or_else(|| vec![default; count]);
    require!(values.len() == count, "attribute `{name}` has {} numbers, not {count}", values.len());
    all_bounded(&format!("attribute `{name}`"), values)
}

/// Returns the integers of an input that must be known, as for [`bounded`].
///
/// # Errors
/// As for [`bounded`], and if they are not known.
pub(super) fn known(call: &Call, index: usize) -> Result<Vec<i64>> {
    all_bounded(&format!("input {index}"), call.ints(index)?)
}

/// Checks an extent or a place that was computed without overflow. `what` describes it.
///
/// # Errors
/// Returns an error for a value beyond 2^40.
pub(crate) fn computed(value: i128, what: impl FnOnce() -> String) -> Result<i64> {
    match i64::try_from(value) {
        Ok(small) if small.unsigned_abs() <= MOST_ELEMENTS.unsigned_abs() => Ok(small),
        _ => crate::error::fail!("{} is {value}: expected at most 2^40", what()),
    }
}

/// Returns the product of extents and of numbers of attributes, as for [`computed`]. It is also
/// checked if another extent is 0, when the number of elements does not bound the factors.
///
/// # Errors
/// As for [`computed`].
pub(crate) fn product(factors: &[i64], what: impl FnOnce() -> String) -> Result<i64> {
    computed(factors.iter().fold(1, |all: i128, factor| all.saturating_mul(i128::from(*factor))), what)
}

/// Returns the number of elements that a window spans.
pub(crate) fn reach(kernel: i64, dilation: i64) -> i128 {
    (i128::from(kernel) - 1) * i128::from(dilation) + 1
}

/// Returns the number of windows along an axis whose extent is `free` elements larger than the span
/// of a window.
pub(crate) fn windows(free: i128, stride: i64) -> i128 {
    free / i128::from(stride) + 1
}

/// The number of elements of a shape.
///
/// # Errors
/// As for [`num_elements`].
pub(super) fn count(shape: &[i64]) -> Result<i64> {
    Ok(i64::try_from(num_elements(shape)?).unwrap_or(i64::MAX))
}
