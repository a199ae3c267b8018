//! Transposed convolutions.

use kernpack_compiler::ir::{Expr, IterVar, Tensor};
use kernpack_compiler::te::{self, reduce_axis};

use super::call::{Operand, tensor};
use super::conv::{check_bias, check_pads, finished, wide};
use super::{Call, Operator, Pattern, bounds};
use crate::error::{Result, require};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] =
    &[Operator { name: "ConvTranspose", pattern: Pattern::Heavy, make: conv_transpose }];

/// A transposed convolution whose windows are adjacent: a product for each pixel of the input,
/// which gives all pixels of its window.
fn shuffled(x: &Operand, w: &Operand, shape: &[i64], strides: &[i64]) -> Tensor {
    let (depth, wide) = (w.shape[0], wide(x));
    let window: i64 = strides.iter().product();
    let mut extents = vec![shape[0], shape[1] * window];
    extents.extend(&x.shape[2..]);
    let mut loops = vec![reduce_axis(0, depth, "c")];
    // A window of one pixel, in the form of convolutions.
    loops.extend((0..strides.len()).map(|axis| reduce_axis(0, 1, &format!("r{axis}"))));
    let pixels = tensor(&extents, |position| {
        let mut at = vec![position[0].clone(), loops[0].expr()];
        at.extend(position[2..].iter().zip(&loops[1..]).map(|(place, own)| place + own.expr()));
        // The weights contain output channels and the places of a window in sequence.
        let mut weight = vec![loops[0].expr()];
        let inner = super::call::unflatten(&position[1], &w.shape[1..]);
        weight.extend(inner);
        te::sum(x.at(&at).cast(wide) * w.at(&weight).cast(wide), &loops[..])
    })
    .named("windows");
    tensor(shape, |position| {
        let place = position[2..]
            .iter()
            .zip(strides)
            .fold(position[1].clone(), |channel, (place, stride)| channel * *stride + place.floor_mod(*stride));
        let mut at = vec![position[0].clone(), place];
        at.extend(position[2..].iter().zip(strides).map(|(place, stride)| place.floor_div(*stride)));
        pixels.at(&at)
    })
}

/// A transposed convolution as a convolution with a flipped window, over an input with zeros
/// between its pixels.
fn spread(x: &Operand, w: &Operand, shape: &[i64], (strides, dilations, begin): (&[i64], &[i64], &[i64])) -> Tensor {
    let (spatial, wide) = (&x.shape[2..], wide(x));
    let rank = spatial.len();
    let reach: Vec<i64> = (0..rank).map(|axis| (w.shape[2 + axis] - 1) * dilations[axis]).collect();
    let mut extents = x.shape[..2].to_vec();
    extents.extend((0..rank).map(|axis| shape[2 + axis] + reach[axis]));
    let spread = tensor(&extents, |position| {
        let mut at = position[..2].to_vec();
        let mut valid = Expr::bool(true);
        for axis in 0..rank {
            let place = &position[2 + axis] + (begin[axis] - reach[axis]);
            let source = place.floor_div(strides[axis]);
            valid = valid.and(source.greater_equal(0)).and(source.less(spatial[axis]));
            if strides[axis] != 1 {
                valid = valid.and(place.floor_mod(strides[axis]).equals(0));
            }
            at.push(source);
        }
        Expr::if_then_else(valid, x.at(&at), te::constant(0.0, x.dtype))
    })
    .named("spread");
    let mut loops = vec![reduce_axis(0, x.shape[1], "c")];
    loops.extend((0..rank).map(|axis| reduce_axis(0, w.shape[2 + axis], &format!("r{axis}"))));
    tensor(shape, |position| {
        let mut at = vec![position[0].clone(), loops[0].expr()];
        let mut weight = vec![loops[0].expr(), position[1].clone()];
        for axis in 0..rank {
            let own = loops[1 + axis].expr();
            at.push(&position[2 + axis] + &own * dilations[axis]);
            weight.push(Expr::int(w.shape[2 + axis] - 1) - own);
        }
        te::sum(spread.at(&at).cast(wide) * w.at(&weight).cast(wide), &loops[..])
    })
}

/// Checks that attribute `auto_pad` is valid, and that attribute `kernel_shape` is the window shape
/// of the weights.
fn check_attributes(call: &Call, w: &Operand, auto: &str) -> Result<()> {
    let is_known = ["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"].contains(&auto);
    require!(is_known, "attribute `auto_pad` is `{auto}`, which is unknown");
    if let Some(kernel) = call.attrs.ints("kernel_shape")? {
        require!(kernel == w.shape[2..], "attribute `kernel_shape` is {kernel:?}, the weights are {:?}", w.shape);
    }
    Ok(())
}

/// Checks that attribute `output_shape` has an extent for each spatial axis, or as older exporters
/// and onnxruntime have it, the whole shape, which begins with the batch and the channels.
fn check_output_shape(wanted: &[i64], rank: usize, first: [i64; 2]) -> Result<()> {
    require!(
        wanted.len() == rank || wanted.len() == rank + 2 && wanted[..2] == first,
        "attribute `output_shape` is {wanted:?}: expected {rank} extents, or {} that begin with {first:?}",
        rank + 2
    );
    Ok(())
}

fn conv_transpose(call: &Call) -> Result<Vec<Tensor>> {
    let (x, w) = (call.input(0)?, call.input(1)?);
    require!(x.rank() >= 3 && w.rank() == x.rank(), "an input {:?} and weights {:?} do not fit", x.shape, w.shape);
    let (spatial, groups) = (&x.shape[2..], bounds::size(call.attrs, "group", 1)?);
    let rank = spatial.len();
    require!(
        groups > 0 && x.shape[1] % groups == 0 && w.shape[0] == x.shape[1],
        "weights {:?} in {groups} groups (attribute `group`) do not fit {:?}",
        w.shape,
        x.shape
    );
    let (depth, part) = (x.shape[1] / groups, w.shape[1]);
    let list = |name: &str, default: i64, count: usize| bounds::sizes(call.attrs, name, default, count);
    let (strides, dilations, more) =
        (list("strides", 1, rank)?, list("dilations", 1, rank)?, list("output_padding", 0, rank)?);
    let pads = list("pads", 0, 2 * rank)?;
    require!(strides.iter().chain(&dilations).all(|value| *value > 0), "strides and dilations have to be positive");
    let wanted = call.attrs.ints("output_shape")?;
    let wanted = wanted.map(|wanted| bounds::all_bounded("attribute `output_shape`", wanted)).transpose()?;
    if let Some(wanted) = &wanted {
        check_output_shape(wanted, rank, [x.shape[0], part.saturating_mul(groups)])?;
    }
    let auto = call.attrs.text("auto_pad", "NOTSET")?;
    check_attributes(call, w, auto)?;
    let (mut begin, mut end, mut out) = (pads[..rank].to_vec(), pads[rank..].to_vec(), Vec::new());
    for axis in 0..rank {
        let full = i128::from(strides[axis]) * (i128::from(spatial[axis]) - 1)
            + i128::from(more[axis])
            + bounds::reach(w.shape[2 + axis], dilations[axis]);
        let full = bounds::computed(full, || {
            format!("the extent of axis {axis} of the result, for `strides` {strides:?} and `dilations` {dilations:?},")
        })?;
        let extent = match (&wanted, auto) {
            (Some(wanted), _) => Some(wanted[wanted.len() - rank + axis]),
            (None, "SAME_UPPER" | "SAME_LOWER") => {
                let extent = i128::from(spatial[axis]) * i128::from(strides[axis]);
                Some(bounds::computed(extent, || format!("axis {axis} of the result, for `strides` {strides:?},"))?)
            }
            (None, "VALID") => {
                (begin[axis], end[axis]) = (0, 0);
                out.push(full);
                continue;
            }
            (None, _) => None,
        };
        match extent {
            Some(extent) => {
                let total = full - extent;
                begin[axis] = if auto == "SAME_UPPER" { total.div_euclid(2) } else { total - total.div_euclid(2) };
                if total < 0 {
                    begin[axis] = 0;
                }
                end[axis] = total - begin[axis];
                out.push(extent);
            }
            None => out.push(full - pads[axis] - pads[rank + axis]),
        }
    }
    if wanted.is_none() {
        check_pads(auto, &pads, [&begin, &end])?;
    }
    let filters = bounds::product(&[part, groups], || format!("the channels of the result, for `group` {groups},"))?;
    check_bias(call, filters)?;
    let mut shape = vec![x.shape[0], filters];
    shape.extend(&out);
    bounds::count(&shape)?;
    if groups == 1 {
        let fills = (0..rank).all(|axis| {
            w.shape[2 + axis] == strides[axis] && begin[axis] == 0 && out[axis] == spatial[axis] * strides[axis]
        });
        let sums = if fills && dilations.iter().all(|dilation| *dilation == 1) {
            shuffled(x, w, &shape, &strides)
        } else {
            spread(x, w, &shape, (&strides, &dilations, &begin))
        };
        return Ok(finished(call, sums, &shape, x));
    }
    let channel = reduce_axis(0, depth, "c");
    let loops: Vec<IterVar> = (0..rank).map(|axis| reduce_axis(0, w.shape[2 + axis], &format!("r{axis}"))).collect();
    let mut axes = vec![channel.clone()];
    axes.extend(loops.iter().cloned());
    let wide = wide(x);
    let sums = tensor(&shape, |position| {
        let group = if groups == 1 { Expr::int(0) } else { position[1].floor_div(part) };
        let from = &group * depth + channel.expr();
        let mut at = vec![position[0].clone(), from.clone()];
        let mut weight = vec![from, if groups == 1 { position[1].clone() } else { position[1].floor_mod(part) }];
        let mut valid: Option<Expr> = None;
        for axis in 0..rank {
            let place = &position[2 + axis] + begin[axis] - loops[axis].expr() * dilations[axis];
            let source = place.floor_div(strides[axis]);
            let mut fits = source.greater_equal(0).and(source.less(spatial[axis]));
            if strides[axis] != 1 {
                fits = fits.and(place.floor_mod(strides[axis]).equals(0));
            }
            valid = Some(match valid {
                Some(valid) => valid.and(fits),
                None => fits,
            });
            at.push(source);
            weight.push(loops[axis].expr());
        }
        let valid = valid.unwrap_or_else(|| Expr::bool(true));
        let value = Expr::if_then_else(valid, x.at(&at).cast(wide), te::constant(0.0, wide));
        te::sum(value * w.at(&weight).cast(wide), &axes[..])
    });
    Ok(finished(call, sums, &shape, x))
}
