//! Inputs and results of operations that round once: conversions between floats and integers, and
//! `fma` of small floats. The results are computed with integers.

use std::collections::BTreeSet;

use kernpack_compiler::interpret::Block;
use kernpack_compiler::ir::{BF16, Buffer, DataType, DataTypeExt, Expr, F16, F32, F64, ForKind, Stmt, Var};
use kernpack_compiler::te::fma;

use crate::integers::{TYPES, ends};

pub(crate) const FLOATS: [DataType; 4] = [F16, BF16, F32, F64];
/// The number of inputs is a multiple of this number of lanes.
const MOST_LANES: usize = 24;

/// The bits of precision and of the exponent.
fn format(dtype: DataType) -> (u32, u32) {
    match dtype {
        F16 => (11, 5),
        BF16 => (8, 8),
        F32 => (24, 8),
        _ => (53, 11),
    }
}

/// A number rounded to this many binary digits, half to even.
pub(crate) fn rounded(digits: u32, value: i128) -> i128 {
    let magnitude = value.unsigned_abs();
    let length = u128::BITS - magnitude.leading_zeros();
    if length <= digits {
        return value;
    }
    let shift = length - digits;
    let (kept, cut, half) = (magnitude >> shift, magnitude & ((1 << shift) - 1), 1 << (shift - 1));
    let is_up = cut > half || cut == half && kept & 1 == 1;
    ((kept + u128::from(is_up)) << shift) as i128 * value.signum()
}

/// The nearest float of a type, computed with integers.
pub(crate) fn nearest(dtype: DataType, value: i128) -> f64 {
    let (digits, exponent) = format(dtype);
    let rounded = rounded(digits, value) as f64;
    if exponent == 5 && rounded.abs() >= 65536.0 { f64::INFINITY.copysign(rounded) } else { rounded }
}

/// The integer of a type for a float: truncated, saturated, 0 for NaN.
fn saturated(dtype: DataType, value: f64) -> i128 {
    let (min, max) = ends(dtype);
    (value as i128).clamp(min, max)
}

/// The bits of floats of a type: each exponent with fractions at both ends and in the middle, and
/// the limits of integers with their neighbors.
fn float_bits(dtype: DataType) -> Vec<u64> {
    let (digits, exponent) = format(dtype);
    let fraction = digits - 1;
    let middle = 1u64 << (fraction - 1);
    let last = (1u64 << fraction) - 1;
    let mut all = BTreeSet::new();
    let bias = (1i64 << (exponent - 1)) - 1;
    for power in 0..1u64 << exponent {
        let is_special = power == 0 || power + 1 == 1 << exponent;
        if is_special || (power as i64 - bias).abs() <= 70 {
            all.extend([0, 1, 2, middle - 1, middle, middle + 1, last - 1, last].map(|low| power << fraction | low));
        }
    }
    // Around each power of two, below which a half may be the last digit.
    for power in 0..=64u64 {
        let bits = (power + bias as u64) << fraction;
        for below in 1..=4 {
            if bits >> fraction < (1 << exponent) - 1 {
                all.extend([bits - below, bits + below]);
            }
        }
    }
    let sign = 1u64 << (fraction + exponent);
    all.iter().flat_map(|bits| [*bits, bits | sign]).collect()
}

/// Integers of a type: its ends, and numbers at and next to the midpoints between floats of all
/// types.
pub(crate) fn integers(dtype: DataType) -> Vec<i128> {
    let (min, max) = ends(dtype);
    let mut all: BTreeSet<i128> = (-128..=128).chain([min, min + 1, max - 1, max]).collect();
    for power in 0..u32::from(dtype.bits()) {
        for digits in [8, 11, 24, 53] {
            let half = if power >= digits { 1i128 << (power - digits) } else { 0 };
            for times in [0, 1, 2, 3] {
                for near in [-1, 0, 1] {
                    let number = (1i128 << power) + times * half + near;
                    all.extend([number, -number]);
                }
            }
        }
    }
    all.into_iter().filter(|number| (min..=max).contains(number)).collect()
}

/// The inputs of a type as bits, padded to whole vectors.
pub(crate) fn inputs(dtype: DataType) -> Vec<u64> {
    let mask = u64::MAX >> (64 - u32::from(dtype.bits()));
    let all: Vec<u64> = if dtype.is_float() {
        float_bits(dtype)
    } else {
        integers(dtype).into_iter().map(|number| number as u64 & mask).collect()
    };
    assert!(all.len() >= 100);
    let count = all.len().next_multiple_of(MOST_LANES);
    all.iter().copied().cycle().take(count).collect()
}

/// A value of a float type or an integer type.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    /// A value by its bits.
    pub(crate) fn of(dtype: DataType, bits: u64) -> Self {
        if dtype.is_float() {
            return Self::Float(Block::from_lanes(dtype, &[1], &[bits]).to_f64().unwrap()[0]);
        }
        Self::Int(crate::integers::wrapped(dtype, i128::from(bits)))
    }

    /// Returns true for the same value, bit by bit except for NaN.
    pub(crate) fn is(self, other: Self) -> bool {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
            _ => false,
        }
    }
}

fn expected(to: DataType, value: Number) -> Number {
    match value {
        Number::Int(value) => Number::Float(nearest(to, value)),
        Number::Float(value) => Number::Int(saturated(to, value)),
    }
}

/// A conversion from one type to another, in vectors.
pub(crate) struct Row {
    /// The type of the inputs.
    pub(crate) from: DataType,
    /// The type of the results.
    pub(crate) to: DataType,
    /// The lanes of the vectors; 1 for a scalar.
    pub(crate) lanes: u16,
}

impl Row {
    /// Each float type to and from each integer type, in vectors with each of these numbers of
    /// lanes.
    pub(crate) fn all<const N: usize>(lanes: [u16; N]) -> Vec<Self> {
        let pairs = FLOATS.iter().flat_map(|float| TYPES.iter().flat_map(|int| [(*float, *int), (*int, *float)]));
        pairs.flat_map(move |(from, to)| lanes.map(|lanes| Self { from, to, lanes })).collect()
    }

    /// The name of the function.
    pub(crate) fn name(&self) -> String {
        format!("{}_{}_{}", self.from.short_name(), self.to.short_name(), self.lanes)
    }

    /// The buffers of this many inputs and results, and the loop that converts.
    pub(crate) fn program(&self, count: usize) -> ([Buffer; 2], Stmt) {
        let [a, out] = [("a", self.from), ("out", self.to)]
            .map(|(name, dtype)| Buffer::new(name, dtype, [Expr::int(count as i64)], "global"));
        let i = Var::index("i");
        let place = (i.expr() * i64::from(self.lanes)).ramp(1, self.lanes);
        let store = Stmt::store(out.clone(), &place, Expr::load(&a, &place).cast(self.to));
        let rounds = count as i64 / i64::from(self.lanes);
        ([a, out], Stmt::for_loop(i, 0, rounds, ForKind::Serial, store))
    }

    /// Compares results with the expected ones.
    pub(crate) fn check(&self, by: &str, inputs: &[u64], found: &[u64]) {
        assert_eq!(inputs.len(), found.len());
        for (input, found) in inputs.iter().zip(found) {
            let (value, found) = (Number::of(self.from, *input), Number::of(self.to, *found));
            let expected = expected(self.to, value);
            assert!(
                found.is(expected),
                "{by}: {} to {} of {value:?} ({input:#x}), {} lanes, is {found:?}, not {expected:?}",
                self.from,
                self.to,
                self.lanes
            );
        }
    }
}

/// The exponent of the power of two of which all values are multiples.
const UNIT: i32 = -60;

fn exact(value: f64) -> i128 {
    (value * 2f64.powi(-UNIT)) as i128
}

/// Factors whose product is at the midpoint between two floats, each with a small addend of both
/// signs, and without one.
fn middles(digits: u32, tiny: f64) -> Vec<[f64; 3]> {
    let ones = 1u64 << (digits - 1);
    let step = if digits == 11 { 7 } else { 1 };
    let mut rows = Vec::new();
    for a in (ones..2 * ones).step_by(step) {
        for b in a..2 * ones {
            let product = a * b;
            let cut = u64::BITS - product.leading_zeros() - digits;
            if product & ((1 << cut) - 1) == 1 << (cut - 1) {
                let scaled = |number: u64| number as f64 / ones as f64 * 16.0;
                rows.extend([tiny, -tiny, 0.0].map(|c| [scaled(a), scaled(b), c]));
                rows.extend([tiny, -tiny].map(|c| [-scaled(a), scaled(b), c]));
            }
        }
    }
    rows.truncate(rows.len().min(8000) / MOST_LANES * MOST_LANES);
    rows
}

/// Factors and addends of a small float type whose sum would be rounded twice through single or
/// double precision.
pub(crate) struct Fused {
    dtype: DataType,
    /// The two factors and the addend.
    pub(crate) rows: Vec<[f64; 3]>,
}

impl Fused {
    /// The rows of half precision or bfloat16.
    pub(crate) fn of(dtype: DataType) -> Self {
        let rows = middles(format(dtype).0, if dtype == F16 { 2f64.powi(-24) } else { 2f64.powi(-50) });
        assert!(rows.len() > 100);
        Self { dtype, rows }
    }

    /// The bits of the factors and of the addend.
    pub(crate) fn columns(&self) -> [Vec<u64>; 3] {
        let shape = [self.rows.len() as i64];
        [0, 1, 2].map(|at| {
            let values: Vec<f64> = self.rows.iter().map(|row| row[at]).collect();
            Block::from_f64(self.dtype, &shape, &values).to_lanes().unwrap()
        })
    }

    /// The buffers, and the loop that computes.
    pub(crate) fn program(&self, lanes: u16) -> ([Buffer; 4], Stmt) {
        let count = self.rows.len() as i64;
        let buffers = ["a", "b", "c", "out"].map(|name| Buffer::new(name, self.dtype, [Expr::int(count)], "global"));
        let i = Var::index("i");
        let place = (i.expr() * i64::from(lanes)).ramp(1, lanes);
        let [a, b, c] = [0, 1, 2].map(|at: usize| Expr::load(&buffers[at], &place));
        let store = Stmt::store(buffers[3].clone(), &place, fma(a, b, c));
        (buffers, Stmt::for_loop(i, 0, count / i64::from(lanes), ForKind::Serial, store))
    }

    /// Compares results with the expected ones.
    pub(crate) fn check(&self, by: &str, found: &[u64]) {
        let found = Block::from_lanes(self.dtype, &[self.rows.len() as i64], found).to_f64().unwrap();
        for ([a, b, c], found) in self.rows.iter().zip(found) {
            let sum = exact(a * b) + exact(*c);
            let expected = rounded(format(self.dtype).0, sum) as f64 * 2f64.powi(UNIT);
            assert_eq!(found, expected, "{by}: {}: {a} * {b} + {c}", self.dtype);
        }
    }
}
