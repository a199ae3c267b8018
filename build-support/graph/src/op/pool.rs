//! Pooling.

use kernpack_compiler::ir::{DataTypeExt, Expr, F32, I64, IterVar, Tensor};
use kernpack_compiler::te;

use super::call::{Operand, flatten, tensor, unflatten, zeros};
use super::conv::{Windows, inside};
use super::reduce::Axes;
use super::{Call, Operator, Pattern};
use crate::error::{Result, fail, require};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "MaxPool", pattern: Pattern::Reduction, make: max_pool },
    Operator { name: "AveragePool", pattern: Pattern::Reduction, make: average_pool },
    Operator { name: "LpPool", pattern: Pattern::Reduction, make: lp_pool },
    Operator { name: "GlobalLpPool", pattern: Pattern::Reduction, make: global_lp_pool },
    Operator { name: "GlobalAveragePool", pattern: Pattern::Reduction, make: |call| global(call, false) },
    Operator { name: "GlobalMaxPool", pattern: Pattern::Reduction, make: |call| global(call, true) },
];

/// Checks for batches of channels with at least one element. There may be no batches.
fn is_image(x: &Operand) -> Result<()> {
    require!(
        x.rank() >= 3 && !x.shape[2..].contains(&0),
        "expected batches of channels with spatial axes of at least one element, got {:?}",
        x.shape
    );
    Ok(())
}

fn windows(call: &Call) -> Result<(Windows, Vec<i64>)> {
    let x = call.input(0)?;
    is_image(x)?;
    let Some(kernel) = call.attrs.ints("kernel_shape")? else { fail!("attribute `kernel_shape` is missing") };
    let windows = Windows::new(call, &x.shape[2..], &kernel, call.attrs.flag("ceil_mode", false)?)?;
    let mut shape = x.shape[..2].to_vec();
    shape.extend(&windows.count);
    Ok((windows, shape))
}

fn exprs(loops: &[IterVar]) -> Vec<Expr> {
    loops.iter().map(IterVar::expr).collect()
}

/// Joins batch, channel, and places along the spatial axes.
fn join(position: &[Expr], places: &[Expr]) -> Vec<Expr> {
    position[..2].iter().chain(places).cloned().collect()
}

fn max_pool(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let (windows, shape) = windows(call)?;
    let spatial = &x.shape[2..];
    let loops = windows.loops();
    if shape.contains(&0) {
        return Ok(vec![zeros(&shape, x.dtype), zeros(&shape, I64)]);
    }
    let least = if x.dtype.is_float() { te::constant(f64::NEG_INFINITY, x.dtype) } else { te::min_value(x.dtype) };
    let stays = windows.stays_inside(spatial);
    let value = |position: &[Expr]| {
        let places = windows.places(&position[2..], &exprs(&loops));
        let value = x.at(&join(position, &places));
        if stays { value } else { Expr::if_then_else(inside(&places, spatial), value, &least) }
    };
    if !call.wants(1) {
        return Ok(vec![tensor(&shape, |position| te::reduce_max(value(position), &loops[..]))]);
    }
    let column_major = call.attrs.int("storage_order", 0)? == 1;
    let mut results = te::compute_dyn(super::call::extents(&shape), |axes| {
        let position = exprs(axes);
        let places = windows.places(&position[2..], &exprs(&loops));
        let mut number = &position[0] * x.shape[1] + &position[1];
        for axis in 0..spatial.len() {
            number = number * spatial[axis] + &places[axis];
        }
        // Padding has no place, and is never selected even if all elements are as small.
        let number = if stays { number } else { Expr::select(inside(&places, spatial), number, Expr::int(-1)) };
        let [index, largest] = te::argmax(number.cast(I64), value(&position), &loops[..]);
        vec![index, largest]
    });
    let (largest, index) = (results.swap_remove(1), results.swap_remove(0));
    let places = tensor(&shape, |position| {
        let number = index.at(position);
        if !column_major {
            return number;
        }
        // The first of equal elements is found in row-major order; only its number is in
        // column-major order.
        let at = unflatten(&number, &x.shape);
        let (mut turned, mut extents) = (at[..2].to_vec(), x.shape[..2].to_vec());
        turned.extend(at[2..].iter().rev().cloned());
        extents.extend(spatial.iter().rev());
        flatten(&turned, &extents)
    });
    Ok(vec![tensor(&shape, |position| largest.at(position)), places])
}

fn average_pool(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let (windows, shape) = windows(call)?;
    let spatial = &x.shape[2..];
    let loops = windows.loops();
    if shape.contains(&0) {
        return Ok(vec![zeros(&shape, x.dtype)]);
    }
    let wide = if x.dtype.bits() < 32 { F32 } else { x.dtype };
    let stays = windows.stays_inside(spatial);
    let sums = tensor(&shape, |position| {
        let places = windows.places(&position[2..], &exprs(&loops));
        let value = x.at(&join(position, &places)).cast(wide);
        let value =
            if stays { value } else { Expr::if_then_else(inside(&places, spatial), value, te::constant(0.0, wide)) };
        te::sum(value, &loops[..])
    });
    let counts_padding = call.attrs.flag("count_include_pad", false)?;
    let all: f64 = windows.kernel.iter().map(|extent| *extent as f64).product();
    Ok(vec![tensor(&shape, |position| {
        if stays {
            return (sums.at(position) / te::constant(all, wide)).cast(x.dtype);
        }
        // The number of valid cells of the window, along each axis.
        let mut count = Expr::int(1);
        for axis in 0..spatial.len() {
            let begin = &position[2 + axis] * windows.strides[axis] - windows.begin[axis];
            let (low, high) = if counts_padding {
                (-windows.begin[axis], spatial[axis] + windows.end[axis])
            } else {
                (0, spatial[axis])
            };
            let step = windows.dilations[axis];
            // The first cell not below `low`, and the number of cells below `high`.
            let first = (Expr::int(low) - &begin).max(0).ceil_div(step);
            let behind = (Expr::int(high) - &begin).max(0).ceil_div(step).min(windows.kernel[axis]);
            count = count * (behind - first);
        }
        (sums.at(position) / count.max(1).cast(wide)).cast(x.dtype)
    })])
}

fn lp_pool(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let (windows, shape) = windows(call)?;
    let spatial = &x.shape[2..];
    if shape.contains(&0) {
        return Ok(vec![zeros(&shape, x.dtype)]);
    }
    let loops = windows.loops();
    let p = te::constant(call.attrs.int("p", 2)? as f64, x.dtype);
    let sums = tensor(&shape, |position| {
        let places = windows.places(&position[2..], &exprs(&loops));
        let value = Expr::if_then_else(
            inside(&places, spatial),
            te::abs(x.at(&join(position, &places))),
            te::constant(0.0, x.dtype),
        );
        te::sum(te::pow(value, &p), &loops[..])
    });
    Ok(vec![tensor(&shape, |position| te::pow(sums.at(position), te::constant(1.0, x.dtype) / p))])
}

fn global_lp_pool(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    require!(x.rank() >= 3, "expected batches of channels with spatial axes, got {:?}", x.shape);
    let all: Vec<i64> = (2..x.rank()).map(|axis| i64::try_from(axis).unwrap_or(0)).collect();
    let axes = Axes::new(x, &all)?;
    let loops = axes.loops(x);
    let p = te::constant(call.attrs.int("p", 2)? as f64, x.dtype);
    if x.shape.contains(&0) {
        return Ok(vec![tensor(&axes.ones, |_| te::constant(0.0, x.dtype))]);
    }
    let sums = tensor(&axes.kept, |left| te::sum(te::pow(te::abs(x.at(&axes.join(left, &loops))), &p), &loops[..]));
    Ok(vec![tensor(&axes.ones, |position| te::pow(sums.at(&position[..2]), te::constant(1.0, x.dtype) / p))])
}

fn global(call: &Call, largest: bool) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    is_image(x)?;
    let all: Vec<i64> = (2..x.rank()).map(|axis| i64::try_from(axis).unwrap_or(0)).collect();
    let axes = Axes::new(x, &all)?;
    if x.shape.contains(&0) {
        return Ok(vec![zeros(&axes.ones, x.dtype)]);
    }
    let loops = axes.loops(x);
    let count: i64 = x.shape[2..].iter().product();
    let reduced = tensor(&axes.kept, |left| {
        let value = x.at(&axes.join(left, &loops));
        if largest { te::reduce_max(value, &loops[..]) } else { te::sum(value, &loops[..]) }
    });
    Ok(vec![tensor(&axes.ones, |position| {
        let value = reduced.at(&position[..2]);
        if largest { value } else { value / te::constant(count as f64, x.dtype) }
    })])
}
