//! `TreeEnsemble`, `TreeEnsembleClassifier` and `TreeEnsembleRegressor`: the sums of the leaves by
//! the kernel of trees, and labels and transforms by nodes.

use kernpack_compiler::ir::F32;

use super::scores::{Transform, both, is_above, labels, of_several};
use super::site::Classes;
use crate::attrs::{Attr, Attrs};
use crate::error::{Result, fail, require};
use crate::graph::ValueId;
use crate::import::site::Site;
use crate::op::Operator;
use crate::op::ml::{CLASSIFIER_TREES, REGRESSOR_TREES, TREES, tree_tables};

/// Adds the kernel of trees, which computes the sums of their leaves.
fn sums(site: &mut Site<'_>, operator: &'static Operator, is_single: bool) -> Result<ValueId> {
    let mut inputs = vec![site.input(0)?];
    for table in tree_tables(operator.name, site.attrs, is_single)? {
        inputs.push(site.emitter.graph.add_known(&format!("{} (table)", site.emitter.name), table));
    }
    site.own(operator, Attrs::default(), &inputs)
}

/// Returns the sums of the leaves. The numbers of the transforms differ from their names.
pub(super) fn ensemble(site: &mut Site<'_>) -> Result<ValueId> {
    let transform = match site.attrs.int("post_transform", 0)? {
        0 => Transform::None,
        1 => Transform::Softmax,
        2 => Transform::Logistic,
        3 => Transform::SoftmaxZero,
        4 => Transform::Probit,
        other => fail!("attribute `post_transform` is {other}: expected 0 to 4"),
    };
    transform.check_single(site.attrs.needed_int("n_targets")?, true)?;
    let sums = sums(site, &TREES, false)?;
    transform.apply(site, sums)
}

/// Returns the values of targets.
pub(super) fn regressor(site: &mut Site<'_>) -> Result<ValueId> {
    let transform = Transform::of(site)?;
    transform.check_single(site.attrs.needed_int("n_targets")?, true)?;
    let sums = sums(site, &REGRESSOR_TREES, false)?;
    let sums = transform.apply(site, sums)?;
    site.cast(sums, F32)
}

/// Returns labels and scores.
pub(super) fn classifier(site: &mut Site<'_>) -> Result<(Classes, [ValueId; 2])> {
    let (classes, transform) = (site.classes("classlabels_int64s")?, Transform::of(site)?);
    let ids = site.attrs.ints("class_ids")?.unwrap_or_default();
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
            let sums = sums(site, &CLASSIFIER_TREES, false)?;
            let number = is_above(site, sums, 0.0)?;
            let sums = transform.apply(site, sums)?;
            [number, site.cast(sums, F32)?]
        }
        2 if has_one => {
            let weights = site.attrs.floats("class_weights")?;
            let is_share = weights.iter().all(|weight| *weight >= 0.0) && has_no_negative(site.attrs)?;
            let base = base_count(site)?;
            require!(
                base < 2 && first == 0 || base == 0,
                "attribute `base_values` has {base} values, and the votes are for class {first} of two: expected one value, and votes for class 0"
            );
            let sums = sums(site, &CLASSIFIER_TREES, true)?;
            let number = is_above(site, sums, if is_share { 0.5 } else { 0.0 })?;
            let scores =
                if first == 0 { both(site, sums, is_share, transform)? } else { second(site, sums, transform)? };
            [labels(site, number, &classes)?, scores]
        }
        count => {
            let base = base_count(site)?;
            require!([0, count].contains(&base), "attribute `base_values` has {base} values for {count} classes");
            let sums = sums(site, &CLASSIFIER_TREES, false)?;
            of_several(site, sums, &classes, transform)?
        }
    };
    Ok((classes, made))
}

/// Returns the scores of two classes, the first of which has no votes.
fn second(site: &mut Site<'_>, sums: ValueId, transform: Transform) -> Result<ValueId> {
    let (shape, dtype) = (site.shape(sums).to_vec(), site.dtype(sums));
    let zeros = vec![0.0; usize::try_from(shape[0]).unwrap_or(0)];
    let zeros = site.constant(&zeros, &shape, dtype)?;
    let scores = site.columns(&[zeros, sums])?;
    let scores = transform.apply(site, scores)?;
    site.cast(scores, F32)
}

/// Returns the number of base values, which are floats or doubles.
fn base_count(site: &Site<'_>) -> Result<usize> {
    let doubles = match site.attrs.get("base_values_as_tensor") {
        Some(Attr::Tensor(values)) => values.len(),
        _ => 0,
    };
    Ok(site.attrs.floats("base_values")?.len() + doubles)
}

/// Returns true if no weight in doubles is negative.
fn has_no_negative(attrs: &Attrs) -> Result<bool> {
    match attrs.get("class_weights_as_tensor") {
        Some(Attr::Tensor(weights)) => Ok(weights.to_floats()?.iter().all(|weight| *weight >= 0.0)),
        _ => Ok(true),
    }
}
