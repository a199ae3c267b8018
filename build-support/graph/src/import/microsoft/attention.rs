//! `Attention` and `MultiHeadAttention`: products, masks that are added to the scores, softmax.

use super::mask::{Extents, masked};
use super::{Contributed, Site, of_domain};
use crate::attrs::Attr;
use crate::error::{Result, fail, require};
use crate::graph::ValueId;

/// The operators of this family.
pub(super) const OPERATORS: &[Contributed] =
    &[of_domain("Attention", attention), of_domain("MultiHeadAttention", multi_head)];

/// The order of dimensions for queries and values, from batch, place, head, element.
const BY_HEAD: [i64; 4] = [0, 2, 1, 3];

/// Queries, keys and values with the dimensions batch, head, place, element.
pub(super) struct Heads {
    pub(super) query: ValueId,
    pub(super) key: ValueId,
    pub(super) value: ValueId,
}

/// Returns attribute `num_heads`, or another one of its kind.
pub(super) fn number_of_heads(site: &Site<'_>, name: &str) -> Result<i64> {
    let heads = site.attrs.needed_int(name)?;
    require!(heads > 0, "attribute `{name}` is {heads}: expected a positive number");
    Ok(heads)
}

/// Reorders four dimensions.
pub(super) fn transposed(site: &mut Site<'_>, x: ValueId, perm: [i64; 4]) -> Result<ValueId> {
    site.node("Transpose", &[("perm", Attr::Ints(perm.to_vec()))], &[x])
}

/// Splits the last of three dimensions by heads, and moves the heads in front of the places.
pub(super) fn by_head(site: &mut Site<'_>, x: ValueId, heads: i64, what: &str) -> Result<ValueId> {
    let shape = site.shape(x);
    let [batch, length, all] = shape[..] else { fail!("{what} are {shape:?}: expected three dimensions") };
    require!(all % heads == 0, "the last dimension of {what}, {shape:?}, is not divided by {heads} heads");
    let split = site.reshaped(x, &[batch, length, heads, all / heads])?;
    transposed(site, split, BY_HEAD)
}

/// Returns the scale of scores: attribute `scale`, or `1 / sqrt(size)`.
pub(super) fn scale(site: &Site<'_>, size: i64) -> Result<f32> {
    Ok(match site.attrs.float32("scale", 0.0)? {
        0.0 => 1.0 / (size as f32).sqrt(),
        scale => scale,
    })
}

/// Computes the scores, changes them, and computes the means of values by their softmax. Returns
/// the result with the dimensions batch, place and elements of all heads, and the changed scores.
fn attend(
    site: &mut Site<'_>,
    heads: &Heads,
    change: impl FnOnce(&mut Site<'_>, ValueId) -> Result<ValueId>,
) -> Result<(ValueId, ValueId)> {
    let size = site.shape(heads.query)[3];
    let scale = scale(site, size)?;
    let turned = transposed(site, heads.key, [0, 1, 3, 2])?;
    let products = site.node("MatMul", &[], &[heads.query, turned])?;
    let scores = site.scaled(products, scale)?;
    let scores = change(site, scores)?;
    let weights = site.node("Softmax", &[("axis", Attr::Int(-1))], &[scores])?;
    let y = site.node("MatMul", &[], &[weights, heads.value])?;
    joined(site, y).map(|y| (y, scores))
}

/// Moves the heads behind the places, and joins them with the elements.
pub(super) fn joined(site: &mut Site<'_>, y: ValueId) -> Result<ValueId> {
    let shape = site.shape(y);
    let y = transposed(site, y, BY_HEAD)?;
    site.reshaped(y, &[shape[0], shape[2], shape[1] * shape[3]])
}

/// Appends keys or values to those of the past.
fn behind(site: &mut Site<'_>, past: ValueId, x: ValueId, what: &str) -> Result<ValueId> {
    let (shape, own) = (site.shape(past), site.shape(x));
    let fits = shape.len() == 4 && (0..4).all(|axis| axis == 2 || shape[axis] == own[axis]);
    require!(fits, "{what} of the past, {shape:?}, do not fit {own:?}");
    site.node("Concat", &[("axis", Attr::Int(2))], &[past, x])
}

/// Adds the mask, the order of places and the bias of the scores.
fn changed(site: &mut Site<'_>, scores: ValueId, mask: usize, past: i64) -> Result<ValueId> {
    let shape = site.shape(scores);
    // The mask of `Attention` is input 3, that of `MultiHeadAttention` input 4.
    let extents = Extents { batch: shape[0], length: shape[2], total: shape[3], past, has_ranges: mask == 3 };
    let masked = masked(site, scores, mask, &extents)?;
    let Some(bias) = site.optional(5) else { return Ok(masked) };
    check_bias(site, bias, &shape)?;
    site.node("Add", &[], &[masked, bias])
}

/// Checks a value that is added to scores.
pub(super) fn check_bias(site: &Site<'_>, bias: ValueId, scores: &[i64]) -> Result<()> {
    let shape = site.shape(bias);
    let fits = shape.len() == 4
        && shape[2..] == scores[2..]
        && (0..2).all(|axis| shape[axis] == scores[axis] || shape[axis] == 1);
    require!(fits, "the attention bias, {shape:?}, does not fit scores {scores:?}");
    Ok(())
}

/// Inputs: rows, the weights of queries, keys and values, their bias, a mask, keys and values of
/// the past, a bias of the scores. Outputs: the result, all keys and values.
fn attention(site: &mut Site<'_>) -> Result<Vec<Option<ValueId>>> {
    site.refuse_flag("do_rotary")?;
    site.refuse_flag("past_present_share_buffer")?;
    site.refuse(6, "the length of the past")?;
    let mut heads = projected(site)?;
    let mut past = 0;
    if let Some(both) = site.optional(4) {
        let shape = site.shape(both);
        require!(
            shape.len() == 5 && shape[0] == 2,
            "input 4, the past, is {shape:?}: expected keys and values, [2, ..]"
        );
        past = shape[3];
        let (key, value) = (site.emitter.slice(both, 0, 0)?, site.emitter.slice(both, 0, 1)?);
        heads.key = behind(site, key, heads.key, "keys")?;
        heads.value = behind(site, value, heads.value, "values")?;
    }
    let (y, _) = attend(site, &heads, |site, scores| changed(site, scores, 3, past))?;
    if !site.wants(1) {
        return Ok(vec![Some(y)]);
    }
    let (key, value) = (site.shape(heads.key), site.shape(heads.value));
    require!(key == value, "output 1 joins keys {key:?} and values {value:?}, which have to have the same shape");
    let present = site.emitter.stack(&[heads.key, heads.value], 0)?;
    Ok(vec![Some(y), Some(present)])
}

/// Returns the products of the rows with the weights, as queries, keys and values.
fn projected(site: &mut Site<'_>) -> Result<Heads> {
    let (x, weights, heads) = (site.input(0)?, site.input(1)?, number_of_heads(site, "num_heads")?);
    let (shape, own) = (site.shape(x), site.shape(weights));
    let fits = shape.len() == 3 && own.len() == 2 && own[0] == shape[2];
    require!(fits, "weights {own:?} do not fit an input {shape:?}");
    let sizes = match site.attrs.ints("qkv_hidden_sizes")? {
        None => vec![own[1] / 3; 3],
        Some(sizes) => sizes,
    };
    let fits = sizes.len() == 3
        && sizes.iter().all(|size| *size > 0 && size % heads == 0)
        && sizes[0] == sizes[1]
        && sizes.iter().map(|size| i128::from(*size)).sum::<i128>() == i128::from(own[1]);
    require!(
        fits,
        "the {} columns of the weights are not queries and keys of one size, and values, of {heads} heads: sizes {sizes:?}",
        own[1]
    );
    site.check_row(2, "the bias", weights)?;
    let products = site.node("MatMul", &[], &[x, weights])?;
    let bias = site.optional(2);
    let all = site.plus(products, bias)?;
    let (batch, length) = (shape[0], shape[1]);
    if sizes[0] == sizes[2] {
        let split = site.reshaped(all, &[batch, length, 3, heads, sizes[0] / heads])?;
        return unpacked(site, split, 2);
    }
    let mut parts = Vec::new();
    let mut from = 0;
    for size in sizes {
        let part = site.part(all, 2, from, from + size)?;
        parts.push(by_head(site, part, heads, "the products")?);
        from += size;
    }
    Ok(Heads { query: parts[0], key: parts[1], value: parts[2] })
}

/// Takes queries, keys and values apart, which lie side by side along an axis.
fn unpacked(site: &mut Site<'_>, all: ValueId, axis: i64) -> Result<Heads> {
    let mut part = |index: i64| {
        let part = site.emitter.slice(all, axis, index)?;
        transposed(site, part, BY_HEAD)
    };
    Ok(Heads { query: part(0)?, key: part(1)?, value: part(2)? })
}

/// Inputs: queries, keys, values, their bias, a mask of the keys, a bias of the scores, keys and
/// values of the past. Outputs: the result, all keys, all values, the scores before the softmax.
fn multi_head(site: &mut Site<'_>) -> Result<Vec<Option<ValueId>>> {
    site.refuse(8, "the length of the past")?;
    site.refuse(9, "the indirection of the cache")?;
    let mut heads = given(site)?;
    let (query, key, value) = (site.shape(heads.query), site.shape(heads.key), site.shape(heads.value));
    let fits = query[0] == key[0] && query[1] == key[1] && query[3] == key[3] && key[..3] == value[..3];
    require!(fits, "queries {query:?}, keys {key:?} and values {value:?} (batch, head, place, element) do not fit");
    let is_causal = site.attrs.flag("unidirectional", false)?;
    require!(
        !is_causal || query[2] == key[2],
        "attribute `unidirectional` is 1 for {} queries and {} keys: expected as many keys as queries",
        query[2],
        key[2]
    );
    let past = match (site.optional(6), site.optional(7)) {
        (Some(past_key), Some(past_value)) => {
            heads.key = behind(site, past_key, heads.key, "keys")?;
            heads.value = behind(site, past_value, heads.value, "values")?;
            site.shape(past_key)[2]
        }
        (None, None) => 0,
        _ => fail!("keys and values of the past, inputs 6 and 7, have to be given together"),
    };
    let (y, scores) = attend(site, &heads, |site, scores| changed(site, scores, 4, past))?;
    Ok(vec![Some(y), Some(heads.key), Some(heads.value), Some(scores)])
}

/// Returns queries, keys and values of the inputs, in each of the forms that they may have.
fn given(site: &mut Site<'_>) -> Result<Heads> {
    let (query, heads) = (site.input(0)?, number_of_heads(site, "num_heads")?);
    let (key, value) = (site.optional(1), site.optional(2));
    let (shape, bias) = (site.shape(query), site.optional(3));
    let is_packed = shape.len() == 5 || key.is_some_and(|key| site.rank(key) == 5);
    require!(bias.is_none() || !is_packed, "a bias of packed inputs is not supported");
    let (Some(key), Some(value)) = (key, value) else {
        return packed(site, query, key.or(value), heads);
    };
    require!(shape.len() == 3, "queries are {shape:?}: expected three dimensions beside keys and values");
    let (of_key, of_value) = (site.shape(key), site.shape(value));
    let is_split = of_key.len() == 4;
    require!(
        of_value.len() == of_key.len() && (is_split || of_key.len() == 3),
        "keys are {of_key:?} and values {of_value:?}: expected three or four dimensions of both"
    );
    let mut parts = [query, key, value];
    if let Some(bias) = bias {
        let last = |shape: &[i64]| if is_split { shape[1] * shape[3] } else { shape[2] };
        let sizes = [shape[2], last(&of_key), last(&of_value)];
        let own = site.shape(bias);
        require!(
            own == [sizes.iter().sum::<i64>()],
            "input 3, the bias, is {own:?} for queries, keys and values of {sizes:?}"
        );
        // Keys and values by head have their bias already.
        let count = if is_split { 1 } else { 3 };
        let mut from = 0;
        for (part, size) in parts.iter_mut().zip(sizes).take(count) {
            let own = site.part(bias, 0, from, from + size)?;
            *part = site.node("Add", &[], &[*part, own])?;
            from += size;
        }
    }
    let query = by_head(site, parts[0], heads, "queries")?;
    if is_split {
        return Ok(Heads { query, key, value });
    }
    let (key, value) = (by_head(site, parts[1], heads, "keys")?, by_head(site, parts[2], heads, "values")?);
    Ok(Heads { query, key, value })
}

/// Returns the parts of queries, keys and values in one input, or of keys and values in one.
fn packed(site: &mut Site<'_>, query: ValueId, key: Option<ValueId>, heads: i64) -> Result<Heads> {
    let Some(key) = key else {
        let shape = site.shape(query);
        let fits = shape.len() == 5 && shape[2] == heads && shape[3] == 3;
        require!(fits, "queries are {shape:?}: without keys and values expected [.., .., {heads}, 3, ..]");
        return unpacked(site, query, 3);
    };
    let shape = site.shape(key);
    let fits = shape.len() == 5 && shape[2] == heads && shape[3] == 2 && site.optional(2).is_none();
    require!(fits, "keys are {shape:?}: without values expected [.., .., {heads}, 2, ..]");
    let query = by_head(site, query, heads, "queries")?;
    let (own, value) = (site.emitter.slice(key, 3, 0)?, site.emitter.slice(key, 3, 1)?);
    let (key, value) = (transposed(site, own, BY_HEAD)?, transposed(site, value, BY_HEAD)?);
    Ok(Heads { query, key, value })
}
