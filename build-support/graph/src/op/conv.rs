//! Convolutions.

use kernpack_compiler::ir::{DataTypeExt, Expr, F32, IterVar, Tensor};
use kernpack_compiler::rules::{FilterForm, Filters};
use kernpack_compiler::te::{self, reduce_axis};

use super::call::{Operand, tensor};
use super::{Call, Operator, Pattern, bounds};
use crate::error::{Result, fail, require};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[Operator { name: "Conv", pattern: Pattern::Heavy, make: conv }];

/// The attribute of a convolution with packed weights: their original extents, and the form, 0 for
/// panels, else the side of a tile.
pub(crate) const LAID_OUT: &str = "weights before they were laid out";

/// The attribute of a convolution of images whose extents follow from those of dynamic dimensions.
pub(crate) const ANY_EXTENTS: &str = "an image of any extents";

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
    /// The padding after each axis.
    pub(super) end: Vec<i64>,
    /// The number of windows along each axis.
    pub(super) count: Vec<i64>,
}

impl Windows {
    /// Reads the windows of a node from the attributes that all of these operators share.
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
        bounds::count(kernel).map_err(|error| error.within("windows of attribute `kernel_shape`"))?;
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
                // One more that begins before the end padding.
                windows += 1;
            }
            count
                .push(bounds::computed(windows, || format!("the number of windows along axis {axis} of {spatial:?}"))?);
        }
        check_pads(auto, &pads, [&begin, &end])?;
        Ok(Self { kernel: kernel.to_vec(), strides, dilations, begin, end, count })
    }

    /// Returns the place of an element of a window along each axis. Places below 0 and beyond the
    /// end are padding.
    pub(super) fn places(&self, window: &[Expr], inside: &[Expr]) -> Vec<Expr> {
        (0..self.kernel.len())
            .map(|axis| &window[axis] * self.strides[axis] + &inside[axis] * self.dilations[axis] - self.begin[axis])
            .collect()
    }

    /// Returns true if no window leaves the input.
    pub(super) fn stays_inside(&self, spatial: &[i64]) -> bool {
        (0..self.kernel.len()).all(|axis| {
            let last = (self.count[axis] - 1) * self.strides[axis] + (self.kernel[axis] - 1) * self.dilations[axis];
            self.begin[axis] <= 0 && last - self.begin[axis] < spatial[axis]
        })
    }

    /// Returns a convolution over two dimensions in the form of the compiler's rules.
    ///
    /// # Errors
    /// Returns an error for another number of dimensions.
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

    /// Returns axes over a window.
    pub(super) fn loops(&self) -> Vec<IterVar> {
        self.kernel.iter().enumerate().map(|(axis, extent)| reduce_axis(0, *extent, &format!("r{axis}"))).collect()
    }
}

/// Checks that attribute `pads` does not contradict the paddings of `auto_pad`. Exporters write
/// zeros in addition to it, and optimizers that fused a `Pad` into a convolution with `VALID` kept
/// both.
pub(super) fn check_pads(auto: &str, pads: &[i64], made: [&[i64]; 2]) -> Result<()> {
    let made = made.concat();
    require!(
        pads == made || pads.iter().all(|pad| *pad == 0),
        "attribute `pads` is {pads:?}, and attribute `auto_pad` is `{auto}`, which makes them {made:?}: expected one of them; remove `auto_pad` if a `Pad` was fused into this node"
    );
    Ok(())
}

/// Returns true if places are inside an input with these spatial extents.
pub(super) fn inside(places: &[Expr], spatial: &[i64]) -> Expr {
    let checks = places.iter().zip(spatial).map(|(place, extent)| place.greater_equal(0).and(place.less(*extent)));
    checks.reduce(|all, one| all.and(one)).unwrap_or_else(|| Expr::bool(true))
}

/// Returns the type of the sums.
pub(super) fn wide(x: &Operand) -> kernpack::DataType {
    if x.dtype.is_float() && x.dtype.bits() < 32 { F32 } else { x.dtype }
}

/// Checks that the bias has a number for each output channel.
pub(super) fn check_bias(call: &Call, filters: i64) -> Result<()> {
    let Some(bias) = call.optional(2) else { return Ok(()) };
    require!(bias.shape == [filters], "a bias {:?} for {filters} filters", bias.shape);
    Ok(())
}

/// Returns the sums with the bias, in the type of the input.
pub(super) fn finished(call: &Call, sums: Tensor, shape: &[i64], x: &Operand) -> Vec<Tensor> {
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
