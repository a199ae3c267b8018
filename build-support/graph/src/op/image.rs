//! Windows of images: combined, deformed, pooled from regions, and unpooling.

use kernpack_compiler::ir::{Expr, F32, F64, I64, IterVar, Stmt, Tensor};
use kernpack_compiler::te::{self, extern_op, reduce_axis};

use super::call::{extents, flatten, tensor, unflatten};
use super::extremum::max;
use super::grid::bilinear;
use super::statements::{Variable, at, count_of, each, element, fill, nest, put, when};
use super::{Call, Operator, Pattern, bounds};
use crate::attrs::Attrs;
use crate::error::{Result, fail, require};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "Col2Im", pattern: Pattern::Heavy, make: col2im },
    Operator { name: "DeformConv", pattern: Pattern::Heavy, make: deform_conv },
    Operator { name: "MaxUnpool", pattern: Pattern::Opaque, make: max_unpool },
    Operator { name: "RoiAlign", pattern: Pattern::Opaque, make: roi_align },
];

/// The maximum number of points along an axis in one part of a region: a larger number does not
/// occur for a region of an image.
const POINTS: i64 = 1 << 12;

fn list(call: &Call, name: &str, default: i64, count: usize) -> Result<Vec<i64>> {
    bounds::sizes(call.attrs, name, default, count)
}

/// Adds elements of windows at their origins: for each element of the image, those windows that
/// contain it.
fn col2im(call: &Call) -> Result<Vec<Tensor>> {
    let (x, image, block) = (call.input(0)?, bounds::known(call, 1)?, bounds::known(call, 2)?);
    let rank = image.len();
    let (dilations, strides, pads) =
        (list(call, "dilations", 1, rank)?, list(call, "strides", 1, rank)?, list(call, "pads", 0, 2 * rank)?);
    require!(rank > 0 && block.len() == rank, "windows of {block:?} in images of {image:?}");
    let positive = dilations.iter().chain(&strides).chain(&block).chain(&image).all(|value| *value > 0);
    require!(positive, "images, windows, strides and dilations have to be positive: {image:?}, {block:?}");
    let size = bounds::count(&block)?;
    bounds::count(&image)?;
    let mut counts = Vec::new();
    for axis in 0..rank {
        let reach = bounds::reach(block[axis], dilations[axis]);
        let free = i128::from(image[axis]) + i128::from(pads[axis]) + i128::from(pads[rank + axis]) - reach;
        require!(free >= 0, "a window of {reach} elements is larger than axis {axis} of {image:?} with its padding");
        let windows = bounds::windows(free, strides[axis]);
        counts.push(bounds::computed(windows, || format!("the number of windows along axis {axis} of {image:?}"))?);
    }
    require!(
        x.rank() == 3 && x.shape[1] % size == 0 && x.shape[2] == bounds::count(&counts)?,
        "columns {:?} are not those of windows of {block:?} in images of {image:?}",
        x.shape
    );
    let mut shape = vec![x.shape[0], x.shape[1] / size];
    shape.extend(&image);
    let loops: Vec<IterVar> =
        block.iter().enumerate().map(|(axis, extent)| reduce_axis(0, *extent, &format!("r{axis}"))).collect();
    let elements: Vec<Expr> = loops.iter().map(IterVar::expr).collect();
    Ok(vec![tensor(&shape, |position| {
        let (mut windows, mut fits) = (Vec::new(), Expr::bool(true));
        for axis in 0..rank {
            let place = &position[2 + axis] + pads[axis] - &elements[axis] * dilations[axis];
            let window = place.floor_div(strides[axis]);
            fits = fits.and(window.greater_equal(0).and(window.less(counts[axis])));
            if strides[axis] != 1 {
                fits = fits.and(place.floor_mod(strides[axis]).equals(0));
            }
            windows.push(window);
        }
        let row = &position[1] * size + flatten(&elements, &block);
        let value = x.at(&[position[0].clone(), row, flatten(&windows, &counts)]);
        te::sum(Expr::if_then_else(fits, value, te::constant(0.0, x.dtype)), &loops[..])
    })])
}

/// A convolution whose elements are read at places that an input shifts.
fn deform_conv(call: &Call) -> Result<Vec<Tensor>> {
    let (x, w, offset) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (bias, mask) = (call.optional(3), call.optional(4));
    require!(
        x.rank() == 4 && w.rank() == 4,
        "deformed convolutions of {:?} are not supported, only of images",
        x.shape
    );
    let (groups, offset_groups) = (bounds::size(call.attrs, "group", 1)?, bounds::size(call.attrs, "offset_group", 1)?);
    let (dilations, strides, pads) =
        (list(call, "dilations", 1, 2)?, list(call, "strides", 1, 2)?, list(call, "pads", 0, 4)?);
    let (kernel, spatial, depth) = (&w.shape[2..], &x.shape[2..], w.shape[1]);
    if let Some(given) = call.attrs.ints("kernel_shape")? {
        require!(given == kernel, "attribute `kernel_shape` is {given:?}, the weights are {:?}", w.shape);
    }
    let positive = dilations.iter().chain(&strides).chain(kernel).all(|value| *value > 0);
    require!(positive, "strides, dilations and windows have to be positive: {strides:?}, {dilations:?}, {kernel:?}");
    require!(
        groups > 0
            && offset_groups > 0
            && i128::from(x.shape[1]) == i128::from(depth) * i128::from(groups)
            && w.shape[0] % groups == 0
            && x.shape[1] % offset_groups == 0,
        "weights {:?} in {groups} groups, and {offset_groups} groups of offsets, do not fit {:?}",
        w.shape,
        x.shape
    );
    let mut shape = vec![x.shape[0], w.shape[0]];
    for axis in 0..2 {
        let reach = bounds::reach(kernel[axis], dilations[axis]);
        let free = i128::from(spatial[axis]) + i128::from(pads[axis]) + i128::from(pads[2 + axis]) - reach;
        require!(free >= 0, "a window of {kernel:?} is larger than {spatial:?} with its padding");
        let windows = bounds::windows(free, strides[axis]);
        shape.push(bounds::computed(windows, || format!("the number of windows along axis {axis} of {spatial:?}"))?);
    }
    let cells = kernel[0] * kernel[1];
    let of_cells = |parts: i64| -> Result<Vec<i64>> {
        let count = bounds::product(&[offset_groups, cells, parts], || {
            format!("the number of offsets, for `offset_group` {offset_groups} and windows {kernel:?},")
        })?;
        Ok(vec![x.shape[0], count, shape[2], shape[3]])
    };
    let expected = of_cells(2)?;
    require!(offset.shape == expected, "offsets {:?}, expected {expected:?}", offset.shape);
    if let Some(mask) = mask {
        let expected = of_cells(1)?;
        require!(mask.shape == expected, "a mask {:?}, expected {expected:?}", mask.shape);
    }
    if let Some(bias) = bias {
        require!(bias.shape == [w.shape[0]], "a bias {:?} for {} filters", bias.shape, w.shape[0]);
    }
    if x.shape.contains(&0) || shape.contains(&0) {
        return Ok(vec![tensor(&shape, |_| te::constant(0.0, x.dtype))]);
    }
    let wide = if x.dtype == F64 { F64 } else { F32 };
    let per_offset = x.shape[1] / offset_groups;
    // Elements of windows: batch, channel, row and column of the window, row and column of the
    // result.
    let columns = [x.shape[0], x.shape[1], kernel[0], kernel[1], shape[2], shape[3]];
    let sampled = tensor(&columns, |p| {
        let group = if offset_groups == 1 { Expr::int(0) } else { p[1].floor_div(per_offset) };
        let cell = (group * kernel[0] + &p[2]) * kernel[1] + &p[3];
        let places: Vec<Expr> = (0..2)
            .map(|axis| {
                let fixed = &p[4 + axis] * strides[axis] + &p[2 + axis] * dilations[axis] - pads[axis];
                let own = i64::try_from(axis).unwrap_or(0);
                let moved = offset.at(&[p[0].clone(), &cell * 2 + own, p[4].clone(), p[5].clone()]).cast(wide);
                fixed.cast(wide) + moved
            })
            .collect();
        let value = bilinear(x, &p[..2], &places);
        match mask {
            Some(mask) => value * mask.at(&[p[0].clone(), cell, p[4].clone(), p[5].clone()]).cast(wide),
            None => value,
        }
    })
    .named("sampled");
    let axes = [reduce_axis(0, depth, "c"), reduce_axis(0, kernel[0], "r0"), reduce_axis(0, kernel[1], "r1")];
    let sums = tensor(&shape, |p| {
        let group = if groups == 1 { Expr::int(0) } else { p[1].floor_div(w.shape[0] / groups) };
        let [c, row, column] = axes.each_ref().map(IterVar::expr);
        let channel = group * depth + &c;
        let value = sampled.at(&[p[0].clone(), channel, row.clone(), column.clone(), p[2].clone(), p[3].clone()]);
        te::sum(value * w.at(&[p[1].clone(), c, row, column]).cast(wide), &axes[..])
    });
    Ok(vec![tensor(&shape, |p| {
        let sum = sums.at(p);
        match bias {
            Some(bias) => sum + bias.at(&[p[1].clone()]).cast(wide),
            None => sum,
        }
        .cast(x.dtype)
    })])
}

/// Returns the shape that was pooled to another one, by the attributes of `MaxUnpool`.
///
/// # Errors
/// Returns an error for lists of other lengths, for paddings that are larger than the rest, and for
/// an extent beyond 2^40.
pub(super) fn unpooled(attrs: &Attrs, shape: &[i64]) -> Result<Vec<i64>> {
    let rank = shape.len().saturating_sub(2);
    let list = |name: &str, default: i64, count: usize| bounds::sizes(attrs, name, default, count);
    let (kernel, strides, pads) =
        (list("kernel_shape", 1, rank)?, list("strides", 1, rank)?, list("pads", 0, 2 * rank)?);
    let mut inner = shape[..shape.len() - rank].to_vec();
    for axis in 0..rank {
        let steps = (i128::from(shape[2 + axis]) - 1) * i128::from(strides[axis]);
        let extent = steps + i128::from(kernel[axis]) - i128::from(pads[axis]) - i128::from(pads[rank + axis]);
        require!(extent >= 0, "the paddings {pads:?} are larger than what was pooled");
        inner.push(bounds::computed(extent, || format!("axis {axis} of what was pooled, for `strides` {strides:?},"))?);
    }
    bounds::count(&inner)?;
    Ok(inner)
}

/// Restores elements to the positions where they were the largest ones. All other elements are 0.
fn max_unpool(call: &Call) -> Result<Vec<Tensor>> {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    require!(x.rank() >= 3 && indices.shape == x.shape, "indices {:?} do not fit {:?}", indices.shape, x.shape);
    let rank = x.rank() - 2;
    let Some(kernel) = call.attrs.ints("kernel_shape")? else { fail!("attribute `kernel_shape` is missing") };
    require!(kernel.len() == rank, "windows of {kernel:?} over {:?}", &x.shape[2..]);
    // The indices are those of elements of this shape.
    let inner = unpooled(call.attrs, &x.shape)?;
    let shape = match call.optional(2) {
        Some(_) => bounds::known(call, 2)?,
        None => inner.clone(),
    };
    bounds::count(&shape)?;
    let is_larger = shape.len() == inner.len() && shape.iter().zip(&inner).all(|(outer, inner)| outer >= inner);
    require!(is_larger, "the shape {shape:?} is smaller than {inner:?}");
    if x.shape.contains(&0) || inner.contains(&0) {
        return Ok(vec![tensor(&shape, |_| te::constant(0.0, x.dtype))]);
    }
    let (count, all) = (count_of(&x.shape), count_of(&inner));
    let op = extern_op("unpooled", [&x.tensor, &indices.tensor]).output(extents(&shape), x.dtype);
    Ok(op.body(|inputs, outputs| {
        let moves = each("moved", count, |number| {
            let index = element(&inputs[1], number.clone()).cast(I64);
            let place = unflatten(&index, &inner);
            let fits = index.greater_equal(0).and(index.less(all));
            when(fits, put(&outputs[0], flatten(&place, &shape), element(&inputs[0], number.clone())))
        });
        Stmt::seq([fill(&outputs[0], count_of(&shape), &te::constant(0.0, x.dtype)), moves])
    }))
}

/// The values for a point of a region along an axis: the elements around it, their weights, and
/// whether it is in the image.
struct Point {
    low: Expr,
    high: Expr,
    weight_low: Expr,
    weight_high: Expr,
    fits: Expr,
}

impl Point {
    fn new(place: &Expr, extent: i64) -> Self {
        let number = |value: f64| te::constant(value, F32);
        let fits = place.greater_equal(number(-1.0)).and(place.less_equal(number(extent as f64)));
        let place = place.max(number(0.0)).min(number((extent - 1) as f64));
        let low = te::floor(&place).cast(I64).max(0).min(extent - 1);
        let weight_high = &place - low.cast(F32);
        let high = (&low + 1).min(extent - 1);
        Self { low, high, weight_low: number(1.0) - &weight_high, weight_high, fits }
    }
}

/// Computes means, or largest elements, of the parts of regions of images.
fn roi_align(call: &Call) -> Result<Vec<Tensor>> {
    let (x, regions, batches) = (call.input(0)?, call.input(1)?, call.input(2)?);
    require!(
        x.rank() == 4 && regions.rank() == 2 && regions.shape[1] == 4 && batches.shape == [regions.shape[0]],
        "regions {:?} and the numbers of their images {:?} do not fit images {:?}",
        regions.shape,
        batches.shape,
        x.shape
    );
    let takes_max = match call.attrs.text("mode", "avg")? {
        "avg" => false,
        "max" => true,
        other => fail!("attribute `mode` is `{other}`, which is unknown"),
    };
    let default = if call.version < 16 { "output_half_pixel" } else { "half_pixel" };
    let is_half = match call.attrs.text("coordinate_transformation_mode", default)? {
        "half_pixel" => true,
        "output_half_pixel" => false,
        other => fail!("attribute `coordinate_transformation_mode` is `{other}`, which is unknown"),
    };
    let sizes = [bounds::size(call.attrs, "output_height", 1)?, bounds::size(call.attrs, "output_width", 1)?];
    let (sampling, scale) = (bounds::size(call.attrs, "sampling_ratio", 0)?, call.attrs.float("spatial_scale", 1.0)?);
    require!(sizes.iter().all(|size| *size > 0) && sampling >= 0, "parts of {sizes:?} with {sampling} points");
    require!(sampling <= 1 << 20, "attribute `sampling_ratio` is {sampling}: a part has more than 2^40 points");
    let shape = [regions.shape[0], x.shape[1], sizes[0], sizes[1]];
    if shape.contains(&0) {
        return Ok(vec![tensor(&shape, |_| te::constant(0.0, x.dtype))]);
    }
    require!(!x.shape.contains(&0), "{:?} has no elements", x.shape);
    let number = |value: f64| te::constant(value, F32);
    let op = extern_op("pooled", [&x.tensor, &regions.tensor, &batches.tensor]).output(extents(&shape), x.dtype);
    Ok(op.body(|inputs, outputs| {
        let (value, is_first) = (Variable::new("value", F32), Variable::index("is_first"));
        let body = nest("p", &shape, |p| {
            let batch = element(&inputs[2], p[0].clone()).cast(I64).max(0).min(x.shape[0] - 1);
            // Start, extent of a part, and points in it: by rows and by columns.
            let along = |axis: usize| {
                let corner = |index: i64| {
                    let raw = at(&inputs[1], &[p[0].clone(), Expr::int(index)]).cast(F32);
                    raw * number(scale) - number(if is_half { 0.5 } else { 0.0 })
                };
                let column = if axis == 0 { 1 } else { 0 };
                let (begin, end) = (corner(column), corner(column + 2));
                let extent = &end - &begin;
                let extent = if is_half { extent } else { extent.max(number(1.0)) };
                let part = extent / number(sizes[axis] as f64);
                let points =
                    if sampling > 0 { Expr::int(sampling) } else { te::ceil(&part).cast(I64).max(0).min(POINTS) };
                (begin, part, points)
            };
            let ((top, height, rows), (left, width, columns)) = (along(0), along(1));
            let place = |begin: &Expr, part: &Expr, own: &Expr, index: &Expr, points: &Expr| {
                begin + own.cast(F32) * part + (index.cast(F32) + number(0.5)) * part / points.cast(F32)
            };
            let points = each("row", rows.clone(), |row| {
                let y = Point::new(&place(&top, &height, &p[2], row, &rows), x.shape[2]);
                each("column", columns.clone(), |column| {
                    let x_point = Point::new(&place(&left, &width, &p[3], column, &columns), x.shape[3]);
                    let corner = |row: &Expr, column: &Expr, weight: Expr| {
                        at(&inputs[0], &[batch.clone(), p[1].clone(), row.clone(), column.clone()]).cast(F32) * weight
                    };
                    let corners = [
                        corner(&y.low, &x_point.low, &y.weight_low * &x_point.weight_low),
                        corner(&y.low, &x_point.high, &y.weight_low * &x_point.weight_high),
                        corner(&y.high, &x_point.low, &y.weight_high * &x_point.weight_low),
                        corner(&y.high, &x_point.high, &y.weight_high * &x_point.weight_high),
                    ];
                    let fits = y.fits.clone().and(x_point.fits.clone());
                    let [a, b, c, d] = corners;
                    let here = if takes_max { max(max(max(a, b), c), d) } else { a + b + c + d };
                    let here = te::select(fits, here, number(0.0));
                    if takes_max {
                        let larger = te::select(is_first.get().equals(1), &here, max(value.get(), &here));
                        Stmt::seq([value.set(larger), is_first.set(0)])
                    } else {
                        value.add(here)
                    }
                })
            });
            let total = if takes_max { value.get() } else { value.get() / (&rows * &columns).max(1).cast(F32) };
            Stmt::seq([
                value.set(number(0.0)),
                is_first.set(1),
                points,
                put(&outputs[0], flatten(p, &shape), total.cast(x.dtype)),
            ])
        });
        Stmt::seq([value.begin(number(0.0)), is_first.begin(1), body])
    }))
}
