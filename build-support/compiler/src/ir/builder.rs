//! Construction of expressions: operators, constants, conversions. Constants are folded and take
//! the type of the other operand. Type errors are reported with the caller's line
//! (`error::take_reported`), or returned by the `try_` functions.

use core::ops;
use core::panic::Location;

use kernpack::{DataType, Str};

use super::builtin;
use super::dtype::{BOOLEAN, DataTypeExt, F32, I64};
use super::expr::{BinaryOp, CallKind, CompareOp, Expr, ExprNode, LogicOp, Var};
use super::tensor::IterVar;
use crate::error::{CompileError, ErrorKind, Result, place, report, require};

impl Expr {
    /// A 64-bit integer.
    pub fn int(value: i64) -> Self {
        Self::from_node(ExprNode::Int { dtype: I64, value })
    }

    /// A constant of any type, in every lane; an integer is truncated to its bits.
    pub fn constant(dtype: DataType, value: i64) -> Self {
        let scalar = dtype.element();
        let node = if scalar.is_float() {
            ExprNode::Float { dtype: scalar, value: round_int(scalar, value, false) }
        } else {
            ExprNode::Int { dtype: scalar, value: wrap_int(scalar, value) }
        };
        Self::from_node(node).broadcast(dtype.lanes())
    }

    /// A floating point constant, rounded to its type, in every lane.
    pub fn float(dtype: DataType, value: f64) -> Self {
        let scalar = dtype.element();
        Self::from_node(ExprNode::Float { dtype: scalar, value: round_float(scalar, value) }).broadcast(dtype.lanes())
    }

    /// A truth value.
    pub fn bool(value: bool) -> Self {
        Self::from_node(ExprNode::Int { dtype: BOOLEAN, value: value.into() })
    }

    /// Text.
    pub fn text(value: &str) -> Self {
        Self::from_node(ExprNode::Text { value: value.into() })
    }

    /// The value in this many lanes; the value itself for one lane.
    pub fn broadcast(&self, lanes: u16) -> Self {
        if lanes == 1 { self.clone() } else { Self::from_node(ExprNode::Broadcast { value: self.clone(), lanes }) }
    }

    /// The vector `self, self + stride, ..`.
    pub fn ramp(&self, stride: impl Into<Expr>, lanes: u16) -> Self {
        let stride = stride.into();
        if lanes == 1 { self.clone() } else { Self::from_node(ExprNode::Ramp { base: self.clone(), stride, lanes }) }
    }

    /// Converts to another type with the same number of lanes (`dtype` may be scalar for a vector).
    pub fn cast(&self, dtype: DataType) -> Self {
        let dtype = dtype.element().with_lanes(self.lanes());
        if self.dtype() == dtype {
            return self.clone();
        }
        match &**self {
            // The stored bits of a large unsigned integer, read as a signed value, would convert to
            // the wrong float.
            ExprNode::Int { value, dtype: from }
                if from.is_uint() && from.bits() == 64 && *value < 0 && !dtype.is_integer() && !dtype.is_bool() => {}
            ExprNode::Int { value, .. } if !dtype.is_handle() => {
                return if dtype.is_bool() { Self::bool(*value != 0) } else { Self::constant(dtype, *value) };
            }
            ExprNode::Float { value, .. } if dtype.is_float() => return Self::float(dtype, *value),
            ExprNode::Broadcast { value, lanes } => return value.cast(dtype.element()).broadcast(*lanes),
            _ => {}
        }
        Self::from_node(ExprNode::Cast { dtype, value: self.clone() })
    }

    /// Builds an arithmetic operation; see [`try_binary`] for folding.
    #[track_caller]
    pub fn binary(op: BinaryOp, a: impl Into<Expr>, b: impl Into<Expr>) -> Self {
        let (a, b) = (a.into(), b.into());
        let here = Location::caller();
        try_binary(op, &a, &b).unwrap_or_else(|error| {
            report(error.at(place(here)));
            a
        })
    }

    /// Builds a comparison.
    #[track_caller]
    pub fn compare(op: CompareOp, a: impl Into<Expr>, b: impl Into<Expr>) -> Self {
        let (a, b) = (a.into(), b.into());
        let here = Location::caller();
        try_compare(op, &a, &b).unwrap_or_else(|error| {
            report(error.at(place(here)));
            Self::bool(true).broadcast(a.lanes())
        })
    }

    /// Logical and.
    #[track_caller]
    pub fn and(&self, other: impl Into<Expr>) -> Self {
        Self::logic(LogicOp::And, self, &other.into())
    }

    /// Logical or.
    #[track_caller]
    pub fn or(&self, other: impl Into<Expr>) -> Self {
        Self::logic(LogicOp::Or, self, &other.into())
    }

    #[track_caller]
    fn logic(op: LogicOp, a: &Expr, b: &Expr) -> Self {
        let here = Location::caller();
        try_logic(op, a, b).unwrap_or_else(|error| {
            report(error.at(place(here)));
            Self::bool(true).broadcast(a.lanes())
        })
    }

    /// Logical not.
    #[track_caller]
    pub fn negated(&self) -> Self {
        let here = Location::caller();
        try_not(self).unwrap_or_else(|error| {
            report(error.at(place(here)));
            Self::bool(true)
        })
    }

    /// `self == other`.
    #[track_caller]
    pub fn equals(&self, other: impl Into<Expr>) -> Self {
        Self::compare(CompareOp::Eq, self, other)
    }

    /// `self != other`.
    #[track_caller]
    pub fn differs(&self, other: impl Into<Expr>) -> Self {
        Self::compare(CompareOp::Ne, self, other)
    }

    /// `self < other`.
    #[track_caller]
    pub fn less(&self, other: impl Into<Expr>) -> Self {
        Self::compare(CompareOp::Lt, self, other)
    }

    /// `self <= other`.
    #[track_caller]
    pub fn less_equal(&self, other: impl Into<Expr>) -> Self {
        Self::compare(CompareOp::Le, self, other)
    }

    /// `self > other`.
    #[track_caller]
    pub fn greater(&self, other: impl Into<Expr>) -> Self {
        Self::compare(CompareOp::Gt, self, other)
    }

    /// `self >= other`.
    #[track_caller]
    pub fn greater_equal(&self, other: impl Into<Expr>) -> Self {
        Self::compare(CompareOp::Ge, self, other)
    }

    /// The minimum.
    #[track_caller]
    pub fn min(&self, other: impl Into<Expr>) -> Self {
        Self::binary(BinaryOp::Min, self, other)
    }

    /// The maximum.
    #[track_caller]
    pub fn max(&self, other: impl Into<Expr>) -> Self {
        Self::binary(BinaryOp::Max, self, other)
    }

    /// Integer quotient, rounded down.
    #[track_caller]
    pub fn floor_div(&self, other: impl Into<Expr>) -> Self {
        Self::binary(BinaryOp::FloorDiv, self, other)
    }

    /// Integer remainder with the sign of the divisor.
    #[track_caller]
    pub fn floor_mod(&self, other: impl Into<Expr>) -> Self {
        Self::binary(BinaryOp::FloorMod, self, other)
    }

    /// Integer quotient, rounded up; the divisor must be positive.
    #[track_caller]
    pub fn ceil_div(&self, other: impl Into<Expr>) -> Self {
        let other = other.into();
        (self + &(&other - 1)).floor_div(other)
    }

    /// `condition ? true_value : false_value`; both are evaluated.
    #[track_caller]
    pub fn select(condition: impl Into<Expr>, true_value: impl Into<Expr>, false_value: impl Into<Expr>) -> Self {
        let (condition, a, b) = (condition.into(), true_value.into(), false_value.into());
        let here = Location::caller();
        try_select(&condition, &a, &b, false).unwrap_or_else(|error| {
            report(error.at(place(here)));
            a
        })
    }

    /// `condition ? then_value : else_value`; only one is evaluated.
    #[track_caller]
    pub fn if_then_else(condition: impl Into<Expr>, then_value: impl Into<Expr>, else_value: impl Into<Expr>) -> Self {
        let (condition, a, b) = (condition.into(), then_value.into(), else_value.into());
        let here = Location::caller();
        try_select(&condition, &a, &b, true).unwrap_or_else(|error| {
            report(error.at(place(here)));
            a
        })
    }

    /// A call of a builtin.
    pub fn builtin(name: &str, dtype: DataType, args: impl IntoIterator<Item = Expr>) -> Self {
        Self::call(CallKind::Builtin, name, dtype, args)
    }

    /// A call.
    pub fn call(kind: CallKind, name: &str, dtype: DataType, args: impl IntoIterator<Item = Expr>) -> Self {
        Self::from_node(ExprNode::Call { kind, name: name.into(), args: args.into_iter().collect(), dtype })
    }

    /// A call of a math function on floats; constants become floats of the type of the other
    /// arguments.
    #[track_caller]
    pub fn math(name: &str, args: impl IntoIterator<Item = Expr>) -> Self {
        let args: Vec<Expr> = args.into_iter().collect();
        let here = Location::caller();
        try_math(name, &args).unwrap_or_else(|error| {
            report(error.at(place(here)));
            args.first().cloned().unwrap_or_else(|| Self::float(F32, 0.0))
        })
    }

    /// `likely(self)`.
    pub fn likely(&self) -> Self {
        if self.as_int().is_some() {
            self.clone()
        } else {
            Self::builtin(builtin::LIKELY, self.dtype(), [self.clone()])
        }
    }

    /// Returns the condition inside `likely`, or the expression itself, and true if there was a
    /// `likely`.
    pub fn without_likely(&self) -> (Self, bool) {
        match &**self {
            ExprNode::Call { kind: CallKind::Builtin, name, args, .. } if name.as_str() == builtin::LIKELY => {
                (args.get(0).expect("likely has an argument"), true)
            }
            _ => (self.clone(), false),
        }
    }

    /// A load without a mask.
    pub fn load(buffer: &super::Buffer, index: impl Into<Expr>) -> Self {
        Self::load_masked(buffer, index, None)
    }

    /// A load of the lanes for which the mask is true.
    pub fn load_masked(buffer: &super::Buffer, index: impl Into<Expr>, mask: Option<Expr>) -> Self {
        let index = index.into();
        let dtype = buffer.dtype.with_lanes(buffer.dtype.lanes().saturating_mul(index.lanes()));
        Self::from_node(ExprNode::Load { buffer: buffer.clone(), index, mask, dtype })
    }
}

/// Rounds a value to a float of this type.
pub fn round_float(dtype: DataType, value: f64) -> f64 {
    match (dtype.is_bfloat(), dtype.bits()) {
        (_, 64) => value,
        (false, 32) => f64::from(value as f32),
        (true, _) => round_to_bits(value, 8, -126, 127),
        (false, _) => round_to_bits(value, 11, -14, 15),
    }
}

/// Rounds a value to a float of this type, and returns its bits. A NaN of 16 bits has no payload.
pub(crate) fn float_bits(dtype: DataType, value: f64) -> u64 {
    match (dtype.is_bfloat(), dtype.bits()) {
        (_, 64) => value.to_bits(),
        (false, 32) => u64::from((value as f32).to_bits()),
        (is_bfloat, _) => {
            let value = if value.is_nan() { f64::NAN.copysign(value) } else { round_float(dtype, value) } as f32;
            u64::from(if is_bfloat {
                kernpack::BF16::from(value).to_bits()
            } else {
                kernpack::F16::from(value).to_bits()
            })
        }
    }
}

/// Returns the value of a float of this type, which is exact in double precision.
pub(crate) fn float_of_bits(dtype: DataType, bits: u64) -> f64 {
    match (dtype.is_bfloat(), dtype.bits()) {
        (_, 64) => f64::from_bits(bits),
        (false, 32) => f64::from(f32::from_bits(bits as u32)),
        (true, _) => f64::from(f32::from(kernpack::BF16::from_bits(bits as u16))),
        (false, _) => f64::from(f32::from(kernpack::F16::from_bits(bits as u16))),
    }
}

/// Rounds an integer to a float of this type, once. `unsigned`: `value` contains the bits of an
/// unsigned 64-bit integer.
pub(crate) fn round_int(dtype: DataType, value: i64, unsigned: bool) -> f64 {
    match (dtype.bits(), unsigned) {
        (64, true) => value as u64 as f64,
        (64, false) => value as f64,
        (32, true) => f64::from(value as u64 as f32),
        (32, false) => f64::from(value as f32),
        _ => {
            let is_negative = !unsigned && value < 0;
            let magnitude = odd_double(if unsigned { value as u64 } else { value.unsigned_abs() });
            round_float(dtype, if is_negative { -magnitude } else { magnitude })
        }
    }
}

/// Converts an integer to a double, rounded to odd: the last digit is 1 if digits were lost. A
/// second rounding to fewer digits is then equal to a single rounding.
fn odd_double(value: u64) -> f64 {
    let is_exact = value >> f64::MANTISSA_DIGITS == 0;
    let cut = (1 << (64 - f64::MANTISSA_DIGITS)) - 1;
    (if is_exact { value } else { (value | ((value & cut) + cut)) & !cut }) as f64
}

/// Rounds to `digits` binary digits, half to even, with exponents from `min` (denormals below) to
/// `max` (infinity above).
fn round_to_bits(value: f64, digits: i32, min: i32, max: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let exponent = (((value.to_bits() >> 52) & 0x7ff) as i32 - 1023).max(min);
    let unit = 2f64.powi(exponent - (digits - 1));
    let rounded = (value / unit).round_ties_even() * unit;
    if rounded.abs() >= 2f64.powi(max + 1) { f64::INFINITY.copysign(value) } else { rounded }
}

/// The integer of this type with the low bits of `value`; for an unsigned 64-bit type, its bits.
pub fn wrap_int(dtype: DataType, value: i64) -> i64 {
    if dtype.is_bool() {
        return i64::from(value != 0);
    }
    let bits = u32::from(dtype.bits());
    if bits >= 64 {
        return value;
    }
    let shift = 64 - bits;
    if dtype.is_uint() { ((value as u64) << shift >> shift) as i64 } else { value << shift >> shift }
}

/// Converts both operands to one type: a constant takes the type of the other operand if it can
/// represent the value; a scalar is broadcast to a vector.
fn unify(what: &str, a: &Expr, b: &Expr) -> Result<(Expr, Expr)> {
    let (mut a, mut b) = (a.clone(), b.clone());
    if a.dtype().element() != b.dtype().element() {
        if let Some(fitted) = fitted(&b, a.dtype()) {
            b = fitted;
        } else if let Some(fitted) = fitted(&a, b.dtype()) {
            a = fitted;
        } else {
            let (left, right) = (a.dtype().short_name(), b.dtype().short_name());
            return Err(CompileError::new(ErrorKind::Type, format!("{what} of {left} and {right}")).note(format!(
                "operands have one type: write `.cast({})` on one of them",
                cast_hint(a.dtype(), b.dtype())
            )));
        }
    }
    match (a.lanes(), b.lanes()) {
        (left, right) if left == right => {}
        (1, lanes) => a = a.broadcast(lanes),
        (lanes, 1) => b = b.broadcast(lanes),
        (left, right) => {
            return Err(CompileError::new(ErrorKind::Type, format!("{what} of vectors of {left} and {right} lanes")));
        }
    }
    Ok((a, b))
}

fn cast_hint(a: DataType, b: DataType) -> String {
    let wider = if a.is_float() == b.is_float() {
        if a.bits() >= b.bits() { a } else { b }
    } else if a.is_float() {
        a
    } else {
        b
    };
    wider.element().short_name().to_uppercase()
}

/// Converts a constant to another type, if that type can represent the value (a float is rounded).
fn fitted(constant: &Expr, dtype: DataType) -> Option<Expr> {
    let dtype = dtype.element();
    match &**constant {
        // The stored bits of a large unsigned integer are not a value of another type.
        ExprNode::Int { value, dtype: own }
            if own.is_uint() && own.bits() == 64 && *value < 0 && dtype != own.element() =>
        {
            None
        }
        ExprNode::Int { value, dtype: own } if !own.is_bool() && !dtype.is_bool() && dtype.can_hold(*value) => {
            Some(Expr::constant(dtype, *value))
        }
        ExprNode::Float { value, .. } if dtype.is_float() => Some(Expr::float(dtype, *value)),
        ExprNode::Broadcast { value, lanes } => Some(fitted(value, dtype)?.broadcast(*lanes)),
        _ => None,
    }
}

fn symbol(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "`+`",
        BinaryOp::Sub => "`-`",
        BinaryOp::Mul => "`*`",
        BinaryOp::Div => "`/`",
        BinaryOp::Mod => "`%`",
        BinaryOp::FloorDiv => "`floordiv`",
        BinaryOp::FloorMod => "`floormod`",
        BinaryOp::Min => "`min`",
        BinaryOp::Max => "`max`",
        BinaryOp::BitAnd => "`&`",
        BinaryOp::BitOr => "`|`",
        BinaryOp::BitXor => "`^`",
        BinaryOp::ShiftLeft => "`<<`",
        BinaryOp::ShiftRight => "`>>`",
    }
}

/// Folds arithmetic on constants with the semantics of the generated code: a quotient and a
/// remainder of integers by 0 are 0. Returns `None` if the operation is not folded here.
pub fn fold_binary(op: BinaryOp, a: &Expr, b: &Expr) -> Option<Expr> {
    match (&**a, &**b) {
        (ExprNode::Int { dtype, value: a }, ExprNode::Int { value: b, .. }) => {
            Some(Expr::from_node(ExprNode::Int { dtype: *dtype, value: fold_int(op, *dtype, *a, *b)? }))
        }
        (ExprNode::Float { dtype, value: a }, ExprNode::Float { value: b, .. }) => {
            let value = match op {
                BinaryOp::Add => a + b,
                BinaryOp::Sub => a - b,
                BinaryOp::Mul => a * b,
                BinaryOp::Div => a / b,
                BinaryOp::Min => {
                    if a < b {
                        *a
                    } else {
                        *b
                    }
                }
                BinaryOp::Max => {
                    if a > b {
                        *a
                    } else {
                        *b
                    }
                }
                _ => return None,
            };
            Some(Expr::float(*dtype, value))
        }
        _ => None,
    }
}

/// [`fold_binary`] for the values of integers.
pub fn fold_int(op: BinaryOp, dtype: DataType, a: i64, b: i64) -> Option<i64> {
    let unsigned = dtype.is_uint() && dtype.bits() == 64;
    let bits = i64::from(dtype.bits());
    let value = match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::Div | BinaryOp::Mod | BinaryOp::FloorDiv | BinaryOp::FloorMod if b == 0 => 0,
        BinaryOp::Div | BinaryOp::FloorDiv if unsigned => ((a as u64) / (b as u64)) as i64,
        BinaryOp::Mod | BinaryOp::FloorMod if unsigned => ((a as u64) % (b as u64)) as i64,
        BinaryOp::Div => a.wrapping_div(b),
        BinaryOp::Mod => a.wrapping_rem(b),
        BinaryOp::FloorDiv => floor_div(a, b),
        BinaryOp::FloorMod => floor_mod(a, b),
        BinaryOp::Min if unsigned => (a as u64).min(b as u64) as i64,
        BinaryOp::Max if unsigned => (a as u64).max(b as u64) as i64,
        BinaryOp::Min => a.min(b),
        BinaryOp::Max => a.max(b),
        BinaryOp::BitAnd => a & b,
        BinaryOp::BitOr => a | b,
        BinaryOp::BitXor => a ^ b,
        BinaryOp::ShiftLeft => {
            if (0..bits).contains(&b) {
                a << b
            } else {
                0
            }
        }
        // The shift amount is treated as unsigned, as for the left shift.
        BinaryOp::ShiftRight if dtype.is_int() => a >> if (0..64).contains(&b) { b } else { 63 },
        BinaryOp::ShiftRight => {
            if (0..bits).contains(&b) {
                ((a as u64) >> b) as i64
            } else {
                0
            }
        }
    };
    Some(wrap_int(dtype, value))
}

/// Quotient, rounded down; wraps for the smallest number divided by -1. The divisor must not be 0.
pub fn floor_div(a: i64, b: i64) -> i64 {
    let quotient = a.wrapping_div(b);
    if a.wrapping_rem(b) != 0 && ((a < 0) != (b < 0)) { quotient - 1 } else { quotient }
}

/// Remainder with the sign of the divisor, which must not be 0.
pub fn floor_mod(a: i64, b: i64) -> i64 {
    let remainder = a.wrapping_rem(b);
    if remainder != 0 && ((remainder < 0) != (b < 0)) { remainder + b } else { remainder }
}

/// Builds an arithmetic operation: unifies the operands, folds constants, and simplifies `x + 0`,
/// `x * 1` and similar integer operations.
///
/// # Errors
/// Returns an error for incompatible types, an operation that the type does not support, or an
/// integer division by the constant 0.
pub fn try_binary(op: BinaryOp, a: &Expr, b: &Expr) -> Result<Expr> {
    let (a, b) = unify(symbol(op), a, b)?;
    let dtype = a.dtype();
    let defined = match op {
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Mod => {
            dtype.is_integer() || dtype.is_float()
        }
        BinaryOp::Min | BinaryOp::Max => dtype.is_integer() || dtype.is_float() || dtype.is_bool(),
        BinaryOp::FloorDiv | BinaryOp::FloorMod | BinaryOp::ShiftLeft | BinaryOp::ShiftRight => dtype.is_integer(),
        BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor => dtype.is_integer() || dtype.is_bool(),
    };
    require!(defined, Type, "{} of {}: there is no such operation", symbol(op), dtype.short_name());
    let divides = matches!(op, BinaryOp::Div | BinaryOp::Mod | BinaryOp::FloorDiv | BinaryOp::FloorMod);
    require!(!(divides && dtype.is_integer() && scalar_of(&b).is_int(0)), Type, "{} by the constant 0", symbol(op));
    if let Some(folded) = fold_binary(op, &a, &b) {
        return Ok(folded);
    }
    if let (ExprNode::Broadcast { value: left, lanes }, ExprNode::Broadcast { value: right, .. }) = (&*a, &*b) {
        return Ok(try_binary(op, left, right)?.broadcast(*lanes));
    }
    if dtype.is_integer() {
        let (left, right) = (scalar_of(&a), scalar_of(&b));
        match op {
            BinaryOp::Add if left.is_int(0) => return Ok(b),
            BinaryOp::Mul if left.is_int(1) => return Ok(b),
            BinaryOp::Mul if left.is_int(0) => return Ok(a),
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::ShiftLeft | BinaryOp::ShiftRight if right.is_int(0) => {
                return Ok(a);
            }
            BinaryOp::Mul | BinaryOp::Div | BinaryOp::FloorDiv if right.is_int(1) => return Ok(a),
            BinaryOp::Mul if right.is_int(0) => return Ok(b),
            BinaryOp::Mod | BinaryOp::FloorMod if right.is_int(1) => return Ok(Expr::constant(dtype, 0)),
            _ => {}
        }
    }
    Ok(Expr::from_node(ExprNode::Binary { op, a, b, dtype }))
}

/// The value of all lanes, if they are equal.
fn scalar_of(expr: &Expr) -> Expr {
    match &**expr {
        ExprNode::Broadcast { value, .. } => value.clone(),
        _ => expr.clone(),
    }
}

/// A comparison, folded if both sides are constants.
///
/// # Errors
/// Returns an error for incompatible types.
pub fn try_compare(op: CompareOp, a: &Expr, b: &Expr) -> Result<Expr> {
    let (a, b) = unify("comparison", a, b)?;
    require!(!a.dtype().is_handle() || matches!(op, CompareOp::Eq | CompareOp::Ne), Type, "pointers have no order");
    match (&*a, &*b) {
        (ExprNode::Int { dtype, value: a }, ExprNode::Int { value: b, .. }) if dtype.is_uint() => {
            return Ok(Expr::bool(op.holds(*a as u64, *b as u64)));
        }
        (ExprNode::Int { value: a, .. }, ExprNode::Int { value: b, .. }) => return Ok(Expr::bool(op.holds(a, b))),
        (ExprNode::Float { value: a, .. }, ExprNode::Float { value: b, .. }) => return Ok(Expr::bool(op.holds(a, b))),
        _ => {}
    }
    if let (ExprNode::Broadcast { value: left, lanes }, ExprNode::Broadcast { value: right, .. }) = (&*a, &*b) {
        return Ok(try_compare(op, left, right)?.broadcast(*lanes));
    }
    Ok(Expr::from_node(ExprNode::Compare { op, a, b }))
}

/// Builds a logical and, or a logical or; a constant operand is folded.
///
/// # Errors
/// Returns an error for operands that are not truth values, or have different numbers of lanes.
pub fn try_logic(op: LogicOp, a: &Expr, b: &Expr) -> Result<Expr> {
    for side in [a, b] {
        require!(side.dtype().is_bool(), Type, "a condition is a truth value, not {}", side.dtype().short_name());
    }
    let (a, b) = unify("condition", a, b)?;
    match op {
        LogicOp::And if a.is_true() || b.is_false() => return Ok(b),
        LogicOp::And if b.is_true() || a.is_false() => return Ok(a),
        LogicOp::Or if a.is_true() || b.is_false() => return Ok(a),
        LogicOp::Or if b.is_true() || a.is_false() => return Ok(b),
        _ => {}
    }
    Ok(Expr::from_node(ExprNode::Logic { op, a, b }))
}

/// Negation.
///
/// # Errors
/// Returns an error for an operand that is not a truth value.
pub fn try_not(value: &Expr) -> Result<Expr> {
    require!(value.dtype().is_bool(), Type, "a condition is a truth value, not {}", value.dtype().short_name());
    Ok(match &**value {
        ExprNode::Int { value, .. } => Expr::bool(*value == 0),
        ExprNode::Not { value } => value.clone(),
        ExprNode::Broadcast { value, lanes } => try_not(value)?.broadcast(*lanes),
        _ => Expr::from_node(ExprNode::Not { value: value.clone() }),
    })
}

/// Builds a select between two values; if `lazy`, only one of them is evaluated.
///
/// # Errors
/// Returns an error for a condition that is not a truth value, values of different types, or
/// incompatible lanes.
pub fn try_select(condition: &Expr, a: &Expr, b: &Expr, lazy: bool) -> Result<Expr> {
    let dtype = condition.dtype();
    require!(dtype.is_bool(), Type, "a condition is a truth value, not {}", dtype.short_name());
    let (a, b) = unify("choice", a, b)?;
    if condition.is_true() && condition.lanes() == a.lanes().min(condition.lanes()) {
        return Ok(a);
    }
    if condition.is_false() && condition.lanes() == a.lanes().min(condition.lanes()) {
        return Ok(b);
    }
    let lanes = condition.lanes();
    let (a, b) = if a.lanes() == 1 && lanes > 1 { (a.broadcast(lanes), b.broadcast(lanes)) } else { (a, b) };
    require!(lanes == 1 || lanes == a.lanes(), Type, "a condition of {lanes} lanes for values of {} lanes", a.lanes());
    let condition = condition.clone();
    Ok(Expr::from_node(if lazy {
        ExprNode::IfThenElse { condition, then_value: a, else_value: b }
    } else {
        ExprNode::Select { condition, true_value: a, false_value: b }
    }))
}

/// Builds a call of a math function.
///
/// # Errors
/// Returns an error for an unknown function, a wrong number of arguments, arguments that are not
/// floats (`abs` also takes integers), or arguments of different types.
pub fn try_math(name: &str, args: &[Expr]) -> Result<Expr> {
    let Some(arity) = builtin::math_arity(name) else {
        return Err(CompileError::new(ErrorKind::Type, format!("unknown math function `{name}`")).note(format!(
            "there are {}",
            builtin::MATH.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
        )));
    };
    require!(args.len() == arity, Type, "`{name}` takes {arity} arguments, got {}", args.len());
    let mut args = args.to_vec();
    let strong = args.iter().find(|arg| arg.as_int().is_none() && arg.as_float().is_none()).unwrap_or(&args[0]).clone();
    for index in 0..args.len() {
        args[index] = unify(&format!("`{name}`"), &args[index], &strong)?.0;
    }
    let dtype = args[0].dtype();
    require!(
        dtype.is_float() || name == "abs" && dtype.is_integer(),
        Type,
        "`{name}` takes floats, got {}; write `.cast(F32)`",
        dtype.short_name()
    );
    if name == "abs" && dtype.is_uint() {
        return Ok(args[0].clone());
    }
    Ok(Expr::builtin(name, dtype, args))
}

macro_rules! from_int {
    ($($type:ty),*) => {$(
        impl From<$type> for Expr {
            fn from(value: $type) -> Self {
                Self::int(i64::from(value))
            }
        }
    )*};
}

from_int!(i8, i16, i32, i64, u8, u16, u32);

impl From<usize> for Expr {
    fn from(value: usize) -> Self {
        Self::int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<f32> for Expr {
    fn from(value: f32) -> Self {
        Self::float(F32, value.into())
    }
}

/// A constant that takes the type of the other operand; single precision on its own.
impl From<f64> for Expr {
    fn from(value: f64) -> Self {
        // The value is not rounded yet: for a double operand, it keeps its precision.
        Self::from_node(ExprNode::Float { dtype: F32, value })
    }
}

impl From<bool> for Expr {
    fn from(value: bool) -> Self {
        Self::bool(value)
    }
}

impl From<&Expr> for Expr {
    fn from(expr: &Expr) -> Self {
        expr.clone()
    }
}

impl From<&str> for Expr {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<Str> for Expr {
    fn from(text: Str) -> Self {
        Self::from_node(ExprNode::Text { value: text })
    }
}

macro_rules! operators {
    ($($trait:ident, $method:ident, $op:ident;)*) => {$(
        operators!(@one $trait, $method, $op, Expr);
        operators!(@one $trait, $method, $op, &Expr);
        operators!(@one $trait, $method, $op, Var);
        operators!(@one $trait, $method, $op, &Var);
        operators!(@one $trait, $method, $op, IterVar);
        operators!(@one $trait, $method, $op, &IterVar);
        operators!(@left $trait, $method, $op, i64);
        operators!(@left $trait, $method, $op, f64);
        operators!(@left $trait, $method, $op, f32);
    )*};
    (@one $trait:ident, $method:ident, $op:ident, $left:ty) => {
        impl<T: Into<Expr>> ops::$trait<T> for $left {
            type Output = Expr;

            #[track_caller]
            fn $method(self, other: T) -> Expr {
                Expr::binary(BinaryOp::$op, self, other)
            }
        }
    };
    (@left $trait:ident, $method:ident, $op:ident, $left:ty) => {
        impl ops::$trait<Expr> for $left {
            type Output = Expr;

            #[track_caller]
            fn $method(self, other: Expr) -> Expr {
                Expr::binary(BinaryOp::$op, self, other)
            }
        }

        impl ops::$trait<&Expr> for $left {
            type Output = Expr;

            #[track_caller]
            fn $method(self, other: &Expr) -> Expr {
                Expr::binary(BinaryOp::$op, self, other)
            }
        }
    };
}

operators! {
    Add, add, Add;
    Sub, sub, Sub;
    Mul, mul, Mul;
    Div, div, Div;
    Rem, rem, Mod;
    BitAnd, bitand, BitAnd;
    BitOr, bitor, BitOr;
    BitXor, bitxor, BitXor;
    Shl, shl, ShiftLeft;
    Shr, shr, ShiftRight;
}

impl ops::Neg for Expr {
    type Output = Expr;

    #[track_caller]
    fn neg(self) -> Expr {
        -&self
    }
}

impl ops::Neg for &Expr {
    type Output = Expr;

    /// Preserves the sign of a zero: `-0.0 - x` for floats.
    #[track_caller]
    fn neg(self) -> Expr {
        let dtype = self.dtype();
        let zero = if dtype.is_float() { Expr::float(dtype, -0.0) } else { Expr::constant(dtype, 0) };
        Expr::binary(BinaryOp::Sub, zero, self)
    }
}
