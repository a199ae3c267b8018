//! Minimum and maximum of canonical sums.
//!
//! Assumptions: both sums are whole numbers ([`State::sum_of`]), because there is no order modulo
//! `2^n`. Common terms are moved out only if whole numbers remain.

use super::analyzer::State;
use super::division::is_safe_part;
use super::modular::gcd;
use super::render::{binary, render};
use super::sum::Sum;
use crate::ir::{BinaryOp, Expr, ExprNode, with_stack};

impl State {
    /// `min` or `max` of two sums.
    pub(crate) fn extreme(&mut self, op: BinaryOp, left: Sum, right: Sum, expr: &Expr) -> Sum {
        if left.overflow || right.overflow {
            let mut none = left;
            none.overflow = true;
            return none;
        }
        if let Some(first) = self.first_is_taken(op, &left, &right) {
            return if first { left } else { right };
        }
        // Common terms are moved out of the operation.
        let mut common = Sum::constant(left.dtype, 0);
        for term in &left.terms {
            let other = right.scale_of(term);
            if other == term.scale {
                common.add_term(term.clone());
            }
        }
        if !common.terms.is_empty() || left.base == right.base && left.base != 0 {
            if left.base == right.base {
                common.add_base(left.base);
            }
            let (inner, other) = (left.minus(&common), right.minus(&common));
            // The rest of a sum may wrap although the sum does not, if it has data or terms of both
            // signs.
            let is_safe = is_safe_part(&inner, &[&left]) && is_safe_part(&other, &[&right]);
            if is_safe && self.is_exact(&inner) && self.is_exact(&other) {
                let mut result = self.extreme(op, inner, other, expr);
                result.add_scaled(&common, 1);
                return result;
            }
        }
        let factor = gcd(gcd(left.common_scale(), left.base), gcd(right.common_scale(), right.base));
        if factor > 1 {
            return self.extreme(op, left.divided(factor), right.divided(factor), expr).scaled(factor);
        }
        if let Some(result) = with_stack(|| self.nested_extreme(op, &left, &right, expr)) {
            return result;
        }
        let (x, y) = (self.range(&left), self.range(&right));
        let range = if op == BinaryOp::Min { x.minimum(y) } else { x.maximum(y) };
        let modular = left.modular().union(right.modular());
        // A constant is the right operand.
        let (left, right) = if left.terms.is_empty() { (right, left) } else { (left, right) };
        let node = self.rebuilt(op, &left, &right, expr);
        self.opaque(node, range, modular)
    }

    /// Returns true if the first sum is always the result, false if the second one is, and `None`
    /// if neither is known.
    fn first_is_taken(&mut self, op: BinaryOp, left: &Sum, right: &Sum) -> Option<bool> {
        let difference = left.minus(right);
        let range = self.range(&difference);
        if range.max <= 0 {
            return Some(op == BinaryOp::Min);
        }
        if range.min >= 0 {
            return Some(op == BinaryOp::Max);
        }
        if self.proves_not_positive(&difference) {
            return Some(op == BinaryOp::Min);
        }
        self.proves_not_positive(&difference.scaled(-1)).then_some(op == BinaryOp::Max)
    }

    /// `min(min(x, y), z)` where `z` makes one of the operands redundant, and `min(max(x, c), d)`.
    fn nested_extreme(&mut self, op: BinaryOp, left: &Sum, right: &Sum, expr: &Expr) -> Option<Sum> {
        for (nested, other) in [(left, right), (right, left)] {
            let Some(term) = nested.as_term() else { continue };
            if term.scale != 1 || !term.is_whole() {
                continue;
            }
            let ExprNode::Binary { op: inner, a, b, .. } = &*term.index else { continue };
            if !matches!(inner, BinaryOp::Min | BinaryOp::Max) {
                continue;
            }
            let (a, b) = (self.sum_of(a), self.sum_of(b));
            if *inner == op {
                for (keep, compared) in [(&a, &b), (&b, &a)] {
                    if let Some(first) = self.first_is_taken(op, compared, other) {
                        return Some(if first {
                            // The other operand is never the result.
                            nested.clone()
                        } else {
                            self.extreme(op, keep.clone(), other.clone(), expr)
                        });
                    }
                }
            } else if op == BinaryOp::Min {
                // min(max(x, c), d) with c <= d is max(min(x, d), c): one order for clamps.
                if let (Some(c), Some(d)) = (b.as_constant(), other.as_constant())
                    && c <= d
                {
                    let inside = self.extreme(BinaryOp::Min, a, other.clone(), expr);
                    let (x, y) = (self.range(&inside), self.range(&b));
                    let node = binary(BinaryOp::Max, render(&inside, None), render(&b, None), None);
                    let modular = inside.modular().union(b.modular());
                    return Some(self.opaque(node, x.maximum(y), modular));
                }
            }
        }
        None
    }
}
