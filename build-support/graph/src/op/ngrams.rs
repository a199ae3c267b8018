//! Counts of n-grams of integers.

use kernpack_compiler::ir::{DataTypeExt, Expr, F32, I64, Stmt, Tensor};
use kernpack_compiler::te::{self, extern_op};

use super::call::{extents, tensor};
use super::statements::{Variable, count_of, each, element, fill, put, when};
use super::{Call, Operator, Pattern};
use crate::attrs::{Attr, Attrs};
use crate::constant::Constant;
use crate::error::{Result, fail, require};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] =
    &[Operator { name: "TfIdfVectorizer", pattern: Pattern::Opaque, make: vectorize }];

/// The n-grams of one length in the pool.
struct Grams {
    length: i64,
    /// Where the first one begins in the pool.
    begin: i64,
    /// How many n-grams stand before the first one.
    before: i64,
    count: i64,
}

/// What [`vectorize`] reads besides its input: attributes `pool_int64s`, `ngram_indexes` and, if they are there, `weights`.
pub(super) fn tables(attrs: &Attrs) -> Result<Vec<Option<Constant>>> {
    require!(attrs.get("pool_strings").is_none(), "n-grams of strings are not supported");
    let ints = |name: &str| attrs.ints(name).map(|found| found.map(|values| Constant::of_ints(&values)));
    let weights = match attrs.get("weights") {
        Some(Attr::Floats(values)) => Some(Constant::of_floats(values)),
        _ => None,
    };
    Ok(vec![ints("pool_int64s")?, ints("ngram_indexes")?, weights])
}

fn vectorize(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    require!(x.dtype.is_int() || x.dtype.is_uint(), "n-grams of {} are not supported", x.dtype);
    let (pool, indexes) = (call.input(1)?, call.input(2)?);
    let Some(columns) = call.attrs.ints("ngram_indexes")? else { fail!("attribute `ngram_indexes` is missing") };
    require!(columns.iter().all(|column| *column >= 0), "a negative index in `ngram_indexes`");
    let width = columns.iter().max().map_or(0, |last| last + 1);
    let (rows, length) = match x.shape[..] {
        [length] => (1, length),
        [rows, length] => (rows, length),
        _ => fail!("expected one or two dimensions, got {:?}", x.shape),
    };
    let shape = if x.rank() == 1 { vec![width] } else { vec![rows, width] };
    let (shortest, longest) = (call.attrs.needed_int("min_gram_length")?, call.attrs.needed_int("max_gram_length")?);
    let skips = call.attrs.needed_int("max_skip_count")?;
    require!(shortest >= 1 && longest >= shortest && skips >= 0, "n-grams of {shortest} to {longest}, {skips} skips");
    let all = grams(call, pool.shape.iter().product(), columns.len())?;
    let wanted: Vec<Grams> = all.into_iter().filter(|grams| (shortest..=longest).contains(&grams.length)).collect();
    let mode = call.attrs.text("mode", "TF")?;
    let counts_once = match mode {
        "TF" | "TFIDF" => false,
        "IDF" => true,
        other => fail!("attribute `mode` is '{other}', not TF, IDF or TFIDF"),
    };
    if shape.contains(&0) || columns.is_empty() || length == 0 {
        return Ok(vec![tensor(&shape, |_| te::constant(0.0, F32))]);
    }
    let weights = call.optional(3).filter(|_| mode != "TF");
    let mut tensors = vec![x.tensor.clone(), pool.tensor.clone(), indexes.tensor.clone()];
    if let Some(weights) = weights {
        require!(weights.shape == indexes.shape, "{:?} weights for {:?} n-grams", weights.shape, indexes.shape);
        tensors.push(weights.tensor.clone());
    }
    let op = extern_op("n_grams", &tensors).output(extents(&shape), F32);
    Ok(op.body(|inputs, outputs| {
        let counts = &outputs[0];
        let fits = Variable::index("fits");
        let row = each("row", rows, |row| {
            let column = |gram: Expr| row * width + element(&inputs[2], gram);
            let mut stmts = Vec::new();
            for grams in &wanted {
                // One element has no distance to others.
                let strides = if grams.length == 1 { 1 } else { skips + 1 };
                stmts.push(each("stride", strides, |stride| {
                    let stride = stride + 1;
                    let starts = (Expr::int(length) - &stride * (grams.length - 1)).max(0);
                    each("start", starts, |start| {
                        each("gram", grams.count, |gram| {
                            let compare = each("part", grams.length, |part| {
                                let own = element(&inputs[0], row * length + start + part * &stride).cast(I64);
                                let known = element(&inputs[1], gram * grams.length + part + grams.begin);
                                when(own.differs(known), fits.set(0))
                            });
                            let at = column(gram + grams.before);
                            let one = Expr::float(F32, 1.0);
                            let more = if counts_once { one } else { element(counts, at.clone()) + one };
                            Stmt::seq([fits.set(1), compare, when(fits.get().equals(1), put(counts, at, more))])
                        })
                    })
                }));
            }
            if weights.is_some() {
                stmts.push(each("gram", i64::try_from(columns.len()).unwrap_or(0), |gram| {
                    let at = column(gram.clone());
                    put(counts, at.clone(), element(counts, at) * element(&inputs[3], gram.clone()))
                }));
            }
            Stmt::seq(stmts)
        });
        Stmt::seq([fits.begin(0), fill(counts, count_of(&shape), &Expr::float(F32, 0.0)), row])
    }))
}

/// The n-grams of the pool by their length: attribute `ngram_counts` tells where those of each length begin.
fn grams(call: &Call, pool: i64, total: usize) -> Result<Vec<Grams>> {
    let Some(begins) = call.attrs.ints("ngram_counts")? else { fail!("attribute `ngram_counts` is missing") };
    let mut all = Vec::new();
    let mut before = 0;
    for (index, begin) in begins.iter().enumerate() {
        let length = i64::try_from(index).unwrap_or(i64::MAX - 1) + 1;
        let end = begins.get(index + 1).copied().unwrap_or(pool);
        let fits = 0 <= *begin && *begin <= end && end <= pool && (end - begin) % length == 0;
        require!(fits, "n-grams of length {length} are elements {begin} to {end} of a pool of {pool}");
        let count = (end - begin) / length;
        all.push(Grams { length, begin: *begin, before, count });
        before += count;
    }
    require!(i64::try_from(total) == Ok(before), "{total} indexes for {before} n-grams");
    Ok(all)
}
