//! Steps of optimizers: operators of `ai.onnx.preview.training`.

use kernpack_compiler::ir::{DataTypeExt, Expr, F32, F64, Tensor};
use kernpack_compiler::te;

use super::call::{Operand, tensor};
use super::{Call, Operator, Pattern};
use crate::error::{GraphError, Result, fail, require};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "Adagrad", pattern: Pattern::Opaque, make: adagrad },
    Operator { name: "Adam", pattern: Pattern::Opaque, make: adam },
    Operator { name: "Momentum", pattern: Pattern::Opaque, make: momentum },
];

/// Returns the only element of an input.
fn scalar(operand: &Operand) -> Result<Expr> {
    require!(operand.shape.iter().all(|extent| *extent == 1), "expected one number, got {:?}", operand.shape);
    Ok(operand.at(&vec![Expr::int(0); operand.rank()]))
}

/// Returns a required attribute.
fn needed(call: &Call, name: &str) -> Result<f64> {
    call.attrs.get(name).ok_or_else(|| GraphError::new(format!("attribute `{name}` is missing")))?;
    call.attrs.float(name, 0.0)
}

/// Inputs are learning rate and number of updates, and then `parts` inputs for each tensor: first
/// that part of all tensors, then the next one. `step` computes the new elements from a tensor's
/// elements. Results are in the same order, without the gradient, which is the second part.
fn update(call: &Call, parts: usize, step: impl Fn(&Expr, &Expr, &[Expr]) -> Result<Vec<Expr>>) -> Result<Vec<Tensor>> {
    let (rate, count) = (scalar(call.input(0)?)?, scalar(call.input(1)?)?);
    let all = call.inputs.len() - 2;
    require!(all > 0 && all.is_multiple_of(parts), "{all} tensors, expected {parts} for each one that is updated");
    let tensors = all / parts;
    let mut results: Vec<Vec<Tensor>> = vec![Vec::new(); parts - 1];
    for number in 0..tensors {
        let own = (0..parts).map(|part| call.input(2 + part * tensors + number)).collect::<Result<Vec<_>>>()?;
        let x = own[0];
        let fits = own.iter().all(|part| part.shape == x.shape && part.dtype == x.dtype);
        require!(fits && x.dtype.is_float(), "the parts of tensor {number} have different shapes or types");
        let wide = if x.dtype == F64 { F64 } else { F32 };
        for (part, results) in results.iter_mut().enumerate() {
            let mut outcome = Ok(());
            results.push(tensor(&x.shape, |position| {
                let elements: Vec<Expr> = own.iter().map(|operand| operand.at(position).cast(wide)).collect();
                match step(&rate.cast(wide), &count.cast(wide), &elements) {
                    Ok(mut values) => values.swap_remove(part).cast(x.dtype),
                    Err(error) => {
                        outcome = Err(error);
                        te::constant(0.0, x.dtype)
                    }
                }
            }));
            outcome?;
        }
    }
    Ok(results.concat())
}

fn adagrad(call: &Call) -> Result<Vec<Tensor>> {
    let (decay, epsilon) = (call.attrs.float("decay_factor", 0.0)?, call.attrs.float("epsilon", 1e-6)?);
    let norm = call.attrs.float("norm_coefficient", 0.0)?;
    update(call, 3, |rate, count, parts| {
        let [x, gradient, squares] = parts else { fail!("three parts are needed") };
        let rate = rate / (count * decay + 1.0);
        let gradient = x * norm + gradient;
        let squares = squares + &gradient * &gradient;
        Ok(vec![x - rate * gradient / (te::sqrt(&squares) + epsilon), squares])
    })
}

fn adam(call: &Call) -> Result<Vec<Tensor>> {
    let (alpha, beta) = (call.attrs.float("alpha", 0.9)?, call.attrs.float("beta", 0.999)?);
    let epsilon = call.attrs.float("epsilon", 1e-6)?;
    let (norm, after) = (call.attrs.float("norm_coefficient", 0.0)?, call.attrs.float("norm_coefficient_post", 0.0)?);
    update(call, 4, |rate, count, parts| {
        let [x, gradient, mean, squares] = parts else { fail!("four parts are needed") };
        let number = |value: f64| te::constant(value, x.dtype());
        let gradient = x * norm + gradient;
        let mean = mean * alpha + &gradient * (1.0 - alpha);
        let squares = squares * beta + &gradient * &gradient * (1.0 - beta);
        // Both means start at 0, and are too small at first.
        let missing = |factor: f64| number(1.0) - te::pow(number(factor), count);
        let corrected = rate * te::sqrt(missing(beta)) / missing(alpha);
        let rate = te::select(count.greater(number(0.0)), corrected, rate);
        let new = x - rate * (&mean / (te::sqrt(&squares) + epsilon));
        Ok(vec![new * (1.0 - after), mean, squares])
    })
}

fn momentum(call: &Call) -> Result<Vec<Tensor>> {
    let (alpha, beta, norm) = (needed(call, "alpha")?, needed(call, "beta")?, needed(call, "norm_coefficient")?);
    let is_nesterov = match call.attrs.text("mode", "")? {
        "standard" => false,
        "nesterov" => true,
        other => fail!("attribute `mode` is `{other}`, not standard or nesterov"),
    };
    update(call, 3, |rate, count, parts| {
        let [x, gradient, velocity] = parts else { fail!("three parts are needed") };
        let number = |value: f64| te::constant(value, x.dtype());
        let gradient = x * norm + gradient;
        let factor = te::select(count.greater(number(0.0)), number(beta), number(1.0));
        let velocity = velocity * alpha + factor * &gradient;
        let step = if is_nesterov { gradient + &velocity * alpha } else { velocity.clone() };
        Ok(vec![x - rate * step, velocity])
    })
}
