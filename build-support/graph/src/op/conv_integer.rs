//! Convolutions of small integers. Zero points are subtracted first: padding equals the zero point,
//! so it adds nothing.

use kernpack_compiler::ir::{Expr, F32, I32, IterVar, Tensor};
use kernpack_compiler::te::{self, reduce_axis};

use super::call::{Operand, tensor};
use super::conv::{Windows, inside};
use super::quantize::saturated;
use super::{Call, Operator, Pattern, bounds};
use crate::error::{Result, require};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "ConvInteger", pattern: Pattern::Heavy, make: conv_integer },
    Operator { name: "QLinearConv", pattern: Pattern::Heavy, make: linear },
];

/// Returns a number for all channels, or one for each.
fn by_channel(of: &Operand, channel: &Expr) -> Expr {
    match of.shape[..] {
        [] => of.at(&[]),
        [1] => of.at(&[Expr::int(0)]),
        _ => of.at(core::slice::from_ref(channel)),
    }
}

fn check_channels(of: Option<&Operand>, channels: i64, what: &str) -> Result<()> {
    let Some(of) = of else { return Ok(()) };
    let fits = of.shape.is_empty() || of.shape == [1] || of.shape == [channels];
    require!(fits, "{what} {:?} for {channels} channels", of.shape);
    Ok(())
}

/// Returns the sums as `int32`, and their shape.
fn sums(
    call: &Call,
    x: &Operand,
    w: &Operand,
    x_zero: Option<&Operand>,
    w_zero: Option<&Operand>,
) -> Result<(Tensor, Vec<i64>)> {
    require!(x.rank() >= 3 && w.rank() == x.rank(), "an input {:?} and weights {:?} do not fit", x.shape, w.shape);
    let (spatial, groups) = (&x.shape[2..], bounds::size(call.attrs, "group", 1)?);
    let (n, channels, filters, depth) = (x.shape[0], x.shape[1], w.shape[0], w.shape[1]);
    require!(
        groups > 0 && i128::from(channels) == i128::from(depth) * i128::from(groups) && filters % groups == 0,
        "weights {:?} in {groups} groups do not fit the {channels} channels of {:?}",
        w.shape,
        x.shape
    );
    if let Some(kernel) = call.attrs.ints("kernel_shape")? {
        require!(kernel == w.shape[2..], "attribute `kernel_shape` is {kernel:?}, the weights are {:?}", w.shape);
    }
    check_channels(x_zero, 1, "zero points of the input")?;
    check_channels(w_zero, filters, "zero points of the weights")?;
    let windows = Windows::new(call, spatial, &w.shape[2..], false)?;
    let mut shape = vec![n, filters];
    shape.extend(&windows.count);
    let zero = || Expr::constant(I32, 0);
    let shifted = |at: &[Expr]| {
        let value = x.at(at).cast(I32);
        match x_zero {
            Some(of) => value - by_channel(of, &Expr::int(0)).cast(I32),
            None => value,
        }
    };
    let padded = if windows.stays_inside(spatial) {
        None
    } else {
        let mut extents = vec![n, channels];
        extents.extend((0..spatial.len()).map(|axis| spatial[axis] + windows.begin[axis] + windows.end[axis]));
        bounds::count(&extents)?;
        Some(
            tensor(&extents, |position| {
                let mut at = position.to_vec();
                for (axis, begin) in windows.begin.iter().enumerate() {
                    at[2 + axis] = &position[2 + axis] - *begin;
                }
                Expr::if_then_else(inside(&at[2..], spatial), shifted(&at), zero())
            })
            .named("padded"),
        )
    };
    if shape.contains(&0) || depth == 0 {
        return Ok((tensor(&shape, |_| zero()), shape));
    }
    let channel = reduce_axis(0, depth, "c");
    let loops = windows.loops();
    let mut axes = vec![channel.clone()];
    axes.extend(loops.iter().cloned());
    let sums = tensor(&shape, |position| {
        let elements: Vec<Expr> = loops.iter().map(IterVar::expr).collect();
        let group = if groups == 1 { Expr::int(0) } else { position[1].floor_div(filters / groups) };
        let from = if groups == 1 { channel.expr() } else { group * depth + channel.expr() };
        let mut at = vec![position[0].clone(), from];
        let places = windows.places(&position[2..], &elements);
        let value = match &padded {
            Some(padded) => {
                at.extend(places.into_iter().zip(&windows.begin).map(|(place, begin)| place + *begin));
                padded.at(&at)
            }
            None => {
                at.extend(places);
                shifted(&at)
            }
        };
        let mut weight = vec![position[1].clone(), channel.expr()];
        weight.extend(elements);
        let weight = w.at(&weight).cast(I32);
        let weight = match w_zero {
            Some(of) => weight - by_channel(of, &position[1]).cast(I32),
            None => weight,
        };
        te::sum(value * weight, &axes[..])
    });
    Ok((sums, shape))
}

fn conv_integer(call: &Call) -> Result<Vec<Tensor>> {
    let (sums, _) = sums(call, call.input(0)?, call.input(1)?, call.optional(2), call.optional(3))?;
    Ok(vec![sums])
}

/// Inputs: x, its scale and zero point, w, its scale and zero point, scale and zero point of the
/// result, and a bias as `int32` in the scale of the sums.
fn linear(call: &Call) -> Result<Vec<Tensor>> {
    let (x, w, y_zero) = (call.input(0)?, call.input(3)?, call.input(7)?);
    let (sums, shape) = sums(call, x, w, call.optional(2), call.optional(5))?;
    let (x_scale, w_scale, y_scale) = (call.input(1)?, call.input(4)?, call.input(6)?);
    check_channels(Some(x_scale), 1, "scales of the input")?;
    check_channels(Some(w_scale), w.shape[0], "scales of the weights")?;
    check_channels(Some(y_scale), 1, "scales of the result")?;
    check_channels(call.optional(8), w.shape[0], "a bias")?;
    Ok(vec![tensor(&shape, |position| {
        let sum = match call.optional(8) {
            Some(bias) => sums.at(position) + by_channel(bias, &position[1]),
            None => sums.at(position),
        };
        let scale = |of: &Operand| by_channel(of, &position[1]).cast(F32);
        let scaled = te::round(sum.cast(F32) * (scale(x_scale) * scale(w_scale) / scale(y_scale)));
        saturated(scaled + by_channel(y_zero, &position[1]).cast(F32), y_zero.dtype)
    })])
}
