//! Recording of facts about variables and conditions.

use std::rc::Rc;

use super::analyzer::{AtomFact, Literal, State, Undo, Value, VarFacts};
use super::interval::ConstInterval;
use super::modular::ModularSet;
use super::sum::{Sum, Term};
use super::wrapping::is_zero_for_some_sizes;
use crate::ir::builtin::{Effect, effect};
use crate::ir::shared::Seen;
use crate::ir::visit::{has_part, uses_var};
use crate::ir::{BinaryOp, CompareOp, DataTypeExt, Expr, ExprNode, LogicOp, Range, Var, with_stack};

/// The depth to which facts are derived from other facts.
pub(crate) const DEPTH: u32 = 4;

/// Returns true if the value of an expression does not depend on memory that may change.
pub(crate) fn is_stable(expr: &Expr) -> bool {
    !has_part(expr, |part| match &**part {
        ExprNode::Load { .. } | ExprNode::TensorRead { .. } => true,
        ExprNode::Call { kind, name, .. } => effect(*kind, name.as_str()) != Effect::Pure,
        _ => false,
    })
}

/// Returns the factors of a product, or `None` for other expressions.
pub(super) fn factors_of(expr: &Expr) -> Option<Vec<&Expr>> {
    fn note<'a>(expr: &'a Expr, factors: &mut Vec<&'a Expr>) {
        match &**expr {
            // Parts may be shared.
            ExprNode::Binary { op: BinaryOp::Mul, a, b, .. } if factors.len() < 8 => with_stack(|| {
                note(a, factors);
                note(b, factors);
            }),
            _ => factors.push(expr),
        }
    }
    let mut factors = Vec::new();
    note(expr, &mut factors);
    (factors.len() > 1).then_some(factors)
}

impl State {
    /// The facts about a variable; without any, the range of its type.
    pub(crate) fn var_facts(&self, expr: &Expr) -> (ConstInterval, ModularSet, Option<Value>) {
        match self.vars.get(&expr.address()) {
            Some(facts) => (facts.range, facts.modular, facts.value.clone()),
            None => (type_range(expr), ModularSet::EVERYTHING, None),
        }
    }

    /// Records that the variable always lies in an interval.
    pub(crate) fn know_range(&mut self, var: &Var, range: ConstInterval) {
        let facts =
            VarFacts { var: var.clone(), range, modular: ModularSet::EVERYTHING, value: None, takes_zero: true };
        self.vars.insert(var.address(), facts);
    }

    pub(crate) fn set_var(&mut self, facts: VarFacts) {
        let address = facts.var.address();
        let old = self.vars.insert(address, facts);
        self.learned(Undo::Var(address, old));
    }

    /// Discards the facts about a previous binding of the variable.
    fn forget(&mut self, var: &Var) {
        if !self.vars.contains_key(&var.address()) {
            return;
        }
        let names = |term: &Term| uses_var(&term.index, |used| used == var);
        for index in 0..self.linear.len() {
            let fact = &mut self.linear[index];
            if fact.alive && fact.sum.terms.iter().any(names) {
                fact.alive = false;
                self.learned(Undo::ReviveLinear(index));
            }
        }
        for index in 0..self.atoms.len() {
            let fact = &mut self.atoms[index];
            if fact.alive && names(&fact.term) {
                fact.alive = false;
                self.learned(Undo::ReviveAtom(index));
            }
        }
        for index in 0..self.literals.len() {
            let fact = &mut self.literals[index];
            if fact.alive && uses_var(&fact.condition, |used| used == var) {
                fact.alive = false;
                self.learned(Undo::ReviveLiteral(index));
            }
        }
    }

    pub(crate) fn bind_range(&mut self, var: &Var, range: &Range) {
        self.forget(var);
        if !is_index(var) {
            return;
        }
        let (min, extent) = (self.sum_of(&range.min), self.sum_of(&range.extent));
        let mut max = min.clone();
        max.add_scaled(&extent, 1);
        max.add_base(-1);
        let (least, most) = (self.range(&min), self.range(&max));
        // The extent may be known better than the end: `n - 8*i` after `8*i`.
        let size = self.range(&extent);
        let most = most.max.min(least.plus(size).plus(ConstInterval::point(-1)).max);
        let bounds = ConstInterval { min: least.min, max: most };
        let bounds = if bounds.min <= bounds.max { bounds.intersect(type_range(var)) } else { type_range(var) };
        let modular = if extent.as_constant() == Some(1) { min.modular() } else { ModularSet::EVERYTHING };
        let value =
            (extent.as_constant() == Some(1) && min.as_constant().is_some()).then(|| Value::Sum(Rc::new(min.clone())));
        self.set_var(VarFacts { var: var.clone(), range: bounds, modular, value, takes_zero: true });
        let mut own = Sum::constant(var.dtype(), 0);
        self.add(&mut own, var, 1);
        if !min.terms.is_empty() {
            self.assume_not_positive(&min.minus(&own), DEPTH);
        }
        if !max.terms.is_empty() {
            self.assume_not_positive(&own.minus(&max), DEPTH);
        }
        if extent.as_constant().is_none() {
            self.know_factors(&range.extent);
        }
    }

    /// Inside a loop its extent is positive, and so are its factors if at most one may be negative.
    fn know_factors(&mut self, extent: &Expr) {
        let Some(factors) = factors_of(extent) else { return };
        let sums: Vec<Sum> = factors.into_iter().map(|factor| self.sum_of(factor)).collect();
        if sums.iter().filter(|sum| self.range(sum).min < 0).count() > 1 {
            return;
        }
        for sum in sums.into_iter().filter(is_zero_for_some_sizes) {
            let mut below = sum.scaled(-1);
            below.add_base(1);
            self.assume_not_positive(&below, DEPTH);
        }
    }

    pub(crate) fn bind_value(&mut self, var: &Var, value: &Expr) {
        self.forget(var);
        self.mark_value(var, value);
        let value = if is_index(var) && is_index(value) {
            Value::Sum(Rc::new(self.ring_sum(value)))
        } else {
            Value::Expr(self.simplify(value))
        };
        let (range, modular) = match &value {
            Value::Sum(sum) if self.is_exact(sum) => (self.range(sum), sum.modular()),
            Value::Sum(sum) => (type_range(var), sum.modular().wrapped(sum.dtype)),
            Value::Expr(_) => (type_range(var), ModularSet::EVERYTHING),
        };
        self.set_var(VarFacts { var: var.clone(), range, modular, value: Some(value), takes_zero: false });
    }

    pub(crate) fn bind_equal(&mut self, var: &Var, value: &Expr) {
        self.forget(var);
        self.mark_value(var, value);
        if !(is_index(var) && is_index(value)) {
            return;
        }
        let sum = self.sum_of(value);
        let range = self.range(&sum).intersect(type_range(var));
        let takes_zero = sum.terms.iter().any(|term| self.counts(term));
        self.set_var(VarFacts { var: var.clone(), range, modular: sum.modular(), value: None, takes_zero });
        if is_stable(value) {
            let mut own = Sum::constant(var.dtype(), 0);
            self.add(&mut own, var, 1);
            let difference = own.minus(&sum);
            self.assume_not_positive(&difference, DEPTH);
            self.assume_not_positive(&difference.scaled(-1), DEPTH);
        }
    }

    pub(crate) fn enter(&mut self, condition: &Expr) {
        if is_stable(condition) {
            self.assume(condition, true);
        }
    }

    pub(crate) fn enter_negation(&mut self, condition: &Expr) {
        if is_stable(condition) {
            self.assume(condition, false);
        }
    }

    /// Assumes that the condition holds, or that it does not.
    pub(crate) fn assume(&mut self, condition: &Expr, holds: bool) {
        self.assume_once(condition, holds, &mut [Seen::default(), Seen::default()]);
    }

    /// Assumes that the condition holds, or that it does not; `seen` contains the conditions that
    /// were already entered, indexed by whether they hold.
    fn assume_once(&mut self, condition: &Expr, holds: bool, seen: &mut [Seen; 2]) {
        if !seen[usize::from(holds)].is_new(condition) {
            return;
        }
        with_stack(|| match &**condition {
            ExprNode::Int { .. } => {}
            ExprNode::Not { value } => self.assume_once(value, !holds, seen),
            ExprNode::Broadcast { value, .. } => self.assume_once(value, holds, seen),
            ExprNode::Logic { op, a, b } if (*op == LogicOp::And) == holds => {
                self.assume_once(a, holds, seen);
                self.assume_once(b, holds, seen);
            }
            ExprNode::Call { .. } if condition.without_likely().1 => {
                self.assume_once(&condition.without_likely().0, holds, seen);
            }
            ExprNode::Compare { op, a, b } => {
                if is_index(a) {
                    let difference = self.sum_of(a).minus(&self.sum_of(b));
                    self.assume_relation(if holds { *op } else { negated(*op) }, difference);
                    // An inequality is a linear fact, and is found as one.
                    if !matches!(op, CompareOp::Eq | CompareOp::Ne) {
                        return;
                    }
                }
                self.assume_literal(condition, holds);
            }
            _ => self.assume_literal(condition, holds),
        });
    }

    fn assume_literal(&mut self, condition: &Expr, holds: bool) {
        self.literals.push(Literal { condition: condition.clone(), holds, alive: true });
        self.learned(Undo::Literal);
    }

    /// `difference op 0`.
    fn assume_relation(&mut self, op: CompareOp, mut difference: Sum) {
        match op {
            CompareOp::Lt => difference.add_base(1),
            CompareOp::Le => {}
            CompareOp::Gt | CompareOp::Ge => {
                difference = difference.scaled(-1);
                if op == CompareOp::Gt {
                    difference.add_base(1);
                }
            }
            CompareOp::Eq => {
                self.assume_divisible(&difference);
                self.assume_not_positive(&difference, DEPTH);
                difference = difference.scaled(-1);
            }
            CompareOp::Ne => return self.assume_different(&difference),
        }
        self.assume_not_positive(&difference, DEPTH);
    }

    /// `difference != 0`: an end of a range moves.
    fn assume_different(&mut self, difference: &Sum) {
        let range = self.range(difference);
        let mut inside = difference.clone();
        if range.min == 0 {
            inside = inside.scaled(-1);
            inside.add_base(1);
            self.assume_not_positive(&inside, DEPTH);
        } else if range.max == 0 {
            inside.add_base(1);
            self.assume_not_positive(&inside, DEPTH);
        }
    }

    /// `difference == 0`: derives the divisibility of each term.
    fn assume_divisible(&mut self, difference: &Sum) {
        for (place, term) in difference.terms.iter().enumerate() {
            if term.scale.abs() != 1 {
                continue;
            }
            let mut others = difference.clone();
            others.terms.remove(place);
            let set = others.modular().scaled(-term.scale);
            if term.is_whole() {
                self.refine_modular(&term.index, set);
            } else if term.lower == 1
                && let Some(remainder) = others.as_constant()
            {
                // `floormod(x, c) == r`
                self.refine_modular(&term.index, ModularSet::new(term.upper, -term.scale * remainder));
            }
        }
    }

    fn refine_modular(&mut self, index: &Expr, set: ModularSet) {
        if set == ModularSet::EVERYTHING {
            return;
        }
        if let Some(var) = Var::of(index) {
            let (range, modular, value) = self.var_facts(index);
            let modular = modular.intersect(set);
            let takes_zero = self.takes_zero(&var);
            self.set_var(VarFacts { var, range, modular, value, takes_zero });
            return;
        }
        let sum = self.sum_of(index);
        match sum.as_term() {
            Some(term) if term.scale == 1 => {
                let mut term = term.clone();
                if term.is_whole() {
                    term.index_mod = term.index_mod.intersect(set);
                    self.atoms.push(AtomFact { term, alive: true });
                    self.learned(Undo::Atom);
                }
            }
            // `x + 1` is 0 modulo 8: `x` is 7.
            _ => {
                let mut zero = sum.clone();
                zero.add_base(-set.base);
                for (place, term) in sum.terms.iter().enumerate() {
                    if term.scale.abs() == 1 && term.is_whole() && Var::of(&term.index).is_some() {
                        let mut others = zero.clone();
                        others.terms.remove(place);
                        let own = others.modular().plus(ModularSet::new(set.coeff, 0)).scaled(-term.scale);
                        self.refine_modular(&term.index, own);
                    }
                }
            }
        }
    }
}

/// Returns true if an expression is a scalar of a type on which arithmetic is rewritten: signed, of
/// 32 or 64 bits.
pub(crate) fn is_index(expr: &Expr) -> bool {
    let dtype = expr.dtype();
    dtype.is_int() && dtype.bits() >= 32 && dtype.is_scalar()
}

/// The bounds of a variable without facts.
fn type_range(var: &Expr) -> ConstInterval {
    let range = ConstInterval::of_type(var.dtype());
    if matches!(**var, ExprNode::Var { size: true, .. }) {
        ConstInterval { min: range.min.max(0), ..range }
    } else {
        range
    }
}

/// The negated relation, between integers.
pub(crate) fn negated(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Eq => CompareOp::Ne,
        CompareOp::Ne => CompareOp::Eq,
        CompareOp::Lt => CompareOp::Ge,
        CompareOp::Le => CompareOp::Gt,
        CompareOp::Gt => CompareOp::Le,
        CompareOp::Ge => CompareOp::Lt,
    }
}
