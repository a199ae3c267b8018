//! Functions of elements: `te::exp(x)`, `te::max(a, b)`, `te::select(condition, a, b)`. Constants
//! take the type of the other operand; type errors are reported with the caller's line.

use crate::ir::{BOOLEAN, DataTypeExt, Expr, F32};

macro_rules! unary {
    ($($(#[$meta:meta])* $name:ident;)*) => {$(
        $(#[$meta])*
        #[track_caller]
        pub fn $name(x: impl Into<Expr>) -> Expr {
            Expr::math(stringify!($name), [x.into()])
        }
    )*};
}

unary! {
    /// `e^x`.
    exp;
    /// `2^x`.
    exp2;
    /// `e^x - 1`, accurate near 0.
    expm1;
    /// Natural logarithm.
    log;
    /// Logarithm to base 2.
    log2;
    /// Logarithm to base 10.
    log10;
    /// `log(1 + x)`, accurate near 0.
    log1p;
    /// Hyperbolic tangent.
    tanh;
    /// `1 / (1 + e^-x)`.
    sigmoid;
    /// The error function.
    erf;
    /// Sine of an angle in radians.
    sin;
    /// Cosine of an angle in radians.
    cos;
    /// Tangent of an angle in radians.
    tan;
    /// Hyperbolic sine.
    sinh;
    /// Hyperbolic cosine.
    cosh;
    /// Arc sine in radians.
    asin;
    /// Arc cosine in radians.
    acos;
    /// Arc tangent in radians.
    atan;
    /// Square root.
    sqrt;
    /// `1 / sqrt(x)`.
    rsqrt;
    /// Absolute value, also of integers.
    abs;
    /// The largest integer that is less than or equal.
    floor;
    /// The smallest integer that is greater than or equal.
    ceil;
    /// The integer part.
    trunc;
    /// The nearest integer, half to even.
    round;
}

macro_rules! binary {
    ($($(#[$meta:meta])* $name:ident;)*) => {$(
        $(#[$meta])*
        #[track_caller]
        pub fn $name(x: impl Into<Expr>, y: impl Into<Expr>) -> Expr {
            Expr::math(stringify!($name), [x.into(), y.into()])
        }
    )*};
}

binary! {
    /// The angle of the point `(y, x)`, in radians; the arguments are in this order.
    atan2;
    /// `x^y`.
    pow;
    /// `x` with the sign of `y`.
    copysign;
    /// The minimum, NaN if either operand is NaN; -0.0 is less than 0.0.
    nanmin;
    /// The maximum, NaN if either operand is NaN; 0.0 is greater than -0.0.
    nanmax;
}

/// `a * b + c`, rounded once.
#[track_caller]
pub fn fma(a: impl Into<Expr>, b: impl Into<Expr>, c: impl Into<Expr>) -> Expr {
    Expr::math("fma", [a.into(), b.into(), c.into()])
}

/// The minimum: `a < b ? a : b`, which is `b` if either operand is NaN.
#[track_caller]
pub fn min(a: impl Into<Expr>, b: impl Into<Expr>) -> Expr {
    a.into().min(b)
}

/// The maximum: `a > b ? a : b`, which is `b` if either operand is NaN.
#[track_caller]
pub fn max(a: impl Into<Expr>, b: impl Into<Expr>) -> Expr {
    a.into().max(b)
}

/// Selects one of two values. Both may be evaluated, but no tensor is read outside its shape for
/// the value that is not selected.
#[track_caller]
pub fn select(condition: impl Into<Expr>, true_value: impl Into<Expr>, false_value: impl Into<Expr>) -> Expr {
    Expr::select(condition, true_value, false_value)
}

/// Selects one of two values; only that one is evaluated.
#[track_caller]
pub fn if_then_else(condition: impl Into<Expr>, then_value: impl Into<Expr>, else_value: impl Into<Expr>) -> Expr {
    Expr::if_then_else(condition, then_value, else_value)
}

/// True if all conditions hold; true without conditions.
#[track_caller]
pub fn all(conditions: impl super::Exprs) -> Expr {
    let mut all = Expr::bool(true);
    for condition in conditions.into_exprs() {
        all = all.and(condition);
    }
    all
}

/// True if any of the conditions holds; false without conditions.
#[track_caller]
pub fn any(conditions: impl super::Exprs) -> Expr {
    let mut any = Expr::bool(false);
    for condition in conditions.into_exprs() {
        any = any.or(condition);
    }
    any
}

/// `x < low ? low : x > high ? high : x`; NaN stays NaN.
#[track_caller]
pub fn clamp(x: impl Into<Expr>, low: impl Into<Expr>, high: impl Into<Expr>) -> Expr {
    let (x, low, high) = (x.into(), low.into(), high.into());
    // The operand whose NaN has to be kept is the second one: `a < b ? a : b` is `b` if either is
    // NaN.
    let floored = low.max(&x);
    high.min(floored)
}

/// True if a float is NaN.
#[track_caller]
pub fn isnan(x: impl Into<Expr>) -> Expr {
    classify("isnan", x.into())
}

/// True if a float is infinite.
#[track_caller]
pub fn isinf(x: impl Into<Expr>) -> Expr {
    classify("isinf", x.into())
}

/// True if a float is neither infinite nor NaN.
#[track_caller]
pub fn isfinite(x: impl Into<Expr>) -> Expr {
    classify("isfinite", x.into())
}

#[track_caller]
fn classify(name: &str, x: Expr) -> Expr {
    let here = core::panic::Location::caller();
    let dtype = x.dtype();
    if !dtype.is_float() {
        use crate::error::{CompileError, ErrorKind, place, report};
        let error = format!("`{name}` takes floats, got {}", dtype.short_name());
        report(CompileError::new(ErrorKind::Type, error).at(place(here)).note("integers are always finite"));
        return Expr::bool(name == "isfinite");
    }
    if let Some(value) = x.as_float() {
        return Expr::bool(match name {
            "isnan" => value.is_nan(),
            "isinf" => value.is_infinite(),
            _ => value.is_finite(),
        });
    }
    Expr::builtin(name, BOOLEAN.with_lanes(dtype.lanes()), [x])
}

/// A constant of a type: rounded to a float, or toward zero to the nearest integer that the type
/// can represent.
pub fn constant(value: f64, dtype: kernpack::DataType) -> Expr {
    if dtype.is_float() {
        return Expr::float(dtype, value);
    }
    #[expect(clippy::cast_possible_truncation, reason = "it is looked at whether anything is lost")]
    let is_single = f64::from(value as f32) == value;
    if is_single {
        return Expr::float(F32, value).cast(dtype);
    }
    let bits = u32::from(dtype.bits()).clamp(1, 64);
    match (dtype.is_bool(), dtype.is_uint()) {
        (true, _) => Expr::constant(dtype, i64::from(value != 0.0)),
        (_, true) => Expr::constant(dtype, (value as u64).min(u64::MAX >> (64 - bits)).cast_signed()),
        _ => Expr::constant(dtype, (value as i64).clamp(i64::MIN >> (64 - bits), i64::MAX >> (64 - bits))),
    }
}
