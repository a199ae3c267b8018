//! Scores of classes and targets: their transforms, and labels.
//!
//! ONNX leaves the case of two classes with one score open. It is that of onnxruntime.

use kernpack_compiler::ir::{F32, I64};

use super::site::{Classes, int};
use crate::attrs::Attr;
use crate::error::{Result, fail, require};
use crate::graph::ValueId;
use crate::import::site::Site;

/// The transform of scores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Transform {
    None,
    Softmax,
    Logistic,
    SoftmaxZero,
    Probit,
}

impl Transform {
    /// Returns the transform of the attribute `post_transform`.
    pub(super) fn of(site: &Site<'_>) -> Result<Self> {
        Ok(match site.attrs.text("post_transform", "NONE")? {
            "NONE" => Self::None,
            "SOFTMAX" => Self::Softmax,
            "LOGISTIC" => Self::Logistic,
            "SOFTMAX_ZERO" => Self::SoftmaxZero,
            "PROBIT" => Self::Probit,
            other => {
                fail!("attribute `post_transform` is `{other}`, not NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT")
            }
        })
    }

    /// Refuses transforms of a single target. ONNX applies them, and onnxruntime does not.
    pub(super) fn check_single(self, targets: i64, supports_probit: bool) -> Result<()> {
        let is_clear = targets != 1 || self == Self::None || supports_probit && self == Self::Probit;
        require!(
            is_clear,
            "attribute `post_transform` of a single target is not supported, because onnxruntime ignores it and ONNX does not: export the model with NONE, and add a node that transforms the result"
        );
        Ok(())
    }

    /// Transforms the scores of each row.
    pub(super) fn apply(self, site: &mut Site<'_>, scores: ValueId) -> Result<ValueId> {
        match self {
            Self::None => Ok(scores),
            Self::Softmax => site.node("Softmax", &[("axis", Attr::Int(1))], &[scores]),
            Self::Logistic => site.unary("Sigmoid", scores),
            Self::SoftmaxZero => softmax_zero(site, scores),
            Self::Probit => probit(site, scores),
        }
    }
}

/// A softmax in which scores of zero stay zero.
fn softmax_zero(site: &mut Site<'_>, scores: ValueId) -> Result<ValueId> {
    let axes = site.emitter.ints(&[1]);
    let largest = site.binary("ReduceMax", scores, axes)?;
    let shifted = site.binary("Sub", scores, largest)?;
    let power = site.unary("Exp", shifted)?;
    let size = site.unary("Abs", scores)?;
    let counts = site.with("Greater", size, 1e-7)?;
    let opposite = site.unary("Neg", largest)?;
    let factor = site.unary("Exp", opposite)?;
    let small = site.binary("Mul", scores, factor)?;
    let zero = site.float(0.0, scores)?;
    let counted = site.node("Where", &[], &[counts, power, zero])?;
    let sum = site.binary("ReduceSum", counted, axes)?;
    let value = site.node("Where", &[], &[counts, power, small])?;
    site.binary("Div", value, sum)
}

/// The quantile of the normal distribution, by the approximation of Winitzki that ONNX and
/// onnxruntime have.
fn probit(site: &mut Site<'_>, scores: ValueId) -> Result<ValueId> {
    const FACTOR: f64 = 0.147;
    let twice = site.with("Mul", scores, 2.0)?;
    let x = site.with("Sub", twice, 1.0)?;
    let (below, above) = (site.from(1.0, x)?, site.with("Add", x, 1.0)?);
    let inner = site.binary("Mul", below, above)?;
    let log = site.unary("Log", inner)?;
    let half = site.with("Mul", log, 0.5)?;
    let first = site.with("Add", half, 2.0 / (core::f64::consts::PI * FACTOR))?;
    let second = site.with("Mul", log, 1.0 / FACTOR)?;
    let square = site.binary("Mul", first, first)?;
    let rest = site.binary("Sub", square, second)?;
    let root = site.unary("Sqrt", rest)?;
    let difference = site.binary("Sub", root, first)?;
    let size = site.unary("Sqrt", difference)?;
    let is_negative = site.with("Less", x, 0.0)?;
    let (plus, minus) = (site.float(core::f64::consts::SQRT_2, x)?, site.float(-core::f64::consts::SQRT_2, x)?);
    let sign = site.node("Where", &[], &[is_negative, minus, plus])?;
    site.binary("Mul", sign, size)
}

/// Returns the labels of rows by the numbers of their classes.
pub(super) fn labels(site: &mut Site<'_>, numbers: ValueId, classes: &Classes) -> Result<ValueId> {
    let Classes::Ints(labels) = classes else { return Ok(numbers) };
    if (0..).zip(labels).all(|(number, label)| number == *label) {
        return Ok(numbers);
    }
    let labels = site.emitter.ints(labels);
    site.binary("Gather", labels, numbers)
}

/// Returns the numbers of the classes with the largest scores.
pub(super) fn best(site: &mut Site<'_>, scores: ValueId) -> Result<ValueId> {
    site.node("ArgMax", &[("axis", Attr::Int(1)), ("keepdims", Attr::Int(0))], &[scores])
}

/// Returns labels and transformed scores of more than one score for each row.
pub(super) fn of_several(
    site: &mut Site<'_>,
    scores: ValueId,
    classes: &Classes,
    transform: Transform,
) -> Result<[ValueId; 2]> {
    let count = int(classes.len());
    require!(site.shape(scores)[1] == count, "there are {count} class labels, and scores {:?}", site.shape(scores));
    let numbers = best(site, scores)?;
    let label = labels(site, numbers, classes)?;
    let scores = transform.apply(site, scores)?;
    Ok([label, site.cast(scores, F32)?])
}

/// Returns 1 for rows whose score is larger than a threshold, and 0 for others.
pub(super) fn is_above(site: &mut Site<'_>, score: ValueId, threshold: f64) -> Result<ValueId> {
    let is_above = site.with("Greater", score, threshold)?;
    let rows = site.shape(score)[0];
    let is_above = site.reshaped(is_above, &[rows])?;
    site.cast(is_above, I64)
}

/// Returns the scores of two classes from that of the second one. `is_share` is true for a score
/// that is the share of the second class, from 0 to 1; others are positive for the second class.
pub(super) fn both(site: &mut Site<'_>, score: ValueId, is_share: bool, transform: Transform) -> Result<ValueId> {
    let opposite = match transform {
        Transform::Logistic => site.unary("Neg", score)?,
        Transform::Probit => site.from(1.0, score)?,
        _ if is_share => site.from(1.0, score)?,
        _ => site.unary("Neg", score)?,
    };
    let scores = site.columns(&[opposite, score])?;
    let scores = match transform {
        Transform::Logistic | Transform::Probit => transform.apply(site, scores)?,
        _ => scores,
    };
    site.cast(scores, F32)
}
