//! Proofs of linear inequalities from bounds and facts.

use super::analyzer::State;
use super::interval::ConstInterval;
use super::modular::{ModularSet, gcd};
use super::normalize::same_sums;
use super::sum::{Sum, Term, WHOLE};
use crate::ir::shared::{ByAddress, is_shared};
use crate::ir::{BinaryOp, CompareOp, Expr, ExprNode, LogicOp, with_stack};

/// The limit on the work of a proof.
struct Effort {
    depth: u32,
    steps: u32,
}

impl State {
    /// The bounds of a sum: those of its terms, tightened by divisibility and by facts about
    /// exactly this sum.
    pub(crate) fn range(&self, sum: &Sum) -> ConstInterval {
        let mut range = sum.range();
        if sum.overflow || sum.terms.len() < 2 {
            return range;
        }
        for fact in &self.linear {
            if !fact.alive || fact.sum.terms.len() != sum.terms.len() {
                continue;
            }
            // sum - base = k * (fact - base) and fact <= 0
            let Some(factor) = sum.multiple_of_terms(&fact.sum) else { continue };
            let Some(end) = fact.sum.base.checked_mul(-factor).and_then(|end| end.checked_add(sum.base)) else {
                continue;
            };
            let half = if factor > 0 { ConstInterval::new(i64::MIN, end) } else { ConstInterval::new(end, i64::MAX) };
            range = range.intersect(half);
        }
        if range.min == ConstInterval::NEG_INF && range.max == ConstInterval::POS_INF {
            return range;
        }
        let set = sum.modular();
        if set.coeff > 1 {
            range = aligned(range, set);
        }
        range
    }

    /// Proves `sum <= 0` with little work, for simplification.
    pub(crate) fn proves_not_positive(&mut self, sum: &Sum) -> bool {
        if self.range(sum).max <= 0 {
            return true;
        }
        if self.proving {
            return false;
        }
        self.proving = true;
        let proved = self.prove(sum, &mut Effort { depth: 4, steps: 8 });
        self.proving = false;
        proved
    }

    /// Proves `sum <= 0` with more work.
    fn proves_strongly(&mut self, sum: &Sum) -> bool {
        let nested = core::mem::replace(&mut self.proving, true);
        let proved = self.prove(sum, &mut Effort { depth: 6, steps: 96 });
        self.proving = nested;
        proved
    }

    fn prove(&mut self, sum: &Sum, effort: &mut Effort) -> bool {
        if sum.overflow {
            return false;
        }
        if self.range(sum).max <= 0 {
            return true;
        }
        if effort.depth == 0 || effort.steps == 0 || sum.terms.is_empty() {
            return false;
        }
        effort.steps -= 1;
        effort.depth -= 1;
        let proved = with_stack(|| self.prove_by_parts(sum, effort) || self.prove_by_facts(sum, effort));
        effort.depth += 1;
        proved
    }

    /// Proves by cases of min, max and selects, and with quotients written as dividend and
    /// remainder.
    fn prove_by_parts(&mut self, sum: &Sum, effort: &mut Effort) -> bool {
        for place in 0..sum.terms.len() {
            let term = &sum.terms[place];
            if term.upper == WHOLE && term.lower > 1 {
                // lower * quotient = index - remainder
                let factor = term.lower / gcd(term.lower, term.scale);
                let mut whole = sum.clone();
                let term = whole.terms.remove(place);
                let mut whole = whole.scaled(factor);
                let Some(scale) = term.scale.checked_mul(factor) else { continue };
                let scale = scale / term.lower;
                let index = self.sum_of(&term.index);
                whole.add_scaled(&index, scale);
                whole.add_term(self.refined(term.with(1, term.lower, 1)).with_scale(-scale));
                let whole = self.taken_apart(whole);
                return self.prove(&whole, effort);
            }
            if !term.is_whole() {
                continue;
            }
            let (cases, all) = match &*term.index {
                ExprNode::Binary { op: BinaryOp::Min, a, b, .. } => ([a.clone(), b.clone()], term.scale < 0),
                ExprNode::Binary { op: BinaryOp::Max, a, b, .. } => ([a.clone(), b.clone()], term.scale > 0),
                ExprNode::Select { true_value: a, false_value: b, .. }
                | ExprNode::IfThenElse { then_value: a, else_value: b, .. } => ([a.clone(), b.clone()], true),
                _ => continue,
            };
            let mut proved = all;
            for case in &cases {
                let mut other = sum.clone();
                let term = other.terms.remove(place);
                let value = self.sum_of(case);
                other.add_scaled(&value, term.scale);
                let holds = self.prove(&other, effort);
                if holds != all {
                    proved = holds;
                    break;
                }
            }
            return proved;
        }
        false
    }

    /// Adds a multiple of a fact that eliminates a term.
    fn prove_by_facts(&mut self, sum: &Sum, effort: &mut Effort) -> bool {
        // A term without a bound on the relevant side has to be eliminated.
        let open = sum.terms.iter().position(|term| term.range.scaled(term.scale).max == ConstInterval::POS_INF);
        let (first, last) = open.map_or((0, sum.terms.len()), |place| (place, place + 1));
        for place in first..last {
            let term = sum.terms[place].clone();
            for index in 0..self.linear.len() {
                if !self.linear[index].alive {
                    continue;
                }
                let fact = self.linear[index].sum.clone();
                let scale = fact.scale_of(&term);
                if scale == 0 || (scale > 0) != (term.scale > 0) {
                    continue;
                }
                // |scale| * sum <= |term.scale| * fact + rest, where fact <= 0: so rest <= 0 is
                // sufficient.
                let common = gcd(scale, term.scale);
                let (Some(of_sum), Some(of_fact)) = (scale.checked_abs(), term.scale.checked_abs()) else { continue };
                let mut rest = sum.clone().scaled(of_sum / common);
                rest.add_scaled(&fact, -(of_fact / common));
                if !rest.overflow && self.prove(&rest, effort) {
                    return true;
                }
                if effort.steps == 0 {
                    return false;
                }
            }
            if self.prove_by_product(sum, &term, effort) {
                return true;
            }
        }
        false
    }

    /// The term is a product `x * y` with `y >= 0`: facts about `x` are multiplied by `y`.
    fn prove_by_product(&mut self, sum: &Sum, term: &Term, effort: &mut Effort) -> bool {
        let ExprNode::Binary { op: BinaryOp::Mul, a, b, .. } = &*term.index else { return false };
        if !term.is_whole() || term.data {
            return false;
        }
        for (x, y) in [(a, b), (b, a)] {
            let (x, y) = (self.sum_of(x), self.sum_of(y));
            if self.range(&y).min < 0 {
                continue;
            }
            for index in 0..self.linear.len() {
                if !self.linear[index].alive {
                    continue;
                }
                let fact = self.linear[index].sum.clone();
                let Some(factor) = x.terms.first().map(|first| fact.scale_of(first)) else { break };
                let own = x.terms[0].scale;
                if factor == 0
                    || (factor > 0) != (own * term.scale.signum() > 0)
                    || term.scale % factor != 0
                    || own.abs() != 1
                {
                    continue;
                }
                let mut rest = sum.clone();
                let product = self.expanded(&fact, &y);
                rest.add_scaled(&product, -(term.scale / factor).abs());
                let rest = self.expanded_sum(&rest);
                if self.prove(&rest, effort) {
                    return true;
                }
            }
        }
        false
    }

    /// The product of two sums, multiplied out; only for indices.
    fn expanded(&mut self, left: &Sum, right: &Sum) -> Sum {
        let mut product = right.clone().scaled(left.base);
        product.overflow |= left.is_data() || right.is_data();
        product.add_scaled(left, right.base);
        product.add_base(left.base.saturating_mul(right.base).saturating_neg());
        for x in &left.terms {
            for y in &right.terms {
                let (a, b) = (Sum::of(left.dtype, x.clone()), Sum::of(right.dtype, y.clone()));
                let hint = y.index.clone();
                let part = self.product(a, b, &hint);
                product.add_scaled(&part, 1);
            }
        }
        product
    }

    /// The sum with products of sums multiplied out, where they are indices.
    pub(crate) fn expanded_sum(&mut self, sum: &Sum) -> Sum {
        let mut result = Sum::constant(sum.dtype, sum.base);
        result.overflow = sum.overflow;
        for term in &sum.terms {
            match &*term.index {
                ExprNode::Binary { op: BinaryOp::Mul, a, b, .. } if term.is_whole() && !term.data => {
                    let (a, b) = (self.sum_of(a), self.sum_of(b));
                    let (a, b) = with_stack(|| (self.expanded_sum(&a), self.expanded_sum(&b)));
                    if a.terms.len() + usize::from(a.base != 0) > 1 || b.terms.len() + usize::from(b.base != 0) > 1 {
                        let product = self.expanded(&a, &b);
                        result.add_scaled(&product, term.scale);
                    } else {
                        result.add_term(term.clone());
                    }
                }
                _ => result.add_term(term.clone()),
            }
        }
        result
    }

    fn prove_difference(&mut self, difference: &Sum) -> bool {
        if self.proves_strongly(difference) {
            return true;
        }
        let products = difference
            .terms
            .iter()
            .any(|term| matches!(&*term.index, ExprNode::Binary { op: BinaryOp::Mul, .. } if term.is_whole()));
        if !products {
            return false;
        }
        let expanded = self.expanded_sum(difference);
        self.proves_strongly(&expanded)
    }

    pub(crate) fn can_prove(&mut self, condition: &Expr) -> bool {
        let simple = self.simplify(condition);
        self.holds(&simple, &mut ByAddress::default())
    }

    /// Returns true if a condition holds; `known` memoizes the results of its parts.
    fn holds(&mut self, condition: &Expr, known: &mut ByAddress<bool>) -> bool {
        let shared = is_shared(condition);
        if shared && let Some(known) = known.get(&condition.address()) {
            return *known;
        }
        let holds = self.holds_itself(condition, known);
        if shared {
            known.insert(condition.address(), holds);
        }
        holds
    }

    fn holds_itself(&mut self, condition: &Expr, known: &mut ByAddress<bool>) -> bool {
        with_stack(|| match &**condition {
            ExprNode::Int { .. } => condition.is_true(),
            ExprNode::Broadcast { value, .. } => self.holds(value, known),
            ExprNode::Logic { op: LogicOp::And, a, b } => self.holds(a, known) && self.holds(b, known),
            ExprNode::Logic { op: LogicOp::Or, a, b } => self.holds(a, known) || self.holds(b, known),
            ExprNode::Call { .. } if condition.without_likely().1 => self.holds(&condition.without_likely().0, known),
            ExprNode::Compare { op, a, b } if super::facts::is_index(a) => {
                let difference = self.sum_of(a).minus(&self.sum_of(b));
                self.relation_holds(*op, difference)
            }
            _ => false,
        })
    }

    /// Returns true if `difference op 0` provably holds.
    pub(crate) fn relation_holds(&mut self, op: CompareOp, difference: Sum) -> bool {
        let shifted = |sum: &Sum, by: i64| {
            let mut sum = sum.clone();
            sum.add_base(by);
            sum
        };
        match op {
            CompareOp::Le => self.prove_difference(&difference),
            CompareOp::Lt => self.prove_difference(&shifted(&difference, 1)),
            CompareOp::Ge => self.prove_difference(&difference.scaled(-1)),
            CompareOp::Gt => self.prove_difference(&shifted(&difference.scaled(-1), 1)),
            CompareOp::Eq => {
                let expanded = self.expanded_sum(&difference);
                expanded.as_constant() == Some(0)
                    || self.prove_difference(&difference) && self.prove_difference(&difference.scaled(-1))
            }
            CompareOp::Ne => {
                !difference.modular().contains(0)
                    || self.prove_difference(&shifted(&difference, 1))
                    || self.prove_difference(&shifted(&difference.scaled(-1), 1))
            }
        }
    }

    pub(crate) fn can_prove_equal(&mut self, a: &Expr, b: &Expr) -> bool {
        if super::same::same(a, b) {
            return true;
        }
        if !super::facts::is_index(a) || !super::facts::is_index(b) {
            let (a, b) = (self.simplify(a), self.simplify(b));
            return super::same::same(&a, &b);
        }
        let (x, y) = (self.ring_sum(a), self.ring_sum(b));
        if same_sums(&x, &y) {
            return true;
        }
        let (a, b) = (self.settled(x, Some(a)), self.settled(y, Some(b)));
        same_sums(&a, &b) || self.relation_holds(CompareOp::Eq, a.minus(&b))
    }
}

/// The part of the range that starts and ends with members of the set.
fn aligned(range: ConstInterval, set: ModularSet) -> ConstInterval {
    let (base, coeff) = (i128::from(set.base), i128::from(set.coeff));
    // Members near the ends of i64 may be beyond them.
    let down = |value: i128| (value - base).div_euclid(coeff) * coeff + base;
    let end = |member: i128, old: i64| i64::try_from(member).unwrap_or(old);
    let min = match range.min {
        ConstInterval::NEG_INF => range.min,
        least => end(down(i128::from(least) + coeff - 1), least),
    };
    let max = match range.max {
        ConstInterval::POS_INF => range.max,
        most => end(down(i128::from(most)), most),
    };
    if min <= max { ConstInterval { min, max } } else { range }
}

impl Term {
    fn with_scale(mut self, scale: i64) -> Self {
        self.scale = scale;
        self
    }
}
