//! The values of a loop variable for which a condition holds for all iterations of inner loops: the
//! places at which a loop may be partitioned.

use std::cell::Cell;

use super::analyzer::Analyzer;
use super::division::{has_one_sign, is_safe_part};
use super::int_set::{IntSet, SetMap};
use super::render::render;
use super::sum::{Sum, Term, WHOLE, ceil_div};
use crate::ir::visit::uses_var;
use crate::ir::{BinaryOp, CompareOp, DataTypeExt, Expr, ExprNode, LogicOp, Var, with_stack};

/// Returns an interval of values of `var` for which a condition certainly holds, for all values of
/// the variables in `relaxed` in their sets. Its ends are expressions over the other variables; a
/// missing end means that the interval is unbounded on that side. Returns `None` if no such
/// interval is found.
///
/// The condition is solved through sums, factors of known sign, quotients, min and max; of a
/// disjunction, one side is solved. Assumptions: the sums of indices and the products of indices
/// with constants that form the bounds do not overflow, as those of the condition do not. Data and
/// constants may have any value.
///
/// ```
/// use std::collections::HashMap;
/// use kernpack_compiler::arith::{Analyzer, IntSet, deduce_bound};
/// use kernpack_compiler::ir::{Expr, Range, Var};
///
/// let (outer, inner) = (Var::index("outer"), Var::index("inner"));
/// let guard = (&outer * 8 + &inner).less(100);
/// let relaxed = HashMap::from([(inner, IntSet::of_range(&Range::until(8)))]);
/// let clean = deduce_bound(&outer, &guard, &relaxed, &Analyzer::new()).unwrap();
/// assert!(clean.max().unwrap().is_int(11) && clean.min().is_none());
/// ```
pub fn deduce_bound(var: &Var, condition: &Expr, relaxed: &SetMap, analyzer: &Analyzer) -> Option<IntSet> {
    let (steps, parts_fit) = (Cell::new(MOST_STEPS), Cell::new(false));
    Deduce { var, relaxed, analyzer, steps, parts_fit }.condition(condition)
}

/// The number of conditions and sums that one deduction examines, because parts may be shared and
/// minima nested.
const MOST_STEPS: u32 = 1024;

struct Deduce<'a> {
    var: &'a Var,
    relaxed: &'a SetMap,
    analyzer: &'a Analyzer,
    /// The number of conditions that may still be examined.
    steps: Cell<u32>,
    /// True if, on each side of the comparison, all terms have the same sign; then their parts fit
    /// in the type, too.
    parts_fit: Cell<bool>,
}

impl Deduce<'_> {
    fn condition(&self, condition: &Expr) -> Option<IntSet> {
        self.steps.set(self.steps.get().checked_sub(1)?);
        with_stack(|| match &**condition {
            ExprNode::Logic { op: LogicOp::And, a, b } => Some(self.both(self.condition(a)?, self.condition(b)?)),
            ExprNode::Logic { op: LogicOp::Or, a, b } => self.condition(a).or_else(|| self.condition(b)),
            ExprNode::Call { .. } if condition.without_likely().1 => self.condition(&condition.without_likely().0),
            ExprNode::Not { .. } => {
                let simple = self.analyzer.simplify(condition);
                if matches!(&*simple, ExprNode::Not { .. }) { None } else { self.condition(&simple) }
            }
            ExprNode::Int { .. } => Some(if condition.is_true() { IntSet::everything() } else { IntSet::Nothing }),
            ExprNode::Compare { op, a, b } if a.dtype().is_int() && a.dtype().is_scalar() => self.relation(*op, a, b),
            _ => None,
        })
    }

    fn both(&self, a: IntSet, b: IntSet) -> IntSet {
        let (IntSet::Interval { min: a_min, max: a_max }, IntSet::Interval { min: b_min, max: b_max }) = (a, b) else {
            return IntSet::Nothing;
        };
        let join = |a: Option<Expr>, b: Option<Expr>, op: BinaryOp| match (a, b) {
            (Some(a), Some(b)) => Some(self.analyzer.simplify(&Expr::binary(op, a, b))),
            (end, None) | (None, end) => end,
        };
        IntSet::Interval { min: join(a_min, b_min, BinaryOp::Max), max: join(a_max, b_max, BinaryOp::Min) }
    }

    fn relation(&self, op: CompareOp, a: &Expr, b: &Expr) -> Option<IntSet> {
        if !super::facts::is_index(a) {
            return None;
        }
        let (left, right) = self.analyzer.with(|state| (state.sum_of(a), state.sum_of(b)));
        self.parts_fit.set(has_one_sign(&left) && has_one_sign(&right));
        let mut sum = left.minus(&right);
        match op {
            CompareOp::Lt => sum.add_base(1),
            CompareOp::Le => {}
            CompareOp::Gt => {
                sum = sum.scaled(-1);
                sum.add_base(1);
            }
            CompareOp::Ge => sum = sum.scaled(-1),
            CompareOp::Eq => {
                let below = self.not_positive(&sum)?;
                return Some(self.both(below, self.not_positive(&sum.scaled(-1))?));
            }
            CompareOp::Ne => {
                // One side of the excluded value is enough; the better one is not known here.
                let holds = self.analyzer.with(|state| state.relation_holds(op, sum));
                return holds.then(IntSet::everything);
            }
        }
        self.not_positive(&sum)
    }

    /// The set of values for which `sum <= 0`.
    fn not_positive(&self, sum: &Sum) -> Option<IntSet> {
        self.steps.set(self.steps.get().checked_sub(1)?);
        if !sum.fits() {
            return None;
        }
        let names = |term: &Term| uses_var(&term.index, |used| used == self.var);
        if let Some(place) = sum.terms.iter().position(|term| term.is_whole() && names(term) && is_extreme(&term.index))
        {
            return self.by_cases(sum, place);
        }
        let Some(place) = sum.terms.iter().position(names) else {
            let most = self.largest(sum)?;
            return self.analyzer.can_prove(&most.less_equal(Expr::constant(sum.dtype, 0))).then(IntSet::everything);
        };
        let mut rest = sum.clone();
        let term = rest.terms.remove(place);
        if rest.terms.iter().any(names) {
            return None;
        }
        let most = self.largest(&rest)?;
        if uses_var(&most, |used| used == self.var) {
            // The ranges of inner loops depend on this variable.
            let mut closed = self.analyzer.with(|state| state.sum_of(&most));
            closed.add_term(term);
            return with_stack(|| self.not_positive(&closed));
        }
        let dtype = sum.dtype;
        let number = |value: i64| Expr::constant(dtype, value);
        // scale * value <= -most
        let bound = if term.scale > 0 {
            self.negated(&most)?.floor_div(number(term.scale))
        } else {
            self.ceil(&most, &number(term.scale.checked_neg()?))?
        };
        self.value(&term, bound, term.scale > 0)
    }

    /// The set of values for which `sum <= 0`, where one term is a min or max.
    fn by_cases(&self, sum: &Sum, place: usize) -> Option<IntSet> {
        let mut rest = sum.clone();
        let term = rest.terms.remove(place);
        let ExprNode::Binary { op, a, b, .. } = &*term.index else { return None };
        // An operand may be larger than all that the comparison computes.
        self.parts_fit.set(false);
        let side = |operand: &Expr| {
            let mut side = rest.clone();
            let operand = self.analyzer.with(|state| state.sum_of(operand));
            side.add_scaled(&operand, term.scale);
            with_stack(|| self.not_positive(&side))
        };
        // min(x, y) <= z if one of both is; max(x, y) <= z if both are.
        if (*op == BinaryOp::Min) == (term.scale > 0) {
            side(a).or_else(|| side(b))
        } else {
            Some(self.both(side(a)?, side(b)?))
        }
    }

    /// The set of values for which a term is at most (or at least) a bound.
    fn value(&self, term: &Term, bound: Expr, at_most: bool) -> Option<IntSet> {
        if term.upper != WHOLE {
            return None;
        }
        let mut bound = self.analyzer.simplify(&bound);
        if term.lower > 1 {
            // floordiv(x, c) <= b is x <= b*c + c - 1, and floordiv(x, c) >= b is x >= b*c.
            bound = self.analyzer.with(|state| {
                let mut dividend = state.sum_of(&bound).scaled(term.lower);
                if at_most {
                    dividend.add_base(term.lower - 1);
                }
                state.is_computable(&dividend).then(|| render(&dividend, None))
            })?;
        }
        if term.index.same_as(self.var) {
            return Some(if at_most {
                IntSet::Interval { min: None, max: Some(bound) }
            } else {
                IntSet::Interval { min: Some(bound), max: None }
            });
        }
        if let ExprNode::Binary { op: BinaryOp::Mul, a, b, .. } = &*term.index {
            // A product of data may wrap.
            if term.data {
                return None;
            }
            return self.product(a, b, &bound, at_most);
        }
        // A sum inside of a quotient.
        let mut inside = self.analyzer.with(|state| {
            let limit = state.sum_of(&bound);
            state.sum_of(&term.index).minus(&limit)
        });
        if inside.as_term().is_some_and(|inside| inside.same_value(term)) {
            return None;
        }
        let opaque = inside.terms.iter().any(|inside| inside.is_whole() && inside.index.same_as(&term.index));
        if opaque {
            return None;
        }
        if !at_most {
            inside = inside.scaled(-1);
        }
        with_stack(|| self.not_positive(&inside))
    }

    /// The set of values for which `x * y` is at most (or at least) a bound, if one of the factors
    /// has a known sign and is the same in all iterations.
    fn product(&self, a: &Expr, b: &Expr, bound: &Expr, at_most: bool) -> Option<IntSet> {
        for (x, factor) in [(a, b), (b, a)] {
            let fixed = |used: &Var| used == self.var || self.relaxed.contains_key(used);
            if uses_var(factor, fixed) {
                continue;
            }
            let (positive, negative) =
                (self.analyzer.can_prove(&factor.greater(0)), self.analyzer.can_prove(&factor.less(0)));
            if !positive && !negative {
                continue;
            }
            let (bound, factor) =
                if positive { (bound.clone(), factor.clone()) } else { (self.negated(bound)?, self.negated(factor)?) };
            let at_most = at_most == positive;
            let limit = if at_most { bound.floor_div(&factor) } else { self.ceil(&bound, &factor)? };
            let difference = self.analyzer.with(|state| {
                let limit = state.sum_of(&limit);
                state.sum_of(x).minus(&limit)
            });
            let difference = if at_most { difference } else { difference.scaled(-1) };
            return with_stack(|| self.not_positive(&difference));
        }
        None
    }

    /// `-expr`, or `None` if it may overflow.
    fn negated(&self, expr: &Expr) -> Option<Expr> {
        let negated = match expr.as_int() {
            Some(value) => {
                let value = value.checked_neg().filter(|value| expr.dtype().can_hold(*value))?;
                return Some(Expr::constant(expr.dtype(), value));
            }
            None => Expr::constant(expr.dtype(), 0) - expr,
        };
        self.analyzer.with(|state| !state.is_data(&negated) || state.whole(&negated)).then_some(negated)
    }

    /// Quotient by a positive divisor, rounded up. Nothing is added to the dividend, because it may
    /// be near the end of its type.
    fn ceil(&self, a: &Expr, b: &Expr) -> Option<Expr> {
        Some(match (a.as_int(), b.as_int()) {
            (Some(a), Some(divisor)) => Expr::constant(b.dtype(), ceil_div(a, divisor)),
            _ => Expr::constant(b.dtype(), 0) - self.negated(a)?.floor_div(b),
        })
    }

    /// The largest value over all relaxed variables. `None` if it is not known, or if the sum, as
    /// an expression, may wrap.
    fn largest(&self, sum: &Sum) -> Option<Expr> {
        let is_safe = self.parts_fit.get() || is_safe_part(sum, &[]);
        if !is_safe || !self.analyzer.with(|state| state.is_computable(sum)) {
            return None;
        }
        let expr = render(sum, None);
        if !uses_var(&expr, |used| self.relaxed.contains_key(used)) {
            return Some(expr);
        }
        IntSet::evaluate(&expr, self.relaxed, self.analyzer).max().cloned()
    }
}

fn is_extreme(expr: &Expr) -> bool {
    matches!(**expr, ExprNode::Binary { op: BinaryOp::Min | BinaryOp::Max, .. })
}
