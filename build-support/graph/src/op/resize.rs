//! Resizing of images, and of other tensors, along their axes.

use kernpack_compiler::ir::{DataTypeExt, Expr, F32, F64, I64, IterVar, Tensor};
use kernpack_compiler::te::{self, reduce_axis};

use super::call::{Operand, tensor};
use super::quantize::saturated;
use super::{Call, Operator, Pattern};
use crate::constant::num_elements;
use crate::error::{GraphError, Result, fail, require};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "Resize", pattern: Pattern::Heavy, make: resize },
    Operator { name: "Upsample", pattern: Pattern::Heavy, make: upsample },
];

/// The maximum number of elements of an unrolled sum.
const FEW: i64 = 4;
/// The maximum extent up to which the places of a nearest element are tried as a fraction.
const SEARCHED: i64 = 1 << 20;

/// The mapping of positions of the result to positions of the input.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Coordinates {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
    CropAndResize,
    /// TensorFlow's mapping for the nearest element: half a pixel in the result stays half a pixel
    /// in the input.
    TfHalfPixelForNn,
}

impl Coordinates {
    fn of(name: &str) -> Result<Self> {
        Ok(match name {
            "half_pixel" => Self::HalfPixel,
            "half_pixel_symmetric" => Self::HalfPixelSymmetric,
            "pytorch_half_pixel" => Self::PytorchHalfPixel,
            "align_corners" => Self::AlignCorners,
            "asymmetric" => Self::Asymmetric,
            "tf_crop_and_resize" => Self::CropAndResize,
            "tf_half_pixel_for_nn" => Self::TfHalfPixelForNn,
            other => fail!("attribute `coordinate_transformation_mode` is `{other}`, which is unknown"),
        })
    }
}

/// The input elements that contribute to an output element.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    /// One element, by rounding its place.
    Nearest(Rounding),
    /// Two, by their distance.
    Linear,
    /// Four, by a cubic function of their distance with this coefficient.
    Cubic(f64),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rounding {
    PreferFloor,
    PreferCeil,
    Floor,
    Ceil,
}

impl Rounding {
    fn of(name: &str) -> Result<Self> {
        Ok(match name {
            "round_prefer_floor" => Self::PreferFloor,
            "round_prefer_ceil" => Self::PreferCeil,
            "floor" => Self::Floor,
            "ceil" => Self::Ceil,
            other => fail!("attribute `nearest_mode` is `{other}`, which is unknown"),
        })
    }

    fn value(self, x: f64) -> f64 {
        match self {
            Self::PreferFloor => (x - 0.5).ceil(),
            Self::PreferCeil => (x + 0.5).floor(),
            Self::Floor => x.floor(),
            Self::Ceil => x.ceil(),
        }
    }

    fn expr(self, x: &Expr) -> Expr {
        let half = te::constant(0.5, F64);
        match self {
            Self::PreferFloor => te::ceil(x - half),
            Self::PreferCeil => te::floor(x + half),
            Self::Floor => te::floor(x),
            Self::Ceil => te::ceil(x),
        }
    }
}

/// The settings that all axes share.
struct Method {
    mode: Mode,
    coordinates: Coordinates,
    excludes_outside: bool,
    antialias: bool,
    extrapolation: f64,
}

/// An axis: a position `x` of the result is at `(x + offset) * numerator / denominator + shift` of
/// the input. In this order exact places stay exact.
struct Axis {
    from: i64,
    to: i64,
    scale: f64,
    offset: f64,
    numerator: f64,
    denominator: f64,
    shift: f64,
}

impl Axis {
    /// `length` is the extent of the result before rounding.
    fn new(from: i64, to: i64, scale: f64, length: f64, roi: (f64, f64), coordinates: Coordinates) -> Self {
        let (last, extent) = ((from - 1) as f64, from as f64);
        let half = |shift: f64| (0.5, 1.0, scale, shift - 0.5);
        // Scales have single precision: a fifth of five elements is one.
        let is_one = (length as f32) == 1.0;
        let (offset, numerator, denominator, shift) = match coordinates {
            Coordinates::HalfPixel => half(0.0),
            // The middle of the input stays the middle of the result, even if the extent was
            // rounded.
            Coordinates::HalfPixelSymmetric => half(extent / 2.0 * (1.0 - to as f64 / length)),
            Coordinates::PytorchHalfPixel if length as f32 <= 1.0 => (0.0, 0.0, 1.0, 0.0),
            Coordinates::PytorchHalfPixel => half(0.0),
            // An axis that keeps its extent is unchanged.
            Coordinates::TfHalfPixelForNn if scale == 1.0 => (0.0, 1.0, 1.0, 0.0),
            Coordinates::TfHalfPixelForNn => (0.5, 1.0, scale, 0.0),
            Coordinates::AlignCorners if is_one => (0.0, 0.0, 1.0, 0.0),
            Coordinates::AlignCorners => (0.0, last, length - 1.0, 0.0),
            Coordinates::Asymmetric => (0.0, 1.0, scale, 0.0),
            Coordinates::CropAndResize if is_one => (0.0, 0.0, 1.0, (roi.0 + roi.1) * last / 2.0),
            Coordinates::CropAndResize => (0.0, (roi.1 - roi.0) * last, length - 1.0, roi.0 * last),
        };
        Self { from, to, scale, offset, numerator, denominator, shift }
    }

    /// Returns true if each element is the one at its own place.
    fn is_same(&self) -> bool {
        let is_there = |x: i64| self.place(x as f64) == x as f64;
        self.from == self.to && is_there(0) && is_there(self.to - 1)
    }

    /// Returns the place of a position of the result in the input.
    fn place(&self, x: f64) -> f64 {
        (x + self.offset) * self.numerator / self.denominator + self.shift
    }

    fn place_expr(&self, x: &Expr) -> Expr {
        let number = |value: f64| te::constant(value, F64);
        let mut place = x.cast(F64);
        if self.offset != 0.0 {
            place = place + number(self.offset);
        }
        if self.numerator != 1.0 {
            place = place * number(self.numerator);
        }
        place = place / number(self.denominator);
        if self.shift == 0.0 { place } else { place + number(self.shift) }
    }

    /// Returns the index of the nearest element for a position.
    fn nearest(&self, x: &Expr, rounding: Rounding) -> Expr {
        #[expect(clippy::cast_possible_truncation, reason = "an index, clamped")]
        let index = |x: i64| (rounding.value(self.place(x as f64)) as i64).clamp(0, self.from - 1);
        let divisor = gcd(self.from, self.to);
        let (numerator, denominator) = (self.from / divisor, self.to / divisor);
        if self.to <= SEARCHED && (0..self.to).all(|x| index(x) == x * numerator / denominator) {
            return if numerator == 1 { x.floor_div(denominator) } else { (x * numerator).floor_div(denominator) };
        }
        rounding.expr(&self.place_expr(x)).cast(I64).max(0).min(self.from - 1)
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a.max(1) } else { gcd(b, a % b) }
}

/// Returns the axes of a result, from scales or from extents.
fn axes_of(call: &Call, x: &Operand, method: &Method) -> Result<Vec<Axis>> {
    let version_10 = call.version < 11;
    let (roi, scales) = if version_10 { (None, floats(call, 1)?) } else { (floats(call, 1)?, floats(call, 2)?) };
    let sizes = call.optional_ints(3)?.filter(|sizes| !sizes.is_empty());
    let axes = match call.attrs.ints("axes")? {
        Some(axes) => axes.into_iter().map(|axis| x.axis(axis)).collect::<Result<Vec<usize>>>()?,
        None => (0..x.rank()).collect(),
    };
    let roi_of = |number: usize| match (&roi, method.coordinates) {
        (Some(roi), Coordinates::CropAndResize) if roi.len() == 2 * axes.len() => {
            Ok((roi[number], roi[axes.len() + number]))
        }
        (_, Coordinates::CropAndResize) => fail!("the region has to have {} numbers", 2 * axes.len()),
        _ => Ok((0.0, 1.0)),
    };
    let mut result: Vec<Axis> = x
        .shape
        .iter()
        .map(|extent| Axis::new(*extent, *extent, 1.0, *extent as f64, (0.0, 1.0), Coordinates::Asymmetric))
        .collect();
    match (scales, sizes) {
        (Some(scales), None) => {
            require!(scales.len() == axes.len(), "there are {} scales for {} axes", scales.len(), axes.len());
            for (number, axis) in axes.iter().enumerate() {
                let (from, scale) = (x.shape[*axis], scales[number]);
                require!(scale > 0.0 && scale.is_finite(), "the scale {scale} of axis {axis} is not above 0");
                // In the precision of the scales, like the shape inference of ONNX.
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "an extent; too large ones are refused by the shape"
                )]
                let to = (from as f32 * scale as f32).floor() as i64;
                result[*axis] = Axis::new(from, to, scale, from as f64 * scale, roi_of(number)?, method.coordinates);
            }
        }
        (None, Some(sizes)) => {
            require!(sizes.len() == axes.len(), "there are {} extents for {} axes", sizes.len(), axes.len());
            let ratios: Vec<f64> =
                axes.iter().zip(&sizes).map(|(axis, to)| *to as f64 / x.shape[*axis] as f64).collect();
            let common = match call.attrs.text("keep_aspect_ratio_policy", "stretch")? {
                "stretch" => None,
                "not_larger" => Some(ratios.iter().copied().fold(f64::INFINITY, f64::min)),
                "not_smaller" => Some(ratios.iter().copied().fold(0.0, f64::max)),
                other => fail!("attribute `keep_aspect_ratio_policy` is `{other}`, which is unknown"),
            };
            for (number, axis) in axes.iter().enumerate() {
                let from = x.shape[*axis];
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "an extent; too large ones are refused by the shape"
                )]
                let (to, scale, length) = match common {
                    None => (sizes[number], ratios[number], sizes[number] as f64),
                    Some(common) => ((common * from as f64 + 0.5).floor() as i64, common, common * from as f64),
                };
                result[*axis] = Axis::new(from, to, scale, length, roi_of(number)?, method.coordinates);
            }
        }
        _ => fail!("either scales or extents have to be given, and known when the model is compiled"),
    }
    Ok(result)
}

/// Returns the floats of an input that may be missing or empty. They must be known.
fn floats(call: &Call, index: usize) -> Result<Option<Vec<f64>>> {
    let Some(operand) = call.optional(index) else { return Ok(None) };
    if operand.shape.contains(&0) {
        return Ok(None);
    }
    match &operand.value {
        Some(value) => value.to_floats().map(Some),
        None => fail!(
            "input {index} has to be known when the model is compiled, and depends on what the model is called with"
        ),
    }
}

fn resize(call: &Call) -> Result<Vec<Tensor>> {
    let is_first = call.version < 11;
    let rounding = call.attrs.text("nearest_mode", if is_first { "floor" } else { "round_prefer_floor" })?;
    let coordinates =
        call.attrs.text("coordinate_transformation_mode", if is_first { "asymmetric" } else { "half_pixel" })?;
    let antialias = call.attrs.flag("antialias", false)?;
    let mode = match call.attrs.text("mode", "nearest")? {
        "nearest" => {
            require!(!antialias, "attribute `antialias` is for the modes `linear` and `cubic`");
            Mode::Nearest(Rounding::of(rounding)?)
        }
        "linear" => Mode::Linear,
        "cubic" => Mode::Cubic(call.attrs.float("cubic_coeff_a", -0.75)?),
        other => fail!("attribute `mode` is `{other}`, which is unknown"),
    };
    let method = Method {
        mode,
        coordinates: Coordinates::of(coordinates)?,
        excludes_outside: call.attrs.flag("exclude_outside", false)?,
        antialias,
        extrapolation: call.attrs.float("extrapolation_value", 0.0)?,
    };
    let x = call.input(0)?;
    let axes = axes_of(call, x, &method)?;
    apply(x, &axes, &method)
}

fn upsample(call: &Call) -> Result<Vec<Tensor>> {
    let mode = match call.attrs.text("mode", "nearest")? {
        "nearest" => Mode::Nearest(Rounding::Floor),
        "linear" | "bilinear" => Mode::Linear,
        other => fail!("attribute `mode` is `{other}`, which is unknown"),
    };
    let coordinates = Coordinates::Asymmetric;
    let method = Method { mode, coordinates, excludes_outside: false, antialias: false, extrapolation: 0.0 };
    let x = call.input(0)?;
    let mut scales: Vec<f64> = call.attrs.floats("scales")?.into_iter().map(f64::from).collect();
    if scales.is_empty() {
        scales = floats(call, 1)?.ok_or_else(|| GraphError::new("the scales are missing"))?;
    }
    require!(scales.len() == x.rank(), "there are {} scales for {} axes", scales.len(), x.rank());
    let mut axes = Vec::new();
    for (from, scale) in x.shape.iter().zip(scales) {
        require!(scale > 0.0 && scale.is_finite(), "a scale is {scale}, which is not above 0");
        #[expect(clippy::cast_possible_truncation, reason = "an extent; too large ones are refused by the shape")]
        let to = (*from as f32 * scale as f32).floor() as i64;
        axes.push(Axis::new(*from, to, scale, *from as f64 * scale, (0.0, 1.0), coordinates));
    }
    apply(x, &axes, &method)
}

fn apply(x: &Operand, axes: &[Axis], method: &Method) -> Result<Vec<Tensor>> {
    let shape: Vec<i64> = axes.iter().map(|axis| axis.to).collect();
    if num_elements(&shape)? == 0 {
        return Ok(vec![tensor(&shape, |_| te::constant(0.0, x.dtype))]);
    }
    require!(!x.shape.contains(&0), "{:?} has no elements to make {shape:?} of", x.shape);
    let result = match method.mode {
        Mode::Nearest(rounding) => tensor(&shape, |position| {
            let at: Vec<Expr> = axes
                .iter()
                .zip(position)
                .map(|(axis, index)| if axis.is_same() { index.clone() } else { axis.nearest(index, rounding) })
                .collect();
            outside(axes, method, position, x.at(&at))
        }),
        _ => interpolated(x, axes, method),
    };
    Ok(vec![result])
}

/// Returns the value, or attribute `extrapolation_value` if a position is outside the input.
fn outside(axes: &[Axis], method: &Method, position: &[Expr], value: Expr) -> Expr {
    if method.coordinates != Coordinates::CropAndResize {
        return value;
    }
    let mut is_inside: Option<Expr> = None;
    for (axis, index) in axes.iter().zip(position) {
        let last = (axis.from - 1) as f64;
        let leaves = |x: i64| !(0.0..=last).contains(&axis.place(x as f64));
        // A linear map: if both ends are inside, all of it is.
        if !leaves(0) && !leaves(axis.to - 1) {
            continue;
        }
        let place = axis.place_expr(index);
        let fits = place.greater_equal(te::constant(0.0, F64)).and(place.less_equal(te::constant(last, F64)));
        is_inside = Some(match is_inside {
            Some(is_inside) => is_inside.and(fits),
            None => fits,
        });
    }
    match is_inside {
        Some(is_inside) => Expr::if_then_else(is_inside, &value, te::constant(method.extrapolation, value.dtype())),
        None => value,
    }
}

/// Interpolates one axis after the other. Elements and their weights are tables.
fn interpolated(x: &Operand, axes: &[Axis], method: &Method) -> Tensor {
    let wide = if x.dtype == F64 { F64 } else { F32 };
    let mut shape = x.shape.clone();
    let mut current: Option<Tensor> = None;
    for (number, axis) in axes.iter().enumerate().filter(|(_, axis)| !axis.is_same()) {
        shape[number] = axis.to;
        let (indices, weights, count) = tables(axis, method, wide);
        let tap = |position: &[Expr], tap: Expr| {
            let mut at = position.to_vec();
            at[number] = indices.at(&[position[number].clone(), tap.clone()]);
            let value = current.as_ref().map_or_else(|| x.at(&at).cast(wide), |tensor| tensor.at(&at));
            value * weights.at(&[position[number].clone(), tap])
        };
        // For one position the contributing elements are not a constant range: a loop covers all.
        let next = if count <= FEW && axis.to > 1 {
            tensor(&shape, |position| {
                let taps = (0..count).map(|index| tap(position, Expr::int(index)));
                taps.reduce(|all, one| all + one).unwrap_or_else(|| te::constant(0.0, wide))
            })
        } else {
            let k = reduce_axis(0, count, "tap");
            tensor(&shape, |position| te::sum(tap(position, k.expr()), &k))
        };
        current = Some(next.named(&format!("along{number}")));
    }
    tensor(&shape, |position| {
        let value = current.as_ref().map_or_else(|| x.at(position).cast(wide), |tensor| tensor.at(position));
        let value = outside(axes, method, position, value);
        if x.dtype.is_float() { value.cast(x.dtype) } else { saturated(te::trunc(value), x.dtype) }
    })
}

/// Returns, for each position along an axis, the indices of the contributing elements, and their
/// weights, which add up to 1.
fn tables(axis: &Axis, method: &Method, wide: kernpack::DataType) -> (Tensor, Tensor, i64) {
    // Smaller results use all elements in between, with a function that is wider by the same
    // factor.
    let squeeze = if method.antialias { axis.scale.min(1.0) } else { 1.0 };
    let reach = if method.mode == Mode::Linear { 1.0 } else { 2.0 };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "few elements, but for scales near 0, and then the input is as large"
    )]
    let first = (-reach / squeeze).floor().max(-(axis.from as f64) * 2.0 - 2.0) as i64 + 1;
    let count = 2 - 2 * first;
    let extents = [axis.to, count];
    let index = |position: &[Expr]| te::floor(axis.place_expr(&position[0])).cast(I64) + &position[1] + first;
    let indices = tensor(&extents, |position| index(position).max(0).min(axis.from - 1)).named("indices");
    let raw = tensor(&extents, |position| {
        let index = index(position);
        let distance = te::abs((index.cast(F64) - axis.place_expr(&position[0])) * te::constant(squeeze, F64));
        let weight = weight(method.mode, &distance);
        if !method.excludes_outside {
            return weight;
        }
        let is_inside = index.greater_equal(0).and(index.less(axis.from));
        te::select(is_inside, weight, te::constant(0.0, F64))
    })
    .named("raw");
    if !method.antialias && !method.excludes_outside {
        return (indices, tensor(&extents, |position| raw.at(position).cast(wide)).named("weights"), count);
    }
    let k: IterVar = reduce_axis(0, count, "tap");
    let total = tensor(&[axis.to], |position| te::sum(raw.at(&[position[0].clone(), k.expr()]), &k)).named("total");
    let weights =
        tensor(&extents, |position| (raw.at(position) / total.at(&position[..1])).cast(wide)).named("weights");
    (indices, weights, count)
}

/// Returns the weight of an element at a distance.
fn weight(mode: Mode, distance: &Expr) -> Expr {
    let number = |value: f64| te::constant(value, F64);
    match mode {
        Mode::Nearest(_) => number(1.0),
        Mode::Linear => (number(1.0) - distance).max(number(0.0)),
        Mode::Cubic(a) => {
            let near = (distance * (a + 2.0) - (a + 3.0)) * distance * distance + 1.0;
            let far = ((distance * a - 5.0 * a) * distance + 8.0 * a) * distance - 4.0 * a;
            let beyond = te::select(distance.less(number(2.0)), far, number(0.0));
            te::select(distance.less_equal(number(1.0)), near, beyond)
        }
    }
}
