//! Norms of sums, and the embeddings in front of a transformer.

use super::{Contributed, Site, of_domain};
use crate::attrs::Attr;
use crate::error::{Result, fail, require};
use crate::graph::ValueId;
use kernpack_compiler::ir::{F32, F64};

/// The operators of this family.
pub(super) const OPERATORS: &[Contributed] = &[
    of_domain("EmbedLayerNormalization", embed),
    of_domain("SkipLayerNormalization", skip),
    of_domain("SkipSimplifiedLayerNormalization", skip_simplified),
    Contributed { domain: "", name: "SimplifiedLayerNormalization", make: simplified },
];

/// The default of attribute `epsilon`.
const EPSILON: f32 = 1e-12;

/// Adds the input, the skipped one and the bias. The skipped one may have fewer dimensions, or one
/// batch for all.
fn sum(site: &mut Site<'_>, bias: usize) -> Result<ValueId> {
    let (x, skipped) = (site.input(0)?, site.input(1)?);
    let (shape, other) = (site.shape(x), site.shape(skipped));
    require!((2..=3).contains(&shape.len()), "expected an input of two or three dimensions, got {shape:?}");
    let fits = other == shape || shape.len() == 3 && (other == shape[1..] || other[..] == [1, shape[1], shape[2]]);
    require!(fits, "input 1, {other:?}, does not fit input 0, {shape:?}");
    site.check_row(2, "the scale", x)?;
    site.check_row(bias, "the bias", x)?;
    let both = site.node("Add", &[], &[x, skipped])?;
    let bias = site.optional(bias);
    site.plus(both, bias)
}

/// Outputs: the norm, the mean and the inverse deviation of each row, the sum.
fn skip(site: &mut Site<'_>) -> Result<Vec<Option<ValueId>>> {
    let sum = sum(site, 4)?;
    site.check_row(3, "the shift", sum)?;
    let (scale, shift) = (site.input(2)?, site.optional(3));
    let epsilon = [("axis", Attr::Int(-1)), ("epsilon", Attr::Float(site.attrs.float32("epsilon", EPSILON)?))];
    let count = if site.wants(1) || site.wants(2) { 3 } else { 1 };
    let made = site.several("LayerNormalization", &epsilon, &[Some(sum), Some(scale), shift], count)?;
    Ok(vec![Some(made[0]), made.get(1).copied(), made.get(2).copied(), Some(sum)])
}

/// Like [`skip`], by the root of the mean square. There is no mean.
fn skip_simplified(site: &mut Site<'_>) -> Result<Vec<Option<ValueId>>> {
    let sum = sum(site, 3)?;
    let (scale, epsilon) = (site.input(2)?, site.attrs.float32("epsilon", EPSILON)?);
    let attrs = [("axis", Attr::Int(-1)), ("epsilon", Attr::Float(epsilon))];
    let y = site.node("RMSNormalization", &attrs, &[sum, scale])?;
    let inverse = if site.wants(2) { Some(inverse(site, sum, &[-1], epsilon)?) } else { None };
    Ok(vec![Some(y), None, inverse, Some(sum)])
}

/// Outputs: the norm, and the inverse root of the mean square of each row.
fn simplified(site: &mut Site<'_>) -> Result<Vec<Option<ValueId>>> {
    let (x, scale) = (site.input(0)?, site.input(1)?);
    let (axis, epsilon) = (site.attrs.int("axis", -1)?, site.attrs.float32("epsilon", 1e-5)?);
    let stash = site.attrs.int("stash_type", 1)?;
    require!(stash == 1 || stash == 11, "attribute `stash_type` is {stash}: expected 1 (float32) or 11 (float64)");
    let (of_x, of_scale) = (site.dtype(x), site.dtype(scale));
    require!(of_x == of_scale, "input 0 is {of_x} and the scale {of_scale}, which is not supported: cast one of them");
    let attrs = [("axis", Attr::Int(axis)), ("epsilon", Attr::Float(epsilon))];
    let y = site.node("RMSNormalization", &attrs, &[x, scale])?;
    if !site.wants(1) {
        return Ok(vec![Some(y)]);
    }
    let rank = i64::try_from(site.rank(x)).unwrap_or(0);
    let first = if axis < 0 { axis + rank } else { axis };
    let inverse = inverse(site, x, &(first..rank).collect::<Vec<_>>(), epsilon)?;
    // In the type of `stash_type`, also for an input of another one.
    let is_there = site.dtype(inverse) == if stash == 1 { F32 } else { F64 };
    let inverse = if is_there { inverse } else { site.node("Cast", &[("to", Attr::Int(stash))], &[inverse])? };
    Ok(vec![Some(y), Some(inverse)])
}

/// Computes `1 / sqrt(mean(x^2) + epsilon)` over axes, which are kept. Half precision is widened.
fn inverse(site: &mut Site<'_>, x: ValueId, axes: &[i64], epsilon: f32) -> Result<ValueId> {
    let wide = if site.dtype(x).bits() < 32 { site.node("Cast", &[("to", Attr::Int(1))], &[x])? } else { x };
    let squares = site.node("Mul", &[], &[wide, wide])?;
    let axes = site.emitter.ints(axes);
    let mean = site.node("ReduceMean", &[], &[squares, axes])?;
    let epsilon = site.number(epsilon, mean)?;
    let mean = site.node("Add", &[], &[mean, epsilon])?;
    let root = site.node("Sqrt", &[], &[mean])?;
    site.node("Reciprocal", &[], &[root])
}

/// Inputs: words, segments, the tables of words, positions and segments, scale and shift, a mask,
/// positions. Outputs: the norm, the number of words of each text, the sum.
fn embed(site: &mut Site<'_>) -> Result<Vec<Option<ValueId>>> {
    let (words, table) = (site.input(0)?, site.input(2)?);
    check_tables(site)?;
    let shape = site.shape(words);
    let [batch, length] = shape[..] else {
        fail!("input 0 is {shape:?}: expected numbers of words with two dimensions, batch and length")
    };
    let mut sum = site.node("Gather", &[], &[table, words])?;
    let positions = site.input(3)?;
    let rows = match site.optional(8) {
        Some(places) => {
            let own = site.shape(places);
            require!(own == [batch, length] || own == [1, length], "input 8, the positions, is {own:?} for {shape:?}");
            site.node("Gather", &[], &[positions, places])?
        }
        None => {
            let own = site.shape(positions);
            require!(own[0] >= length, "input 3, the table of positions, is {own:?}: expected at least {length} rows");
            site.part(positions, 0, 0, length)?
        }
    };
    sum = site.node("Add", &[], &[sum, rows])?;
    match (site.optional(1), site.optional(4)) {
        (Some(segments), Some(table)) => {
            let own = site.shape(segments);
            require!(own == shape, "input 1, the segments, is {own:?}: expected {shape:?}");
            let rows = site.node("Gather", &[], &[table, segments])?;
            sum = site.node("Add", &[], &[sum, rows])?;
        }
        (None, None) => {}
        _ => fail!("the segments, input 1, and their table, input 4, have to be given together"),
    }
    site.check_row(5, "the scale", sum)?;
    site.check_row(6, "the shift", sum)?;
    let (scale, shift) = (site.input(5)?, site.input(6)?);
    let epsilon = [("axis", Attr::Int(-1)), ("epsilon", Attr::Float(site.attrs.float32("epsilon", EPSILON)?))];
    let y = site.node("LayerNormalization", &epsilon, &[sum, scale, shift])?;
    let count = if site.wants(1) { Some(number_of_words(site, batch, &shape)?) } else { None };
    Ok(vec![Some(y), count, Some(sum)])
}

/// Checks that the tables of words, positions and segments have rows of the same length.
fn check_tables(site: &Site<'_>) -> Result<()> {
    let of_words = site.shape(site.input(2)?);
    for (index, what) in [(2, "words"), (3, "positions"), (4, "segments")] {
        let Some(table) = site.optional(index) else { continue };
        let own = site.shape(table);
        require!(
            own.len() == 2 && own.last() == of_words.last(),
            "input {index}, the table of {what}, is {own:?}: expected two dimensions, with rows as those of the words, {of_words:?}"
        );
    }
    Ok(())
}

/// Returns the number of ones of each row of the mask, and zeros without a mask.
fn number_of_words(site: &mut Site<'_>, batch: i64, shape: &[i64]) -> Result<ValueId> {
    let int32 = [("to", Attr::Int(6))];
    let Some(mask) = site.optional(7) else {
        let zeros = site.emitter.ints(&vec![0; usize::try_from(batch).unwrap_or(0)]);
        return site.node("Cast", &int32, &[zeros]);
    };
    let own = site.shape(mask);
    require!(own == shape, "input 7, the mask, is {own:?}: expected {shape:?}");
    let one = site.number(1.0, mask)?;
    let is_word = site.node("Equal", &[], &[mask, one])?;
    let is_word = site.node("Cast", &int32, &[is_word])?;
    let axes = site.emitter.ints(&[1]);
    site.node("ReduceSum", &[("keepdims", Attr::Int(0))], &[is_word, axes])
}
