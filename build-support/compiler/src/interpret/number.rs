//! The machine's representation of numbers: one lane is 64 bits, interpreted by its type.
//!
//! Integers are sign or zero extended, floats are their own bits in the low part, truth values are
//! 0 or 1. Arithmetic results in the same bits as compiled code: single precision is computed in
//! single precision; half precision and bfloat16 are computed in single precision and rounded after
//! each operation.

use crate::error::{Result, fail};
pub(super) use crate::ir::builder::{float_bits, float_of_bits};
use crate::ir::builder::{fold_int, round_int, wrap_int};
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

/// Arithmetic on one lane; if `checked`, overflow of signed integers is an error.
pub(super) fn binary(op: BinaryOp, lane: Lane, a: u64, b: u64, checked: bool) -> Result<u64, &'static str> {
    let undefined = "an operation that floats do not have";
    match lane {
        Lane::Integer(dtype) => integer(op, dtype, a as i64, b as i64, checked),
        Lane::Single => Ok(u64::from(float_f32(op, single(a), single(b)).ok_or(undefined)?.to_bits())),
        Lane::Double => Ok(float_f64(op, f64::from_bits(a), f64::from_bits(b)).ok_or(undefined)?.to_bits()),
        Lane::Small(dtype) => match op {
            // Keeps the bits of the operand.
            BinaryOp::Min => Ok(if float_of_bits(dtype, a) < float_of_bits(dtype, b) { a } else { b }),
            BinaryOp::Max => Ok(if float_of_bits(dtype, a) > float_of_bits(dtype, b) { a } else { b }),
            _ => {
                let value =
                    float_f32(op, float_of_bits(dtype, a) as f32, float_of_bits(dtype, b) as f32).ok_or(undefined)?;
                Ok(float_bits(dtype, f64::from(value)))
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
        Lane::Small(dtype) => op.holds(float_of_bits(dtype, a), float_of_bits(dtype, b)),
    }
}

/// Conversion of one lane. Float to integer saturates, NaN becomes 0; a wider integer is truncated.
pub(super) fn cast(from: DataType, to: DataType, bits: u64) -> u64 {
    if from.is_float() {
        let value = float_of_bits(from, bits);
        return if to.is_float() {
            if from.element() == to.element() { bits } else { float_bits(to, value) }
        } else if to.is_bool() {
            u64::from(value != 0.0)
        } else {
            saturate(to, value)
        };
    }
    if to.is_float() {
        return float_bits(to, round_int(to, bits as i64, !from.is_int()));
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
        Lane::Small(dtype) => {
            Ok(float_bits(dtype, small_fma(float_of_bits(dtype, a), float_of_bits(dtype, b), float_of_bits(dtype, c))))
        }
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
    let x = float_of_bits(dtype, args[0]);
    let y = args.get(1).map_or(0.0, |bits| float_of_bits(dtype, *bits));
    Some(float_bits(dtype, float_math(name, x, y)?))
}

/// Formats a lane for people.
pub(super) fn show(dtype: DataType, bits: u64) -> String {
    if dtype.is_float() {
        format!("{}", float_of_bits(dtype, bits))
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
                let value = float_of_bits(dtype, bits);
                if value.is_nan() {
                    assert!(float_of_bits(dtype, float_bits(dtype, value)).is_nan());
                } else {
                    assert_eq!(float_bits(dtype, value), bits, "{} {bits:#x}", dtype.short_name());
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
                let (low, high) = (float_of_bits(dtype, bits), float_of_bits(dtype, bits + 1));
                let middle = low + (high - low) / 2.0;
                let even = if bits & 1 == 0 { bits } else { bits + 1 };
                assert_eq!(float_bits(dtype, middle), even, "{bits:#x}");
                assert_eq!(float_bits(dtype, middle.next_up()), bits + 1, "{bits:#x}");
                assert_eq!(float_bits(dtype, middle.next_down()), bits, "{bits:#x}");
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
            let [x, y, z] = [a, b, c].map(|bits| float_of_bits(F16, bits));
            let product = (x * 2f64.powi(24)) as i128 * (y * 2f64.powi(24)) as i128;
            let exact = product + fixed(z);
            let found = float_of_bits(F16, fma(Lane::Small(F16), a, b, c).unwrap());
            if found.is_infinite() {
                assert!(exact.abs() >= (65520i128) << 48, "{x} * {y} + {z} is {found}");
                continue;
            }
            let error = (exact - fixed(found)).abs();
            let bits = float_bits(F16, found.abs());
            for neighbour in [bits + 1, bits.saturating_sub(1)] {
                let other = float_of_bits(F16, neighbour.min(0x7bff)).copysign(found);
                let better = (exact - fixed(other)).abs() < error;
                assert!(!better, "{x} * {y} + {z} is {found}, {} is nearer", float_of_bits(F16, neighbour));
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
