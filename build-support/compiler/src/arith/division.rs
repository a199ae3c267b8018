//! Quotients and remainders of canonical sums.
//!
//! Sums are taken as mathematical integers ([`State::sum_of`]); data that may wrap around is a
//! single opaque value. If a sum of indices does not overflow and all of its terms have the same
//! sign, its parts do not overflow either. The bounds of other parts ([`is_safe_part`]), and of
//! expressions that a rule makes larger than the sum, must fit in the type.

use std::rc::Rc;

use super::analyzer::State;
use super::interval::ConstInterval;
use super::modular::{ModularSet, gcd};
use super::render::render;
use super::sum::{Sum, Term, WHOLE};
use super::wrapping::of_division;
use crate::ir::builder::{floor_div, floor_mod, fold_int};
use crate::ir::{BinaryOp, DataTypeExt, Expr, ExprNode};

/// `high * step + low`, with `low` in `0 .. step`.
struct Parted {
    step: i64,
    high: Sum,
    low: Sum,
}

impl State {
    /// Quotient, rounded down.
    pub(crate) fn floor_div(&mut self, left: Sum, right: Sum, expr: &Expr) -> Sum {
        match right.as_constant() {
            Some(0) => right,
            // `WHOLE`, the largest number, represents the absence of a modulus.
            Some(i64::MIN | WHOLE) => self.undefined(BinaryOp::FloorDiv, &left, &right, expr),
            Some(c) if c < 0 && c > -WHOLE => {
                let negated = left.clone().scaled(-1);
                let result = self.strictly(|state| state.floor_div_const(negated, -c, None));
                let wraps = c == -1 && !self.fits_type(&result);
                if result.overflow || wraps { self.undefined(BinaryOp::FloorDiv, &left, &right, expr) } else { result }
            }
            Some(..=-1) => self.undefined(BinaryOp::FloorDiv, &left, &right, expr),
            Some(c) => self.floor_div_const(left, c, dividend(expr)),
            None => self.floor_div_symbolic(left, right, expr),
        }
    }

    /// Remainder with the sign of the divisor.
    pub(crate) fn floor_mod(&mut self, left: Sum, right: Sum, expr: &Expr) -> Sum {
        match right.as_constant() {
            Some(0) => right,
            Some(i64::MIN | WHOLE) => self.undefined(BinaryOp::FloorMod, &left, &right, expr),
            Some(c) if c < 0 && c > -WHOLE => {
                let negated = left.clone().scaled(-1);
                let result = self.strictly(|state| state.floor_mod_const(negated, -c, None)).scaled(-1);
                if result.overflow { self.undefined(BinaryOp::FloorMod, &left, &right, expr) } else { result }
            }
            Some(..=-1) => self.undefined(BinaryOp::FloorMod, &left, &right, expr),
            Some(c) => self.floor_mod_const(left, c, dividend(expr)),
            None => self.floor_mod_symbolic(left, right, expr),
        }
    }

    pub(super) fn undefined(&mut self, op: BinaryOp, left: &Sum, right: &Sum, expr: &Expr) -> Sum {
        let own = ConstInterval::of_type(expr.dtype());
        let (x, y) = (self.range(left), self.range(right));
        let range = if op == BinaryOp::FloorDiv { x.floor_div(y) } else { x.floor_mod(y) };
        let node = self.rebuilt(op, left, right, expr);
        self.opaque(node, of_division(range, x, y, own), ModularSet::EVERYTHING)
    }

    /// Runs `work` in strict mode. For negated sums, which may not fit in their type although the
    /// sums themselves do.
    fn strictly(&mut self, work: impl FnOnce(&mut Self) -> Sum) -> Sum {
        let strict = core::mem::replace(&mut self.strict, true);
        let result = work(self);
        self.strict = strict;
        result
    }

    /// Bounds of a quotient or a remainder.
    pub(super) fn division_range(
        &mut self,
        range: ConstInterval,
        left: (&Sum, ConstInterval),
        right: (&Sum, ConstInterval),
    ) -> ConstInterval {
        let own = ConstInterval::of_type(left.0.dtype);
        if left.0.is_data() || right.0.is_data() || self.may_be_zero(right.0) {
            return of_division(range, left.1, right.1, own);
        }
        // The smallest number divided by -1 wraps to itself.
        if right.1.as_point() == Some(-1) && left.1.min <= own.min { own } else { range.intersect(own) }
    }

    /// Quotient or remainder rounded toward zero: the same as rounded down if nothing is negative.
    pub(crate) fn truncating(&mut self, op: BinaryOp, left: Sum, right: Sum, expr: &Expr) -> Sum {
        if right.as_constant() == Some(0) {
            return right;
        }
        let (x, y) = (self.range(&left), self.range(&right));
        if x.min >= 0 && y.min > 0 {
            return if op == BinaryOp::Div {
                self.floor_div(left, right, expr)
            } else {
                self.floor_mod(left, right, expr)
            };
        }
        if right.as_constant().is_none() {
            let (quotient, rest) = self.without_products(&left, &right);
            if rest.as_constant() == Some(0) {
                return if op == BinaryOp::Div { quotient } else { rest };
            }
        }
        if let (Some(a), Some(b)) = (left.as_constant(), right.as_constant())
            && let Some(value) = fold_int(op, left.dtype, a, b)
        {
            return Sum::constant(left.dtype, value);
        }
        match (op, right.as_constant()) {
            (BinaryOp::Div, Some(1)) => return left,
            (BinaryOp::Mod, Some(1)) => return Sum::constant(left.dtype, 0),
            (_, Some(c)) if c != 0 && c != i64::MIN => {
                // Exact division has no rounding.
                if left.common_scale() % c == 0 && left.base % c == 0 {
                    let quotient =
                        if op == BinaryOp::Div { left.clone().divided(c) } else { Sum::constant(left.dtype, 0) };
                    // The smallest number divided by -1 wraps.
                    if c != -1 || self.fits_type(&quotient) {
                        return quotient;
                    }
                }
                if op == BinaryOp::Mod && left.modular().remainder(c.abs()) == Some(0) {
                    return Sum::constant(left.dtype, 0);
                }
                if op == BinaryOp::Mod && x.min > -c.abs() && x.max < c.abs() {
                    return left;
                }
            }
            _ => {}
        }
        let range = if op == BinaryOp::Div { x.trunc_div(y) } else { x.trunc_mod(y) };
        let range = self.division_range(range, (&left, x), (&right, y));
        let node = self.rebuilt(op, &left, &right, expr);
        self.opaque(node, range, ModularSet::EVERYTHING)
    }

    /// Splits off the terms that `c` divides: `(quotient, rest)`, with `sum = quotient * c + rest`.
    /// All terms stay in the rest if the remaining ones may not fit in the type.
    fn without_multiples(sum: Sum, c: i64) -> (Sum, Sum) {
        let whole = (!has_one_sign(&sum)).then(|| sum.clone());
        let mut quotient = Sum::constant(sum.dtype, 0);
        let mut rest = Sum::constant(sum.dtype, sum.base);
        rest.overflow = sum.overflow;
        for mut term in sum.terms {
            if term.scale % c == 0 {
                term.scale /= c;
                quotient.add_term(term);
                continue;
            }
            // v = part * floordiv(v, part) + remainder, for all values of v, and c divides scale *
            // part.
            let part = c / gcd(term.scale, c);
            let set = term.modular();
            if set.coeff > 1
                && term.upper == WHOLE
                && let Some(remainder) = set.remainder(part)
                && let Some(lower) = product_in(sum.dtype, term.lower, part)
                && let Some(offset) = remainder.checked_mul(term.scale)
            {
                rest.add_base(offset);
                let scale = term.scale / (c / part);
                quotient.add_term(term.with(lower, WHOLE, scale));
                continue;
            }
            rest.add_term(term);
        }
        let reduced = |mut quotient: Sum, mut rest: Sum| {
            quotient.add_base(floor_div(rest.base, c));
            rest.base = floor_mod(rest.base, c);
            (quotient, rest)
        };
        let (quotient, rest) = reduced(quotient, rest);
        match whole {
            Some(whole) if !is_safe_part(&rest, &[&whole]) => reduced(Sum::constant(whole.dtype, 0), whole),
            _ => (quotient, rest),
        }
    }

    /// Finds a divisor `step` of `c` such that the part that it does not divide is less than
    /// `step`.
    fn parted(&mut self, sum: &Sum, c: i64) -> Option<Parted> {
        let mut tried: Vec<i64> = Vec::new();
        loop {
            // The largest step first.
            let mut step = 1;
            for term in &sum.terms {
                let candidate = gcd(term.scale, c);
                if candidate > step && !tried.contains(&candidate) {
                    step = candidate;
                }
            }
            if step == 1 {
                return None;
            }
            tried.push(step);
            let mut low = Sum::constant(sum.dtype, floor_mod(sum.base, step));
            let mut high = Sum::constant(sum.dtype, floor_div(sum.base, step));
            for term in &sum.terms {
                let mut term = term.clone();
                if term.scale % step == 0 {
                    term.scale /= step;
                    high.add_term(term);
                } else {
                    low.add_term(term);
                }
            }
            if let Some(block) = self.range(&low).block(step) {
                high.add_base(block);
                low.add_base(-block * step);
                return Some(Parted { step, high, low });
            }
        }
    }

    /// Quotient by a positive constant.
    fn floor_div_const(&mut self, sum: Sum, c: i64, hint: Option<&Expr>) -> Sum {
        if c == 1 || sum.overflow {
            return sum;
        }
        let (mut quotient, mut rest) = Self::without_multiples(sum, c);
        let mut c = c;
        loop {
            if let Some(block) = self.range(&rest).block(c) {
                quotient.add_base(block);
                return quotient;
            }
            let Some(parted) = self.parted(&rest, c) else { break };
            c /= parted.step;
            if c == 1 {
                quotient.add_scaled(&parted.high, 1);
                return quotient;
            }
            let (whole, left) = Self::without_multiples(parted.high, c);
            quotient.add_scaled(&whole, 1);
            rest = left;
        }
        let last = self.quotient_of(rest, c, hint);
        quotient.add_scaled(&last, 1);
        quotient
    }

    /// `floordiv(rest, c)` as one term.
    fn quotient_of(&mut self, rest: Sum, c: i64, hint: Option<&Expr>) -> Sum {
        let dtype = rest.dtype;
        if let [term] = &rest.terms[..]
            && term.scale == 1
            && let Some(lower) = product_in(dtype, term.lower, c)
        {
            if rest.base == 0 && (term.upper == WHOLE || term.upper % lower == 0) {
                return self.split(dtype, term.with(lower, term.upper, 1));
            }
            // floordiv(floordiv(x, l) + b, c) is floordiv(x + b*l, l*c).
            if term.lower > 1
                && term.upper == WHOLE
                && let Some(base) = rest.base.checked_mul(term.lower)
            {
                let index = term.index.clone();
                let mut dividend = self.sum_of(&index);
                dividend.add_base(base);
                return self.floor_div_const(dividend, lower, None);
            }
        }
        self.composite(&rest, c, WHOLE, hint)
    }

    /// A sum as the index of a term.
    fn composite(&mut self, rest: &Sum, lower: i64, upper: i64, hint: Option<&Expr>) -> Sum {
        if self.strict && !self.fits_type(rest) || !self.is_computable(rest) {
            let mut none = rest.clone();
            none.overflow = true;
            return none;
        }
        let index = render(rest, hint);
        self.remember(&index, &Rc::new(rest.clone()));
        let mut term = Term::whole(index, self.range(rest), rest.modular());
        term.composite = true;
        term.data = rest.is_data();
        self.split(rest.dtype, term.with(lower, upper, 1))
    }

    fn split(&mut self, dtype: kernpack::DataType, term: Term) -> Sum {
        let term = self.refined(term);
        match term.range.as_point() {
            Some(value) => Sum::constant(dtype, value),
            None => Sum::of(dtype, term),
        }
    }

    /// Remainder by a positive constant.
    fn floor_mod_const(&mut self, sum: Sum, c: i64, hint: Option<&Expr>) -> Sum {
        let dtype = sum.dtype;
        if sum.overflow {
            return sum;
        }
        if c == 1 {
            return Sum::constant(dtype, 0);
        }
        if let Some(block) = self.range(&sum).block(c)
            && let Some(offset) = block.checked_mul(c)
        {
            let mut rest = sum;
            rest.add_base(-offset);
            return rest;
        }
        let (_, rest) = Self::without_multiples(sum, c);
        if let Some(remainder) = rest.modular().remainder(c) {
            return Sum::constant(dtype, remainder);
        }
        if let Some(block) = self.range(&rest).block(c) {
            let mut rest = rest;
            rest.add_base(-block * c);
            return rest;
        }
        if let Some(parted) = self.parted(&rest, c) {
            let mut remainder = self.floor_mod_const(parted.high, c / parted.step, None).scaled(parted.step);
            remainder.add_scaled(&parted.low, 1);
            return remainder;
        }
        if let Some(term) = rest.as_term()
            && term.scale == 1
            && let Some(upper) = term.lower.checked_mul(c).filter(|upper| *upper != WHOLE)
            && (term.upper == WHOLE || term.upper % upper == 0)
        {
            return self.split(dtype, term.with(term.lower, upper, 1));
        }
        if let Some(whole) = without_remainders(&rest, c) {
            // The terms may have known bounds even if the bounds of their sum exceed the type.
            let whole = self.taken_apart(whole);
            if !rest.is_data() && no_larger_than_assumed(&whole) || self.fits_type(&whole) {
                return self.floor_mod_const(whole, c, None);
            }
        }
        self.composite(&rest, 1, c, hint)
    }
}

/// Returns true if all terms of a sum are at least 0, or all are at most 0.
pub(super) fn has_one_sign(sum: &Sum) -> bool {
    let all = |holds: fn(ConstInterval) -> bool| sum.terms.iter().all(|term| holds(term.range.scaled(term.scale)));
    all(|range| range.min >= 0) || all(|range| range.max <= 0)
}

/// Tells whether a part of sums of indices does not leave its type. The sums are values of the
/// program, which do not; the part is made of some of their terms, with the same or smaller
/// factors.
///
/// It is no larger than sums whose terms have one sign. In `i*4 - j*3` one term takes away from the
/// other one: `j*3` may be larger than all that the program computes. Such a part is safe if it is
/// a sum up to a factor and a constant, or if its bounds say so. What is assumed then: a value of
/// 32 bits lies in the middle half of its type, as in [`State::is_computable`].
pub(super) fn is_safe_part(part: &Sum, sums: &[&Sum]) -> bool {
    if part.terms.is_empty()
        || !sums.is_empty() && sums.iter().all(|sum| has_one_sign(sum))
        || sums.iter().any(|sum| sum.multiple_of_terms(part).is_some())
    {
        return true;
    }
    let mut part = part.clone();
    if part.dtype.bits() == 32 {
        let most = i64::from(i32::MAX / 2);
        let middle = ConstInterval::new(-most, most);
        part.terms.iter_mut().for_each(|term| term.range = term.range.intersect(middle));
    }
    // The dividend of a quotient does not include the constant.
    let fits = no_larger_than_assumed(&part);
    part.base = 0;
    fits && no_larger_than_assumed(&part)
}

/// Returns true if the bounds of a sum of indices fit in its type. The sum may be larger than all
/// values that the program computes.
///
/// Assumption: the magnitude of a 64-bit index without a known bound is at most `2^47`, the limit
/// of memory sizes.
fn no_larger_than_assumed(sum: &Sum) -> bool {
    const MOST: i64 = 1 << 47;
    let mut range = ConstInterval::point(sum.base);
    for term in &sum.terms {
        let ConstInterval { min, max } = term.range;
        let least = if min == ConstInterval::NEG_INF { -MOST } else { min };
        let most = if max == ConstInterval::POS_INF { MOST } else { max };
        range = range.plus(ConstInterval::new(least, most).scaled(term.scale));
    }
    !sum.overflow && range.is_finite() && ConstInterval::of_type(sum.dtype).includes(range)
}

/// The sum without inner remainders that do not change the outer one, or `None` if there are no
/// such remainders.
///
/// `floormod(floormod(x, 16) + y, 4)` is `floormod(x + y, 4)`. The sum may be larger than it was.
fn without_remainders(sum: &Sum, c: i64) -> Option<Sum> {
    let inner = |term: &Term| {
        term.upper != WHOLE && (term.upper / term.lower).checked_mul(term.scale).is_some_and(|period| period % c == 0)
    };
    if !sum.terms.iter().any(inner) {
        return None;
    }
    let mut whole = Sum::constant(sum.dtype, sum.base);
    for term in &sum.terms {
        whole.add_term(if inner(term) { term.with(term.lower, WHOLE, term.scale) } else { term.clone() });
    }
    Some(whole)
}

/// The product of two divisors, if it can be a divisor of the type.
fn product_in(dtype: kernpack::DataType, a: i64, b: i64) -> Option<i64> {
    a.checked_mul(b).filter(|product| *product != WHOLE && dtype.can_hold(*product))
}

/// The dividend of a node, whose nodes are reused where they equal the simplified ones.
fn dividend(expr: &Expr) -> Option<&Expr> {
    match &**expr {
        ExprNode::Binary { a, .. } => Some(a),
        _ => None,
    }
}
