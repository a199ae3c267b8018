//! Operators of classic machine learning: features, trees and counts of n-grams.
//!
//! Long attributes of the model become tables: constant inputs after those of the model
//! ([`tables`]).

use kernpack_compiler::ir::{DataTypeExt, Expr, F32, I64, Stmt, Tensor};
use kernpack_compiler::te::{self, extern_op};

use super::call::{extents, tensor};
use super::extremum::{max, min};
use super::statements::{Variable, as_long_as, count_of, each, element, fill, put, when};
use super::{Call, Operator, Pattern};
use crate::attrs::{Attr, Attrs};
use crate::constant::Constant;
use crate::error::{GraphError, Result, fail, require};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "ArrayFeatureExtractor", pattern: Pattern::Injective, make: array_feature_extractor },
    Operator { name: "Binarizer", pattern: Pattern::Elementwise, make: binarizer },
    Operator { name: "TfIdfVectorizer", pattern: Pattern::Opaque, make: tf_idf },
    Operator { name: "TreeEnsemble", pattern: Pattern::Opaque, make: tree_ensemble },
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
        "TreeEnsemble" => tree_tables(attrs),
        _ => Ok(Vec::new()),
    }
}

fn needed(attrs: &Attrs, name: &str) -> Result<Vec<i64>> {
    attrs.ints(name)?.ok_or_else(|| GraphError::new(format!("attribute `{name}` is missing")))
}

fn needed_tensor(attrs: &Attrs, name: &str) -> Result<Constant> {
    match attrs.get(name) {
        Some(Attr::Tensor(value)) => Ok(value.clone()),
        _ => fail!("attribute `{name}` has to be a tensor"),
    }
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
    let weights = match attrs.get("weights") {
        Some(Attr::Floats(weights)) if !weights.is_empty() => {
            require!(extent(weights.len()) == size, "{} weights for {size} columns", weights.len());
            weights.clone()
        }
        _ => vec![1.0; columns.iter().max().map_or(0, |_| usize::try_from(size).unwrap_or(0))],
    };
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

/// Columns of the table of the nodes of trees.
const FEATURE: i64 = 0;
const MODE: i64 = 1;
const IF_TRUE: i64 = 2;
const IF_FALSE: i64 = 3;
const TRUE_IS_LEAF: i64 = 4;
const FALSE_IS_LEAF: i64 = 5;
const MISSING_IS_TRUE: i64 = 6;
const MEMBERS_BEGIN: i64 = 7;
const MEMBERS_END: i64 = 8;
const NODE_COLUMNS: i64 = 9;

/// Returns the nodes; their thresholds; members of sets; targets of leaves; weights of leaves; the
/// roots.
fn tree_tables(attrs: &Attrs) -> Result<Vec<Constant>> {
    let features = needed(attrs, "nodes_featureids")?;
    let count = features.len();
    let modes = needed_tensor(attrs, "nodes_modes")?.to_ints()?;
    let (splits, weights) = (needed_tensor(attrs, "nodes_splits")?, needed_tensor(attrs, "leaf_weights")?);
    let columns = ["nodes_truenodeids", "nodes_falsenodeids", "nodes_trueleafs", "nodes_falseleafs"];
    let columns = columns.into_iter().map(|name| needed(attrs, name)).collect::<Result<Vec<_>>>()?;
    let missing = attrs.ints("nodes_missing_value_tracks_true")?.unwrap_or_else(|| vec![0; count]);
    let targets = needed(attrs, "leaf_targetids")?;
    let (roots, members) = (
        needed(attrs, "tree_roots")?,
        match attrs.get("membership_values") {
            Some(_) => Some(needed_tensor(attrs, "membership_values")?),
            None => None,
        },
    );
    let fits = modes.len() == count
        && splits.len() == count
        && missing.len() == count
        && columns.iter().all(|column| column.len() == count)
        && targets.len() == weights.len()
        && count > 0;
    require!(fits, "the attributes of nodes, or those of leaves, have different lengths");
    // Sets are stored in sequence, each followed by NaN, in the order of the nodes.
    let values = members.as_ref().map_or(Ok(Vec::new()), Constant::to_floats)?;
    let mut next = 0;
    let extent = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let n_targets = attrs.needed_int("n_targets")?;
    let inside = |id: i64, is_leaf: i64| (0..extent(if is_leaf != 0 { targets.len() } else { count })).contains(&id);
    let mut nodes = Vec::new();
    for node in 0..count {
        let [true_id, false_id, true_leaf, false_leaf] = [0, 1, 2, 3].map(|column: usize| columns[column][node]);
        require!(
            inside(true_id, true_leaf) && inside(false_id, false_leaf) && (0..=6).contains(&modes[node]),
            "node {node} of the trees leads to {true_id} and {false_id}, with mode {}",
            modes[node]
        );
        let begin = next;
        if modes[node] == 6 {
            while values.get(next).is_some_and(|value| !value.is_nan()) {
                next += 1;
            }
        }
        nodes.extend([features[node], modes[node], true_id, false_id, true_leaf, false_leaf, missing[node]]);
        nodes.extend([extent(begin), extent(next)]);
        if modes[node] == 6 {
            next += 1;
        }
    }
    require!(
        targets.iter().all(|target| (0..n_targets).contains(target)) && roots.iter().all(|root| inside(*root, 0)),
        "a leaf has a target that is not one of the {n_targets}, or a tree has a root that is not a node"
    );
    let members = match members {
        Some(members) if !members.is_empty() => members,
        _ => splits.clone(),
    };
    let nodes = Constant::of_ints(&nodes).reshaped(&[extent(count), NODE_COLUMNS])?;
    Ok(vec![nodes, splits, members, Constant::of_ints(&targets), weights, Constant::of_ints(&roots)])
}

/// Walks from the root of each tree to a leaf, whose weight is added to its target.
fn tree_ensemble(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    require!(x.rank() == 2, "expected rows of features, got {:?}", x.shape);
    let tables = (1..7).map(|index| call.input(index)).collect::<Result<Vec<_>>>()?;
    let (nodes, weights, roots) = (tables[0], tables[4], tables[5]);
    require!(call.attrs.int("post_transform", 0)? == 0, "attribute `post_transform` other than 0 is not supported");
    let aggregate = call.attrs.int("aggregate_function", 1)?;
    require!((0..=3).contains(&aggregate), "attribute `aggregate_function` is {aggregate}, not 0 to 3");
    let count = nodes.shape[0];
    if let Some(value) = &nodes.value {
        let table = value.to_ints()?;
        let fits = table.chunks(9).all(|node| node.first().is_some_and(|feature| (0..x.shape[1]).contains(feature)));
        require!(fits, "a node asks for a feature that the {} of {:?} are not", x.shape[1], x.shape);
    }
    let n_targets = call.attrs.needed_int("n_targets")?;
    let shape = [x.shape[0], n_targets];
    let dtype = weights.dtype;
    require!(dtype.is_float() && x.dtype == dtype, "features of {} and leaves of {dtype}", x.dtype);
    let zero = || te::constant(0.0, dtype);
    if shape.contains(&0) || roots.shape == [0] {
        return Ok(vec![tensor(&shape, |_| zero())]);
    }
    let inputs: Vec<&Tensor> = core::iter::once(&x.tensor).chain(tables.iter().map(|table| &table.tensor)).collect();
    let op = extern_op("trees", inputs).output(extents(&shape), dtype);
    Ok(op.body(|inputs, outputs| {
        let (node, is_leaf, steps) = (Variable::index("node"), Variable::index("is_leaf"), Variable::index("steps"));
        let holds = Variable::index("holds");
        let start = match aggregate {
            2 => te::constant(f64::INFINITY, dtype),
            3 => te::constant(f64::NEG_INFINITY, dtype),
            _ => zero(),
        };
        let body = each("row", x.shape[0], |row| {
            each("tree", roots.shape[0], |tree| {
                let column = |number: i64| element(&inputs[1], node.get() * NODE_COLUMNS + number);
                let value = element(&inputs[0], row * x.shape[1] + column(FEATURE));
                let split = element(&inputs[2], node.get());
                let mode = column(MODE);
                let compared = [
                    value.less_equal(&split),
                    value.less(&split),
                    value.greater_equal(&split),
                    value.greater(&split),
                    value.equals(&split),
                    value.differs(&split),
                ];
                let mut outcome = Expr::int(0);
                for (number, comparison) in compared.into_iter().enumerate() {
                    let is_mode = mode.equals(i64::try_from(number).unwrap_or(i64::MAX));
                    outcome = Expr::select(is_mode.and(comparison), Expr::int(1), outcome);
                }
                let members = each("member", column(MEMBERS_END) - column(MEMBERS_BEGIN), |number| {
                    let member = element(&inputs[3], column(MEMBERS_BEGIN) + number);
                    when(member.equals(&value), holds.set(1))
                });
                let is_missing = te::isnan(&value).and(column(MISSING_IS_TRUE).differs(0));
                let next = |if_true: i64, if_false: i64| {
                    Expr::select(holds.get().equals(1), column(if_true), column(if_false))
                };
                let step = Stmt::seq([
                    holds.set(outcome),
                    members,
                    when(is_missing, holds.set(1)),
                    is_leaf.set(next(TRUE_IS_LEAF, FALSE_IS_LEAF)),
                    node.set(next(IF_TRUE, IF_FALSE)),
                    steps.add(1),
                ]);
                // A cycle of nodes terminates, too.
                let walk = as_long_as(is_leaf.get().equals(0).and(steps.get().less_equal(count)), step);
                let place = row * n_targets + element(&inputs[4], node.get());
                let (old, weight) = (element(&outputs[0], place.clone()), element(&inputs[5], node.get()));
                let new = match aggregate {
                    2 => min(old, weight),
                    3 => max(old, weight),
                    _ => old + weight,
                };
                let arrive = when(is_leaf.get().differs(0), put(&outputs[0], place, new));
                Stmt::seq([node.set(element(&inputs[6], tree.clone())), is_leaf.set(0), steps.set(0), walk, arrive])
            })
        });
        let finish = each("target", count_of(&shape), |place| {
            let value = element(&outputs[0], place.clone());
            let value = match aggregate {
                0 => value / te::constant(roots.shape[0] as f64, dtype),
                // Targets that no leaf reached.
                2 | 3 => te::select(value.equals(&start), zero(), value),
                _ => value,
            };
            put(&outputs[0], place.clone(), value)
        });
        let variables = [node.begin(0), is_leaf.begin(0), steps.begin(0), holds.begin(0)];
        let all = [fill(&outputs[0], count_of(&shape), &start), body, finish];
        Stmt::seq(variables.into_iter().chain(all))
    }))
}
