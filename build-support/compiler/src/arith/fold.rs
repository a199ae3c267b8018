//! Folding of a node whose operands are simple, for all types.

use super::compare::comparison;
use super::facts::negated;
use super::same::same;
use crate::ir::builder::fold_binary;
use crate::ir::{BinaryOp, CompareOp, DataTypeExt, Expr, ExprNode, LogicOp};

/// The number of connectives up to which a negation is moved to their parts, because this copies
/// shared parts.
const MOST_NEGATED: u32 = 64;

/// The negation of a condition, unless the condition would only be wrapped, or is large.
pub(crate) fn negation(condition: &Expr) -> Option<Expr> {
    if takes_more(condition, &mut MOST_NEGATED.clone()) { None } else { negated_parts(condition) }
}

/// Returns true if a condition has more connectives than `most`.
fn takes_more(condition: &Expr, most: &mut u32) -> bool {
    let ExprNode::Logic { a, b, .. } = &**condition else { return false };
    match most.checked_sub(1) {
        None => true,
        Some(rest) => {
            *most = rest;
            takes_more(a, most) || takes_more(b, most)
        }
    }
}

fn negated_parts(condition: &Expr) -> Option<Expr> {
    match &**condition {
        ExprNode::Int { value, .. } => Some(Expr::bool(*value == 0)),
        ExprNode::Not { value } => Some(value.clone()),
        ExprNode::Compare { op, a, b } => {
            // With NaN neither `a < b` nor `a >= b` holds.
            let total = !a.dtype().is_float() || matches!(op, CompareOp::Eq | CompareOp::Ne);
            total.then(|| comparison(negated(*op), a.clone(), b.clone(), None))
        }
        ExprNode::Logic { op, a, b } => {
            let op = if *op == LogicOp::And { LogicOp::Or } else { LogicOp::And };
            let side = |side: &Expr| negated_parts(side).unwrap_or_else(|| side.negated());
            Some(Expr::from_node(ExprNode::Logic { op, a: side(a), b: side(b) }))
        }
        _ => None,
    }
}

/// Folds a node whose operands are simple, for all types; floats are folded only where the result
/// is exact.
pub(crate) fn folded(expr: &Expr) -> Expr {
    match &**expr {
        ExprNode::Binary { op, a, b, dtype } => {
            if let Some(constant) = fold_binary(*op, a, b) {
                return constant;
            }
            if dtype.is_float() {
                // x + 0.0 is not x for x = -0.0; x * 0.0 is not 0.0 for NaN.
                let is = |expr: &Expr, value: f64| expr.as_float().is_some_and(|own| own.to_bits() == value.to_bits());
                return match op {
                    BinaryOp::Mul if is(a, 1.0) => b.clone(),
                    BinaryOp::Mul | BinaryOp::Div if is(b, 1.0) => a.clone(),
                    BinaryOp::Sub if is(b, 0.0) => a.clone(),
                    BinaryOp::Add if is(b, -0.0) => a.clone(),
                    BinaryOp::Add if is(a, -0.0) => b.clone(),
                    BinaryOp::Min | BinaryOp::Max if same(a, b) => a.clone(),
                    _ => expr.clone(),
                };
            }
            match op {
                BinaryOp::Add | BinaryOp::BitOr | BinaryOp::BitXor if a.is_int(0) => b.clone(),
                BinaryOp::Add
                | BinaryOp::Sub
                | BinaryOp::BitOr
                | BinaryOp::BitXor
                | BinaryOp::ShiftLeft
                | BinaryOp::ShiftRight
                    if b.is_int(0) =>
                {
                    a.clone()
                }
                BinaryOp::Mul if a.is_int(1) => b.clone(),
                BinaryOp::Mul | BinaryOp::Div | BinaryOp::FloorDiv if b.is_int(1) => a.clone(),
                BinaryOp::Mul | BinaryOp::BitAnd if a.is_int(0) => a.clone(),
                BinaryOp::Mul | BinaryOp::BitAnd if b.is_int(0) => b.clone(),
                BinaryOp::Mod | BinaryOp::FloorMod if b.is_int(1) => Expr::constant(*dtype, 0),
                BinaryOp::Div | BinaryOp::Mod | BinaryOp::FloorDiv | BinaryOp::FloorMod if b.is_int(0) => b.clone(),
                BinaryOp::Sub | BinaryOp::BitXor if same(a, b) => Expr::constant(*dtype, 0),
                BinaryOp::Min | BinaryOp::Max | BinaryOp::BitAnd | BinaryOp::BitOr if same(a, b) => a.clone(),
                _ => expr.clone(),
            }
        }
        ExprNode::Cast { dtype, value } if value.as_int().is_some() || value.as_float().is_some() => value.cast(*dtype),
        ExprNode::Cast { dtype, value } if value.dtype() == *dtype => value.clone(),
        _ => expr.clone(),
    }
}
