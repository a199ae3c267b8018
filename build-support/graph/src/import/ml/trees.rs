//! `TreeEnsemble`, `TreeEnsembleClassifier` and `TreeEnsembleRegressor`: the sums of the leaves by
//! the kernel of trees, and labels and transforms by nodes.

use kernpack_compiler::ir::F32;

use super::parts::{Classes, Parts};
use super::scores::{Transform, both, is_above, labels, of_several};
use crate::attrs::{Attr, Attrs};
use crate::error::{Result, fail, require};
use crate::graph::ValueId;
use crate::op::Operator;
use crate::op::ml::{CLASSIFIER_TREES, REGRESSOR_TREES, TREES, tree_tables};

/// Adds the kernel of trees, which computes the sums of their leaves.
fn sums(parts: &mut Parts<'_>, operator: &'static Operator, is_single: bool) -> Result<ValueId> {
    let mut inputs = vec![parts.input(0)?];
    for table in tree_tables(operator.name, parts.attrs, is_single)? {
        inputs.push(parts.emitter.graph.add_known(&format!("{} (table)", parts.emitter.name), table));
    }
    parts.own(operator, Attrs::default(), &inputs)
}

/// Returns the sums of the leaves. The numbers of the transforms differ from their names.
pub(super) fn ensemble(parts: &mut Parts<'_>) -> Result<ValueId> {
    let transform = match parts.attrs.int("post_transform", 0)? {
        0 => Transform::None,
        1 => Transform::Softmax,
        2 => Transform::Logistic,
        3 => Transform::SoftmaxZero,
        4 => Transform::Probit,
        other => fail!("attribute `post_transform` is {other}: expected 0 to 4"),
    };
    transform.check_single(parts.attrs.needed_int("n_targets")?, true)?;
    let sums = sums(parts, &TREES, false)?;
    transform.apply(parts, sums)
}

/// Returns the values of targets.
pub(super) fn regressor(parts: &mut Parts<'_>) -> Result<ValueId> {
    let transform = Transform::of(parts)?;
    transform.check_single(parts.attrs.needed_int("n_targets")?, true)?;
    let sums = sums(parts, &REGRESSOR_TREES, false)?;
    let sums = transform.apply(parts, sums)?;
    parts.cast(sums, F32)
}

/// Returns labels and scores.
pub(super) fn classifier(parts: &mut Parts<'_>) -> Result<(Classes, [ValueId; 2])> {
    let (classes, transform) = (parts.classes("classlabels_int64s")?, Transform::of(parts)?);
    let ids = parts.attrs.ints("class_ids")?.unwrap_or_default();
    let first = ids.first().copied().unwrap_or(0);
    let has_one = ids.iter().all(|id| *id == first);
    let made = match classes.len() {
        1 => {
            let fits = matches!(&classes, Classes::Ints(labels) if labels[0] == 1);
            require!(
                fits,
                "a single class label other than 1 is not supported: rows that are not of this class have no label"
            );
            transform.check_single(1, true)?;
            let sums = sums(parts, &CLASSIFIER_TREES, false)?;
            let number = is_above(parts, sums, 0.0)?;
            let sums = transform.apply(parts, sums)?;
            [number, parts.cast(sums, F32)?]
        }
        2 if has_one => {
            let weights = parts.floats("class_weights")?;
            let is_share = weights.iter().all(|weight| *weight >= 0.0) && has_no_negative(parts.attrs)?;
            let base = base_count(parts)?;
            require!(
                base < 2 && first == 0 || base == 0,
                "attribute `base_values` has {base} values, and the votes are for class {first} of two: expected one value, and votes for class 0"
            );
            let sums = sums(parts, &CLASSIFIER_TREES, true)?;
            let number = is_above(parts, sums, if is_share { 0.5 } else { 0.0 })?;
            let scores =
                if first == 0 { both(parts, sums, is_share, transform)? } else { second(parts, sums, transform)? };
            [labels(parts, number, &classes)?, scores]
        }
        count => {
            let base = base_count(parts)?;
            require!([0, count].contains(&base), "attribute `base_values` has {base} values for {count} classes");
            let sums = sums(parts, &CLASSIFIER_TREES, false)?;
            of_several(parts, sums, &classes, transform)?
        }
    };
    Ok((classes, made))
}

/// Returns the scores of two classes, the first of which has no votes.
fn second(parts: &mut Parts<'_>, sums: ValueId, transform: Transform) -> Result<ValueId> {
    let (shape, dtype) = (parts.shape(sums).to_vec(), parts.dtype(sums));
    let zeros = vec![0.0; usize::try_from(shape[0]).unwrap_or(0)];
    let zeros = parts.constant(&zeros, &shape, dtype)?;
    let scores = parts.columns(&[zeros, sums])?;
    let scores = transform.apply(parts, scores)?;
    parts.cast(scores, F32)
}

/// Returns the number of base values, which are floats or doubles.
fn base_count(parts: &Parts<'_>) -> Result<usize> {
    let doubles = match parts.attrs.get("base_values_as_tensor") {
        Some(Attr::Tensor(values)) => values.len(),
        _ => 0,
    };
    Ok(parts.floats("base_values")?.len() + doubles)
}

/// Returns true if no weight in doubles is negative.
fn has_no_negative(attrs: &Attrs) -> Result<bool> {
    match attrs.get("class_weights_as_tensor") {
        Some(Attr::Tensor(weights)) => Ok(weights.to_floats()?.iter().all(|weight| *weight >= 0.0)),
        _ => Ok(true),
    }
}
