//! Division that rounds down, implemented with shifts, masks and the division that rounds toward
//! zero.

use super::Features;
use super::formula::Formula;
use crate::ir::{BinaryOp, CompareOp, DataTypeExt, Expr};

/// Computes `a floordiv b` or `a floormod b` without these operations. `nonneg` means that `a >= 0`
/// and `b > 0` are proven.
///
/// ```
/// use kernpack_compiler::intrin::lower_floor_div;
/// use kernpack_compiler::ir::{BinaryOp, Expr, ExprNode, Var};
///
/// let x = Var::index("x");
/// let eighth = lower_floor_div(BinaryOp::FloorDiv, &x, &Expr::int(8), false);
/// assert!(matches!(&*eighth, ExprNode::Binary { op: BinaryOp::ShiftRight, b, .. } if b.is_int(3)));
/// ```
pub fn lower_floor_div(op: BinaryOp, a: &Expr, b: &Expr, nonneg: bool) -> Expr {
    let dtype = a.dtype();
    let divides = match op {
        BinaryOp::FloorDiv => true,
        BinaryOp::FloorMod => false,
        _ => return Expr::binary(op, a, b),
    };
    let constant = match &**b {
        crate::ir::ExprNode::Broadcast { value, .. } => value.as_int(),
        _ => b.as_int(),
    };
    if constant == Some(0) {
        return Expr::constant(dtype, 0);
    }
    // As an unsigned 64-bit integer, 2^63 is stored as the smallest signed number, which is not
    // treated as a power of two here; it is divided by.
    if let Some(power) = constant.filter(|value| *value > 0 && value.count_ones() == 1) {
        return if divides {
            Expr::binary(BinaryOp::ShiftRight, a, Expr::constant(dtype, i64::from(power.trailing_zeros())))
        } else {
            Expr::binary(BinaryOp::BitAnd, a, Expr::constant(dtype, power - 1))
        };
    }
    let rounds_to_zero = if divides { BinaryOp::Div } else { BinaryOp::Mod };
    if nonneg || dtype.is_uint() {
        return Expr::binary(rounds_to_zero, a, b);
    }
    let formula = Formula::new(dtype.lanes(), Features::default());
    let (a, b) = (formula.value(a.clone()), formula.value(b.clone()));
    let remainder = formula.value(Expr::binary(BinaryOp::Mod, a.expr(), b.expr()));
    let quotient = || formula.value(Expr::binary(BinaryOp::Div, a.expr(), b.expr()));
    if constant.is_some_and(|value| value > 0) {
        // All ones if the remainder is negative.
        let below = remainder >> i64::from(dtype.bits() - 1);
        let result = if divides { quotient() + below } else { remainder + (b & below) };
        return formula.finish(result);
    }
    // The remainder has the sign of the dividend: the quotient is one too high if the signs differ.
    let zero = Expr::constant(dtype, 0);
    let differ = Expr::compare(CompareOp::Lt, (remainder ^ b).expr(), &zero);
    let inexact = Expr::compare(CompareOp::Ne, remainder.expr(), &zero);
    let wrong = formula.value(differ.and(inexact));
    let result = if divides {
        let quotient = quotient();
        wrong.select(quotient - 1, quotient)
    } else {
        wrong.select(remainder + b, remainder)
    };
    formula.finish(result)
}
