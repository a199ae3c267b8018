//! Consequences of an inequality: bounds of its terms, and inequalities of the operands of its
//! terms.

use std::rc::Rc;

use super::analyzer::{AtomFact, LinearFact, State, Undo, VarFacts};
use super::interval::ConstInterval;
use super::sum::{Sum, Term, WHOLE, ceil_div};
use crate::ir::builder::floor_div;
use crate::ir::{BinaryOp, Expr, ExprNode, Var};

impl State {
    /// `sum <= 0`.
    pub(crate) fn assume_not_positive(&mut self, sum: &Sum, depth: u32) {
        if sum.overflow || sum.terms.is_empty() || depth == 0 {
            return;
        }
        let common = sum.common_scale();
        let mut fact = sum.clone();
        if common > 1 {
            // k * x + b <= 0 is x + ceildiv(b, k) <= 0.
            fact.base = ceil_div(fact.base, common);
            fact.terms.iter_mut().for_each(|term| term.scale /= common);
        }
        if let [term] = &fact.terms[..] {
            let bounds = if term.scale > 0 {
                ConstInterval::new(i64::MIN, floor_div(fact.base.saturating_neg(), term.scale))
            } else {
                ConstInterval::new(ceil_div(fact.base, -term.scale), i64::MAX)
            };
            let term = term.clone();
            self.refine(&term, bounds, depth);
        } else {
            let fact = Rc::new(fact.clone());
            self.linear.push(LinearFact { sum: fact.clone(), alive: true });
            self.learned(Undo::Linear);
            self.propagate(&fact, depth);
        }
        self.assume_parts(&fact, depth);
    }

    /// Bounds of each term, from those of the others.
    fn propagate(&mut self, fact: &Sum, depth: u32) {
        for (place, term) in fact.terms.iter().enumerate() {
            let mut others = ConstInterval::point(fact.base);
            for (other, term) in fact.terms.iter().enumerate() {
                if other != place {
                    others = others.plus(term.range.scaled(term.scale));
                }
            }
            if others.min == ConstInterval::NEG_INF {
                continue;
            }
            // scale * value <= -others.min
            let most = others.min.saturating_neg();
            let bounds = if term.scale > 0 {
                ConstInterval::new(i64::MIN, floor_div(most, term.scale))
            } else {
                ConstInterval::new(ceil_div(most.saturating_neg(), -term.scale), i64::MAX)
            };
            if !bounds.includes(term.range) {
                self.refine(term, bounds, depth - 1);
            }
        }
    }

    /// Derives facts about other variables from the new bounds of a variable, through earlier
    /// facts.
    fn spread(&mut self, var: &Expr, depth: u32) {
        if depth < 2 {
            return;
        }
        for index in 0..self.linear.len() {
            let fact = &self.linear[index];
            if !fact.alive || !fact.sum.terms.iter().any(|term| term.index.same_as(var)) {
                continue;
            }
            let mut fact = (*fact.sum).clone();
            for term in &mut fact.terms {
                if term.is_whole() && matches!(*term.index, ExprNode::Var { .. }) {
                    term.range = self.var_facts(&term.index).0;
                }
            }
            self.propagate(&fact, depth - 1);
        }
    }

    /// The value of a term (without its factor) lies in an interval.
    fn refine(&mut self, term: &Term, bounds: ConstInterval, depth: u32) {
        if bounds.includes(term.range) {
            return;
        }
        if term.is_whole()
            && !term.composite
            && let Some(var) = Var::of(&term.index)
        {
            let (range, modular, value) = self.var_facts(&term.index);
            let narrow = range.intersect(bounds);
            if narrow != range {
                let takes_zero = self.takes_zero(&var);
                self.set_var(VarFacts { var, range: narrow, modular, value, takes_zero });
                self.spread(&term.index, depth);
            }
            return;
        }
        let mut known = term.clone();
        known.scale = 1;
        known.range = term.range.intersect(bounds);
        self.atoms.push(AtomFact { term: known, alive: true });
        self.learned(Undo::Atom);
        if term.upper == WHOLE && term.lower > 1 && depth > 1 {
            // Bounds of a quotient are bounds of its dividend.
            let index = self.sum_of(&term.index);
            if bounds.max != i64::MAX
                && let Some(most) = bounds.max.checked_add(1).and_then(|next| next.checked_mul(term.lower))
            {
                let mut fact = index.clone();
                fact.add_base(1i64.saturating_sub(most));
                self.assume_not_positive(&fact, depth - 1);
            }
            if bounds.min != i64::MIN
                && let Some(least) = bounds.min.checked_mul(term.lower)
            {
                let mut fact = index.scaled(-1);
                fact.add_base(least);
                self.assume_not_positive(&fact, depth - 1);
            }
        }
    }

    /// Derives facts about the operands of min and max, and about the dividends of quotients.
    fn assume_parts(&mut self, fact: &Sum, depth: u32) {
        for (place, term) in fact.terms.iter().enumerate() {
            let others = || {
                let mut others = fact.clone();
                others.terms.remove(place);
                others
            };
            if term.is_whole()
                && let ExprNode::Binary { op: op @ (BinaryOp::Min | BinaryOp::Max), a, b, .. } = &*term.index
                && (*op == BinaryOp::Max) == (term.scale > 0)
            {
                for operand in [a, b] {
                    let mut part = others();
                    let operand = self.sum_of(operand);
                    part.add_scaled(&operand, term.scale);
                    self.assume_not_positive(&part, depth - 1);
                }
            } else if term.upper == WHOLE && term.lower > 1 && term.scale.abs() == 1 && fact.terms.len() > 1 {
                // floordiv(x, c) + r <= 0 is x + c*r - (c-1) <= 0, and r - floordiv(x, c) <= 0 is
                // c*r - x <= 0.
                let mut part = others().scaled(term.lower);
                let index = self.sum_of(&term.index);
                part.add_scaled(&index, term.scale);
                if term.scale > 0 {
                    part.add_base(1 - term.lower);
                }
                self.assume_not_positive(&part, depth - 1);
            }
        }
    }
}
