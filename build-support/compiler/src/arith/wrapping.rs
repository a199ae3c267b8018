//! Data and indices. Arithmetic on indices does not overflow; arithmetic on data wraps in two's
//! complement.
//!
//! Data is loaded, returned by a call, truncated by a cast, or passed by the caller; arithmetic on
//! data results in data. Loop variables, sizes and constants are indices.
//!
//! The sum of an expression with data has the right value modulo `2^n`: sums, differences and
//! factors may be joined and reordered. It is a whole number only if its bounds show that it does
//! not leave its type. Rules about order, bounds, quotients and remainders need whole numbers: they
//! use sums from [`State::sum_of`], in which a sum of data that may wrap is one opaque value.
//!
//! Data may cancel out, or is not chosen: `x - (x + i)` is `-i`. But `(x - (x + i)) * c` wraps, and
//! `-i * c` would be an index, of which it is assumed that it does not. Indices replace data only
//! where they lie inside of their type; elsewhere the expression is kept as it is, as one value
//! ([`State::kept`]). Where the data of an operand is lost, the operation is still one on data: its
//! sum knows it ([`Sum::of_data`]).

use std::rc::Rc;

use kernpack::DataType;

use super::analyzer::{State, Value};
use super::facts::factors_of;
use super::interval::ConstInterval;
use super::modular::ModularSet;
use super::render::render;
use super::sum::{Sum, Term};
use crate::ir::builtin::{self, Effect, effect};
use crate::ir::mutate::{Mutate, mutate_expr_parts};
use crate::ir::shared::{Memo, is_shared};
use crate::ir::visit::{has_part, uses_var};
use crate::ir::{BinaryOp, CallKind, DataTypeExt, Expr, ExprNode, Var, with_stack};

impl State {
    /// Marks the variable as data.
    pub(crate) fn mark_data(&mut self, var: &Var) {
        if may_be_data(var) && !self.data.contains_key(&var.address()) {
            self.data.insert(var.address(), var.clone());
            self.clear_memos();
        }
    }

    /// Marks the variable as data if its value is data.
    pub(crate) fn mark_value(&mut self, var: &Var, value: &Expr) {
        if may_be_data(var) && self.is_data(value) {
            self.mark_data(var);
        }
    }

    /// Returns true if an expression is data.
    pub(crate) fn is_data(&mut self, expr: &Expr) -> bool {
        match &**expr {
            ExprNode::Int { .. } | ExprNode::Float { .. } | ExprNode::Text { .. } => false,
            ExprNode::Var { .. } => self.data.contains_key(&expr.address()),
            ExprNode::Load { .. } | ExprNode::TensorRead { .. } | ExprNode::Reduce { .. } => true,
            _ if !is_shared(expr) => with_stack(|| self.has_data(expr)),
            _ => {
                let known = self.remembered_data(expr);
                known.unwrap_or_else(|| {
                    let data = with_stack(|| self.has_data(expr));
                    self.remember_data(expr, data);
                    data
                })
            }
        }
    }

    fn has_data(&mut self, expr: &Expr) -> bool {
        match &**expr {
            ExprNode::Binary { a, b, .. } | ExprNode::Compare { a, b, .. } | ExprNode::Logic { a, b, .. } => {
                self.is_data(a) || self.is_data(b)
            }
            ExprNode::Not { value } => self.is_data(value),
            ExprNode::Cast { dtype, value } => {
                value.dtype().is_float() || self.is_data(value) || self.is_cut(value, *dtype)
            }
            ExprNode::Select { condition, true_value: a, false_value: b }
            | ExprNode::IfThenElse { condition, then_value: a, else_value: b } => {
                self.is_data(condition) || self.is_data(a) || self.is_data(b)
            }
            ExprNode::Let { value, body, .. } => self.is_data(value) || self.is_data(body),
            ExprNode::Ramp { base, stride, .. } => self.is_data(base) || self.is_data(stride),
            ExprNode::Broadcast { value, .. } => self.is_data(value),
            ExprNode::Call { kind: CallKind::Builtin, name, .. } if name.as_str() == builtin::STRUCT_GET => false,
            ExprNode::Call { kind, name, args, .. } => {
                effect(*kind, name.as_str()) != Effect::Pure || args.iter().any(|arg| self.is_data(&arg))
            }
            _ => true,
        }
    }

    /// Returns true if an index may have values outside of the type of a cast.
    fn is_cut(&mut self, value: &Expr, dtype: DataType) -> bool {
        let own = ConstInterval::of_type(dtype);
        let wide = |dtype: DataType| dtype.is_uint() && dtype.bits() == 64;
        // Neither the unsigned 64-bit integers nor the values outside of them have an interval.
        match (wide(value.dtype()), wide(dtype)) {
            (true, true) => false,
            (true, false) => true,
            (false, true) => self.const_interval(value).min < 0,
            (false, false) => {
                !own.includes(ConstInterval::of_type(value.dtype())) && !own.includes(self.const_interval(value))
            }
        }
    }

    /// Returns true if a sum is a whole number: an index, one value, or bounded inside of its type.
    pub(crate) fn is_exact(&self, sum: &Sum) -> bool {
        !sum.is_data() || sum.as_term().is_some_and(|term| term.scale == 1) || self.fits_type(sum)
    }

    /// Returns true if the bounds of a sum lie inside of its type.
    pub(crate) fn fits_type(&self, sum: &Sum) -> bool {
        let range = self.range(sum);
        !sum.overflow && range.is_finite() && ConstInterval::of_type(sum.dtype).includes(range)
    }

    /// Returns true if the expression of a sum that was built by rules has the value of the sum.
    /// Indices are assumed to lie in the middle half of their type, so that an index plus a
    /// constant of a quarter of the type does not overflow. Nothing is assumed about data.
    pub(crate) fn is_computable(&self, sum: &Sum) -> bool {
        let most = i64::MAX >> (65 - u32::from(sum.dtype.bits()));
        sum.fits() && self.is_exact(sum) && (sum.base.abs() <= most || sum.terms.is_empty() || self.fits_type(sum))
    }

    /// The sum as a whole number: one opaque value, if it may wrap.
    pub(crate) fn settled(&mut self, sum: Sum, hint: Option<&Expr>) -> Sum {
        if sum.overflow || self.is_exact(&sum) {
            return sum;
        }
        let dtype = sum.dtype;
        let modular = sum.modular().wrapped(dtype);
        let mut term = Term::whole(render(&sum, hint), ConstInterval::of_type(dtype), modular);
        term.data = true;
        let term = self.refined(term);
        match term.range.as_point() {
            Some(value) => Sum { of_data: true, ..Sum::constant(dtype, value) },
            None => Sum::of(dtype, term),
        }
    }

    /// The expression as it is, as one value of data that has the value of the sum modulo `2^n`.
    pub(super) fn kept(&mut self, expr: &Expr, sum: &Sum) -> Sum {
        let dtype = expr.dtype();
        let modular = if sum.fits() { sum.modular().wrapped(dtype) } else { ModularSet::EVERYTHING };
        let node = self.with_values(expr);
        let mut term = Term::whole(node.clone(), ConstInterval::of_type(dtype), modular);
        term.data = true;
        let term = self.refined(term);
        let kept = match term.range.as_point() {
            Some(value) => Sum { of_data: true, ..Sum::constant(dtype, value) },
            None => Sum::of(dtype, term),
        };
        self.remember(&node, &Rc::new(kept.clone()));
        kept
    }

    /// The result of an operation other than a sum. If the data of its operands was lost, nothing
    /// may be assumed of the bounds of indices: those of the result are known, or it is
    /// [kept](Self::kept).
    pub(super) fn operation(&mut self, sum: Sum, expr: &Expr) -> Sum {
        if !sum.has_lost_data() || sum.overflow {
            return sum;
        }
        let most = i64::MAX >> (65 - u32::from(sum.dtype.bits()));
        let is_known = ConstInterval::new(-most, most).includes(self.range(&sum));
        if is_known { sum } else { self.kept(expr, &sum) }
    }

    /// [`simplify`](Self::simplify) where other arithmetic follows that knows only expressions:
    /// data stays data, or is a constant.
    pub(super) fn simplify_operand(&mut self, expr: &Expr) -> Expr {
        let new = self.simplify(expr);
        if new.as_int().is_none() && self.loses_data(expr, &new) { self.with_values(expr) } else { new }
    }

    /// Returns true if an integer is data, and its simplified form is not. A condition that becomes
    /// constant chooses nothing any more.
    pub(crate) fn loses_data(&mut self, expr: &Expr, new: &Expr) -> bool {
        may_be_data(expr)
            && (!expr.dtype().is_bool() || new.as_int().is_none())
            && !new.same_as(expr)
            && !self.is_data(new)
            && self.is_data(expr)
    }

    /// The expression with the values of variables that have one, and otherwise as it is. Variables
    /// that are data stay if their value is not.
    pub(super) fn with_values(&mut self, expr: &Expr) -> Expr {
        let mut values = Values { state: self, memo: Memo::default() };
        values.mutate_expr(expr).unwrap_or_else(|_| expr.clone())
    }

    /// Returns true if the sum of an expression is a whole number.
    pub(crate) fn whole(&mut self, expr: &Expr) -> bool {
        let sum = self.ring_sum(expr);
        self.is_exact(&sum)
    }

    /// Returns true if a divisor may be 0: data, an index whose bounds are known and include it, or
    /// what is made of variables that take 0, whatever their end. Where a size is 0, nothing is
    /// divided by it. A difference or a quotient of sizes (`n - 1`, `n // 4`) is 0 for some of
    /// them: it has to be known that it is positive, as inside a loop with that extent.
    pub(crate) fn may_be_zero(&mut self, divisor: &Sum) -> bool {
        let range = self.range(divisor);
        range.contains(0)
            && (divisor.of_data
                || range.max < ConstInterval::of_type(divisor.dtype).max
                || divisor.terms.iter().any(|term| self.counts(term))
                || is_zero_for_some_sizes(divisor) && !self.is_known_positive(divisor))
    }

    /// Returns true if a sum of sizes is known to be positive, or is a product of such factors.
    fn is_known_positive(&mut self, sum: &Sum) -> bool {
        if let Some(term) = sum.as_term()
            && term.is_whole()
            && let Some(factors) = factors_of(&term.index)
        {
            return factors.into_iter().all(|factor| {
                let factor = self.sum_of(factor);
                !is_zero_for_some_sizes(&factor) || with_stack(|| self.is_known_positive(&factor))
            });
        }
        let mut below = sum.clone().scaled(-1);
        below.add_base(1);
        self.proves_not_positive(&below)
    }

    /// Returns true if an expression of the variable may be 0: the variable is a loop variable, or
    /// equals an expression of loop variables.
    pub(crate) fn takes_zero(&self, var: &Var) -> bool {
        self.vars.get(&var.address()).is_some_and(|facts| facts.takes_zero)
    }

    /// Returns true if a term contains variables that [take 0](Self::takes_zero).
    pub(crate) fn counts(&self, term: &Term) -> bool {
        uses_var(&term.index, |var| self.takes_zero(var))
    }

    /// [`may_be_zero`](Self::may_be_zero) of an expression.
    pub(crate) fn divides_by_zero(&mut self, divisor: &Expr) -> bool {
        let divisor = self.sum_of(divisor);
        self.may_be_zero(&divisor)
    }

    /// Divisibility of the value of a sum.
    pub(crate) fn value_modular(&self, sum: &Sum) -> ModularSet {
        if self.is_exact(sum) { sum.modular() } else { sum.modular().wrapped(sum.dtype) }
    }

    /// Bounds of the value of a sum.
    pub(crate) fn value_range(&self, sum: &Sum) -> ConstInterval {
        if self.is_exact(sum) { self.range(sum) } else { ConstInterval::of_type(sum.dtype) }
    }
}

/// Returns true if the value of an expression may be data: an integer or a condition that is not a
/// size. Arithmetic on numbers of other types is exact, rounds or is not supported, but has no
/// rules for indices.
///
/// The simplifier treats all parameters of this kind as data. The code generators
/// ([`codegen`](crate::codegen)) treat parameters of 64 bits as indices, because they may be the
/// sizes and strides of an entry function.
pub(crate) fn may_be_data(expr: &Expr) -> bool {
    let dtype = expr.dtype();
    (dtype.is_integer() || dtype.is_bool()) && !matches!(**expr, ExprNode::Var { size: true, .. })
}

/// [`State::with_values`].
struct Values<'a> {
    state: &'a mut State,
    memo: Memo,
}

impl Mutate for Values<'_> {
    fn mutate_expr(&mut self, expr: &Expr) -> crate::Result<Expr> {
        if !matches!(**expr, ExprNode::Var { .. }) {
            return mutate_expr_parts(self, expr);
        }
        let value = match self.state.var_facts(expr).2 {
            Some(Value::Sum(value)) => render(&value, None),
            Some(Value::Expr(value)) => value,
            None => return Ok(expr.clone()),
        };
        Ok(if self.state.loses_data(expr, &value) { expr.clone() } else { value })
    }

    fn memo(&mut self) -> Option<&mut Memo> {
        Some(&mut self.memo)
    }
}

/// Returns true if a sum of sizes may be 0 where none of them is: a difference, a quotient, a
/// remainder, what is left of bits, or what a condition chooses.
pub(super) fn is_zero_for_some_sizes(sum: &Sum) -> bool {
    let takes_away = |part: &Expr| {
        use BinaryOp::{BitAnd, BitXor, Div, FloorDiv, FloorMod, Mod, ShiftLeft, ShiftRight, Sub};
        matches!(
            &**part,
            ExprNode::Binary {
                op: Sub | FloorDiv | FloorMod | Div | Mod | BitAnd | BitXor | ShiftLeft | ShiftRight,
                ..
            } | ExprNode::Compare { .. }
                | ExprNode::Logic { .. }
                | ExprNode::Not { .. }
                | ExprNode::Select { .. }
                | ExprNode::IfThenElse { .. }
        )
    };
    let is_alone = sum.as_term().is_some();
    !is_alone && (sum.base < 0 || sum.terms.iter().any(|term| term.scale < 0))
        || sum.terms.iter().any(|term| !term.is_whole() || has_part(&term.index, takes_away))
}

/// Bounds of a quotient or a remainder of data: a divisor of 0 gives 0, and the smallest integer by
/// -1 wraps.
pub(super) fn of_division(
    range: ConstInterval,
    x: ConstInterval,
    y: ConstInterval,
    own: ConstInterval,
) -> ConstInterval {
    let range = if y.contains(0) { range.union(ConstInterval::point(0)) } else { range };
    if y.contains(-1) && x.min <= own.min { own } else { range.intersect(own) }
}
