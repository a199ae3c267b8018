//! `GroupQueryAttention`: each head of keys serves several heads of queries, with a cache of keys
//! and values.
//!
//! The new keys of a batch are in the cache behind those that input 5, `seqlens_k`, counts. So each
//! batch may have another length.

use super::attention::{by_head, check_bias, joined, number_of_heads, scale, transposed};
use super::mask::{least, places};
use super::rotary::{check_sines, following};
use super::{Contributed, Site, of_domain};
use crate::attrs::Attr;
use crate::error::{Result, fail, require};
use crate::graph::ValueId;

/// The operators of this family.
pub(super) const OPERATORS: &[Contributed] = &[of_domain("GroupQueryAttention", group_query)];

/// The extents, and the places of queries.
struct Group {
    batch: i64,
    /// The number of queries.
    length: i64,
    /// The number of keys of the past.
    past: i64,
    /// The number of keys in the result.
    total: i64,
    heads: i64,
    key_heads: i64,
    /// The place of the first query of each batch. `None` is 0.
    first: Option<ValueId>,
    /// The number of keys of each batch.
    count: ValueId,
}

/// Refuses attributes and inputs that onnxruntime has for other devices.
fn check(site: &Site<'_>) -> Result<()> {
    for name in ["kv_cache_bit_width", "qk_output", "sliding_window_cache"] {
        site.refuse_flag(name)?;
    }
    for name in ["k_quant_type", "v_quant_type"] {
        let kind = site.attrs.text(name, "NONE")?;
        require!(kind == "NONE", "attribute `{name}` is `{kind}`: quantized caches are not supported");
    }
    for (index, what) in [(12, "the scale of keys"), (13, "the scale of values"), (16, "the number of valid queries")] {
        site.refuse(index, what)?;
    }
    Ok(())
}

/// Inputs: queries, keys, values, keys and values of the past, the number of keys of each batch
/// less one, the largest number of keys, cosines and sines by place, places, a bias of the scores,
/// a score of each head that is only in the sum of the softmax, scales of keys and values, the
/// weights of norms of queries and keys. Outputs: the result, all keys, all values.
fn group_query(site: &mut Site<'_>) -> Result<Vec<Option<ValueId>>> {
    check(site)?;
    let (mut query, mut key, value) = parts(site)?;
    let group = group(site, query, key)?;
    if let (Some(of_query), Some(of_key)) = (site.optional(14), site.optional(15)) {
        query = normalized(site, query, of_query, "q_norm_epsilon")?;
        key = normalized(site, key, of_key, "k_norm_epsilon")?;
    } else {
        require!(
            site.optional(14).is_none() && site.optional(15).is_none(),
            "the weights of norms, inputs 14 and 15, have to be given together"
        );
    }
    if site.attrs.flag("do_rotary", false)? {
        let places = rotary_places(site, &group)?;
        (query, key) = (rotated(site, query, places)?, rotated(site, key, places)?);
    }
    let (key, value) = (cached(site, &group, key, 3)?, cached(site, &group, value, 4)?);
    let size = site.shape(query)[3];
    // The heads of queries of a head of keys are rows of one product.
    let rows = [group.batch, group.key_heads, group.heads / group.key_heads * group.length];
    let query = site.reshaped(query, &[rows[0], rows[1], rows[2], size])?;
    let turned = transposed(site, key, [0, 1, 3, 2])?;
    let products = site.node("MatMul", &[], &[query, turned])?;
    let factor = scale(site, size)?;
    let scores = site.scaled(products, factor)?;
    let scores = site.reshaped(scores, &[group.batch, group.heads, group.length, group.total])?;
    let scores = changed(site, &group, scores)?;
    let weights = softmax(site, &group, scores)?;
    let weights = site.reshaped(weights, &[rows[0], rows[1], rows[2], group.total])?;
    let y = site.node("MatMul", &[], &[weights, value])?;
    let y = site.reshaped(y, &[group.batch, group.heads, group.length, size])?;
    let y = joined(site, y)?;
    Ok(vec![Some(y), Some(key), Some(value)])
}

/// Returns queries, keys and values with the dimensions batch, head, place and element. Without
/// keys and values, they are parts of the queries.
fn parts(site: &mut Site<'_>) -> Result<(ValueId, ValueId, ValueId)> {
    let (heads, key_heads) = (number_of_heads(site, "num_heads")?, number_of_heads(site, "kv_num_heads")?);
    require!(
        heads % key_heads == 0,
        "attribute `num_heads` is {heads}, which is not a multiple of attribute `kv_num_heads`, {key_heads}"
    );
    let query = site.input(0)?;
    let (query, key, value) = match (site.optional(1), site.optional(2)) {
        (Some(key), Some(value)) => (query, key, value),
        (None, None) => {
            let shape = site.shape(query);
            let all = heads + 2 * key_heads;
            require!(
                shape.len() == 3 && shape[2] % all == 0,
                "queries are {shape:?}: without keys and values expected a last dimension of {all} heads"
            );
            let size = shape[2] / all;
            let [first, second] = [heads * size, (heads + key_heads) * size];
            (
                site.part(query, 2, 0, first)?,
                site.part(query, 2, first, second)?,
                site.part(query, 2, second, shape[2])?,
            )
        }
        _ => fail!("keys and values, inputs 1 and 2, have to be given together"),
    };
    let query = by_head(site, query, heads, "queries")?;
    let (key, value) = (by_head(site, key, key_heads, "keys")?, by_head(site, value, key_heads, "values")?);
    let (of_query, of_key, of_value) = (site.shape(query), site.shape(key), site.shape(value));
    let fits = of_key == of_value && of_query[0] == of_key[0] && of_query[2..] == of_key[2..];
    require!(
        fits,
        "queries {of_query:?}, keys {of_key:?} and values {of_value:?} (batch, head, place, element) do not fit"
    );
    Ok((query, key, value))
}

/// Reads the extents.
fn group(site: &mut Site<'_>, query: ValueId, key: ValueId) -> Result<Group> {
    let (shape, of_key) = (site.shape(query), site.shape(key));
    let [batch, heads, length, _] = shape[..] else { fail!("queries are {shape:?}") };
    let past = match (site.optional(3), site.optional(4)) {
        (Some(keys), Some(values)) => {
            for (past, what) in [(keys, "keys"), (values, "values")] {
                let own = site.shape(past);
                let fits = own.len() == 4 && (0..4).all(|axis| axis == 2 || own[axis] == of_key[axis]);
                require!(fits, "{what} of the past, {own:?}, do not fit {of_key:?}");
            }
            let (past, own) = (site.shape(keys)[2], site.shape(values)[2]);
            require!(past == own, "the past has {past} keys and {own} values");
            past
        }
        (None, None) => 0,
        _ => fail!("keys and values of the past, inputs 3 and 4, have to be given together"),
    };
    let counts = site.input(5)?;
    let own = site.shape(counts);
    require!(
        own == [batch] || own == [batch, 1],
        "input 5, the number of keys of each batch less one, is {own:?}: expected [{batch}]"
    );
    let counts = site.reshaped(counts, &[batch])?;
    let one = site.number(1.0, counts)?;
    let count = site.node("Add", &[], &[counts, one])?;
    let largest = site.input(6)?;
    let total = total(site.emitter.known_int(largest)?, past, length)?;
    let first = if past == 0 { None } else { Some(first(site, count, length)?) };
    Ok(Group { batch, length, past, total, heads, key_heads: of_key[1], first, count })
}

/// Returns the number of keys of the result. A cache grows by the new keys, unless the known number
/// of keys of the longest batch says that they have a place in it.
fn total(known: Option<i64>, past: i64, length: i64) -> Result<i64> {
    let grown = past + length;
    match known {
        Some(known) if known != grown => {
            require!(
                length <= known && known <= past,
                "input 6, the largest number of keys, is {known}: expected {grown}, or at least {length} and at most the {past} keys of the past"
            );
            Ok(past)
        }
        _ => Ok(grown),
    }
}

/// Returns the place of the first query of each batch. The first texts of a cache begin at 0, also
/// those that are shorter than the number of queries.
fn first(site: &mut Site<'_>, count: ValueId, length: i64) -> Result<ValueId> {
    let own = site.number(length as f32, count)?;
    let first = site.node("Sub", &[], &[count, own])?;
    if length == 1 {
        return Ok(first);
    }
    let zero = site.number(0.0, count)?;
    site.node("Max", &[], &[first, zero])
}

/// Returns the places of queries: a row, or one for each batch.
fn query_places(site: &mut Site<'_>, group: &Group) -> Result<ValueId> {
    let steps = places(site, group.length, group.count)?;
    let steps = site.unsqueezed(steps, &[0])?;
    let Some(first) = group.first else { return Ok(steps) };
    let first = site.unsqueezed(first, &[1])?;
    site.node("Add", &[], &[steps, first])
}

/// Returns the places for rotations: those of input 9, of which a first text only has the first
/// one, or those of queries.
fn rotary_places(site: &mut Site<'_>, group: &Group) -> Result<ValueId> {
    let places = match site.optional(9) {
        Some(places) => {
            let shape = site.shape(places);
            let expected = [group.batch, group.length];
            require!(shape == expected, "input 9, the places, is {shape:?}: expected {expected:?}");
            if group.past == 0 && group.length > 1 {
                let row = site.part(places, 0, 0, 1)?;
                let first = site.part(row, 1, 0, 1)?;
                let first = site.reshaped(first, &[1])?;
                following(site, first, group.length)?
            } else {
                places
            }
        }
        None => query_places(site, group)?,
    };
    let places = site.node("Cast", &[("to", Attr::Int(7))], &[places])?;
    site.expanded(places, &[group.batch, group.length])
}

/// Rotates the elements of each head.
fn rotated(site: &mut Site<'_>, x: ValueId, places: ValueId) -> Result<ValueId> {
    let (cosines, sines) = (site.input(7)?, site.input(8)?);
    let (shape, size) = (site.shape(cosines), site.shape(x)[3]);
    let [_, half] = shape[..] else { fail!("input 7, the cosines, is {shape:?}: expected two dimensions") };
    require!(half > 0 && 2 * half <= size, "input 7, the cosines, is {shape:?}: expected at most {} columns", size / 2);
    check_sines(site, 8, &shape)?;
    let attrs = [
        ("interleaved", Attr::Int(site.attrs.flag("rotary_interleaved", false)?.into())),
        ("rotary_embedding_dim", Attr::Int(2 * half)),
    ];
    site.node("RotaryEmbedding", &attrs, &[x, cosines, sines, places])
}

/// Normalizes each head by the root of its mean square.
fn normalized(site: &mut Site<'_>, x: ValueId, weights: ValueId, name: &str) -> Result<ValueId> {
    let (shape, size) = (site.shape(weights), site.shape(x)[3]);
    require!(shape == [size], "the weights of a norm are {shape:?}: expected [{size}]");
    let both = site.attrs.float32("qk_norm_epsilon", 1e-6)?;
    let epsilon = site.attrs.float32(name, both)?;
    site.node("RMSNormalization", &[("axis", Attr::Int(-1)), ("epsilon", Attr::Float(epsilon))], &[x, weights])
}

/// Returns new keys or values behind those of the past.
fn cached(site: &mut Site<'_>, group: &Group, x: ValueId, past: usize) -> Result<ValueId> {
    let (Some(past), Some(first)) = (site.optional(past), group.first) else { return Ok(x) };
    let mut room = past;
    if group.total > group.past {
        let pads = site.emitter.ints(&[0, 0, 0, 0, 0, 0, group.total - group.past, 0]);
        room = site.node("Pad", &[], &[past, pads])?;
    }
    let first = site.node("Cast", &[("to", Attr::Int(7))], &[first])?;
    site.node("TensorScatter", &[("axis", Attr::Int(-2))], &[room, x, first])
}

/// Caps the scores, adds the bias, and masks keys.
fn changed(site: &mut Site<'_>, group: &Group, mut scores: ValueId) -> Result<ValueId> {
    let cap = site.attrs.float32("softcap", 0.0)?;
    if cap > 0.0 {
        let cap = site.number(cap, scores)?;
        let ratio = site.node("Div", &[], &[scores, cap])?;
        let bent = site.node("Tanh", &[], &[ratio])?;
        scores = site.node("Mul", &[], &[bent, cap])?;
    }
    if let Some(bias) = site.optional(10) {
        check_bias(site, bias, &site.shape(scores))?;
        scores = site.node("Add", &[], &[scores, bias])?;
    }
    let visible = visible(site, group)?;
    let dtype = site.dtype(scores);
    let least = site.number(least(dtype), scores)?;
    site.node("Where", &[], &[visible, scores, least])
}

/// Returns the keys that a query sees, with the dimensions of scores.
fn visible(site: &mut Site<'_>, group: &Group) -> Result<ValueId> {
    let window = site.attrs.int("local_window_size", -1)?;
    require!(window == -1 || window > 0, "attribute `local_window_size` is {window}: expected -1 or a number of keys");
    let is_causal = site.attrs.flag("causal", true)?;
    require!(is_causal || window == -1, "attribute `local_window_size` needs attribute `causal` = 1");
    let keys = places(site, group.total, group.count)?;
    if !is_causal {
        let count = site.unsqueezed(group.count, &[1, 2, 3])?;
        return site.node("Less", &[], &[keys, count]);
    }
    let queries = query_places(site, group)?;
    let queries = site.unsqueezed(queries, &[1, 3])?;
    let mut newest = queries;
    if group.length > 1 {
        // A text that is shorter than the number of queries has padding behind it, which sees the
        // keys of the text.
        let one = site.number(1.0, group.count)?;
        let last = site.node("Sub", &[], &[group.count, one])?;
        let last = site.unsqueezed(last, &[1, 2, 3])?;
        newest = site.node("Min", &[], &[queries, last])?;
    }
    let before = site.node("LessOrEqual", &[], &[keys, newest])?;
    if window == -1 || window >= group.total {
        return Ok(before);
    }
    let window = site.number(window as f32, queries)?;
    let last = site.node("Sub", &[], &[queries, window])?;
    let near = site.node("Greater", &[], &[keys, last])?;
    site.node("And", &[], &[before, near])
}

/// Computes the softmax over the keys. Each head may have one more score in its sum.
fn softmax(site: &mut Site<'_>, group: &Group, scores: ValueId) -> Result<ValueId> {
    let attrs = [("axis", Attr::Int(-1))];
    let sink = match site.optional(11) {
        Some(sink) => {
            let shape = site.shape(sink);
            require!(
                shape == [group.heads],
                "input 11, the score of each head, is {shape:?}: expected [{}]",
                group.heads
            );
            site.unsqueezed(sink, &[0, 2, 3])?
        }
        None if site.attrs.int("smooth_softmax", -1)? == 1 => {
            let zero = site.number(0.0, scores)?;
            site.unsqueezed(zero, &[0, 1, 2, 3])?
        }
        None => return site.node("Softmax", &attrs, &[scores]),
    };
    let sink = site.expanded(sink, &[group.batch, group.heads, group.length, 1])?;
    let all = site.node("Concat", &attrs, &[scores, sink])?;
    let weights = site.node("Softmax", &attrs, &[all])?;
    site.part(weights, 3, 0, group.total)
}
