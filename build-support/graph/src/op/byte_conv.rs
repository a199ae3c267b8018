//! Byte convolutions with known weights, packed for the compiler's rule `dot`: groups of four
//! channels are contiguous.

use kernpack_compiler::ir::{Expr, F32, I32, IterVar, Tensor, U8};
use kernpack_compiler::te::{self, reduce_axis};

use super::call::{Operand, tensor};
use super::conv::Windows;
use super::quantize::saturated;
use super::{Call, Operator, Pattern};
use crate::error::{Result, require};

/// The number of contiguous channels.
pub(crate) const CHANNELS: i64 = 4;

/// A convolution over two dimensions with one group and the attributes of a convolution.
///
/// Inputs: bytes; signed weights `[output channel, channel / 4, row, column, channel % 4]`; a
/// number for each output channel that is subtracted from the sums; and the following optional
/// ones: the zero point of the bytes, by which the previous input is multiplied if it is not known;
/// a scale, with which the result is floats; a bias for each output channel, added after scaling;
/// the zero point of a byte result, to which the result is rounded; a number that is added to the
/// sums.
pub(crate) static BYTE_CONV: Operator = Operator { name: "ByteConv", pattern: Pattern::Heavy, make: conv };

fn conv(call: &Call) -> Result<Vec<Tensor>> {
    let (x, w, offsets) = (call.input(0)?, call.input(1)?, call.input(2)?);
    require!(x.rank() == 4 && w.rank() == 5, "an input {:?} and weights {:?} do not fit", x.shape, w.shape);
    let (n, channels, spatial) = (x.shape[0], x.shape[1], &x.shape[2..]);
    let (filters, blocks) = (w.shape[0], w.shape[1]);
    require!(blocks == (channels + CHANNELS - 1) / CHANNELS, "{:?} for {channels} channels", w.shape);
    let windows = Windows::new(call, spatial, &w.shape[2..4], false)?;
    let shape = [n, filters, windows.count[0], windows.count[1]];
    // Signed bytes are shifted, because the instructions take unsigned image bytes.
    let shift = if x.dtype == U8 { 0 } else { 128 };
    let unsigned = |value: Expr| if shift == 0 { value } else { (value.cast(I32) + shift).cast(U8) };
    let zero = call.optional(3);
    let fill = || match zero {
        Some(zero) => unsigned(zero.at(&vec![Expr::int(0); zero.rank()])),
        None => Expr::constant(U8, shift),
    };
    // Pixels are grouped by the remainders of the strides, so that adjacent results read adjacent
    // pixels, and by four channels, including all padding.
    let reach: Vec<i64> =
        (0..2).map(|axis| (windows.kernel[axis] - 1) * windows.dilations[axis] / windows.strides[axis]).collect();
    let plane: Vec<i64> = (0..2).map(|axis| windows.count[axis] + reach[axis]).collect();
    let phases = &windows.strides;
    let extents = [n, blocks, phases[0], phases[1], plane[0], plane[1], CHANNELS];
    let pixels = tensor(&extents, |at| {
        let channel = &at[1] * CHANNELS + &at[6];
        let mut place = vec![at[0].clone(), channel.clone()];
        let mut inside = Expr::bool(true);
        for axis in 0..2 {
            let position = &at[4 + axis] * phases[axis] + &at[2 + axis] - windows.begin[axis];
            let fits = position.greater_equal(0).and(position.less(spatial[axis]));
            inside = if axis == 0 { fits } else { inside.and(fits) };
            place.push(position);
        }
        if channels % CHANNELS != 0 {
            inside = inside.and(channel.less(channels));
        }
        Expr::if_then_else(inside, unsigned(x.tensor.at(&place)), fill())
    })
    .named("pixels");
    let axes = [
        reduce_axis(0, blocks, "c"),
        reduce_axis(0, w.shape[2], "ky"),
        reduce_axis(0, w.shape[3], "kx"),
        reduce_axis(0, CHANNELS, "part"),
    ];
    let sums = tensor(&shape, |position| {
        let [c, ky, kx, part] = axes.each_ref().map(IterVar::expr);
        let (far_y, far_x) = (&ky * windows.dilations[0], &kx * windows.dilations[1]);
        let image = pixels.at(&[
            position[0].clone(),
            c.clone(),
            far_y.floor_mod(phases[0]),
            far_x.floor_mod(phases[1]),
            &position[2] + far_y.floor_div(phases[0]),
            &position[3] + far_x.floor_div(phases[1]),
            part.clone(),
        ]);
        let weight = w.tensor.at(&[position[1].clone(), c, ky, kx, part]);
        te::sum(image.cast(I32) * weight.cast(I32), &axes[..])
    })
    .named("sums");
    let by_channel =
        |of: &Operand, channel: &Expr| of.at(&[if of.shape == [1] { Expr::int(0) } else { channel.clone() }]);
    // A known zero point is already included in the offsets.
    let factor = zero.filter(|zero| zero.value.is_none());
    let factor = factor.map(|zero| zero.at(&vec![Expr::int(0); zero.rank()]).cast(I32) + shift);
    let (scale, bias, y_zero, added) = (call.optional(4), call.optional(5), call.optional(6), call.optional(7));
    Ok(vec![tensor(&shape, |position| {
        let channel = &position[1];
        let offset = by_channel(offsets, channel);
        let offset = match &factor {
            Some(factor) => offset * factor.clone(),
            None => offset,
        };
        let mut sum = sums.at(position) - offset;
        if let Some(added) = added {
            sum = sum + by_channel(added, channel);
        }
        let Some(scale) = scale else { return sum };
        let mut value = sum.cast(F32) * by_channel(scale, channel);
        if let Some(bias) = bias {
            value = value + by_channel(bias, channel);
        }
        match y_zero {
            Some(zero) => {
                let own = zero.at(&vec![Expr::int(0); zero.rank()]).cast(F32);
                saturated(te::round(value) + own, zero.dtype)
            }
            None => value,
        }
    })])
}
