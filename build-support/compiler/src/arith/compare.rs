//! Comparisons of canonical sums.

use super::analyzer::State;
use super::division::is_safe_part;
use super::render::render;
use super::sum::{Sum, WHOLE};
use crate::ir::builder::{floor_div, wrap_int};
use crate::ir::{BinaryOp, CompareOp, Expr, ExprNode, with_stack};

/// Builds a comparison, or the constant that it folds to.
pub(crate) fn comparison(op: CompareOp, a: Expr, b: Expr, hint: Option<&Expr>) -> Expr {
    if let Some(hint) = hint
        && let ExprNode::Compare { op: own, a: x, b: y } = &**hint
        && *own == op
        && x.same_as(&a)
        && y.same_as(&b)
    {
        return hint.clone();
    }
    Expr::from_node(ExprNode::Compare { op, a, b })
}

impl State {
    /// Simplifies a comparison of two scalars of an index type.
    pub(crate) fn compare(&mut self, op: CompareOp, a: &Expr, b: &Expr, expr: &Expr) -> Expr {
        let (left, right) = (self.ring_sum(a), self.ring_sum(b));
        if matches!(op, CompareOp::Eq | CompareOp::Ne)
            && let Some(difference) = left.minus(&right).as_constant()
        {
            // This also holds modulo 2^n.
            return Expr::bool((wrap_int(left.dtype, difference) == 0) == (op == CompareOp::Eq));
        }
        let (left, right) = (self.settled(left, Some(a)), self.settled(right, Some(b)));
        if let (Some(x), Some(y)) = (left.as_number(), right.as_number()) {
            return Expr::compare(op, Expr::int(x), Expr::int(y));
        }
        if let Some(known) = at_limit(op, &left, &right) {
            return Expr::bool(known);
        }
        let result = self.compare_sums(op, &left, &right, expr);
        if !result.same_as(expr) {
            return result;
        }
        comparison(op, render(&left, Some(a)), render(&right, Some(b)), Some(expr))
    }

    /// Compares whole numbers; returns `expr` if nothing is known about them.
    fn compare_sums(&mut self, op: CompareOp, left: &Sum, right: &Sum, expr: &Expr) -> Expr {
        let difference = left.minus(right);
        if difference.overflow {
            return expr.clone();
        }
        match op {
            CompareOp::Eq | CompareOp::Ne => self.equality(op, difference, &[left, right], expr),
            _ => {
                // All relations become `sum < 0`.
                let mut sum =
                    if matches!(op, CompareOp::Gt | CompareOp::Ge) { difference.scaled(-1) } else { difference };
                if matches!(op, CompareOp::Le | CompareOp::Ge) {
                    sum.add_base(-1);
                }
                self.negative(sum, &[left, right], expr)
            }
        }
    }

    /// `sum < 0`. The sum is made of the terms of `own`: sums whose values the program computes.
    fn negative(&mut self, mut sum: Sum, own: &[&Sum], expr: &Expr) -> Expr {
        loop {
            if sum.overflow {
                return expr.clone();
            }
            let range = self.range(&sum);
            if range.max < 0 {
                return Expr::bool(true);
            }
            if range.min >= 0 {
                return Expr::bool(false);
            }
            if let Some(reduced) = self.reduced(&sum) {
                sum = reduced;
                continue;
            }
            if let Some((dividend, index)) = self.dividend_negative(&sum) {
                return with_stack(|| self.negative(dividend, &[&index], expr));
            }
            break;
        }
        let mut past = sum.clone();
        past.add_base(1);
        if self.proves_not_positive(&past) {
            return Expr::bool(true);
        }
        if self.proves_not_positive(&sum.clone().scaled(-1)) {
            return Expr::bool(false);
        }
        if let Some(parts) = with_stack(|| self.by_extreme(&sum, expr)) {
            return parts;
        }
        self.render_negative(&sum, own, expr)
    }

    /// The comparison of a quotient as one of its dividend: `floordiv(x, c) < b` is `x < b*c`, and
    /// `b < floordiv(x, c)` is `(b + 1)*c - 1 < x`. Returns the sum that is negative, and `x`.
    fn dividend_negative(&mut self, sum: &Sum) -> Option<(Sum, Sum)> {
        let [term] = &sum.terms[..] else { return None };
        if term.upper != WHOLE || term.lower == 1 || term.scale.abs() != 1 {
            return None;
        }
        let mut base = sum.base.checked_mul(term.lower)?;
        if term.scale < 0 {
            base = base.checked_add(term.lower - 1)?;
        }
        let mut dividend = Sum::constant(sum.dtype, 0);
        dividend.add_base(base);
        let index = self.sum_of(&term.index);
        dividend.add_scaled(&index, term.scale);
        let dividend = self.taken_apart(dividend);
        dividend.fits().then_some((dividend, index))
    }

    /// `sum < 0` without a common factor, and without terms that cannot change the result.
    fn reduced(&mut self, sum: &Sum) -> Option<Sum> {
        let common = sum.common_scale();
        if common > 1 {
            // g*x + b < 0 is x + floordiv(b, g) < 0.
            let mut reduced = sum.clone();
            reduced.base = floor_div(reduced.base, common);
            reduced.terms.iter_mut().for_each(|term| term.scale /= common);
            return Some(reduced);
        }
        if sum.terms.len() < 2 {
            return None;
        }
        // step*high + low < 0 with low in block*step .. (block+1)*step is high + block < 0.
        let mut tried: Vec<i64> = vec![1];
        for place in 0..sum.terms.len() {
            let step = sum.terms[place].scale.checked_abs()?;
            if tried.contains(&step) {
                continue;
            }
            tried.push(step);
            let mut low = Sum::constant(sum.dtype, sum.base);
            let mut high = Sum::constant(sum.dtype, 0);
            for term in &sum.terms {
                let mut term = term.clone();
                if term.scale % step == 0 {
                    term.scale /= step;
                    high.terms.push(term);
                } else {
                    low.terms.push(term);
                }
            }
            if let Some(block) = self.range(&low).block(step) {
                high.add_base(block);
                return Some(high);
            }
        }
        None
    }

    /// `min(x, y) + z < 0` where one of the operands decides.
    fn by_extreme(&mut self, sum: &Sum, expr: &Expr) -> Option<Expr> {
        for (place, term) in sum.terms.iter().enumerate() {
            let ExprNode::Binary { op: op @ (BinaryOp::Min | BinaryOp::Max), a, b, .. } = &*term.index else {
                continue;
            };
            if !term.is_whole() {
                continue;
            }
            if self.cases == 0 {
                return None;
            }
            self.cases -= 1;
            // min(x, y) < z and z < max(x, y) hold if one of the two comparisons holds.
            let any = (*op == BinaryOp::Min) == (term.scale > 0);
            let mut parts = Vec::with_capacity(2);
            for operand in [a, b] {
                let mut part = sum.clone();
                part.terms.remove(place);
                let operand = self.sum_of(operand);
                part.add_scaled(&operand, term.scale);
                // With other terms or a factor, the part may be larger than what the program
                // computes.
                let own = [&operand];
                let own = if sum.terms.len() == 1 { &own[..] } else { &[] };
                parts.push(self.negative(part, own, expr));
            }
            let decided = |part: &Expr| part.is_true() || part.is_false();
            // A part that cannot be written stays the whole comparison.
            let written = parts.iter().all(|part| !part.same_as(expr));
            if decided(&parts[0]) || decided(&parts[1]) || sum.terms.len() <= 2 && written {
                let (first, second) = (parts[0].clone(), parts[1].clone());
                return Some(if any { first.or(second) } else { first.and(second) });
            }
        }
        None
    }

    /// `difference == 0` or `!= 0`; the difference is made of the terms of `own`.
    fn equality(&mut self, op: CompareOp, difference: Sum, own: &[&Sum], expr: &Expr) -> Expr {
        let equal = op == CompareOp::Eq;
        let range = self.range(&difference);
        if range.as_point() == Some(0) {
            return Expr::bool(equal);
        }
        if !range.contains(0) || !difference.modular().contains(0) {
            return Expr::bool(!equal);
        }
        let common = difference.common_scale();
        let difference = if common > 1 {
            if difference.base % common != 0 {
                return Expr::bool(!equal);
            }
            difference.divided(common)
        } else {
            difference
        };
        let below = self.proves_not_positive(&difference);
        let above = self.proves_not_positive(&difference.clone().scaled(-1));
        if below && above {
            return Expr::bool(equal);
        }
        let mut past = difference.clone();
        past.add_base(1);
        if self.proves_not_positive(&past) {
            return Expr::bool(!equal);
        }
        let mut past = difference.clone().scaled(-1);
        past.add_base(1);
        if self.proves_not_positive(&past) {
            return Expr::bool(!equal);
        }
        let (left, right) = sides(&difference);
        if left.terms.is_empty() || right.terms.is_empty() && left.base != 0 {
            // The constant stands on the right.
            let sign = if left.terms.is_empty() { -1 } else { 1 };
            let mut terms = difference.scaled(sign);
            let base = terms.base.saturating_neg();
            terms.base = 0;
            return self.rendered(op, &terms, &Sum::constant(terms.dtype, base), own, expr);
        }
        self.rendered(op, &left, &right, own, expr)
    }

    /// The comparison of two sums; `expr` if one of them may not fit in its type.
    fn rendered(&self, op: CompareOp, left: &Sum, right: &Sum, own: &[&Sum], expr: &Expr) -> Expr {
        if [left, right].iter().any(|side| !self.is_computable(side) || !is_safe_part(side, own)) {
            return expr.clone();
        }
        let (a, b) = match &**expr {
            ExprNode::Compare { a, b, .. } => (Some(a), Some(b)),
            _ => (None, None),
        };
        comparison(op, render(left, a), render(right, b), Some(expr))
    }

    /// `sum < 0` with each term where its factor is positive.
    fn render_negative(&self, sum: &Sum, own: &[&Sum], expr: &Expr) -> Expr {
        let (mut left, mut right) = sides(sum);
        // A constant stands alone on its side if it can.
        if right.terms.is_empty() {
            right.base = sum.base.saturating_neg();
            left.base = 0;
        } else if left.terms.is_empty() {
            left.base = sum.base;
            right.base = 0;
        } else if sum.base == -1 {
            right.base = 0;
            return self.rendered(CompareOp::Le, &left, &right, own, expr);
        }
        self.rendered(CompareOp::Lt, &left, &right, own, expr)
    }
}

/// The comparison with an end of the type, if it is the same for all values.
fn at_limit(op: CompareOp, left: &Sum, right: &Sum) -> Option<bool> {
    let bits = u32::from(left.dtype.bits());
    let (min, max) = (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits));
    match (op, left.as_number(), right.as_number()) {
        (CompareOp::Ge, Some(end), _) | (CompareOp::Le, _, Some(end)) if end == max => Some(true),
        (CompareOp::Lt, Some(end), _) | (CompareOp::Gt, _, Some(end)) if end == max => Some(false),
        (CompareOp::Le, Some(end), _) | (CompareOp::Ge, _, Some(end)) if end == min => Some(true),
        (CompareOp::Gt, Some(end), _) | (CompareOp::Lt, _, Some(end)) if end == min => Some(false),
        _ => None,
    }
}

/// Terms with positive factors and the positive constant, and the negated others: `left - right` is
/// the sum.
fn sides(sum: &Sum) -> (Sum, Sum) {
    let (mut left, mut right) = (Sum::constant(sum.dtype, 0), Sum::constant(sum.dtype, 0));
    for term in &sum.terms {
        let mut term = term.clone();
        if term.scale > 0 {
            left.terms.push(term);
        } else {
            term.scale = term.scale.saturating_neg();
            right.terms.push(term);
        }
    }
    if sum.base > 0 {
        left.base = sum.base
    } else {
        right.base = sum.base.saturating_neg()
    }
    (left, right)
}
