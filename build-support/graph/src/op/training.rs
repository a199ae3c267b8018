//! Steps of optimizers: `ai.onnx.preview.training`.
//!
//! Inputs: the rate, the number of updates before, then the tensors, their gradients and what the optimizer keeps of each. Outputs: the tensors, and what is
//! kept.

use kernpack_compiler::ir::{Expr, Tensor};
use kernpack_compiler::te;

use super::call::{Operand, tensor};
use super::{Call, Operator, Pattern};
use crate::error::{Result, fail, require};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "Adagrad", pattern: Pattern::Opaque, make: adagrad },
    Operator { name: "Adam", pattern: Pattern::Opaque, make: adam },
    Operator { name: "Momentum", pattern: Pattern::Opaque, make: momentum },
];

/// A tensor that is trained.
struct Trained<'c> {
    rate: &'c Operand,
    updates: &'c Operand,
    x: &'c Operand,
    gradient: &'c Operand,
    kept: Vec<&'c Operand>,
    norm: f64,
}

impl Trained<'_> {
    fn constant(&self, value: f64) -> Expr {
        te::constant(value, self.x.dtype)
    }

    fn scalar(&self, operand: &Operand) -> Expr {
        operand.at(&vec![Expr::int(0); operand.rank()]).cast(self.x.dtype)
    }

    fn rate(&self) -> Expr {
        self.scalar(self.rate)
    }

    fn updates(&self) -> Expr {
        self.scalar(self.updates)
    }

    /// Whether there were updates before.
    fn is_later(&self) -> Expr {
        self.updates().greater(self.constant(0.0))
    }

    /// The gradient with that of the regularization.
    fn gradient(&self, position: &[Expr]) -> Expr {
        self.constant(self.norm) * self.x.at(position) + self.gradient.at(position)
    }

    fn each(&self, body: impl FnOnce(&[Expr]) -> Expr) -> Tensor {
        tensor(&self.x.shape, body)
    }
}

/// All tensors, of each of which so many others are kept; `step` gives the new tensor, and what is kept. The results by kinds.
fn all(call: &Call, kept: usize, step: impl Fn(&Trained) -> Vec<Tensor>) -> Result<Vec<Tensor>> {
    let (rate, updates) = (call.input(0)?, call.input(1)?);
    for scalar in [rate, updates] {
        require!(scalar.shape.iter().all(|extent| *extent == 1), "expected one number, got {:?}", scalar.shape);
    }
    let given = call.inputs.len().saturating_sub(2);
    let count = given / (kept + 2);
    require!(count * (kept + 2) == given, "{given} inputs are no whole number of tensors with {} each", kept + 2);
    let norm = call.attrs.float("norm_coefficient", 0.0)?;
    let mut results: Vec<Vec<Tensor>> = vec![Vec::new(); kept + 1];
    for index in 0..count {
        let part = |kind: usize| call.input(2 + kind * count + index);
        let (x, gradient) = (part(0)?, part(1)?);
        let kept: Vec<&Operand> = (0..kept).map(|kind| part(2 + kind)).collect::<Result<_>>()?;
        for other in kept.iter().copied().chain([gradient]) {
            require!(other.shape == x.shape && other.dtype == x.dtype, "a tensor {:?} with {:?}", x.shape, other.shape);
        }
        let made = step(&Trained { rate, updates, x, gradient, kept, norm });
        for (kind, tensor) in results.iter_mut().zip(made) {
            kind.push(tensor);
        }
    }
    Ok(results.into_iter().flatten().collect())
}

fn adagrad(call: &Call) -> Result<Vec<Tensor>> {
    let (epsilon, decay) = (call.attrs.float("epsilon", 1e-6)?, call.attrs.float("decay_factor", 0.0)?);
    all(call, 1, |one| {
        let squares = |position: &[Expr]| {
            let gradient = one.gradient(position);
            one.kept[0].at(position) + &gradient * &gradient
        };
        let next = one.each(|position| {
            let rate = one.rate() / (one.constant(1.0) + one.updates() * one.constant(decay));
            let scale = te::sqrt(squares(position)) + one.constant(epsilon);
            one.x.at(position) - rate * one.gradient(position) / scale
        });
        vec![next, one.each(squares)]
    })
}

fn adam(call: &Call) -> Result<Vec<Tensor>> {
    let (alpha, beta) = (call.attrs.float("alpha", 0.9)?, call.attrs.float("beta", 0.999)?);
    let epsilon = call.attrs.float("epsilon", 1e-6)?;
    let after = call.attrs.float("norm_coefficient_post", 0.0)?;
    all(call, 2, |one| {
        let mean = |position: &[Expr]| {
            one.constant(alpha) * one.kept[0].at(position) + one.constant(1.0 - alpha) * one.gradient(position)
        };
        let squares = |position: &[Expr]| {
            let gradient = one.gradient(position);
            one.constant(beta) * one.kept[1].at(position) + one.constant(1.0 - beta) * (&gradient * &gradient)
        };
        let next = one.each(|position| {
            // What begins at 0 is too small at first.
            let part = |base: f64| one.constant(1.0) - Expr::math("pow", [one.constant(base), one.updates()]);
            let rate = Expr::select(one.is_later(), one.rate() * te::sqrt(part(beta)) / part(alpha), one.rate());
            let step = rate * (mean(position) / (te::sqrt(squares(position)) + one.constant(epsilon)));
            one.constant(1.0 - after) * (one.x.at(position) - step)
        });
        vec![next, one.each(mean), one.each(squares)]
    })
}

fn momentum(call: &Call) -> Result<Vec<Tensor>> {
    let is_given = |name: &str| call.attrs.get(name).is_some();
    require!(is_given("alpha") && is_given("beta"), "attribute `alpha` or `beta` is missing");
    let (alpha, beta) = (call.attrs.float("alpha", 0.0)?, call.attrs.float("beta", 0.0)?);
    let looks_ahead = match call.attrs.text("mode", "")? {
        "standard" => false,
        "nesterov" => true,
        other => fail!("attribute `mode` is '{other}', not standard or nesterov"),
    };
    all(call, 1, |one| {
        let speed = |position: &[Expr]| {
            let weight = Expr::select(one.is_later(), one.constant(beta), one.constant(1.0));
            one.constant(alpha) * one.kept[0].at(position) + weight * one.gradient(position)
        };
        let next = one.each(|position| {
            let speed = speed(position);
            let step = if looks_ahead { one.gradient(position) + one.constant(alpha) * speed } else { speed };
            one.x.at(position) - one.rate() * step
        });
        vec![next, one.each(speed)]
    })
}
