//! The sets of values of expressions.

use super::int_set::{IntSet, SetMap, both, larger, smaller};
use super::{Analyzer, ConstInterval};
use crate::ir::shared::{ByAddress, is_shared};
use crate::ir::{BinaryOp, CallKind, DataTypeExt, Expr, ExprNode, Var, builtin, visit, with_stack};

/// The evaluation of an expression whose variables range over sets of values.
pub(super) struct Evaluation<'a> {
    /// The sets of the variables that are not points.
    pub(super) sets: &'a mut SetMap,
    pub(super) analyzer: &'a Analyzer,
    /// The results for shared parts.
    pub(super) known: ByAddress<IntSet>,
}

impl Evaluation<'_> {
    fn varies(&self, expr: &Expr) -> bool {
        visit::uses_var(expr, |var| self.sets.contains_key(var))
    }

    fn proves(&mut self, condition: &Expr) -> bool {
        self.analyzer.can_prove(condition)
    }

    pub(super) fn expr(&mut self, expr: &Expr) -> IntSet {
        let shared = is_shared(expr);
        if shared && let Some(set) = self.known.get(&expr.address()) {
            return set.clone();
        }
        let set = with_stack(|| self.expr_on_stack(expr));
        if shared {
            self.known.insert(expr.address(), set.clone());
        }
        set
    }

    fn expr_on_stack(&mut self, expr: &Expr) -> IntSet {
        if let Some(var) = Var::of(expr) {
            return self.sets.get(&var).cloned().unwrap_or_else(|| IntSet::point(expr));
        }
        if !self.varies(expr) {
            return IntSet::point(expr);
        }
        match &**expr {
            ExprNode::Binary { op, a, b, dtype } if dtype.is_scalar() && dtype.is_integer() => {
                let (left, right) = (self.expr(a), self.expr(b));
                // Unsigned arithmetic wraps.
                let exact = dtype.is_int() || matches!(op, BinaryOp::Min | BinaryOp::Max);
                if left.is_nothing() || right.is_nothing() {
                    IntSet::Nothing
                } else if exact {
                    let set = self.binary(*op, &left, &right);
                    if self.may_wrap(*op, expr, (&left, &right), &set) { of_dtype(expr) } else { set }
                } else {
                    of_dtype(expr)
                }
            }
            ExprNode::Select { true_value: a, false_value: b, .. }
            | ExprNode::IfThenElse { then_value: a, else_value: b, .. } => {
                let (left, right) = (self.expr(a), self.expr(b));
                left.union(&right, self.analyzer)
            }
            ExprNode::Cast { dtype, value } if dtype.is_integer() && value.dtype().is_integer() => {
                self.cast(expr, value)
            }
            ExprNode::Let { var, value, body } => {
                self.analyzer.with(|state| state.mark_value(var, value));
                let value = self.expr(value);
                self.sets.insert(var.clone(), value);
                let set = self.expr(body);
                self.sets.remove(var);
                set
            }
            ExprNode::Call { kind: CallKind::Builtin, name, args, .. } if name.as_str() == builtin::LIKELY => {
                self.expr(&args.get(0).expect("likely has an argument"))
            }
            _ => of_dtype(expr),
        }
    }

    /// Returns true if a result may leave its type. Constant ends are folded in the type, so this
    /// examines their values before the fold. Ends that are indices of 32 bits or more do not
    /// overflow; those of data and of narrower integers may.
    fn may_wrap(&self, op: BinaryOp, expr: &Expr, (left, right): (&IntSet, &IntSet), set: &IntSet) -> bool {
        if matches!(op, BinaryOp::Min | BinaryOp::Max) {
            return false;
        }
        let own = ConstInterval::of_type(expr.dtype());
        let fits = |end: i64| end != ConstInterval::NEG_INF && end != ConstInterval::POS_INF && own.contains(end);
        let is_number = |end: Option<&Expr>| end.is_some_and(|end| end.as_int().is_some());
        let (low, high) = (is_number(set.min()), is_number(set.max()));
        if (low || high)
            && let Some(all) = self.unbounded(op, left, right)
            && (low && !fits(all.min) || high && !fits(all.max))
        {
            return true;
        }
        if expr.dtype().bits() >= 32 && !self.analyzer.is_data(expr) {
            return false;
        }
        let narrow = expr.dtype().bits() < 32;
        let exact = |end: &Expr| end.as_int().is_some() || !narrow && !self.analyzer.is_data(end);
        !(set.min().is_some_and(exact) && set.max().is_some_and(exact))
    }

    /// Bounds of the result, as a whole number, of an operation that may leave its type.
    fn unbounded(&self, op: BinaryOp, left: &IntSet, right: &IntSet) -> Option<ConstInterval> {
        let interval = |set: &IntSet| {
            let end =
                |end: Option<&Expr>| end.map_or(ConstInterval::EVERYTHING, |end| self.analyzer.const_interval(end));
            ConstInterval { min: end(set.min()).min, max: end(set.max()).max }
        };
        let (x, y) = (interval(left), interval(right));
        match op {
            BinaryOp::Add => Some(x.plus(y)),
            BinaryOp::Sub => Some(x.minus(y)),
            BinaryOp::Mul => Some(x.times(y)),
            BinaryOp::FloorDiv => Some(x.floor_div(y)),
            BinaryOp::Div => Some(x.trunc_div(y)),
            BinaryOp::ShiftLeft => {
                let shift = y.as_point().filter(|shift| (0..=62).contains(shift));
                Some(shift.map_or(ConstInterval::EVERYTHING, |shift| x.scaled(1 << shift)))
            }
            _ => None,
        }
    }

    /// The set after a cast: unchanged if the new type has all values of the old one; otherwise all
    /// values of the new type.
    fn cast(&mut self, expr: &Expr, value: &Expr) -> IntSet {
        let (to, from) = (expr.dtype(), value.dtype());
        let widens = from.is_int() == to.is_int() && from.bits() <= to.bits() || to.is_int() && from.bits() < to.bits();
        if !widens {
            return of_dtype(expr);
        }
        match self.expr(value) {
            IntSet::Nothing => IntSet::Nothing,
            IntSet::Interval { min, max } => {
                let (low, high) = limits(value);
                IntSet::Interval {
                    min: min.map(|min| min.cast(to)).or_else(|| low.map(|low| Expr::constant(to, low))),
                    max: max.map(|max| max.cast(to)).or_else(|| high.map(|high| Expr::constant(to, high))),
                }
            }
        }
    }

    fn binary(&mut self, op: BinaryOp, left: &IntSet, right: &IntSet) -> IntSet {
        let (IntSet::Interval { min: a, max: b }, IntSet::Interval { min: c, max: d }) = (left, right) else {
            return IntSet::Nothing;
        };
        match op {
            BinaryOp::Add => {
                IntSet::Interval { min: both(a, c).map(|(a, c)| a + c), max: both(b, d).map(|(b, d)| b + d) }
            }
            BinaryOp::Sub => {
                IntSet::Interval { min: both(a, d).map(|(a, d)| a - d), max: both(b, c).map(|(b, c)| b - c) }
            }
            BinaryOp::Mul => match (left.as_point(), right.as_point()) {
                (_, Some(factor)) => self.scaled(left, factor),
                (Some(factor), _) => self.scaled(right, factor),
                (None, None) => self.product(left, right),
            },
            BinaryOp::FloorDiv | BinaryOp::Div => self.quotient(op, left, right),
            BinaryOp::FloorMod | BinaryOp::Mod => self.remainder(op, left, right),
            // If one end is missing, the end of the other side still is a bound.
            BinaryOp::Min => IntSet::Interval {
                min: both(a, c).map(|(a, c)| smaller(a, c, self.analyzer)),
                max: match (b, d) {
                    (Some(b), Some(d)) => Some(smaller(b, d, self.analyzer)),
                    (b, d) => b.clone().or_else(|| d.clone()),
                },
            },
            BinaryOp::Max => IntSet::Interval {
                min: match (a, c) {
                    (Some(a), Some(c)) => Some(larger(a, c, self.analyzer)),
                    (a, c) => a.clone().or_else(|| c.clone()),
                },
                max: both(b, d).map(|(b, d)| larger(b, d, self.analyzer)),
            },
            BinaryOp::ShiftLeft => match right.as_point().and_then(|shift| shift.as_int()) {
                Some(shift @ 0..=62) => match a.as_ref().or(b.as_ref()).map(|end| end.dtype()) {
                    Some(dtype) if dtype.can_hold(1 << shift) => self.scaled(left, &Expr::constant(dtype, 1 << shift)),
                    _ => IntSet::everything(),
                },
                _ => IntSet::everything(),
            },
            BinaryOp::ShiftRight => match right.as_point() {
                Some(shift) if self.proves(&shift.greater_equal(0)) => {
                    IntSet::Interval { min: a.as_ref().map(|a| a >> shift), max: b.as_ref().map(|b| b >> shift) }
                }
                _ => IntSet::everything(),
            },
            BinaryOp::BitAnd => {
                let mask = [left, right].into_iter().filter_map(IntSet::as_point).find_map(|point| point.as_int());
                match mask {
                    Some(mask) if mask >= 0 => IntSet::interval(0, mask),
                    _ => IntSet::everything(),
                }
            }
            BinaryOp::BitOr | BinaryOp::BitXor => IntSet::everything(),
        }
    }

    fn scaled(&mut self, set: &IntSet, factor: &Expr) -> IntSet {
        let IntSet::Interval { min, max } = set else {
            return IntSet::Nothing;
        };
        let times = |end: &Option<Expr>| end.as_ref().map(|end| end * factor);
        if factor.is_int(0) {
            IntSet::point(factor)
        } else if self.proves(&factor.greater_equal(0)) {
            IntSet::Interval { min: times(min), max: times(max) }
        } else if self.proves(&factor.less_equal(0)) {
            IntSet::Interval { min: times(max), max: times(min) }
        } else {
            IntSet::everything()
        }
    }

    /// The product of two sets without negative integers.
    fn product(&mut self, left: &IntSet, right: &IntSet) -> IntSet {
        match (left, right) {
            (IntSet::Interval { min: Some(a), max: Some(b) }, IntSet::Interval { min: Some(c), max: Some(d) })
                if self.proves(&a.greater_equal(0)) && self.proves(&c.greater_equal(0)) =>
            {
                IntSet::interval(a * c, b * d)
            }
            _ => IntSet::everything(),
        }
    }

    fn quotient(&mut self, op: BinaryOp, left: &IntSet, right: &IntSet) -> IntSet {
        let IntSet::Interval { min, max } = left else {
            return IntSet::Nothing;
        };
        let Some(divisor) = right.as_point() else {
            // With a positive divisor, a quotient is not further from 0 than the dividend.
            let positive = right.min().cloned().is_some_and(|min| self.proves(&min.greater(0)));
            return match (min, max) {
                (Some(min), Some(max)) if positive => {
                    let zero = Expr::constant(min.dtype(), 0);
                    IntSet::interval(smaller(min, &zero, self.analyzer), larger(max, &zero, self.analyzer))
                }
                _ => IntSet::everything(),
            };
        };
        let divided = |end: &Option<Expr>| end.as_ref().map(|end| Expr::binary(op, end, divisor));
        if divisor.is_int(0) {
            IntSet::everything()
        } else if self.proves(&divisor.greater(0)) {
            IntSet::Interval { min: divided(min), max: divided(max) }
        } else if self.proves(&divisor.less(0)) {
            IntSet::Interval { min: divided(max), max: divided(min) }
        } else {
            IntSet::everything()
        }
    }

    fn remainder(&mut self, op: BinaryOp, left: &IntSet, right: &IntSet) -> IntSet {
        let Some(divisor) = right.as_point().filter(|divisor| !divisor.is_int(0)).cloned() else {
            return match (left.min().cloned(), right.min().cloned(), right.max()) {
                (Some(a), Some(c), Some(d)) if self.proves(&a.greater_equal(0)) && self.proves(&c.greater(0)) => {
                    IntSet::interval(0, d - 1)
                }
                _ => IntSet::everything(),
            };
        };
        if !self.proves(&divisor.greater(0)) {
            return IntSet::everything();
        }
        let last = &divisor - 1;
        let natural = left.min().cloned().is_some_and(|min| self.proves(&min.greater_equal(0)));
        if op == BinaryOp::Mod && !natural {
            return IntSet::interval(1 - &divisor, last);
        }
        if let IntSet::Interval { min: Some(min), max: Some(max) } = left {
            if natural && self.proves(&max.less(&divisor)) {
                return left.clone();
            }
            let first = min.floor_div(&divisor);
            if self.proves(&first.equals(max.floor_div(&divisor))) {
                return IntSet::interval(min.floor_mod(&divisor), max.floor_mod(&divisor));
            }
        }
        IntSet::interval(0, last)
    }
}

/// The smallest and the largest value of the type of an expression, if they fit.
fn limits(expr: &Expr) -> (Option<i64>, Option<i64>) {
    let dtype = expr.dtype();
    let bits = u32::from(dtype.bits());
    if dtype.is_bool() {
        (Some(0), Some(1))
    } else if dtype.is_uint() {
        (Some(0), (bits < 64).then(|| (1 << bits) - 1))
    } else if dtype.is_int() && bits < 32 {
        (Some(-(1 << (bits - 1))), Some((1 << (bits - 1)) - 1))
    } else {
        (None, None)
    }
}

fn of_dtype(expr: &Expr) -> IntSet {
    let dtype = expr.dtype();
    if !dtype.is_integer() || !dtype.is_scalar() {
        return IntSet::everything();
    }
    let (min, max) = limits(expr);
    let constant = |value: Option<i64>| value.map(|value| Expr::constant(dtype, value));
    IntSet::Interval { min: constant(min), max: constant(max) }
}
