//! Scores of classes and targets: their transforms, and labels.
//!
//! ONNX leaves the case of two classes with one score open. It is that of onnxruntime.

use kernpack_compiler::ir::{F32, I64};

use super::parts::{Classes, Parts, int};
use crate::attrs::Attr;
use crate::error::{Result, fail, require};
use crate::graph::ValueId;

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
    pub(super) fn of(parts: &Parts<'_>) -> Result<Self> {
        Ok(match parts.attrs.text("post_transform", "NONE")? {
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
    pub(super) fn apply(self, parts: &mut Parts<'_>, scores: ValueId) -> Result<ValueId> {
        match self {
            Self::None => Ok(scores),
            Self::Softmax => parts.node("Softmax", &[("axis", Attr::Int(1))], &[scores]),
            Self::Logistic => parts.unary("Sigmoid", scores),
            Self::SoftmaxZero => softmax_zero(parts, scores),
            Self::Probit => probit(parts, scores),
        }
    }
}

/// A softmax in which scores of zero stay zero.
fn softmax_zero(parts: &mut Parts<'_>, scores: ValueId) -> Result<ValueId> {
    let axes = parts.emitter.ints(&[1]);
    let largest = parts.binary("ReduceMax", scores, axes)?;
    let shifted = parts.binary("Sub", scores, largest)?;
    let power = parts.unary("Exp", shifted)?;
    let size = parts.unary("Abs", scores)?;
    let counts = parts.with("Greater", size, 1e-7)?;
    let opposite = parts.unary("Neg", largest)?;
    let factor = parts.unary("Exp", opposite)?;
    let small = parts.binary("Mul", scores, factor)?;
    let zero = parts.float(0.0, scores)?;
    let counted = parts.node("Where", &[], &[counts, power, zero])?;
    let sum = parts.binary("ReduceSum", counted, axes)?;
    let value = parts.node("Where", &[], &[counts, power, small])?;
    parts.binary("Div", value, sum)
}

/// The quantile of the normal distribution, by the approximation of Winitzki that ONNX and
/// onnxruntime have.
fn probit(parts: &mut Parts<'_>, scores: ValueId) -> Result<ValueId> {
    const FACTOR: f64 = 0.147;
    let twice = parts.with("Mul", scores, 2.0)?;
    let x = parts.with("Sub", twice, 1.0)?;
    let (below, above) = (parts.from(1.0, x)?, parts.with("Add", x, 1.0)?);
    let inner = parts.binary("Mul", below, above)?;
    let log = parts.unary("Log", inner)?;
    let half = parts.with("Mul", log, 0.5)?;
    let first = parts.with("Add", half, 2.0 / (core::f64::consts::PI * FACTOR))?;
    let second = parts.with("Mul", log, 1.0 / FACTOR)?;
    let square = parts.binary("Mul", first, first)?;
    let rest = parts.binary("Sub", square, second)?;
    let root = parts.unary("Sqrt", rest)?;
    let difference = parts.binary("Sub", root, first)?;
    let size = parts.unary("Sqrt", difference)?;
    let is_negative = parts.with("Less", x, 0.0)?;
    let (plus, minus) = (parts.float(core::f64::consts::SQRT_2, x)?, parts.float(-core::f64::consts::SQRT_2, x)?);
    let sign = parts.node("Where", &[], &[is_negative, minus, plus])?;
    parts.binary("Mul", sign, size)
}

/// Returns the labels of rows by the numbers of their classes.
pub(super) fn labels(parts: &mut Parts<'_>, numbers: ValueId, classes: &Classes) -> Result<ValueId> {
    let Classes::Ints(labels) = classes else { return Ok(numbers) };
    if (0..).zip(labels).all(|(number, label)| number == *label) {
        return Ok(numbers);
    }
    let labels = parts.emitter.ints(labels);
    parts.binary("Gather", labels, numbers)
}

/// Returns the numbers of the classes with the largest scores.
pub(super) fn best(parts: &mut Parts<'_>, scores: ValueId) -> Result<ValueId> {
    parts.node("ArgMax", &[("axis", Attr::Int(1)), ("keepdims", Attr::Int(0))], &[scores])
}

/// Returns labels and transformed scores of more than one score for each row.
pub(super) fn of_several(
    parts: &mut Parts<'_>,
    scores: ValueId,
    classes: &Classes,
    transform: Transform,
) -> Result<[ValueId; 2]> {
    let count = int(classes.len());
    require!(parts.shape(scores)[1] == count, "there are {count} class labels, and scores {:?}", parts.shape(scores));
    let numbers = best(parts, scores)?;
    let label = labels(parts, numbers, classes)?;
    let scores = transform.apply(parts, scores)?;
    Ok([label, parts.cast(scores, F32)?])
}

/// Returns 1 for rows whose score is larger than a threshold, and 0 for others.
pub(super) fn is_above(parts: &mut Parts<'_>, score: ValueId, threshold: f64) -> Result<ValueId> {
    let is_above = parts.with("Greater", score, threshold)?;
    let rows = parts.shape(score)[0];
    let is_above = parts.reshaped(is_above, &[rows])?;
    parts.cast(is_above, I64)
}

/// Returns the scores of two classes from that of the second one. `is_share` is true for a score
/// that is the share of the second class, from 0 to 1; others are positive for the second class.
pub(super) fn both(parts: &mut Parts<'_>, score: ValueId, is_share: bool, transform: Transform) -> Result<ValueId> {
    let opposite = match transform {
        Transform::Logistic => parts.unary("Neg", score)?,
        Transform::Probit => parts.from(1.0, score)?,
        _ if is_share => parts.from(1.0, score)?,
        _ => parts.unary("Neg", score)?,
    };
    let scores = parts.columns(&[opposite, score])?;
    let scores = match transform {
        Transform::Logistic | Transform::Probit => transform.apply(parts, scores)?,
        _ => scores,
    };
    parts.cast(scores, F32)
}
