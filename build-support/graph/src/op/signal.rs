//! Frequencies of signals. All sums are in double precision.

use std::f64::consts::TAU;

use kernpack::DataType;
use kernpack_compiler::ir::{DataTypeExt, Expr, F32, F64, I64, Tensor};
use kernpack_compiler::te::{self, reduce_axis};

use super::call::{Operand, tensor};
use super::{Call, Operator, Pattern, bounds};
use crate::error::{Result, fail, require};
use crate::onnx::dtype_of;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "DFT", pattern: Pattern::Opaque, make: dft },
    Operator { name: "STFT", pattern: Pattern::Opaque, make: stft },
    Operator { name: "HannWindow", pattern: Pattern::Injective, make: |call| window(call, &[0.5, -0.5]) },
    Operator {
        name: "HammingWindow",
        pattern: Pattern::Injective,
        make: |call| window(call, &[25.0 / 46.0, -21.0 / 46.0]),
    },
    Operator { name: "BlackmanWindow", pattern: Pattern::Injective, make: |call| window(call, &[0.42, -0.5, 0.08]) },
    Operator { name: "MelWeightMatrix", pattern: Pattern::Opaque, make: mel },
];

/// Returns cosine and sine of all multiples of a full turn divided by `count`.
fn turns(count: i64) -> (Tensor, Tensor) {
    let angle = |index: &Expr| index.cast(F64) * te::constant(TAU / count as f64, F64);
    let cosines = tensor(&[count], |position| te::cos(angle(&position[0]))).named("cosines");
    let sines = tensor(&[count], |position| te::sin(angle(&position[0]))).named("sines");
    (cosines, sines)
}

/// Returns the real and the imaginary part of an element. The last dimension has one or two
/// elements.
fn complex(x: &Operand, at: &[Expr]) -> (Expr, Expr) {
    let part = |index: i64| {
        let mut at = at.to_vec();
        at.push(Expr::int(index));
        x.at(&at).cast(F64)
    };
    (part(0), if x.shape.last() == Some(&2) { part(1) } else { te::constant(0.0, F64) })
}

/// Returns the real (0) or imaginary (1) part of a number times `cosine - i sine`.
fn turned((re, im): (Expr, Expr), cosine: &Expr, sine: &Expr, part: &Expr) -> Expr {
    let is_real = part.equals(0);
    let along = te::select(&is_real, &re, &im);
    let across = te::select(&is_real, &im, te::constant(0.0, F64) - &re);
    along * cosine + across * sine
}

/// Returns the number of an optional input that must be known.
fn number(call: &Call, index: usize) -> Result<Option<i64>> {
    match call.optional_ints(index)?.as_deref() {
        None => Ok(None),
        Some(&[value]) => Ok(Some(value)),
        Some(values) => fail!("input {index} has to be one number, got {values:?}"),
    }
}

fn is_signal(x: &Operand) -> Result<()> {
    require!(
        x.rank() >= 2 && matches!(x.shape.last(), Some(1 | 2)),
        "the last dimension of {:?} has to be 1 (real) or 2 (complex)",
        x.shape
    );
    require!(x.dtype.is_float(), "signals of {} are not supported: cast them to float32", x.dtype);
    Ok(())
}

/// Computes a sum for each frequency: quadratic in the length.
fn dft(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    is_signal(x)?;
    let axis = match number(call, 2)? {
        Some(axis) => axis,
        None if call.version >= 20 => {
            let has_old = call.attrs.get("axis").is_some();
            require!(!has_old, "attribute `axis` is of versions before 20: expected the axis as input 2");
            -2
        }
        None => call.attrs.int("axis", 1)?,
    };
    let axis = x.axis(axis)?;
    require!(axis + 1 < x.rank(), "axis {axis} of {:?} has the parts of the numbers", x.shape);
    let (inverse, onesided) = (call.attrs.flag("inverse", false)?, call.attrs.flag("onesided", false)?);
    let is_real = inverse && onesided;
    require!(
        !is_real || x.shape.last() == Some(&2),
        "the attributes `inverse` and `onesided` together are for complex numbers, and {:?} are real ones",
        x.shape
    );
    let own = if is_real { 2 * (x.shape[axis] - 1).max(0) } else { x.shape[axis] };
    let length = number(call, 1)?.unwrap_or(own);
    // The transform of no elements is empty.
    require!(length > 0 || length == 0 && x.shape.contains(&0), "a transform of {length} elements");
    bounds::bounded("the length of the transform", length)?;
    let mut shape = x.shape.clone();
    shape[axis] = if onesided && !inverse { length / 2 + 1 } else { length };
    shape[x.rank() - 1] = if is_real { 1 } else { 2 };
    // The input has half of the frequencies of real numbers: the other ones are their conjugates.
    let half = length / 2 + 1;
    let count = if is_real { half } else { length }.min(x.shape[axis]);
    if count == 0 || shape.contains(&0) {
        return Ok(vec![tensor(&shape, |_| te::constant(0.0, x.dtype))]);
    }
    let (cosines, sines) = turns(length);
    let k = reduce_axis(0, count, "k");
    let sums = tensor(&shape, |position| {
        let (at, part) = position.split_at(x.rank() - 1);
        let turn = (&position[axis] * k.expr()).floor_mod(length);
        let mut at = at.to_vec();
        at[axis] = k.expr();
        let sine = sines.at(core::slice::from_ref(&turn));
        let sine = if inverse { te::constant(0.0, F64) - sine } else { sine };
        let term = turned(complex(x, &at), &cosines.at(&[turn]), &sine, &part[0]);
        let is_single = k.expr().equals(0).or((k.expr() * 2).equals(length));
        let twice = || te::select(is_single, te::constant(1.0, F64), te::constant(2.0, F64));
        te::sum(if is_real { term * twice() } else { term }, &k)
    });
    let by = te::constant(if inverse { length as f64 } else { 1.0 }, F64);
    Ok(vec![tensor(&shape, |position| {
        let sum = sums.at(position);
        (if inverse { sum / by } else { sum }).cast(x.dtype)
    })])
}

/// Computes the frequencies of windows of a signal in sequence.
fn stft(call: &Call) -> Result<Vec<Tensor>> {
    let (x, window) = (call.input(0)?, call.optional(2));
    is_signal(x)?;
    require!(x.rank() == 3, "expected batches, samples and parts, got {:?}", x.shape);
    let Some(step) = number(call, 1)? else { fail!("input 1, the step from one window to the next, is missing") };
    let length = match (number(call, 3)?, window) {
        (Some(length), _) => length,
        (None, Some(window)) => window.shape.first().copied().unwrap_or(0),
        (None, None) => x.shape[1],
    };
    require!(step > 0 && length > 0, "windows of {length} samples, one each {step}");
    bounds::bounded("the length of the windows", length)?;
    require!(length <= x.shape[1], "a window of {length} samples is longer than the {} of the signal", x.shape[1]);
    if let Some(window) = window {
        require!(window.shape == [length], "a window {:?} for frames of {length} samples", window.shape);
    }
    let onesided = call.attrs.flag("onesided", true)?;
    require!(!onesided || x.shape[2] == 1, "attribute `onesided` is for real signals; this one is complex");
    let bins = if onesided { length / 2 + 1 } else { length };
    let shape = [x.shape[0], 1 + (x.shape[1] - length) / step, bins, 2];
    if shape.contains(&0) {
        return Ok(vec![tensor(&shape, |_| te::constant(0.0, x.dtype))]);
    }
    let (cosines, sines) = turns(length);
    let k = reduce_axis(0, length, "k");
    let sums = tensor(&shape, |p| {
        let turn = (&p[2] * k.expr()).floor_mod(length);
        let (re, im) = complex(x, &[p[0].clone(), &p[1] * step + k.expr()]);
        let weight = window.map_or_else(|| te::constant(1.0, F64), |window| window.at(&[k.expr()]).cast(F64));
        let value = (re * &weight, im * &weight);
        te::sum(turned(value, &cosines.at(core::slice::from_ref(&turn)), &sines.at(&[turn]), &p[3]), &k)
    });
    Ok(vec![tensor(&shape, |position| sums.at(position).cast(x.dtype))])
}

/// Returns the type of attribute `output_datatype`.
fn output_type(call: &Call) -> Result<DataType> {
    call.attrs.find_int("output_datatype")?.map_or(Ok(F32), dtype_of)
}

/// Returns a sum of cosines of 0, 1, 2 and so on turns, with these factors.
fn window(call: &Call, factors: &[f64]) -> Result<Vec<Tensor>> {
    let Some(size) = number(call, 0)? else { fail!("input 0, the size, is missing") };
    require!(size >= 0, "a window of {size} elements");
    bounds::bounded("input 0", size)?;
    let dtype = output_type(call)?;
    let turn = if call.attrs.flag("periodic", true)? { size } else { size - 1 }.max(1);
    Ok(vec![tensor(&[size], |position| {
        let mut value = te::constant(0.0, F64);
        for (number, factor) in factors.iter().enumerate() {
            let angle = position[0].cast(F64) * te::constant(TAU * number as f64 / turn as f64, F64);
            let wave =
                if number == 0 { te::constant(*factor, F64) } else { te::cos(angle) * te::constant(*factor, F64) };
            value = value + wave;
        }
        value.cast(dtype)
    })])
}

/// Returns weights that combine the frequencies of a transform to mel bands: triangles between the
/// edges of the bands.
fn mel(call: &Call) -> Result<Vec<Tensor>> {
    let mut numbers = Vec::new();
    for index in 0..5 {
        let value = call.input(index)?.value.as_ref().filter(|value| value.len() == 1);
        let Some(value) = value else {
            fail!("input {index} has to be one number that is known when the model is compiled")
        };
        numbers.push(value.to_floats()?[0]);
    }
    let [bands, length, rate, low, high] = numbers[..] else { fail!("five inputs are needed") };
    let is_extent = |value: f64| (1.0..=1e9).contains(&value);
    require!(
        is_extent(bands) && is_extent(length) && rate > 0.0 && low >= 0.0 && low <= high,
        "{bands} bands from {low} to {high} Hz, for transforms of {length} samples at {rate} Hz"
    );
    let to_mel = |hertz: f64| 2595.0 * (1.0 + hertz / 700.0).log10();
    let (first, last) = (to_mel(low), to_mel(high));
    let step = (last - first) / (bands + 2.0);
    let dtype = output_type(call)?;
    #[expect(clippy::cast_possible_truncation, reason = "at most 10^9")]
    let (bands, bins) = (bands as i64, length as i64 / 2 + 1);
    let number = |value: f64| te::constant(value, F64);
    let edges = tensor(&[bands + 2], |position| {
        let mel = position[0].cast(F64) * number(step) + number(first);
        let hertz = (te::pow(number(10.0), mel / number(2595.0)) - number(1.0)) * number(700.0);
        te::floor(hertz * number(length + 1.0) / number(rate)).cast(I64)
    })
    .named("edges");
    Ok(vec![tensor(&[bins, bands], |position| {
        let (bin, band) = (&position[0], &position[1]);
        let edge = |number: i64| edges.at(&[band + number]);
        let (lower, center, upper) = (edge(0), edge(1), edge(2));
        let ratio = |part: Expr, whole: Expr| part.cast(F64) / whole.max(1).cast(F64);
        let (width, fall) = (&center - &lower, &upper - &center);
        let rises = bin.greater_equal(&lower).and(bin.less_equal(&center));
        let rising = te::select(rises, ratio(bin - &lower, width.clone()), number(0.0));
        let edge_only = te::select(bin.equals(&center), number(1.0), number(0.0));
        let left = te::select(width.equals(0), edge_only, rising);
        let falls = bin.greater_equal(&center).and(bin.less(&upper));
        te::select(falls, ratio(&upper - bin, fall), left).cast(dtype)
    })])
}
