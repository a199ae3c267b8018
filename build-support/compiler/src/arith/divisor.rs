//! Quotients and remainders by divisors that are not constants.
//!
//! Assumptions: sums are whole numbers, and products with the divisor are products of indices,
//! which do not wrap. A divisor made of sizes is not 0; data and loop variables may be 0
//! ([`State::may_be_zero`]).

use super::analyzer::State;
use super::division::is_safe_part;
use super::modular::{ModularSet, gcd};
use super::render::render;
use super::same::same;
use super::sum::Sum;
use crate::ir::{BinaryOp, Expr, ExprNode, with_stack};

impl State {
    /// Splits off the terms that are products with the divisor: `(quotient, rest)`, with
    /// `left = quotient * right + rest`.
    pub(super) fn without_products(&mut self, left: &Sum, right: &Sum) -> (Sum, Sum) {
        let mut quotient = Sum::constant(left.dtype, 0);
        // A product of data may wrap, and a quotient by 0 is 0.
        if right.is_data() || self.may_be_zero(right) {
            return (quotient, left.clone());
        }
        let mut rest = Sum::constant(left.dtype, left.base);
        let (right_factor, divisor) = match right.as_term() {
            Some(term) => {
                let mut single = Sum::constant(right.dtype, 0);
                let mut whole = term.clone();
                whole.scale = 1;
                single.add_term(whole);
                (term.scale, single)
            }
            None => (1, right.clone()),
        };
        let divisor_expr = render(&divisor, None);
        for term in &left.terms {
            if term.data {
                rest.add_term(term.clone());
                continue;
            }
            if term.scale % right_factor == 0 && term.is_whole() {
                if let Some(cofactor) = without_operand(&term.index, &divisor_expr) {
                    self.add(&mut quotient, &cofactor, term.scale / right_factor);
                    continue;
                }
                if same(&term.index, &divisor_expr) {
                    quotient.add_base(term.scale / right_factor);
                    continue;
                }
            } else if divisor.as_term().is_some_and(|divisor| divisor.same_value(term))
                && term.scale % right_factor == 0
            {
                quotient.add_base(term.scale / right_factor);
                continue;
            }
            rest.add_term(term.clone());
        }
        // A sum as a divisor: `2*n + 2` by `n + 1`.
        if let Some(factor) = rest.multiple_of_terms(right)
            && factor != 0
            && right.terms.len() + usize::from(right.base != 0) > 1
            && let Some(base) = right.base.checked_mul(factor)
            && let Some(base) = rest.base.checked_sub(base)
        {
            quotient.add_base(factor);
            rest = Sum::constant(left.dtype, base);
        }
        (quotient, rest)
    }

    /// Returns true if `0 <= rest < right`, and the divisor is positive.
    fn is_remainder(&mut self, rest: &Sum, right: &Sum) -> bool {
        let mut below = rest.minus(right);
        below.add_base(1);
        self.range(rest).min >= 0 && self.proves_not_positive(&below)
            || self.proves_not_positive(&rest.clone().scaled(-1)) && self.proves_not_positive(&below)
    }

    pub(super) fn floor_div_symbolic(&mut self, left: Sum, right: Sum, expr: &Expr) -> Sum {
        let (mut quotient, rest) = self.without_products(&left, &right);
        if rest.as_constant() == Some(0) || self.is_remainder(&rest, &right) {
            return quotient;
        }
        if !self.is_exact(&rest) || !is_safe_part(&rest, &[&left]) {
            return self.undefined(BinaryOp::FloorDiv, &left, &right, expr);
        }
        let (x, y) = (self.range(&rest), self.range(&right));
        let range = self.division_range(x.floor_div(y), (&rest, x), (&right, y));
        let node = self.rebuilt(BinaryOp::FloorDiv, &rest, &right, expr);
        let last = self.opaque(node, range, ModularSet::EVERYTHING);
        quotient.add_scaled(&last, 1);
        quotient
    }

    pub(super) fn floor_mod_symbolic(&mut self, left: Sum, right: Sum, expr: &Expr) -> Sum {
        let (_, rest) = self.without_products(&left, &right);
        if rest.as_constant() == Some(0) {
            return rest;
        }
        if self.is_remainder(&rest, &right) {
            return rest;
        }
        if !self.is_exact(&rest) || !is_safe_part(&rest, &[&left]) {
            return self.undefined(BinaryOp::FloorMod, &left, &right, expr);
        }
        let (x, y) = (self.range(&rest), self.range(&right));
        let range = self.division_range(x.floor_mod(y), (&rest, x), (&right, y));
        let common =
            gcd(gcd(rest.modular().coeff, rest.modular().base), gcd(right.modular().coeff, right.modular().base));
        let node = self.rebuilt(BinaryOp::FloorMod, &rest, &right, expr);
        self.opaque(node, range, ModularSet::new(common.max(1), 0))
    }
}

/// The product without one operand, if it has this operand.
pub(crate) fn without_operand(product: &Expr, operand: &Expr) -> Option<Expr> {
    let ExprNode::Binary { op: BinaryOp::Mul, a, b, .. } = &**product else { return None };
    if same(b, operand) {
        return Some(a.clone());
    }
    if same(a, operand) {
        return Some(b.clone());
    }
    if let Some(rest) = with_stack(|| without_operand(a, operand)) {
        return Some(Expr::binary(BinaryOp::Mul, rest, b));
    }
    with_stack(|| without_operand(b, operand)).map(|rest| Expr::binary(BinaryOp::Mul, a, rest))
}
