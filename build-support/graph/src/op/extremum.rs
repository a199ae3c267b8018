//! The larger and the smaller of two values. `Expr::max` returns its second operand if one of them
//! is NaN. These functions then return NaN, as ONNX requires.

use kernpack_compiler::ir::{DataTypeExt, Expr, IterVar};
use kernpack_compiler::te::{self, comm_reducer};

/// The larger one, or NaN if one of them is NaN.
pub fn max(a: impl Into<Expr>, b: impl Into<Expr>) -> Expr {
    with_nan(a.into(), b.into(), |a, b| a.max(b))
}

/// The smaller one, or NaN if one of them is NaN.
pub fn min(a: impl Into<Expr>, b: impl Into<Expr>) -> Expr {
    with_nan(a.into(), b.into(), |a, b| a.min(b))
}

/// The largest one over axes, for differences to it that are exponentiated: NaN may be dropped
/// here, because its exponential is NaN in any case.
pub fn largest_of_powers(x: impl Into<Expr>, axes: &[IterVar]) -> Expr {
    let x = x.into();
    let dtype = x.dtype();
    let largest = comm_reducer([dtype], |[a], [b]| [a.max(b)], [Expr::float(dtype, f64::NEG_INFINITY)]);
    let [largest] = largest.over([x], axes);
    largest
}

/// Clamps a value between two constants. NaN is kept.
pub fn clamp(x: impl Into<Expr>, low: f64, high: f64) -> Expr {
    let x = x.into();
    let (low, high) = (te::constant(low, x.dtype()), te::constant(high, x.dtype()));
    te::clamp(x, low, high)
}

/// `pick` returns its second argument if one of them is NaN, like the instruction.
fn with_nan(a: Expr, b: Expr, pick: impl Fn(Expr, Expr) -> Expr) -> Expr {
    let is_number = |x: &Expr| x.as_float().is_some_and(|value| !value.is_nan());
    match a.dtype().is_float() {
        true if is_number(&a) => pick(a, b),
        // Limits are mostly constants: one instruction, and the other operand is used once.
        true if is_number(&b) => pick(b, a),
        true => te::select(te::isnan(&a), a.clone(), pick(a, b)),
        false => pick(a, b),
    }
}
