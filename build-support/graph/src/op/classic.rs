//! Operators of classic machine learning: features and counts of n-grams.
//!
//! Long attributes of the model become tables: constant inputs after those of the model
//! ([`tables`]).

use kernpack_compiler::ir::{DataTypeExt, Expr, F32, I64, Stmt, Tensor};
use kernpack_compiler::te::{self, extern_op};

use super::call::{extents, tensor};
use super::statements::{Variable, count_of, each, element, fill, put, when};
use super::{Call, Operator, Pattern};
use crate::attrs::Attrs;
use crate::constant::Constant;
use crate::error::{GraphError, Result, fail, require};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "ArrayFeatureExtractor", pattern: Pattern::Injective, make: array_feature_extractor },
    Operator { name: "Binarizer", pattern: Pattern::Elementwise, make: binarizer },
    Operator { name: "TfIdfVectorizer", pattern: Pattern::Opaque, make: tf_idf },
];

/// The maximum number of columns of n-gram counts: each has a weight.
const MOST_COLUMNS: i64 = 1 << 24;

/// The maximum size of the n-gram table.
const MOST_NUMBERS: usize = 1 << 24;

/// Returns the additional tables of an operator, from its attributes.
///
/// # Errors
/// Returns an error for attributes that do not match each other.
pub(crate) fn tables(name: &str, attrs: &Attrs) -> Result<Vec<Constant>> {
    match name {
        "TfIdfVectorizer" => gram_tables(attrs),
        _ => super::ml::tables(name, attrs),
    }
}

fn needed(attrs: &Attrs, name: &str) -> Result<Vec<i64>> {
    attrs.ints(name)?.ok_or_else(|| GraphError::new(format!("attribute `{name}` is missing")))
}

/// Selects columns of the last axis. A vector is one row.
fn array_feature_extractor(call: &Call) -> Result<Vec<Tensor>> {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let Some((&last, outer)) = x.shape.split_last() else { fail!("expected at least one dimension") };
    let count = count_of(&indices.shape);
    let mut shape = if outer.is_empty() { vec![1] } else { outer.to_vec() };
    shape.push(count);
    require!(last > 0 || shape.contains(&0), "{:?} has no features", x.shape);
    Ok(vec![tensor(&shape, |position| {
        let (row, number) = position.split_at(shape.len() - 1);
        let index = indices.at(&super::call::unflatten(&number[0], &indices.shape)).cast(I64);
        let mut at = if outer.is_empty() { Vec::new() } else { row.to_vec() };
        at.push(index.max(0).min(last - 1));
        x.at(&at)
    })])
}

fn binarizer(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let threshold = te::constant(call.attrs.float("threshold", 0.0)?, x.dtype);
    Ok(vec![tensor(&x.shape, |position| {
        te::select(x.at(position).greater(threshold), te::constant(1.0, x.dtype), te::constant(0.0, x.dtype))
    })])
}

/// Returns the counted n-grams, in rows as wide as the longest one; their lengths; the columns of
/// their counts; the weights of the columns.
fn gram_tables(attrs: &Attrs) -> Result<Vec<Constant>> {
    let Some(pool) = attrs.ints("pool_int64s")? else {
        fail!("n-grams of strings are not supported, only of integers")
    };
    let (counts, columns) = (needed(attrs, "ngram_counts")?, needed(attrs, "ngram_indexes")?);
    let (shortest, longest) = (attrs.needed_int("min_gram_length")?, attrs.needed_int("max_gram_length")?);
    let total = i64::try_from(pool.len()).unwrap_or(i64::MAX);
    let (mut grams, mut lengths, mut targets) = (Vec::new(), Vec::new(), Vec::new());
    let mut column = columns.iter();
    let width = counts.len().max(1);
    // Each n-gram has a row that is as wide as the longest one.
    let numbers = columns.len().saturating_mul(width);
    require!(numbers <= MOST_NUMBERS, "{} n-grams of up to {width} numbers are too many", columns.len());
    for (number, begin) in counts.iter().enumerate() {
        let end = counts.get(number + 1).copied().unwrap_or(total);
        require!(
            0 <= *begin && *begin <= end && end <= total,
            "attribute `ngram_counts` is {counts:?} for {total} numbers"
        );
        let length = number + 1;
        let part = &pool[usize::try_from(*begin).unwrap_or(0)..usize::try_from(end).unwrap_or(0)];
        for gram in part.chunks_exact(length) {
            let Some(target) = column.next() else { fail!("attribute `ngram_indexes` has too few numbers") };
            let own = i64::try_from(length).unwrap_or(i64::MAX);
            if (shortest..=longest).contains(&own) {
                grams.extend(gram.iter().copied().chain(core::iter::repeat_n(0, width - length)));
                lengths.push(own);
                targets.push(*target);
            }
        }
    }
    if let Some(other) = columns.iter().find(|column| !(0..MOST_COLUMNS).contains(*column)) {
        fail!("attribute `ngram_indexes` has {other}: expected columns from 0 to {}", MOST_COLUMNS - 1);
    }
    let size = columns.iter().max().map_or(0, |largest| largest + 1);
    let extent = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let mut weights = attrs.floats("weights")?;
    if weights.is_empty() {
        weights = vec![1.0; usize::try_from(size).unwrap_or(0)];
    }
    require!(extent(weights.len()) == size, "{} weights for {size} columns", weights.len());
    let grams = Constant::of_ints(&grams).reshaped(&[extent(lengths.len()), extent(width)])?;
    Ok(vec![grams, Constant::of_ints(&lengths), Constant::of_ints(&targets), Constant::of_floats(&weights)])
}

/// Counts n-grams in rows, also with skipped elements between theirs: each number of them up to
/// `max_skip_count`, the same at each place.
fn tf_idf(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    require!(x.dtype.is_integer() && x.rank() <= 2, "expected rows of integers, got {} of {:?}", x.dtype, x.shape);
    let [grams, lengths, targets, weights] = [call.input(1)?, call.input(2)?, call.input(3)?, call.input(4)?];
    let (takes_count, takes_weight) = match call.attrs.text("mode", "TF")? {
        "TF" => (true, false),
        "IDF" => (false, true),
        "TFIDF" => (true, true),
        other => fail!("attribute `mode` is `{other}`, not TF, IDF or TFIDF"),
    };
    let skips = call.attrs.needed_int("max_skip_count")?;
    require!((0..1 << 20).contains(&skips), "attribute `max_skip_count` is {skips}");
    let columns = weights.shape[0];
    let (rows, length) = match x.shape[..] {
        [rows, length] => (rows, length),
        [length] => (1, length),
        _ => (1, 1),
    };
    let mut shape = if x.rank() == 2 { vec![rows] } else { Vec::new() };
    shape.push(columns);
    if shape.contains(&0) || length == 0 || lengths.shape == [0] {
        return Ok(vec![tensor(&shape, |_| te::constant(0.0, F32))]);
    }
    let inputs = [&x.tensor, &grams.tensor, &lengths.tensor, &targets.tensor, &weights.tensor];
    let op = extern_op("counts", inputs).output(extents(&shape), F32);
    Ok(op.body(|inputs, outputs| {
        let (count, fits) = (Variable::new("count", F32), Variable::index("fits"));
        let body = each("row", rows, |row| {
            each("gram", lengths.shape[0], |gram| {
                let own = element(&inputs[2], gram.clone());
                // An n-gram with one element has no elements to skip.
                let steps = Expr::select(own.equals(1), Expr::int(1), Expr::int(skips + 1));
                let search = each("skipped", steps, |skipped| {
                    let step = skipped + 1;
                    let places = (Expr::int(length) - &step * (&own - 1)).max(0);
                    each("place", places, |place| {
                        let compare = each("item", own.clone(), |item| {
                            let here = element(&inputs[0], row * length + place + &step * item).cast(I64);
                            let wanted = element(&inputs[1], gram * grams.shape[1] + item);
                            when(here.differs(wanted), fits.set(0))
                        });
                        let found = when(fits.get().equals(1), count.add(te::constant(1.0, F32)));
                        Stmt::seq([fits.set(1), compare, found])
                    })
                });
                let target = row * columns + element(&inputs[3], gram.clone());
                let added = put(&outputs[0], target.clone(), element(&outputs[0], target) + count.get());
                Stmt::seq([count.set(te::constant(0.0, F32)), search, added])
            })
        });
        let weigh = each("row", rows, |row| {
            each("column", columns, |column| {
                let place = row * columns + column;
                let value = element(&outputs[0], place.clone());
                let one = te::constant(1.0, F32);
                let counted = if takes_count {
                    value.clone()
                } else {
                    te::select(value.greater(te::constant(0.0, F32)), &one, te::constant(0.0, F32))
                };
                let weight = if takes_weight { element(&inputs[4], column.clone()) } else { one };
                put(&outputs[0], place, counted * weight)
            })
        });
        let zeros = fill(&outputs[0], count_of(&shape), &te::constant(0.0, F32));
        Stmt::seq([count.begin(te::constant(0.0, F32)), fits.begin(1), zeros, body, weigh])
    }))
}
