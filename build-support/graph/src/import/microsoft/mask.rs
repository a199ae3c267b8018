//! Masks of attention: numbers that are added to the scores.

use super::Site;
use crate::constant::Constant;
use crate::error::{Result, fail};
use crate::graph::ValueId;
use kernpack::DataType;
use kernpack_compiler::ir::{BF16, F16};

/// The number of batches, queries, keys, and keys of the past.
pub(super) struct Extents {
    pub(super) batch: i64,
    pub(super) length: i64,
    pub(super) total: i64,
    pub(super) past: i64,
    /// True if a mask may also have the number of keys before the first one of each batch.
    pub(super) has_ranges: bool,
}

/// Returns the least finite number of a type, in single precision.
pub(super) fn least(dtype: DataType) -> f32 {
    match () {
        () if dtype == F16 => -65504.0,
        () if dtype == BF16 => f32::from_bits(0xff7f_0000),
        () => f32::MIN,
    }
}

/// Adds a range of integers as a row, of the type of another value.
pub(super) fn places(site: &mut Site<'_>, count: i64, like: ValueId) -> Result<ValueId> {
    let row = site.emitter.ints(&(0..count).collect::<Vec<_>>());
    site.node("CastLike", &[], &[row, like])
}

/// Adds the mask of an input to scores, and with attribute `unidirectional` masks keys that are
/// later than the query. Masked scores become smaller by attribute `mask_filter_value`; those of
/// later keys have the least number instead of the mask, as onnxruntime has it.
pub(super) fn masked(site: &mut Site<'_>, scores: ValueId, index: usize, extents: &Extents) -> Result<ValueId> {
    let later = if site.attrs.flag("unidirectional", false)? { Some(later(site, extents)?) } else { None };
    let mask = match kept(site, index, extents)? {
        Some(kept) => {
            let filter = site.attrs.float32("mask_filter_value", -10_000.0)?;
            let (zero, filter) = (site.number(0.0, scores)?, site.number(filter, scores)?);
            Some(site.node("Where", &[], &[kept, zero, filter])?)
        }
        None => None,
    };
    let mask = match (mask, later) {
        (None, None) => return Ok(scores),
        (Some(mask), None) => mask,
        (mask, Some(later)) => {
            let dtype = site.dtype(scores);
            let least = site.number(least(dtype), scores)?;
            let mask = match mask {
                Some(mask) => mask,
                None => site.number(0.0, scores)?,
            };
            site.node("Where", &[], &[later, least, mask])?
        }
    };
    site.node("Add", &[], &[scores, mask])
}

/// Returns the pairs of a query and a key after it, as known truth values.
fn later(site: &mut Site<'_>, extents: &Extents) -> Result<ValueId> {
    let keys = site.emitter.ints(&(0..extents.total).collect::<Vec<_>>());
    let queries: Vec<i64> = (extents.past..extents.past + extents.length).collect();
    let queries = Constant::of_ints(&queries).reshaped(&[extents.length, 1])?;
    let queries = site.emitter.graph.add_known(site.emitter.name, queries);
    site.node("Greater", &[], &[keys, queries])
}

/// Returns the keys that a mask keeps, with the dimensions of scores. A mask has a number for each
/// key, or for each query and key; or it is the number of keys of each batch, for `Attention` also
/// followed by the number of keys before the first one.
fn kept(site: &mut Site<'_>, index: usize, extents: &Extents) -> Result<Option<ValueId>> {
    let Some(mask) = site.optional(index) else { return Ok(None) };
    let Extents { batch, length, total, has_ranges, .. } = *extents;
    let shape = site.shape(mask);
    let axes: &[i64] = match shape[..] {
        [a, b] if [a, b] == [batch, total] => &[1, 2],
        [a, b, c] if [a, b, c] == [batch, length, total] => &[1],
        [count] if count == batch => {
            let ends = site.unsqueezed(mask, &[1, 2, 3])?;
            let keys = places(site, total, mask)?;
            return site.node("Less", &[], &[keys, ends]).map(Some);
        }
        [count] if count == 2 * batch && has_ranges => {
            let (ends, begins) = (site.part(mask, 0, 0, batch)?, site.part(mask, 0, batch, count)?);
            let (ends, begins) = (site.unsqueezed(ends, &[1, 2, 3])?, site.unsqueezed(begins, &[1, 2, 3])?);
            let keys = places(site, total, mask)?;
            let (before, behind) =
                (site.node("Less", &[], &[keys, ends])?, site.node("GreaterOrEqual", &[], &[keys, begins])?);
            return site.node("And", &[], &[before, behind]).map(Some);
        }
        _ => {
            let twice = if has_ranges { format!(", [{}]", 2 * batch) } else { String::new() };
            fail!(
                "input {index}, the mask, is {shape:?}, which is not supported: expected [{batch}, {total}], [{batch}, {length}, {total}], [{batch}]{twice}"
            )
        }
    };
    let mask = site.unsqueezed(mask, axes)?;
    let zero = site.number(0.0, mask)?;
    site.node("Greater", &[], &[mask, zero]).map(Some)
}
