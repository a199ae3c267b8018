//! `LinearClassifier` and `LinearRegressor`.

use kernpack_compiler::ir::F32;

use super::scores::{Transform, both, is_above, labels, of_several};
use super::site::{Classes, int};
use crate::error::{Result, fail, require};
use crate::graph::ValueId;
use crate::import::site::Site;

/// Returns the products of rows and coefficients, with the intercepts.
fn scores(site: &mut Site<'_>, count: Option<i64>) -> Result<ValueId> {
    let rows = site.float_rows()?;
    let (coefficients, intercepts) = (site.attrs.floats("coefficients")?, site.attrs.floats("intercepts")?);
    let scores = site.product(rows, &coefficients, &[])?;
    let own = site.shape(scores)[1];
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
    let intercepts = site.single(&intercepts, &[own])?;
    site.binary("Add", scores, intercepts)
}

/// Returns labels and scores.
pub(super) fn classifier(site: &mut Site<'_>) -> Result<(Classes, [ValueId; 2])> {
    let (classes, transform) = (site.classes("classlabels_ints")?, Transform::of(site)?);
    let scores = scores(site, None)?;
    if site.shape(scores)[1] != 1 {
        let made = of_several(site, scores, &classes, transform)?;
        return Ok((classes, made));
    }
    let number = is_above(site, scores, 0.0)?;
    let made = match (classes.len(), &classes) {
        (2, _) => [labels(site, number, &classes)?, both(site, scores, true, transform)?],
        (1, Classes::Ints(labels)) if labels[0] == 1 => {
            transform.check_single(1, true)?;
            let scores = transform.apply(site, scores)?;
            [number, site.cast(scores, F32)?]
        }
        (count, _) => fail!("one score for each row, and {count} class labels: expected 2"),
    };
    Ok((classes, made))
}

/// Returns the values of targets.
pub(super) fn regressor(site: &mut Site<'_>) -> Result<ValueId> {
    let (targets, transform) = (site.attrs.int("targets", 1)?, Transform::of(site)?);
    transform.check_single(targets, true)?;
    let scores = scores(site, Some(targets))?;
    transform.apply(site, scores)
}
