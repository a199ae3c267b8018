//! Softmax and norms.

use kernpack_compiler::ir::{DataTypeExt, Expr, F32, Tensor};
use kernpack_compiler::te;

use super::call::{Operand, tensor, zeros};
use super::reduce::Axes;
use super::{Call, Operator, Pattern, bounds, extremum};
use crate::error::{Result, fail, require};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "Softmax", pattern: Pattern::Reduction, make: |call| softmax(call, false) },
    Operator { name: "LogSoftmax", pattern: Pattern::Reduction, make: |call| softmax(call, true) },
    Operator { name: "Hardmax", pattern: Pattern::Reduction, make: hardmax },
    Operator { name: "LayerNormalization", pattern: Pattern::Reduction, make: layer_norm },
    Operator { name: "RMSNormalization", pattern: Pattern::Reduction, make: rms_norm },
    Operator { name: "InstanceNormalization", pattern: Pattern::Reduction, make: instance_norm },
    Operator { name: "GroupNormalization", pattern: Pattern::Reduction, make: group_norm },
    Operator { name: "MeanVarianceNormalization", pattern: Pattern::Reduction, make: mean_variance_norm },
    Operator { name: "BatchNormalization", pattern: Pattern::Elementwise, make: batch_norm },
    Operator { name: "LpNormalization", pattern: Pattern::Reduction, make: lp_norm },
    Operator { name: "LRN", pattern: Pattern::Reduction, make: lrn },
];

/// Returns the type of the sums.
fn wide(x: &Operand) -> kernpack::DataType {
    if x.dtype.is_float() && x.dtype.bits() < 32 { F32 } else { x.dtype }
}

/// Returns the axes that softmax and related operators normalize over: one, or before version 13
/// all from one on.
fn softmax_axes(call: &Call) -> Result<Axes> {
    let x = call.input(0)?;
    if call.version >= 13 {
        return Axes::new(x, &[call.attrs.int("axis", -1)?]);
    }
    let first = x.axis(call.attrs.int("axis", 1)?)?;
    let axes: Vec<i64> = (first..x.rank()).map(|axis| i64::try_from(axis).unwrap_or(0)).collect();
    Axes::new(x, &axes)
}

fn softmax(call: &Call, log: bool) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let axes = softmax_axes(call)?;
    if x.shape.contains(&0) {
        return Ok(vec![zeros(&x.shape, x.dtype)]);
    }
    let (r, s) = (axes.loops(x), axes.loops(x));
    let largest = tensor(&axes.kept, |left| extremum::largest_of_powers(x.at(&axes.join(left, &r)).cast(wide(x)), &r))
        .named("largest");
    let shifted = |position: &[Expr]| x.at(position).cast(wide(x)) - largest.at(axes.left(position));
    if log {
        let total = tensor(&axes.kept, |left| te::sum(te::exp(shifted(&axes.join(left, &s))), &s[..])).named("total");
        return Ok(vec![tensor(&x.shape, |position| {
            (shifted(position) - te::log(total.at(axes.left(position)))).cast(x.dtype)
        })]);
    }
    let powers = tensor(&x.shape, |position| te::exp(shifted(position))).named("powers");
    let total = tensor(&axes.kept, |left| te::sum(powers.at(axes.join(left, &s)), &s[..])).named("total");
    Ok(vec![tensor(&x.shape, |position| (powers.at(position) / total.at(axes.left(position))).cast(x.dtype))])
}

/// Computes 1 at the first largest element, and 0 elsewhere.
fn hardmax(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let axes = softmax_axes(call)?;
    if x.shape.contains(&0) {
        return Ok(vec![zeros(&x.shape, x.dtype)]);
    }
    let loops = axes.loops(x);
    // The index of an element among the reduced ones.
    let extents: Vec<i64> = (0..x.rank()).filter(|axis| axes.gone[*axis]).map(|axis| x.shape[axis]).collect();
    let number = |indices: &[Expr]| super::call::flatten(indices, &extents);
    let mut pair = te::compute_dyn(super::call::extents(&axes.kept), |left| {
        let left: Vec<Expr> = left.iter().map(kernpack_compiler::ir::IterVar::expr).collect();
        let indices: Vec<Expr> = loops.iter().map(kernpack_compiler::ir::IterVar::expr).collect();
        te::argmax(number(&indices), x.at(&axes.join(&left, &loops)), &loops[..]).to_vec()
    });
    let place = pair.swap_remove(0);
    Ok(vec![tensor(&x.shape, |position| {
        let gone: Vec<Expr> =
            position.iter().zip(&axes.gone).filter(|(_, gone)| **gone).map(|(index, _)| index.clone()).collect();
        let is_first = place.at(axes.left(position)).equals(number(&gone));
        te::select(is_first, te::constant(1.0, x.dtype), te::constant(0.0, x.dtype))
    })])
}

/// Mean and mean of squared differences over axes, in two passes.
struct Moments {
    mean: Tensor,
    variance: Tensor,
}

fn moments(x: &Operand, axes: &Axes) -> Moments {
    let count: i64 = (0..x.rank()).filter(|axis| axes.gone[*axis]).map(|axis| x.shape[axis]).product();
    let count = te::constant(count as f64, wide(x));
    let (r, s) = (axes.loops(x), axes.loops(x));
    let total = tensor(&axes.kept, |left| te::sum(x.at(&axes.join(left, &r)).cast(wide(x)), &r[..])).named("total");
    let mean = tensor(&axes.kept, |left| total.at(left) / &count).named("mean");
    let squares = tensor(&axes.kept, |left| {
        let difference = x.at(&axes.join(left, &s)).cast(wide(x)) - mean.at(left);
        te::sum(&difference * &difference, &s[..])
    })
    .named("squares");
    let variance = tensor(&axes.kept, |left| squares.at(left) / count).named("variance");
    Moments { mean, variance }
}

fn from_axis(x: &Operand, axis: usize) -> Result<Axes> {
    let axes: Vec<i64> = (axis..x.rank()).map(|axis| i64::try_from(axis).unwrap_or(0)).collect();
    Axes::new(x, &axes)
}

fn layer_norm(call: &Call) -> Result<Vec<Tensor>> {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let axes = from_axis(x, x.axis(call.attrs.int("axis", -1)?)?)?;
    scale.fits(&x.shape)?;
    call.optional(2).map_or(Ok(()), |shift| shift.fits(&x.shape))?;
    if x.shape.contains(&0) {
        let has_moments = axes.ones.contains(&0) || !(call.wants(1) || call.wants(2));
        require!(has_moments, "a row of {:?} has no elements to take the mean of", x.shape);
        return Ok(vec![zeros(&x.shape, x.dtype), zeros(&axes.ones, wide(x)), zeros(&axes.ones, wide(x))]);
    }
    let epsilon = te::constant(call.attrs.float("epsilon", 1e-5)?, wide(x));
    let Moments { mean, variance } = moments(x, &axes);
    let inverse =
        tensor(&axes.kept, |left| te::constant(1.0, wide(x)) / te::sqrt(variance.at(left) + &epsilon)).named("inverse");
    let mut results = vec![tensor(&x.shape, |position| {
        let left = axes.left(position);
        let normal = (x.at(position).cast(wide(x)) - mean.at(&left)) * inverse.at(&left);
        let scaled = normal.cast(x.dtype) * scale.broadcast_at(position);
        match call.optional(2) {
            Some(shift) => scaled + shift.broadcast_at(position),
            None => scaled,
        }
    })];
    if call.wants(1) || call.wants(2) {
        // Recomputed, so that the values for a row are computed with the row.
        let Moments { mean, variance } = moments(x, &axes);
        results.push(tensor(&axes.ones, |position| mean.at(axes.left(position))));
        results.push(tensor(&axes.ones, |position| {
            te::constant(1.0, wide(x)) / te::sqrt(variance.at(axes.left(position)) + epsilon)
        }));
    }
    Ok(results)
}

fn rms_norm(call: &Call) -> Result<Vec<Tensor>> {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let axes = from_axis(x, x.axis(call.attrs.int("axis", -1)?)?)?;
    scale.fits(&x.shape)?;
    if x.shape.contains(&0) {
        return Ok(vec![zeros(&x.shape, x.dtype)]);
    }
    let epsilon = te::constant(call.attrs.float("epsilon", 1e-5)?, wide(x));
    let count: i64 = (0..x.rank()).filter(|axis| axes.gone[*axis]).map(|axis| x.shape[axis]).product();
    let r = axes.loops(x);
    let squares = tensor(&axes.kept, |left| {
        let value = x.at(&axes.join(left, &r)).cast(wide(x));
        te::sum(&value * &value, &r[..])
    });
    Ok(vec![tensor(&x.shape, |position| {
        let mean = squares.at(axes.left(position)) / te::constant(count as f64, wide(x));
        let normal = x.at(position).cast(wide(x)) / te::sqrt(mean + epsilon);
        normal.cast(x.dtype) * scale.broadcast_at(position)
    })])
}

/// Checks that inputs have a number for each channel.
fn check_channels(inputs: &[&Operand], count: i64) -> Result<()> {
    check_numbers(inputs, "channel", count)
}

/// Checks that inputs have so many numbers, one for each `of`.
fn check_numbers(inputs: &[&Operand], of: &str, count: i64) -> Result<()> {
    for input in inputs {
        require!(input.shape == [count], "numbers by {of} of the shape {:?}, expected [{count}]", input.shape);
    }
    Ok(())
}

fn instance_norm(call: &Call) -> Result<Vec<Tensor>> {
    let (x, scale, shift) = (call.input(0)?, call.input(1)?, call.input(2)?);
    require!(x.rank() >= 2, "expected batches of channels, got {:?}", x.shape);
    check_channels(&[scale, shift], x.shape[1])?;
    if x.shape.contains(&0) {
        return Ok(vec![zeros(&x.shape, x.dtype)]);
    }
    let axes = from_axis(x, 2)?;
    let epsilon = te::constant(call.attrs.float("epsilon", 1e-5)?, wide(x));
    let Moments { mean, variance } = moments(x, &axes);
    Ok(vec![tensor(&x.shape, |position| {
        let (left, channel) = (axes.left(position), [position[1].clone()]);
        let normal = (x.at(position).cast(wide(x)) - mean.at(&left)) / te::sqrt(variance.at(&left) + epsilon);
        normal.cast(x.dtype) * scale.at(&channel) + shift.at(&channel)
    })])
}

fn group_norm(call: &Call) -> Result<Vec<Tensor>> {
    let (x, scale, shift) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let groups = call.attrs.needed_int("num_groups")?;
    require!(
        x.rank() >= 2 && groups > 0 && x.shape[1] % groups == 0,
        "{groups} groups of the channels of {:?}",
        x.shape
    );
    // Up to version 20 scale and shift are per group.
    let by_group = call.version < 21;
    if by_group {
        check_numbers(&[scale, shift], "group (operators before version 21)", groups)?;
    } else {
        check_channels(&[scale, shift], x.shape[1])?;
    }
    if x.shape.contains(&0) {
        return Ok(vec![zeros(&x.shape, x.dtype)]);
    }
    let size = x.shape[1] / groups;
    let inner: i64 = x.shape[2..].iter().product();
    // As a tensor [batch, group, element of the group].
    let shape = [x.shape[0], groups, size * inner];
    let flat = |position: &[Expr]| x.at(&super::call::unflatten(&super::call::flatten(position, &shape), &x.shape));
    let grouped =
        Operand { tensor: tensor(&shape, flat), shape: shape.to_vec(), dtype: x.dtype, element: x.dtype, value: None };
    let axes = Axes::new(&grouped, &[2])?;
    let epsilon = te::constant(call.attrs.float("epsilon", 1e-5)?, wide(x));
    let Moments { mean, variance } = moments(&grouped, &axes);
    Ok(vec![tensor(&x.shape, |position| {
        let group = position[1].floor_div(size);
        let left = [position[0].clone(), group.clone()];
        let normal = (x.at(position).cast(wide(x)) - mean.at(&left)) / te::sqrt(variance.at(&left) + epsilon);
        let channel = if by_group { [group] } else { [position[1].clone()] };
        normal.cast(x.dtype) * scale.at(&channel) + shift.at(&channel)
    })])
}

fn mean_variance_norm(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let axes = Axes::new(x, &call.attrs.ints("axes")?.unwrap_or_else(|| vec![0, 2, 3]))?;
    if x.shape.contains(&0) {
        return Ok(vec![zeros(&x.shape, x.dtype)]);
    }
    let Moments { mean, variance } = moments(x, &axes);
    Ok(vec![tensor(&x.shape, |position| {
        let left = axes.left(position);
        let deviation = te::sqrt(variance.at(&left)) + te::constant(1e-9, wide(x));
        ((x.at(position).cast(wide(x)) - mean.at(&left)) / deviation).cast(x.dtype)
    })])
}

fn batch_norm(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    super::shape::check_is_test(call)?;
    require!(call.attrs.flag("spatial", true)?, "attribute `spatial` = 0 is not supported");
    require!(x.rank() >= 2, "expected batches of channels, got {:?}", x.shape);
    let (scale, shift, mean, variance) = (call.input(1)?, call.input(2)?, call.input(3)?, call.input(4)?);
    check_channels(&[scale, shift, mean, variance], x.shape[1])?;
    if call.attrs.flag("training_mode", false)? {
        return batch_norm_in_training(call, x);
    }
    let epsilon = te::constant(call.attrs.float("epsilon", 1e-5)?, variance.dtype);
    Ok(vec![tensor(&x.shape, |position| {
        let channel = [position[1].clone()];
        let inverse = te::constant(1.0, variance.dtype) / te::sqrt(variance.at(&channel) + epsilon);
        let normal = (x.at(position).cast(variance.dtype) - mean.at(&channel)) * inverse;
        (normal * scale.at(&channel).cast(variance.dtype) + shift.at(&channel).cast(variance.dtype)).cast(x.dtype)
    })])
}

/// Normalizes by the mean and the variance of the batch, and updates the running ones.
fn batch_norm_in_training(call: &Call, x: &Operand) -> Result<Vec<Tensor>> {
    require!(!x.shape.contains(&0), "training: {:?} has no elements to take the mean of", x.shape);
    let (scale, shift) = (call.input(1)?, call.input(2)?);
    let running = [call.input(3)?, call.input(4)?];
    let wide = wide(x);
    let others: Vec<i64> =
        (0..x.rank()).filter(|axis| *axis != 1).map(|axis| i64::try_from(axis).unwrap_or(0)).collect();
    let moments = moments(x, &Axes::new(x, &others)?);
    let epsilon = te::constant(call.attrs.float("epsilon", 1e-5)?, wide);
    let momentum = call.attrs.float("momentum", 0.9)?;
    let y = tensor(&x.shape, |position| {
        let channel = [position[1].clone()];
        let normal = (x.at(position).cast(wide) - moments.mean.at(&channel))
            / te::sqrt(moments.variance.at(&channel) + &epsilon);
        (normal * scale.at(&channel).cast(wide) + shift.at(&channel).cast(wide)).cast(x.dtype)
    });
    let mut outputs = vec![y];
    for (old, new) in running.into_iter().zip([&moments.mean, &moments.variance]) {
        outputs.push(tensor(&old.shape, |channel| {
            let moved = old.at(channel).cast(wide) * te::constant(momentum, wide)
                + new.at(channel) * te::constant(1.0 - momentum, wide);
            moved.cast(old.dtype)
        }));
    }
    Ok(outputs)
}

fn lp_norm(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let axes = Axes::new(x, &[call.attrs.int("axis", -1)?])?;
    if x.shape.contains(&0) {
        return Ok(vec![zeros(&x.shape, x.dtype)]);
    }
    let r = axes.loops(x);
    let p = call.attrs.int("p", 2)?;
    require!(p == 1 || p == 2, "attribute `p` is 1 or 2, not {p}");
    let total = tensor(&axes.kept, |left| {
        let value = x.at(&axes.join(left, &r));
        te::sum(if p == 1 { te::abs(value) } else { &value * &value }, &r[..])
    });
    Ok(vec![tensor(&x.shape, |position| {
        let total = total.at(axes.left(position));
        let norm = if p == 1 { total } else { te::sqrt(total) };
        let zero = te::constant(0.0, x.dtype);
        te::select(norm.equals(&zero), &zero, x.at(position) / &norm)
    })])
}

fn lrn(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    require!(x.rank() >= 3, "expected batches of channels, got {:?}", x.shape);
    let size = bounds::bounded("attribute `size`", call.attrs.needed_int("size")?)?;
    if size <= 0 {
        fail!("attribute `size` is {size}");
    }
    if x.shape.contains(&0) {
        return Ok(vec![zeros(&x.shape, x.dtype)]);
    }
    let (alpha, beta, bias) =
        (call.attrs.float("alpha", 1e-4)?, call.attrs.float("beta", 0.75)?, call.attrs.float("bias", 1.0)?);
    // For a window that is larger than the channels, only existing channels count.
    let channels = x.shape[1];
    let (before, behind) = (((size - 1) / 2).min(channels - 1), (size / 2).min(channels - 1));
    let window = te::reduce_axis(0, before + behind + 1, "window");
    let squares = tensor(&x.shape, |position| {
        let mut at = position.to_vec();
        at[1] = &position[1] + window.expr() - before;
        let inside = at[1].greater_equal(0).and(at[1].less(channels));
        let value = Expr::if_then_else(inside, x.at(&at), te::constant(0.0, x.dtype));
        te::sum(&value * &value, &window)
    });
    Ok(vec![tensor(&x.shape, |position| {
        let scaled = squares.at(position) * te::constant(alpha / size as f64, x.dtype) + te::constant(bias, x.dtype);
        x.at(position) / te::pow(scaled, te::constant(beta, x.dtype))
    })])
}
