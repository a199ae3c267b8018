//! Losses, which some models return in addition to their results.

use kernpack_compiler::ir::{Expr, I64, IterVar, Tensor};
use kernpack_compiler::te;

use super::call::{Operand, tensor, zeros};
use super::reduce::Axes;
use super::{Call, Operator, Pattern, extremum};
use crate::error::{Result, require};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "NegativeLogLikelihoodLoss", pattern: Pattern::Opaque, make: likelihood },
    Operator { name: "SoftmaxCrossEntropyLoss", pattern: Pattern::Opaque, make: cross_entropy },
];

/// Returns the axes of scores, with the class axis reduced. There may be no scores, but there must
/// be classes.
fn axes_of(x: &Operand) -> Result<Axes> {
    require!(x.rank() >= 2 && x.shape[1] != 0, "expected scores of classes, got {:?}", x.shape);
    Axes::new(x, &[1])
}

fn likelihood(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    Ok(vec![loss(call, x, |position| x.at(position))?])
}

fn cross_entropy(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let axes = axes_of(x)?;
    if x.shape.contains(&0) {
        return Ok(vec![loss(call, x, |position| x.at(position))?, zeros(&x.shape, x.dtype)]);
    }
    let (r, s) = (axes.loops(x), axes.loops(x));
    let largest = tensor(&axes.kept, |left| extremum::largest_of_powers(x.at(&axes.join(left, &r)), &r));
    let total = tensor(&axes.kept, |left| te::sum(te::exp(x.at(&axes.join(left, &s)) - largest.at(left)), &s[..]));
    let log = |position: &[Expr]| {
        let left = axes.left(position);
        x.at(position) - largest.at(&left) - te::log(total.at(&left))
    };
    let mut results = vec![loss(call, x, log)?];
    if call.wants(1) {
        results.push(tensor(&x.shape, log));
    }
    Ok(results)
}

/// Computes the loss of scores `[n, classes, ..]` for targets `[n, ..]`.
fn loss(call: &Call, x: &Operand, score: impl Fn(&[Expr]) -> Expr) -> Result<Tensor> {
    let target = call.input(1)?;
    let axes = axes_of(x)?;
    let classes = x.shape[1];
    require!(target.shape == axes.kept, "targets {:?} do not fit scores {:?}", target.shape, x.shape);
    let ignored = call.attrs.find_int("ignore_index")?;
    let class_of = |position: &[Expr]| target.at(position).cast(I64);
    if let Some(weight) = call.optional(2) {
        require!(weight.shape == [classes], "weights {:?} for {classes} classes", weight.shape);
    }
    // An ignored target gives 0, whatever its score is.
    let kept = |position: &[Expr], value: Expr| match ignored {
        Some(ignored) => te::select(class_of(position).equals(ignored), te::constant(0.0, x.dtype), value),
        None => value,
    };
    // An ignored target may be an invalid class.
    let inside = |position: &[Expr]| class_of(position).max(0).min(classes - 1);
    let weight = |position: &[Expr]| {
        let weight = call.optional(2).map(|weight| weight.at(&[inside(position)]));
        kept(position, weight.unwrap_or_else(|| te::constant(1.0, x.dtype)))
    };
    let one = |position: &[Expr]| {
        let mut at = position.to_vec();
        at.insert(1, inside(position));
        let loss = te::constant(0.0, x.dtype) - score(&at);
        kept(position, if call.optional(2).is_some() { loss * weight(position) } else { loss })
    };
    let reduction = call.attrs.text("reduction", "mean")?;
    require!(
        ["none", "sum", "mean"].contains(&reduction),
        "attribute `reduction` is `none`, `sum` or `mean`, not `{reduction}`"
    );
    if x.shape.contains(&0) && reduction != "none" {
        // The mean of no losses is 0 / 0, as is that of ignored losses.
        let of_none = if reduction == "mean" { f64::NAN } else { 0.0 };
        return Ok(tensor(&[], |_| te::constant(of_none, x.dtype)));
    }
    let losses = tensor(&axes.kept, one);
    if reduction == "none" {
        return Ok(losses);
    }
    let all = |name: &str| -> Vec<IterVar> {
        let axes = axes.kept.iter().enumerate();
        axes.map(|(axis, extent)| te::reduce_axis(0, *extent, &format!("{name}{axis}"))).collect()
    };
    let at = |loops: &[IterVar]| loops.iter().map(IterVar::expr).collect::<Vec<_>>();
    let (r, s) = (all("r"), all("s"));
    let sum = tensor(&[], |_| te::sum(losses.at(at(&r)), &r[..]));
    if reduction == "sum" {
        return Ok(sum);
    }
    let weights = tensor(&[], |_| te::sum(weight(&at(&s)), &s[..]));
    Ok(tensor(&[], |_| sum.at(&[] as &[Expr]) / weights.at(&[] as &[Expr])))
}
