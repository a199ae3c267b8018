//! The machine's representation of numbers: one lane is 64 bits, interpreted by its type.
//!
//! Integers are sign or zero extended, floats are their own bits in the low part, truth values are
//! 0 or 1. Arithmetic results in the same bits as compiled code: single precision is computed in
//! single precision; half precision and bfloat16 are computed in single precision and rounded after
//! each operation.

use crate::error::{Result, fail};
use crate::ir::builder::{fold_int, round_float, round_int, wrap_int};
use crate::ir::float_math::{float_math, small_fma};
use crate::ir::{BinaryOp, CompareOp, DataType, DataTypeExt};

/// The kind of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lane {
    /// An integer, signed or unsigned, or a truth value.
    Integer(DataType),
    /// Half precision or bfloat16.
    Small(DataType),
    /// Single precision.
    Single,
    /// Double precision.
    Double,
    /// A pointer.
    Pointer,
}

impl Lane {
    /// The kind of lane of a type.
    pub(super) fn of(dtype: DataType) -> Result<Self> {
        let element = dtype.element();
        Ok(match (element.is_float(), element.bits()) {
            _ if element.is_handle() => Self::Pointer,
            _ if element.is_bool() => Self::Integer(element),
            (false, 8 | 16 | 32 | 64) if element.is_integer() => Self::Integer(element),
            (true, 16) => Self::Small(element),
            (true, 32) if !element.is_bfloat() => Self::Single,
            (true, 64) if !element.is_bfloat() => Self::Double,
            _ => fail!(Run, "the interpreter has no values of type {}", dtype.short_name()),
        })
    }
}

fn single(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

/// Rounds a value to a float of this type, and returns its bits.
pub(super) fn from_f64(dtype: DataType, value: f64) -> u64 {
    match (dtype.is_bfloat(), dtype.bits()) {
        (_, 64) => value.to_bits(),
        (false, 32) => u64::from((value as f32).to_bits()),
        (true, _) => encode_small(value, round_float(dtype.element(), value), 7, 8),
        (false, _) => encode_small(value, round_float(dtype.element(), value), 10, 5),
    }
}

/// The bits of a float with these numbers of fraction and exponent bits, in which `rounded` is
/// exact.
fn encode_small(value: f64, rounded: f64, fraction: u32, exponent: u32) -> u64 {
    let sign = u64::from(value.is_sign_negative()) << (fraction + exponent);
    let largest = (1u64 << exponent) - 1;
    if value.is_nan() {
        return sign | largest << fraction | 1 << (fraction - 1);
    }
    if rounded.is_infinite() {
        return sign | largest << fraction;
    }
    if rounded == 0.0 {
        return sign;
    }
    let bits = rounded.abs().to_bits();
    let bias = (1i64 << (exponent - 1)) - 1;
    let power = ((bits >> 52) as i64) - 1023 + bias;
    if power >= 1 {
        return sign | (power as u64) << fraction | (bits & ((1 << 52) - 1)) >> (52 - fraction);
    }
    // A denormal: a multiple of the smallest one.
    let unit = 2f64.powi(1 - bias as i32 - fraction as i32);
    sign | (rounded.abs() / unit) as u64
}

/// The value of a float of this type, which is exact in double precision.
pub(super) fn to_f64(dtype: DataType, bits: u64) -> f64 {
    match (dtype.is_bfloat(), dtype.bits()) {
        (_, 64) => f64::from_bits(bits),
        (false, 32) => f64::from(single(bits)),
        (true, _) => f64::from(f32::from_bits((bits as u32) << 16)),
        (false, _) => {
            let (sign, power, fraction) = (bits >> 15 & 1, bits >> 10 & 0x1f, (bits & 0x3ff) as f64);
            let value = match power {
                0 => fraction * 2f64.powi(-24),
                0x1f if fraction == 0.0 => f64::INFINITY,
                0x1f => f64::NAN,
                _ => (1024.0 + fraction) * 2f64.powi(power as i32 - 25),
            };
            if sign == 1 { -value } else { value }
        }
    }
}

/// Arithmetic on one lane; if `checked`, overflow of signed integers is an error.
pub(super) fn binary(op: BinaryOp, lane: Lane, a: u64, b: u64, checked: bool) -> Result<u64, &'static str> {
    let undefined = "an operation that floats do not have";
    match lane {
        Lane::Integer(dtype) => integer(op, dtype, a as i64, b as i64, checked),
        Lane::Single => Ok(u64::from(float_f32(op, single(a), single(b)).ok_or(undefined)?.to_bits())),
        Lane::Double => Ok(float_f64(op, f64::from_bits(a), f64::from_bits(b)).ok_or(undefined)?.to_bits()),
        Lane::Small(dtype) => match op {
            // Keeps the bits of the operand.
            BinaryOp::Min => Ok(if to_f64(dtype, a) < to_f64(dtype, b) { a } else { b }),
            BinaryOp::Max => Ok(if to_f64(dtype, a) > to_f64(dtype, b) { a } else { b }),
            _ => {
                let value = float_f32(op, to_f64(dtype, a) as f32, to_f64(dtype, b) as f32).ok_or(undefined)?;
                Ok(from_f64(dtype, f64::from(value)))
            }
        },
        Lane::Pointer => Err("arithmetic on pointers"),
    }
}

fn integer(op: BinaryOp, dtype: DataType, a: i64, b: i64, checked: bool) -> Result<u64, &'static str> {
    let Some(value) = fold_int(op, dtype, a, b) else { return Err("no such operation on integers") };
    let divides = matches!(op, BinaryOp::Div | BinaryOp::Mod | BinaryOp::FloorDiv | BinaryOp::FloorMod);
    if checked && divides && b == 0 {
        return Err("division by zero in index arithmetic");
    }
    if checked && divides && dtype.is_int() && b == -1 && a == i64::MIN >> (64 - u32::from(dtype.bits())) {
        return Err("overflow of a division in index arithmetic");
    }
    if checked && dtype.is_int() {
        let (x, y) = (i128::from(a), i128::from(b));
        let exact = match op {
            BinaryOp::Add => x + y,
            BinaryOp::Sub => x - y,
            BinaryOp::Mul => x * y,
            _ => return Ok(value as u64),
        };
        if exact != i128::from(value) {
            return Err("overflow of index arithmetic");
        }
    }
    Ok(value as u64)
}

macro_rules! float {
    ($name:ident, $type:ty) => {
        fn $name(op: BinaryOp, a: $type, b: $type) -> Option<$type> {
            Some(match op {
                BinaryOp::Add => a + b,
                BinaryOp::Sub => a - b,
                BinaryOp::Mul => a * b,
                BinaryOp::Div => a / b,
                BinaryOp::Mod => a % b,
                BinaryOp::Min => {
                    if a < b {
                        a
                    } else {
                        b
                    }
                }
                BinaryOp::Max => {
                    if a > b {
                        a
                    } else {
                        b
                    }
                }
                _ => return None,
            })
        }
    };
}

float!(float_f32, f32);
float!(float_f64, f64);

/// Comparison of one lane.
pub(super) fn compare(op: CompareOp, lane: Lane, a: u64, b: u64) -> bool {
    match lane {
        Lane::Integer(dtype) if dtype.is_int() => op.holds(a as i64, b as i64),
        Lane::Integer(_) | Lane::Pointer => op.holds(a, b),
        Lane::Single => op.holds(single(a), single(b)),
        Lane::Double => op.holds(f64::from_bits(a), f64::from_bits(b)),
        Lane::Small(dtype) => op.holds(to_f64(dtype, a), to_f64(dtype, b)),
    }
}

/// Conversion of one lane. Float to integer saturates, NaN becomes 0; a wider integer is truncated.
pub(super) fn cast(from: DataType, to: DataType, bits: u64) -> u64 {
    if from.is_float() {
        let value = to_f64(from, bits);
        return if to.is_float() {
            if from.element() == to.element() { bits } else { from_f64(to, value) }
        } else if to.is_bool() {
            u64::from(value != 0.0)
        } else {
            saturate(to, value)
        };
    }
    if to.is_float() {
        return from_f64(to, round_int(to, bits as i64, !from.is_int()));
    }
    if to.is_handle() { bits } else { wrap_int(to, bits as i64) as u64 }
}

fn saturate(to: DataType, value: f64) -> u64 {
    if to.bits() == 64 || to.is_handle() {
        return if to.is_int() { value as i64 as u64 } else { value as u64 };
    }
    let bits = u32::from(to.bits());
    let (low, high) =
        if to.is_int() { (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1) } else { (0, (1i64 << bits) - 1) };
    (value as i64).clamp(low, high) as u64
}

/// `a * b + c`, rounded once.
pub(super) fn fma(lane: Lane, a: u64, b: u64, c: u64) -> Result<u64, &'static str> {
    match lane {
        Lane::Single => Ok(u64::from(single(a).mul_add(single(b), single(c)).to_bits())),
        Lane::Double => Ok(f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c)).to_bits()),
        Lane::Small(dtype) => Ok(from_f64(dtype, small_fma(to_f64(dtype, a), to_f64(dtype, b), to_f64(dtype, c)))),
        Lane::Integer(_) | Lane::Pointer => Err("fma of a type other than floats"),
    }
}

/// A math function of one lane: computed in double precision and rounded, so that it is within
/// slightly more than half a unit of the exact value. `None` for an unknown name.
pub(super) fn math(name: &str, dtype: DataType, args: &[u64]) -> Option<u64> {
    if dtype.is_integer() {
        return (name == "abs").then(|| wrap_int(dtype, (args[0] as i64).wrapping_abs()) as u64);
    }
    let sign = 1u64 << (dtype.bits() - 1);
    match name {
        // The bits of a NaN are kept.
        "abs" => return Some(args[0] & !sign),
        "copysign" => return Some(args[0] & !sign | args[1] & sign),
        _ => {}
    }
    let x = to_f64(dtype, args[0]);
    let y = args.get(1).map_or(0.0, |bits| to_f64(dtype, *bits));
    Some(from_f64(dtype, float_math(name, x, y)?))
}

/// Formats a lane for people.
pub(super) fn show(dtype: DataType, bits: u64) -> String {
    if dtype.is_float() {
        format!("{}", to_f64(dtype, bits))
    } else if dtype.is_bool() {
        (bits != 0).to_string()
    } else if dtype.is_int() {
        (bits as i64).to_string()
    } else if dtype.is_handle() {
        if bits == 0 { "null".to_owned() } else { format!("{bits:#x}") }
    } else {
        bits.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{BF16, F16, F32, I8, I32, U64};

    #[test]
    fn every_small_float_survives() {
        for dtype in [F16, BF16] {
            for bits in 0..=u64::from(u16::MAX) {
                let value = to_f64(dtype, bits);
                if value.is_nan() {
                    assert!(to_f64(dtype, from_f64(dtype, value)).is_nan());
                } else {
                    assert_eq!(from_f64(dtype, value), bits, "{} {bits:#x}", dtype.short_name());
                }
            }
        }
    }

    #[test]
    fn small_floats_are_rounded_to_even() {
        // Between each pair of neighbors: the middle is rounded to the even one, numbers next to it
        // to the nearer one.
        for (dtype, infinity) in [(F16, 0x7c00u64), (BF16, 0x7f80)] {
            for bits in 0..infinity - 1 {
                let (low, high) = (to_f64(dtype, bits), to_f64(dtype, bits + 1));
                let middle = low + (high - low) / 2.0;
                let even = if bits & 1 == 0 { bits } else { bits + 1 };
                assert_eq!(from_f64(dtype, middle), even, "{bits:#x}");
                assert_eq!(from_f64(dtype, middle.next_up()), bits + 1, "{bits:#x}");
                assert_eq!(from_f64(dtype, middle.next_down()), bits, "{bits:#x}");
            }
        }
    }

    /// A value as a multiple of 2^-48, exactly.
    fn fixed(value: f64) -> i128 {
        (value * 2f64.powi(24)) as i128 * (1 << 24)
    }

    #[test]
    fn half_precision_fma_is_rounded_once() {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Finite numbers of any size.
            let bits = state >> 48;
            bits & 0x83ff | (((bits >> 10) & 0x1f) % 31) << 10
        };
        for _ in 0..200_000 {
            let (a, b, c) = (next(), next(), next());
            let [x, y, z] = [a, b, c].map(|bits| to_f64(F16, bits));
            let product = (x * 2f64.powi(24)) as i128 * (y * 2f64.powi(24)) as i128;
            let exact = product + fixed(z);
            let found = to_f64(F16, fma(Lane::Small(F16), a, b, c).unwrap());
            if found.is_infinite() {
                assert!(exact.abs() >= (65520i128) << 48, "{x} * {y} + {z} is {found}");
                continue;
            }
            let error = (exact - fixed(found)).abs();
            let bits = from_f64(F16, found.abs());
            for neighbour in [bits + 1, bits.saturating_sub(1)] {
                let other = to_f64(F16, neighbour.min(0x7bff)).copysign(found);
                let better = (exact - fixed(other)).abs() < error;
                assert!(!better, "{x} * {y} + {z} is {found}, {} is nearer", to_f64(F16, neighbour));
            }
        }
    }

    #[test]
    fn single_precision_stays_single() {
        let (a, b) = (0.1f32, 0.7f32);
        let bits = |value: f32| u64::from(value.to_bits());
        for (op, expected) in [
            (BinaryOp::Add, a + b),
            (BinaryOp::Sub, a - b),
            (BinaryOp::Mul, a * b),
            (BinaryOp::Div, a / b),
            (BinaryOp::Min, a),
            (BinaryOp::Max, b),
        ] {
            assert_eq!(binary(op, Lane::Single, bits(a), bits(b), false), Ok(bits(expected)));
        }
        assert!(binary(BinaryOp::BitAnd, Lane::Single, 0, 0, false).is_err());
        // i64 to f32 is rounded once.
        assert_eq!(
            cast(crate::ir::I64, F32, (1u64 << 60) + (1 << 36) + 1),
            bits(((1u64 << 60) + (1 << 36) + 1) as f32)
        );
    }

    #[test]
    fn overflow_is_found_where_it_is_looked_for() {
        let lane = Lane::Integer(I32);
        let (max, min) = (i64::from(i32::MAX) as u64, i64::from(i32::MIN) as u64);
        assert_eq!(binary(BinaryOp::Add, lane, max, 1, false), Ok(min));
        assert!(binary(BinaryOp::Add, lane, max, 1, true).is_err());
        assert!(binary(BinaryOp::Mul, lane, max, 2, true).is_err());
        assert!(binary(BinaryOp::FloorDiv, lane, min, -1i64 as u64, true).is_err());
        assert!(binary(BinaryOp::Mod, lane, 1, 0, true).is_err());
        assert_eq!(binary(BinaryOp::Div, lane, min, -1i64 as u64, false), Ok(min));
        assert_eq!(binary(BinaryOp::Mod, lane, 1, 0, false), Ok(0));
        assert_eq!(binary(BinaryOp::ShiftRight, lane, -8i64 as u64, -1i64 as u64, false), Ok(-1i64 as u64));
        assert!(compare(CompareOp::Gt, Lane::Integer(U64), u64::MAX, 1));
        assert!(compare(CompareOp::Lt, Lane::Integer(I8), -1i64 as u64, 1));
    }
}
