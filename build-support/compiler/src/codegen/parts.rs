//! Sums of indices whose parts may overflow where the sums do not.
//!
//! The simplifier writes `(i - j)*4 + j` as `i*4 - j*3`: the product `j*3` may leave its type
//! although the program computes nothing as large. Arithmetic of indices is emitted as arithmetic
//! that does not overflow (`nsw` in LLVM, signed operations in C) only where the parts of a sum
//! fit.

use std::collections::{HashMap, HashSet};

use crate::ir::visit::has_part;
use crate::ir::{BinaryOp, DataTypeExt, Expr, ExprNode, Var, with_stack};

/// The smallest and the largest value.
type Bounds = (i128, i128);

/// Bounds of the variables of loops.
#[derive(Clone, Default)]
pub(super) struct LoopBounds(HashMap<Var, Bounds>);

impl LoopBounds {
    /// Remembers the bounds of a loop, if they are constants. Those of another loop with the same
    /// variable are forgotten.
    pub(super) fn note(&mut self, var: &Var, min: &Expr, extent: &Expr) {
        self.0.remove(var);
        if let (Some(min), Some(extent)) = (min.as_int(), extent.as_int()) {
            let (min, extent) = (i128::from(min), i128::from(extent));
            self.0.insert(var.clone(), (min, min + extent.max(1) - 1));
        }
    }

    /// Tells whether the parts of a sum of indices do not overflow where the sum itself does not.
    ///
    /// They are no larger than the sum if no term is taken away from another one, and none may be
    /// negative. Otherwise, their bounds have to fit. Indices without known bounds are assumed to
    /// lie in the middle half of 32 bits, and below `2^47` in 64 bits, as `arith` assumes.
    pub(super) fn parts_fit(&self, sum: &Expr) -> bool {
        let mut signs = [false; 2];
        self.note_signs(sum, false, &mut signs);
        signs != [true; 2] || operands(sum).is_none_or(|(_, a, b)| self.part(a).is_some() && self.part(b).is_some())
    }

    /// The bounds of a part. None: it may overflow.
    fn part(&self, expr: &Expr) -> Option<Bounds> {
        with_stack(|| {
            let Some((op, a, b)) = operands(expr) else { return Some(self.index(expr)) };
            let ((a_min, a_max), (b_min, b_max)) = (self.part(a)?, self.part(b)?);
            let (min, max) = match op {
                BinaryOp::Add => (a_min + b_min, a_max + b_max),
                BinaryOp::Sub => (a_min - b_max, a_max - b_min),
                _ => {
                    let ends = [a_min * b_min, a_min * b_max, a_max * b_min, a_max * b_max];
                    (ends.into_iter().min()?, ends.into_iter().max()?)
                }
            };
            let most = 1i128 << (expr.dtype().bits() - 1);
            (-most <= min && max < most).then_some((min, max))
        })
    }

    /// The bounds of an index that is not a sum.
    fn index(&self, expr: &Expr) -> Bounds {
        let bits = expr.dtype().bits();
        let most = match bits {
            64.. => 1i128 << 47,
            32.. => i128::from(i32::MAX / 2),
            _ => 1i128 << (bits - 1),
        };
        let assumed = (-most, most);
        match &**expr {
            ExprNode::Int { value, .. } => (i128::from(*value), i128::from(*value)),
            ExprNode::Var { .. } => Var::of(expr).and_then(|var| self.0.get(&var).copied()).unwrap_or(assumed),
            ExprNode::Binary { op, a, b, .. } => match (op, b.as_int().map(i128::from)) {
                (BinaryOp::FloorDiv, Some(divisor @ 1..)) => {
                    let bounds = self.part(a).map(|(min, max)| (min.div_euclid(divisor), max.div_euclid(divisor)));
                    bounds.filter(|(min, max)| -most <= *min && *max <= most).unwrap_or(assumed)
                }
                (BinaryOp::FloorMod, Some(divisor @ 1..)) => (0, divisor - 1),
                (BinaryOp::Mod, Some(divisor @ 1..)) => (1 - divisor, divisor - 1),
                (BinaryOp::BitAnd, Some(mask @ 0..)) => (0, mask),
                _ => assumed,
            },
            ExprNode::Cast { value, .. } if value.dtype().is_int() && value.dtype().bits() <= bits => {
                with_stack(|| self.index(value))
            }
            ExprNode::Broadcast { value, .. } => with_stack(|| self.index(value)),
            _ => assumed,
        }
    }

    /// Notes whether terms are added (`signs[0]`) and subtracted (`signs[1]`); constants are no
    /// terms. A term that may be negative counts as both.
    fn note_signs(&self, expr: &Expr, is_negative: bool, signs: &mut [bool; 2]) {
        let negative = |factor: &Expr| is_negative != factor.as_int().is_some_and(|factor| factor < 0);
        with_stack(|| match operands(expr) {
            _ if expr.as_int().is_some() => {}
            Some((BinaryOp::Mul, a, b)) if b.as_int().is_some() => self.note_signs(a, negative(b), signs),
            Some((BinaryOp::Mul, a, b)) if a.as_int().is_some() => self.note_signs(b, negative(a), signs),
            Some((op @ (BinaryOp::Add | BinaryOp::Sub), a, b)) => {
                self.note_signs(a, is_negative, signs);
                self.note_signs(b, is_negative != (op == BinaryOp::Sub), signs);
            }
            _ => {
                signs[usize::from(is_negative)] = true;
                // A quotient or a remainder of a difference may have either sign, and so may what
                // is made of a loop that begins below 0.
                let is_other = matches!(&**expr, ExprNode::Binary { op, .. } if *op != BinaryOp::Mul);
                if is_other && has_part(expr, is_difference) || self.takes_negative(expr) {
                    *signs = [true; 2];
                }
            }
        });
    }

    /// Tells whether the variable of a loop that begins below 0 is in an expression.
    fn takes_negative(&self, expr: &Expr) -> bool {
        let begins_below = |var: Var| self.0.get(&var).is_some_and(|bounds| bounds.0 < 0);
        self.0.values().any(|bounds| bounds.0 < 0) && has_part(expr, |part| Var::of(part).is_some_and(begins_below))
    }
}

/// Returns true if an integer or a condition consists of constants, extents, loop variables and
/// values derived from them, so that it stays small. Values from data, as in `data`, may be
/// arbitrary, and so is what data chooses. Arithmetic on integers of 8 and 16 bits may overflow.
pub(super) fn is_index(expr: &Expr, data: &HashSet<Var>, memo: &mut HashMap<Expr, bool>) -> bool {
    if let Some(known) = memo.get(expr) {
        return *known;
    }
    let mut part = |part: &Expr| with_stack(|| is_index(part, data, memo));
    let is_index = match &**expr {
        ExprNode::Int { .. } => true,
        ExprNode::Var { .. } => Var::of(expr).is_some_and(|var| !data.contains(&var)),
        ExprNode::Cast { dtype, value } => {
            dtype.is_int() && value.dtype().is_integer() && dtype.bits() >= value.dtype().bits() && part(value)
        }
        ExprNode::Binary { a, b, .. } => expr.dtype().bits() >= 32 && part(a) && part(b),
        ExprNode::Compare { a, b, .. } | ExprNode::Logic { a, b, .. } => part(a) && part(b),
        ExprNode::Not { value } => part(value),
        ExprNode::Call { .. } if expr.without_likely().1 => part(&expr.without_likely().0),
        ExprNode::Select { condition, true_value: a, false_value: b }
        | ExprNode::IfThenElse { condition, then_value: a, else_value: b } => part(condition) && part(a) && part(b),
        ExprNode::Ramp { base, stride, .. } => part(base) && part(stride),
        ExprNode::Broadcast { value, .. } => part(value),
        _ => false,
    } && (expr.dtype().is_int() || expr.dtype().is_bool());
    memo.insert(expr.clone(), is_index);
    is_index
}

/// Tells whether a node is a part of the sum around it: a sum, a difference, or a multiple.
pub(super) fn is_linear(expr: &Expr) -> bool {
    operands(expr).is_some_and(|(op, a, b)| op != BinaryOp::Mul || a.as_int().is_some() || b.as_int().is_some())
}

/// The operands of a sum, a difference or a product.
fn operands(expr: &Expr) -> Option<(BinaryOp, &Expr, &Expr)> {
    match &**expr {
        ExprNode::Binary { op: op @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul), a, b, .. } => Some((*op, a, b)),
        _ => None,
    }
}

/// Tells whether a value that is not constant is taken away from another one.
fn is_difference(expr: &Expr) -> bool {
    matches!(operands(expr), Some((BinaryOp::Sub, _, b)) if b.as_int().is_none())
}
