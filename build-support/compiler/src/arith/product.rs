//! Products of canonical sums.
//!
//! Sums may wrap here: products are correct modulo `2^n`. For data, bounds, and divisibility by
//! more than a power of two up to `2^n`, are known only where the bounds lie inside of the type.
//! Terms with a divisor that may be 0 are not joined.

use super::analyzer::State;
use super::interval::ConstInterval;
use super::modular::gcd;
use super::normalize::same_sums;
use super::render::render;
use super::same::same;
use super::sum::Sum;
use crate::ir::{BinaryOp, Expr, ExprNode};

impl State {
    /// A product. Constants become factors; `(floordiv(x, n) + y) * n` is multiplied out.
    pub(crate) fn product(&mut self, left: Sum, right: Sum, expr: &Expr) -> Sum {
        if let Some(value) = right.as_constant() {
            return left.scaled(value);
        }
        if let Some(value) = left.as_constant() {
            return right.scaled(value);
        }
        for (sum, by) in [(&left, &right), (&right, &left)] {
            if sum.terms.len() + usize::from(sum.base != 0) > 1 && divides_inside(sum, by) {
                let mut product = by.clone().scaled(sum.base);
                for term in &sum.terms {
                    let part = self.product(Sum::of(sum.dtype, term.clone()), by.clone(), expr);
                    product.add_scaled(&part, 1);
                }
                return product;
            }
        }
        let (left, factor) = without_factor(left);
        let (right, other) = without_factor(right);
        let Some(factor) = factor.checked_mul(other) else {
            let mut product = left;
            product.overflow = true;
            return product;
        };
        let mut range = self.value_range(&left).times(self.value_range(&right));
        if same_sums(&left, &right) {
            range = range.intersect(ConstInterval::new(0, i64::MAX));
        }
        let mut modular = self.value_modular(&left).times(self.value_modular(&right));
        let own = ConstInterval::of_type(left.dtype);
        if (left.is_data() || right.is_data()) && !(range.is_finite() && own.includes(range)) {
            let ring = |sum: &Sum| sum.modular().wrapped(sum.dtype);
            (range, modular) = (own, ring(&left).times(ring(&right)).wrapped(left.dtype));
        }
        let node = self.rebuilt(BinaryOp::Mul, &left, &right, expr);
        self.opaque(node, range, modular).scaled(factor)
    }

    /// `floordiv(x, n) * n + floormod(x, n)` is `x`.
    pub(super) fn join_products(&mut self, sum: &mut Sum) {
        let mut place = 0;
        while place < sum.terms.len() {
            let term = &sum.terms[place];
            place += 1;
            if sum.terms.len() == 1 || !term.is_whole() {
                continue;
            }
            let (index, scale) = (term.index.clone(), term.scale);
            let ExprNode::Binary { op: BinaryOp::Mul, a, b, .. } = &*index else { continue };
            for (quotient, by) in [(a, b), (b, a)] {
                let ExprNode::Binary { op: BinaryOp::FloorDiv, a: x, b: n, .. } = &**quotient else { continue };
                // With a divisor of 0, quotient and remainder are 0.
                if !same(n, by) || self.divides_by_zero(n) {
                    continue;
                }
                let rest = sum.terms.iter().position(|other| {
                    other.scale == scale
                        && other.is_whole()
                        && matches!(&*other.index, ExprNode::Binary { op: BinaryOp::FloorMod, a, b, .. } if same(a, x) && same(b, n))
                });
                if let Some(rest) = rest {
                    let x = x.clone();
                    let (first, second) = (rest.max(place - 1), rest.min(place - 1));
                    sum.terms.remove(first);
                    sum.terms.remove(second);
                    let x = self.sum_of(&x);
                    sum.add_scaled(&x, scale);
                    place = 0;
                    break;
                }
            }
        }
    }
}

/// Returns true if a term of the sum is a quotient by exactly `by`.
fn divides_inside(sum: &Sum, by: &Sum) -> bool {
    let quotients = sum.terms.iter().filter_map(|term| match &*term.index {
        ExprNode::Binary { op: BinaryOp::FloorDiv, b, .. } if term.is_whole() => Some(b),
        _ => None,
    });
    let mut divisor = None;
    for quotient in quotients {
        let divisor = divisor.get_or_insert_with(|| render(by, None));
        if same(quotient, divisor) {
            return true;
        }
    }
    false
}

/// The sum divided by the greatest common factor of its numbers, and that factor; for a single
/// term, the factor has its sign.
fn without_factor(sum: Sum) -> (Sum, i64) {
    let mut common = gcd(sum.common_scale(), sum.base);
    if let [term] = &sum.terms[..]
        && sum.base == 0
    {
        common = term.scale;
    }
    if common == 0 || common == 1 { (sum, 1) } else { (sum.divided(common), common) }
}
