//! Convolutions.

use kernpack_compiler::ir::{DataTypeExt, Expr, F32, IterVar, Tensor};
use kernpack_compiler::rules::{FilterForm, Filters};
use kernpack_compiler::te::{self, reduce_axis};

use super::call::{Operand, tensor};
use super::{Call, Operator, Pattern, bounds};
use crate::error::{Result, fail, require};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "Conv", pattern: Pattern::Heavy, make: conv },
    Operator { name: "ConvTranspose", pattern: Pattern::Heavy, make: conv_transpose },
];

/// The attribute of a convolution whose weights were laid out for the rules: their extents before, and the form, 0 for panels, else the side of a tile.
pub(crate) const LAID_OUT: &str = "weights before they were laid out";

/// Windows over spatial axes, of convolutions and pooling.
pub(super) struct Windows {
    /// Extents of a window.
    pub(super) kernel: Vec<i64>,
    /// Steps from one window to the next.
    pub(super) strides: Vec<i64>,
    /// Steps within a window.
    pub(super) dilations: Vec<i64>,
    /// The padding before each axis.
    pub(super) begin: Vec<i64>,
    /// The padding behind each axis.
    pub(super) end: Vec<i64>,
    /// Windows along each axis.
    pub(super) count: Vec<i64>,
}

impl Windows {
    /// The windows of a node with the attributes that ONNX gives all of these operators.
    pub(super) fn new(call: &Call, spatial: &[i64], kernel: &[i64], ceil: bool) -> Result<Self> {
        let rank = spatial.len();
        let list = |name: &str, default: i64, count: usize| bounds::sizes(call.attrs, name, default, count);
        let (strides, dilations) = (list("strides", 1, rank)?, list("dilations", 1, rank)?);
        let pads = list("pads", 0, 2 * rank)?;
        let kernel = &bounds::all_bounded("attribute `kernel_shape`", kernel.to_vec())?[..];
        require!(kernel.len() == rank, "windows of {kernel:?} over {spatial:?}");
        let positive = strides.iter().chain(&dilations).chain(kernel).all(|value| *value > 0);
        require!(
            positive,
            "strides, dilations and windows have to be positive: {strides:?}, {dilations:?}, {kernel:?}"
        );
        let (mut begin, mut end) = (pads[..rank].to_vec(), pads[rank..].to_vec());
        let mut count = Vec::new();
        let auto = call.attrs.text("auto_pad", "NOTSET")?;
        for axis in 0..rank {
            let (reach, extent, stride) =
                (bounds::reach(kernel[axis], dilations[axis]), i128::from(spatial[axis]), i128::from(strides[axis]));
            match auto {
                "NOTSET" => {}
                "VALID" => (begin[axis], end[axis]) = (0, 0),
                "SAME_UPPER" | "SAME_LOWER" => {
                    let wanted = (extent + stride - 1) / stride;
                    let total = ((wanted - 1) * stride + reach - extent).max(0);
                    let total = bounds::computed(total, || {
                        format!("the padding of axis {axis} for windows {kernel:?} with `dilations` {dilations:?}")
                    })?;
                    let (less, more) = (total / 2, total - total / 2);
                    (begin[axis], end[axis]) = if auto == "SAME_UPPER" { (less, more) } else { (more, less) };
                }
                other => fail!("attribute `auto_pad` is `{other}`, which is unknown"),
            }
            let free = extent + i128::from(begin[axis]) + i128::from(end[axis]) - reach;
            require!(
                free >= 0,
                "a window of {reach} elements is larger than axis {axis} of {spatial:?} with its padding"
            );
            let mut windows = bounds::windows(free, strides[axis]);
            if ceil && free % stride != 0 && windows * stride < extent + i128::from(begin[axis]) {
                // One more that begins before the padding behind.
                windows += 1;
            }
            count
                .push(bounds::computed(windows, || format!("the number of windows along axis {axis} of {spatial:?}"))?);
        }
        Ok(Self { kernel: kernel.to_vec(), strides, dilations, begin, end, count })
    }

    /// The place of an element of a window along each axis; before 0 and behind the end is padding.
    pub(super) fn places(&self, window: &[Expr], inside: &[Expr]) -> Vec<Expr> {
        (0..self.kernel.len())
            .map(|axis| &window[axis] * self.strides[axis] + &inside[axis] * self.dilations[axis] - self.begin[axis])
            .collect()
    }

    /// Tells whether no window leaves the input.
    pub(super) fn stays_inside(&self, spatial: &[i64]) -> bool {
        (0..self.kernel.len()).all(|axis| {
            let last = (self.count[axis] - 1) * self.strides[axis] + (self.kernel[axis] - 1) * self.dilations[axis];
            self.begin[axis] <= 0 && last - self.begin[axis] < spatial[axis]
        })
    }

    /// A convolution over two dimensions as the rules of the compiler see it.
    ///
    /// # Errors
    /// Another number of dimensions.
    pub(crate) fn filters(&self, channels: i64, depth: i64) -> Result<Filters> {
        let pair = |values: &[i64]| match values {
            [rows, columns] => Ok([*rows, *columns]),
            _ => fail!("weights are laid out for windows over two dimensions, not {}", values.len()),
        };
        Ok(Filters {
            channels,
            depth,
            pixels: pair(&self.count)?,
            window: pair(&self.kernel)?,
            strides: pair(&self.strides)?,
            dilations: pair(&self.dilations)?,
        })
    }

    /// Axes over a window.
    pub(super) fn loops(&self) -> Vec<IterVar> {
        self.kernel.iter().enumerate().map(|(axis, extent)| reduce_axis(0, *extent, &format!("r{axis}"))).collect()
    }
}

/// Tells whether places are inside of an input of these spatial extents.
pub(super) fn inside(places: &[Expr], spatial: &[i64]) -> Expr {
    let checks = places.iter().zip(spatial).map(|(place, extent)| place.greater_equal(0).and(place.less(*extent)));
    checks.reduce(|all, one| all.and(one)).unwrap_or_else(|| Expr::bool(true))
}

fn wide(x: &Operand) -> kernpack::DataType {
    if x.dtype.is_float() && x.dtype.bits() < 32 { F32 } else { x.dtype }
}

/// Checks that the bias has a number for each channel of the result.
fn check_bias(call: &Call, filters: i64) -> Result<()> {
    let Some(bias) = call.optional(2) else { return Ok(()) };
    require!(bias.shape == [filters], "a bias {:?} for {filters} filters", bias.shape);
    Ok(())
}

/// The sums with the bias, in the type of the input.
fn finished(call: &Call, sums: Tensor, shape: &[i64], x: &Operand) -> Vec<Tensor> {
    match call.optional(2) {
        None if sums.dtype == x.dtype => vec![sums],
        bias => vec![tensor(shape, |position| {
            let sum = sums.at(position);
            match bias {
                Some(bias) => (sum + bias.at(&[position[1].clone()]).cast(wide(x))).cast(x.dtype),
                None => sum.cast(x.dtype),
            }
        })],
    }
}

fn conv(call: &Call) -> Result<Vec<Tensor>> {
    let (x, w) = (call.input(0)?, call.input(1)?);
    let laid_out = call.attrs.ints(LAID_OUT)?;
    let (extents, form) = match laid_out.as_deref() {
        Some([extents @ .., 0]) => (extents, Some(FilterForm::Panels)),
        Some([extents @ .., result]) => (extents, Some(FilterForm::Tiles { result: *result })),
        _ => (&w.shape[..], None),
    };
    require!(x.rank() >= 3 && extents.len() == x.rank(), "an input {:?} and weights {extents:?} do not fit", x.shape);
    let (spatial, groups) = (&x.shape[2..], bounds::size(call.attrs, "group", 1)?);
    let (n, channels, filters, depth) = (x.shape[0], x.shape[1], extents[0], extents[1]);
    require!(
        groups > 0 && i128::from(channels) == i128::from(depth) * i128::from(groups) && filters % groups == 0,
        "weights {extents:?} in {groups} groups do not fit the {channels} channels of {:?}",
        x.shape
    );
    if let Some(kernel) = call.attrs.ints("kernel_shape")? {
        require!(kernel == extents[2..], "attribute `kernel_shape` is {kernel:?}, the weights are {extents:?}");
    }
    check_bias(call, filters)?;
    let windows = Windows::new(call, spatial, &extents[2..], false)?;
    let mut shape = vec![n, filters];
    shape.extend(&windows.count);
    let wide = wide(x);
    let padded = if windows.stays_inside(spatial) {
        None
    } else {
        let mut shape = vec![n, channels];
        shape.extend((0..spatial.len()).map(|axis| spatial[axis] + windows.begin[axis] + windows.end[axis]));
        bounds::count(&shape)?;
        Some(
            tensor(&shape, |position| {
                let mut at = position.to_vec();
                for (axis, begin) in windows.begin.iter().enumerate() {
                    at[2 + axis] = &position[2 + axis] - *begin;
                }
                Expr::if_then_else(inside(&at[2..], spatial), x.at(&at), te::constant(0.0, x.dtype))
            })
            .named("padded"),
        )
    };
    let weights = match form {
        Some(form) => {
            let filters = windows.filters(filters, depth)?;
            require!(w.shape == filters.shape(form), "weights {:?} are not laid out for {extents:?}", w.shape);
            Some(filters.reads(form, &w.tensor))
        }
        None => None,
    };
    let channel = reduce_axis(0, depth, "c");
    let loops = windows.loops();
    let mut axes = vec![channel.clone()];
    axes.extend(loops.iter().cloned());
    let sums = tensor(&shape, |position| {
        let elements: Vec<Expr> = loops.iter().map(IterVar::expr).collect();
        let group = if groups == 1 { Expr::int(0) } else { position[1].floor_div(filters / groups) };
        let mut at =
            vec![position[0].clone(), if groups == 1 { channel.expr() } else { group * depth + channel.expr() }];
        let places = windows.places(&position[2..], &elements);
        let value = match &padded {
            Some(padded) => {
                at.extend(places.into_iter().zip(&windows.begin).map(|(place, begin)| place + *begin));
                padded.at(&at)
            }
            None => {
                at.extend(places);
                x.at(&at)
            }
        };
        let mut weight = vec![position[1].clone(), channel.expr()];
        weight.extend(elements);
        let weight = weights.as_ref().map_or_else(|| w.at(&weight), |at| at(&weight));
        te::sum(value.cast(wide) * weight.cast(wide), &axes[..])
    });
    Ok(finished(call, sums, &shape, x))
}

/// A transposed convolution whose windows lie beside each other: a product for each pixel of the input, which gives all pixels of its window.
fn shuffled(x: &Operand, w: &Operand, shape: &[i64], strides: &[i64]) -> Tensor {
    let (depth, wide) = (w.shape[0], wide(x));
    let window: i64 = strides.iter().product();
    let mut extents = vec![shape[0], shape[1] * window];
    extents.extend(&x.shape[2..]);
    let mut loops = vec![reduce_axis(0, depth, "c")];
    // A window of one pixel, as convolutions have it.
    loops.extend((0..strides.len()).map(|axis| reduce_axis(0, 1, &format!("r{axis}"))));
    let pixels = tensor(&extents, |position| {
        let mut at = vec![position[0].clone(), loops[0].expr()];
        at.extend(position[2..].iter().zip(&loops[1..]).map(|(place, own)| place + own.expr()));
        // Output channels and the places of a window lie one after the other in the weights.
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

/// A transposed convolution as one with the window turned, over an input with zeros between its pixels.
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
    let auto = call.attrs.text("auto_pad", "NOTSET")?;
    let (mut begin, mut out) = (pads[..rank].to_vec(), Vec::new());
    for axis in 0..rank {
        let full = i128::from(strides[axis]) * (i128::from(spatial[axis]) - 1)
            + i128::from(more[axis])
            + bounds::reach(w.shape[2 + axis], dilations[axis]);
        let full = bounds::computed(full, || {
            format!("the extent of axis {axis} of the result, for `strides` {strides:?} and `dilations` {dilations:?},")
        })?;
        let extent = match (&wanted, auto) {
            (Some(wanted), _) => {
                require!(wanted.len() >= rank, "attribute `output_shape` is {wanted:?}");
                Some(wanted[wanted.len() - rank + axis])
            }
            (None, "SAME_UPPER" | "SAME_LOWER") => {
                let extent = i128::from(spatial[axis]) * i128::from(strides[axis]);
                Some(bounds::computed(extent, || format!("axis {axis} of the result, for `strides` {strides:?},"))?)
            }
            (None, "VALID") => {
                begin[axis] = 0;
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
                out.push(extent);
            }
            None => out.push(full - pads[axis] - pads[rank + axis]),
        }
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
