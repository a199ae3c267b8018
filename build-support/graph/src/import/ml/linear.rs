//! `LinearClassifier` and `LinearRegressor`.

use kernpack_compiler::ir::F32;

use super::parts::{Classes, Parts, int};
use super::scores::{Transform, both, is_above, labels, of_several};
use crate::error::{Result, fail, require};
use crate::graph::ValueId;

/// Returns the products of rows and coefficients, with the intercepts.
fn scores(parts: &mut Parts<'_>, count: Option<i64>) -> Result<ValueId> {
    let rows = parts.float_rows()?;
    let (coefficients, intercepts) = (parts.floats("coefficients")?, parts.floats("intercepts")?);
    let scores = parts.product(rows, &coefficients, &[])?;
    let own = parts.shape(scores)[1];
    require!(
        count.is_none_or(|count| count == own),
        "{} coefficients are not those of {} targets",
        coefficients.len(),
        count.unwrap_or(0)
    );
    if intercepts.is_empty() {
        return Ok(scores);
    }
    let fits = int(intercepts.len()) == own;
    require!(fits, "attribute `intercepts` has {} numbers for {own} classes or targets", intercepts.len());
    let intercepts = parts.single(&intercepts, &[own])?;
    parts.binary("Add", scores, intercepts)
}

/// Returns labels and scores.
pub(super) fn classifier(parts: &mut Parts<'_>) -> Result<(Classes, [ValueId; 2])> {
    let (classes, transform) = (parts.classes("classlabels_ints")?, Transform::of(parts)?);
    let scores = scores(parts, None)?;
    if parts.shape(scores)[1] != 1 {
        let made = of_several(parts, scores, &classes, transform)?;
        return Ok((classes, made));
    }
    let number = is_above(parts, scores, 0.0)?;
    let made = match (classes.len(), &classes) {
        (2, _) => [labels(parts, number, &classes)?, both(parts, scores, true, transform)?],
        (1, Classes::Ints(labels)) if labels[0] == 1 => {
            transform.check_single(1, true)?;
            let scores = transform.apply(parts, scores)?;
            [number, parts.cast(scores, F32)?]
        }
        (count, _) => fail!("one score for each row, and {count} class labels: expected 2"),
    };
    Ok((classes, made))
}

/// Returns the values of targets.
pub(super) fn regressor(parts: &mut Parts<'_>) -> Result<ValueId> {
    let (targets, transform) = (parts.attrs.int("targets", 1)?, Transform::of(parts)?);
    transform.check_single(targets, true)?;
    let scores = scores(parts, Some(targets))?;
    transform.apply(parts, scores)
}
