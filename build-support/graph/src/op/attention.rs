//! Attention, and the rotary position embedding.
//!
//! The specification of `Attention` has changed without a new version number. This is that of ONNX
//! 1.23: inputs with three dimensions have the heads inside the last one, each head of keys serves
//! adjacent heads of queries, scores are capped before they are masked, and a query that sees no
//! key gives zeros.

use kernpack::DataType;
use kernpack_compiler::ir::{DataTypeExt, Expr, F32, F64, I64, Tensor};
use kernpack_compiler::te::{self, reduce_axis};

use super::call::{Operand, broadcast, tensor};
use super::{Call, Operator, Pattern, bounds, extremum};
use crate::error::{Result, fail, require};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "Attention", pattern: Pattern::Opaque, make: attention },
    Operator { name: "RotaryEmbedding", pattern: Pattern::Injective, make: rotary },
];

/// Returns the type of the computation.
fn wide(x: &Operand) -> DataType {
    if x.dtype == F64 { F64 } else { F32 }
}

/// Batches, heads, places and elements of an input, whose heads may be inside its last dimension.
pub(super) struct Heads<'a> {
    pub(super) operand: &'a Operand,
    pub(super) batch: i64,
    pub(super) heads: i64,
    pub(super) length: i64,
    pub(super) size: i64,
}

impl<'a> Heads<'a> {
    pub(super) fn new(operand: &'a Operand, heads: Option<i64>, attribute: &str) -> Result<Self> {
        match (&operand.shape[..], heads) {
            (&[batch, own, length, size], heads) => {
                require!(
                    heads.is_none_or(|heads| heads == own),
                    "attribute `{attribute}` is not the {own} heads of {:?}",
                    operand.shape
                );
                Ok(Self { operand, batch, heads: own, length, size })
            }
            (&[batch, length, all], Some(heads)) => {
                require!(
                    heads > 0 && all % heads == 0,
                    "the last dimension of {:?} is not divided by the {heads} heads of attribute `{attribute}`",
                    operand.shape
                );
                Ok(Self { operand, batch, heads, length, size: all / heads })
            }
            (&[_, _, _], None) => fail!("attribute `{attribute}` is needed for inputs of three dimensions"),
            (shape, _) => fail!("expected three or four dimensions, got {shape:?}"),
        }
    }

    /// Returns the element at a batch, a head, a place and an element.
    fn at(&self, position: &[Expr]) -> Expr {
        match (self.operand.rank(), position) {
            (3, [batch, head, place, element]) => {
                self.operand.at(&[batch.clone(), place.clone(), head * self.size + element])
            }
            _ => self.operand.at(position),
        }
    }

    /// Appends the input to that of the past, along the places.
    fn behind(&self, past: Option<&Operand>) -> Result<Tensor> {
        let shape = [self.batch, self.heads, self.length, self.size];
        let Some(past) = past else { return Ok(tensor(&shape, |position| self.at(position))) };
        let fits = past.rank() == 4 && (0..4).all(|axis| axis == 2 || past.shape[axis] == shape[axis]);
        require!(fits, "the past {:?} does not fit {shape:?}", past.shape);
        require!(past.dtype == self.operand.dtype, "the past is {}, the present {}", past.dtype, self.operand.dtype);
        let before = past.shape[2];
        if before == 0 {
            return self.behind(None);
        }
        let mut joined = shape;
        joined[2] += before;
        Ok(tensor(&joined, |position| {
            let mut new = position.to_vec();
            new[2] = &position[2] - before;
            Expr::if_then_else(position[2].less(before), past.at(position), self.at(&new))
        }))
    }
}

/// Outputs: the result, keys and values including those of the past, scores after the stage of
/// attribute `qk_matmul_output_mode`.
fn attention(call: &Call) -> Result<Vec<Tensor>> {
    let attrs = call.attrs;
    let (q_heads, kv_heads) = (attrs.find_int("q_num_heads")?, attrs.find_int("kv_num_heads")?);
    let x = call.input(0)?;
    let q = Heads::new(x, q_heads, "q_num_heads")?;
    let k = Heads::new(call.input(1)?, kv_heads, "kv_num_heads")?;
    let v = Heads::new(call.input(2)?, kv_heads, "kv_num_heads")?;
    require!(
        q.batch == k.batch && q.batch == v.batch && k.heads == v.heads && k.length == v.length && q.size == k.size,
        "queries {:?}, keys {:?} and values {:?} do not fit",
        x.shape,
        k.operand.shape,
        v.operand.shape
    );
    require!(
        k.heads > 0 && q.heads % k.heads == 0,
        "{} heads of queries are not a multiple of {} heads of keys",
        q.heads,
        k.heads
    );
    let (past_key, past_value) = (call.optional(4), call.optional(5));
    require!(past_key.is_some() == past_value.is_some(), "past keys and past values have to be given together");
    let past = past_key.map_or(0, |past| past.shape.get(2).copied().unwrap_or(0));
    let (keys, values) = (k.behind(past_key)?, v.behind(past_value)?);
    let total = past + k.length;
    require!(
        values.shape.get(2).is_some_and(|extent| extent.is_int(total)),
        "past keys and past values have different lengths"
    );
    let wide = precision(call, x)?;
    let reach = Reach::new(call, &q, past)?;
    let group = q.heads / k.heads;
    let shape = [q.batch, q.heads, q.length, total];
    let result = [q.batch, q.heads, q.length, v.size];
    let width = bounds::product(&[q.heads, v.size], || {
        format!("the last dimension of the result, for `q_num_heads` {}", q.heads)
    })?;
    let joined = [q.batch, q.length, width];
    let mode = attrs.int("qk_matmul_output_mode", 0)?;
    require!((0..=3).contains(&mode), "attribute `qk_matmul_output_mode` is {mode}, not 0 to 3");
    if result.contains(&0) || total == 0 || q.size == 0 {
        let zeros = |shape: &[i64]| tensor(shape, |_| te::constant(0.0, x.dtype));
        let y = if x.rank() == 3 { zeros(&joined) } else { zeros(&result) };
        return Ok(vec![y, keys, values, zeros(&shape)]);
    }
    let scale = match attrs.float("scale", 0.0)? {
        0.0 => 1.0 / (q.size as f64).sqrt(),
        scale => scale,
    };
    let head_of = |head: &Expr| if group == 1 { head.clone() } else { head.floor_div(group) };
    let d = reduce_axis(0, q.size, "d");
    let products = tensor(&shape, |p| {
        let query = q.at(&[p[0].clone(), p[1].clone(), p[2].clone(), d.expr()]).cast(wide);
        let key = keys.at(&[p[0].clone(), head_of(&p[1]), p[3].clone(), d.expr()]).cast(wide);
        te::sum(query * key, &d)
    })
    .named("products");
    let cap = attrs.float("softcap", 0.0)?;
    let raw = tensor(&shape, |p| products.at(p) * te::constant(scale, wide)).named("raw");
    let capped = if cap > 0.0 {
        let cap = te::constant(cap, wide);
        tensor(&shape, |p| te::tanh(raw.at(p) / &cap) * &cap).named("capped")
    } else {
        raw.clone()
    };
    let masked = masked(call, &capped, &shape, &reach, wide)?;
    let probabilities = softmax(&masked, &shape, wide);
    let t = reduce_axis(0, total, "t");
    let sums = tensor(&result, |p| {
        let value = values.at(&[p[0].clone(), head_of(&p[1]), t.expr(), p[3].clone()]).cast(wide);
        te::sum(probabilities.at(&[p[0].clone(), p[1].clone(), p[2].clone(), t.expr()]) * value, &t)
    })
    .named("sums");
    let y = if x.rank() == 3 {
        tensor(&joined, |p| {
            let at = [p[0].clone(), p[2].floor_div(v.size), p[1].clone(), p[2].floor_mod(v.size)];
            sums.at(&at).cast(x.dtype)
        })
    } else {
        tensor(&result, |p| sums.at(p).cast(x.dtype))
    };
    let stage = [&raw, &capped, &masked, &probabilities][usize::try_from(mode).unwrap_or(0)].clone();
    let scores = tensor(&shape, |p| stage.at(p).cast(x.dtype));
    let mut outputs = vec![y, keys, values, scores];
    // Unused outputs are not computed.
    outputs.truncate(call.wanted.iter().rposition(|wanted| *wanted).map_or(1, |last| last + 1));
    Ok(outputs)
}

/// Returns the type of scores and probabilities: at least single precision, and double precision if
/// attribute `softmax_precision` selects it.
fn precision(call: &Call, x: &Operand) -> Result<DataType> {
    Ok(match call.attrs.find_int("softmax_precision")? {
        Some(11) => F64,
        None | Some(0 | 1 | 10 | 16) => wide(x),
        Some(other) => fail!(
            "attribute `softmax_precision` is {other}, not 1 (float32), 10 (float16), 11 (float64) or 16 (bfloat16)"
        ),
    })
}

/// The keys that a query sees, by their places.
struct Reach<'a> {
    /// True if a query does not see keys after it.
    is_causal: bool,
    /// The number of keys before the query that are visible, if not all.
    left: Option<i64>,
    /// The number of keys after the query that are visible, if not all.
    right: Option<i64>,
    /// The number of keys of each batch that are not padding.
    lengths: Option<&'a Operand>,
    /// The place of the first query, or the place without the length of its batch.
    first: i64,
}

impl<'a> Reach<'a> {
    fn new(call: &'a Call, q: &Heads, past: i64) -> Result<Self> {
        let window = |name: &str| -> Result<Option<i64>> {
            let size = call.attrs.int(name, -1)?;
            require!(size >= -1, "attribute `{name}` is {size}: expected -1 or a number of keys");
            Ok((size >= 0).then_some(size))
        };
        let lengths = call.optional(6);
        if let Some(lengths) = lengths {
            require!(
                call.optional(4).is_none(),
                "past keys and the lengths of input 6 cannot be given together: lengths are of keys that are all in input 1"
            );
            require!(
                lengths.shape == [q.batch],
                "expected the lengths of {} batches in input 6, got {:?}",
                q.batch,
                lengths.shape
            );
        }
        Ok(Self {
            is_causal: call.attrs.flag("is_causal", false)?,
            left: window("left_window_size")?,
            right: window("right_window_size")?,
            lengths,
            first: if lengths.is_some() { -q.length } else { past },
        })
    }

    fn is_all(&self) -> bool {
        !self.is_causal && self.left.is_none() && self.right.is_none() && self.lengths.is_none()
    }

    /// Returns the conditions on a batch, a query and a key.
    fn conditions(&self, batch: &Expr, query: &Expr, key: &Expr) -> Vec<Expr> {
        let mut all = Vec::new();
        let length = self.lengths.map(|lengths| lengths.at(core::slice::from_ref(batch)).cast(I64));
        let mut place = query + self.first;
        if let Some(length) = &length {
            place = place + length;
            all.push(key.less(length));
        }
        if self.is_causal {
            all.push(key.less_equal(&place));
        }
        if let Some(left) = self.left {
            // In this order, so that a size near the largest integer does not overflow.
            all.push((&place - key).less_equal(left));
        }
        if let Some(right) = self.right {
            all.push((key - &place).less_equal(right));
        }
        all
    }
}

/// Returns the scores with minus infinity at masked places, or with the additive mask.
fn masked(call: &Call, scores: &Tensor, shape: &[i64; 4], reach: &Reach, wide: DataType) -> Result<Tensor> {
    let mask = call.optional(3);
    if mask.is_none() && reach.is_all() {
        return Ok(scores.clone());
    }
    let total = shape[3];
    // A mask may be shorter than the places. Those after its end are masked.
    let covered = match mask {
        None => total,
        Some(mask) => {
            let Some(&covered) = mask.shape.last() else { fail!("the mask is a scalar") };
            let mut expected = shape.to_vec();
            expected[3] = if covered == 1 { 1 } else { covered };
            require!(
                mask.rank() <= 4 && covered <= total && broadcast(&[&mask.shape, &expected])? == expected,
                "a mask {:?} does not fit scores {shape:?}",
                mask.shape
            );
            covered
        }
    };
    let never = te::constant(f64::NEG_INFINITY, wide);
    Ok(tensor(shape, |p| {
        let mut score = scores.at(p);
        if let Some(mask) = mask {
            let entry = mask.broadcast_at(p);
            score = if mask.dtype.is_bool() { te::select(entry, score, &never) } else { score + entry.cast(wide) };
            if covered < total {
                score = Expr::if_then_else(p[3].less(covered), score, &never);
            }
        }
        for condition in reach.conditions(&p[0], &p[2], &p[3]) {
            score = te::select(condition, score, &never);
        }
        score
    })
    .named("masked"))
}

/// Computes the softmax along the last axis. It is 0 if all places are masked.
fn softmax(scores: &Tensor, shape: &[i64; 4], wide: DataType) -> Tensor {
    let rows = &shape[..3];
    let at = |row: &[Expr], last: Expr| [row[0].clone(), row[1].clone(), row[2].clone(), last];
    let (t, s) = (reduce_axis(0, shape[3], "t"), reduce_axis(0, shape[3], "s"));
    let largest =
        tensor(rows, |row| extremum::largest_of_powers(scores.at(at(row, t.expr())), core::slice::from_ref(&t)))
            .named("largest");
    let powers = tensor(shape, |p| {
        let largest = largest.at(&p[..3]);
        let base = te::select(largest.equals(te::constant(f64::NEG_INFINITY, wide)), te::constant(0.0, wide), largest);
        te::exp(scores.at(p) - base)
    })
    .named("powers");
    let totals = tensor(rows, |row| te::sum(powers.at(at(row, s.expr())), &s)).named("totals");
    tensor(shape, |p| {
        let total = totals.at(&p[..3]);
        let is_empty = total.equals(te::constant(0.0, wide));
        powers.at(p) / te::select(is_empty, te::constant(1.0, wide), total)
    })
    .named("probabilities")
}

/// Rotates pairs of elements of each head by the angle of their place.
fn rotary(call: &Call) -> Result<Vec<Tensor>> {
    let (x, cosines, sines) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let places = call.optional(3);
    let heads = call.attrs.find_int("num_heads")?.filter(|heads| *heads != 0);
    let heads = Heads::new(x, if x.rank() == 4 { None } else { heads }, "num_heads")?;
    let interleaved = call.attrs.flag("interleaved", false)?;
    let turned = match call.attrs.int("rotary_embedding_dim", 0)? {
        0 => heads.size,
        turned => turned,
    };
    require!(
        turned > 0 && turned % 2 == 0 && turned <= heads.size,
        "{turned} of the {} elements of a head cannot be turned in pairs",
        heads.size
    );
    let half = turned / 2;
    let row = [heads.batch, heads.length];
    if let Some(places) = places {
        require!(places.shape == row, "expected the places of {row:?} rows, got {:?}", places.shape);
    }
    for table in [cosines, sines] {
        let fits = match places {
            Some(_) => table.rank() == 2 && table.shape[0] > 0,
            None => table.rank() == 3 && table.shape[..2] == row,
        };
        require!(
            fits && table.shape.last().is_some_and(|last| *last >= half),
            "a table {:?} does not fit {:?}: it needs {half} angles for each place",
            table.shape,
            x.shape
        );
    }
    let wide = wide(x);
    Ok(vec![tensor(&x.shape, |position| {
        let (at, element) = match position {
            [batch, place, all] => ([batch, place], all.floor_mod(heads.size)),
            [batch, _, place, element] => ([batch, place], element.clone()),
            _ => return te::constant(0.0, x.dtype),
        };
        let (pair, partner, is_first) = if interleaved {
            let odd = element.floor_mod(2);
            (element.floor_div(2), Expr::int(1) - &odd * 2, odd.equals(0))
        } else {
            let is_first = element.less(half);
            (element.floor_mod(half), Expr::select(&is_first, Expr::int(half), Expr::int(-half)), is_first)
        };
        let angle = |table: &Operand| {
            let index = pair.min(half - 1);
            match places {
                Some(places) => {
                    let row = places.at(&[at[0].clone(), at[1].clone()]).cast(I64).max(0).min(table.shape[0] - 1);
                    table.at(&[row, index]).cast(wide)
                }
                None => table.at(&[at[0].clone(), at[1].clone(), index]).cast(wide),
            }
        };
        let own = x.at(position);
        let mut other = position.to_vec();
        if let Some(last) = other.last_mut() {
            *last = last.clone() + partner;
        }
        let rotated = || {
            let moved = x.at(&other).cast(wide) * angle(sines);
            let kept = own.cast(wide) * angle(cosines);
            te::select(is_first, &kept - &moved, &kept + &moved).cast(x.dtype)
        };
        if turned == heads.size { rotated() } else { Expr::if_then_else(element.less(turned), rotated(), &own) }
    })])
}
