//! Truth values and selects.
//!
//! Comparisons are comparisons of whole numbers ([`State::compare`]). The sides of a select may
//! wrap; the facts about the select hold for the wrapped values of both sides. Intervals contain
//! values: unsigned 64-bit integers above `i64::MAX` have no interval.

use super::analyzer::{State, Value};
use super::compare::comparison;
use super::connective::is_total;
use super::facts::is_index;
use super::fold::{folded, negation};
use super::interval::ConstInterval;
use super::modular::ModularSet;
use super::render::render;
use super::same::same;
use super::sum::Sum;
use crate::ir::shared::is_shared;
use crate::ir::visit::uses_var;
use crate::ir::{CompareOp, DataTypeExt, Expr, ExprNode, Var, with_stack};

/// The depth to which conditions inside of one expression are entered. Below it all facts are
/// unchanged, so that memoized results stay valid.
const MOST_SCOPES: u32 = 3;

impl State {
    /// Simplifies an expression of any type.
    pub(crate) fn simplify(&mut self, expr: &Expr) -> Expr {
        match &**expr {
            ExprNode::Int { .. } | ExprNode::Float { .. } | ExprNode::Text { .. } => return expr.clone(),
            ExprNode::Var { .. } => {
                if let Some(Value::Expr(value)) = self.var_facts(expr).2 {
                    return value;
                }
            }
            _ => {}
        }
        if is_index(expr) {
            let sum = self.ring_sum(expr);
            return render(&sum, Some(expr));
        }
        // A shared node is simplified once.
        let shared = is_shared(expr);
        if shared && let Some(result) = self.remembered_expr(expr) {
            return result;
        }
        let result =
            with_stack(|| if expr.dtype().is_scalar() { self.simplify_node(expr) } else { self.simplify_lanes(expr) });
        if shared {
            self.remember_expr(expr, &result);
        }
        result
    }

    /// Returns true if a condition may be entered here.
    pub(super) fn may_enter(&self) -> bool {
        self.scopes == 0 || self.scopes < MOST_SCOPES && self.nested_scopes > 0
    }

    pub(super) fn enter_scope(&mut self) {
        if self.scopes > 0 {
            self.nested_scopes = self.nested_scopes.saturating_sub(1);
        }
        self.scopes += 1;
    }

    /// Simplifies a node that is not a sum.
    pub(crate) fn simplify_node(&mut self, expr: &Expr) -> Expr {
        if expr.dtype().is_bool() {
            let simple = self.simplify_truth(expr);
            return self.known_literal(&simple).unwrap_or(simple);
        }
        match &**expr {
            ExprNode::Select { condition, true_value, false_value } => {
                self.choose(expr, condition, true_value, false_value, false)
            }
            ExprNode::IfThenElse { condition, then_value, else_value } => {
                self.choose(expr, condition, then_value, else_value, true)
            }
            ExprNode::Let { var, value, body } => self.simplify_let(expr, var, value, body),
            ExprNode::Reduce { axes, .. } => {
                let mark = self.mark();
                for axis in axes.iter() {
                    if let Some(dom) = &axis.dom {
                        self.bind_range(&axis.var, dom);
                    }
                }
                let new = self.simplify_parts(expr);
                self.restore(mark);
                new
            }
            ExprNode::Load { buffer, mask: Some(_), .. } => {
                let new = self.simplify_parts(expr);
                match &*new {
                    ExprNode::Load { index, mask: Some(mask), .. } if mask.is_true() => Expr::load(buffer, index),
                    ExprNode::Load { mask: Some(mask), dtype, .. } if mask.is_false() && !dtype.is_handle() => {
                        Expr::constant(*dtype, 0)
                    }
                    _ => new,
                }
            }
            _ => {
                let new = self.simplify_parts(expr);
                folded(&new)
            }
        }
    }

    pub(super) fn simplify_let(&mut self, expr: &Expr, var: &Var, value: &Expr, body: &Expr) -> Expr {
        let mark = self.mark();
        let mut new_value = self.simplify(value);
        let trivial = matches!(*new_value, ExprNode::Int { .. } | ExprNode::Float { .. } | ExprNode::Var { .. });
        let is_lost = self.loses_data(value, &new_value);
        if is_lost {
            self.mark_data(var);
        }
        if trivial {
            self.bind_value(var, &new_value);
        } else {
            self.bind_equal(var, &new_value);
        }
        let new_body = self.simplify(body);
        self.restore(mark);
        if trivial && !(is_lost && uses_var(&new_body, |used| used == var)) {
            return new_body;
        }
        if is_lost {
            new_value = self.with_values(value);
        }
        if new_value.same_as(value) && new_body.same_as(body) {
            return expr.clone();
        }
        Expr::from_node(ExprNode::Let { var: var.clone(), value: new_value, body: new_body })
    }

    /// `condition ? a : b` of an index type as a sum.
    pub(crate) fn choice(&mut self, expr: &Expr, condition: &Expr, a: &Expr, b: &Expr, lazy: bool) -> Sum {
        let mut known: Option<(ConstInterval, ModularSet)> = None;
        let new = self.choose_with(expr, condition, a, b, lazy, |state, side| {
            let sum = state.ring_sum(side);
            let own = (state.value_range(&sum), state.value_modular(&sum));
            known = Some(known.map_or(own, |(range, modular)| (range.union(own.0), modular.union(own.1))));
            render(&sum, Some(side))
        });
        match (&*new, known) {
            (ExprNode::Select { .. } | ExprNode::IfThenElse { .. }, Some((range, modular))) => {
                self.opaque(new, range, modular)
            }
            _ => self.ring_sum(&new),
        }
    }

    pub(crate) fn choose(&mut self, expr: &Expr, condition: &Expr, a: &Expr, b: &Expr, lazy: bool) -> Expr {
        self.choose_with(expr, condition, a, b, lazy, |state, side| state.simplify(side))
    }

    /// The select with its parts simplified, each side under the assumption that the condition
    /// holds or does not.
    fn choose_with(
        &mut self,
        expr: &Expr,
        condition: &Expr,
        a: &Expr,
        b: &Expr,
        lazy: bool,
        mut simplify: impl FnMut(&mut Self, &Expr) -> Expr,
    ) -> Expr {
        let new_condition = self.simplify(condition);
        if new_condition.is_true() {
            return simplify(self, a);
        }
        if new_condition.is_false() {
            return simplify(self, b);
        }
        let scalar = new_condition.dtype().is_scalar();
        let mut sides = [a.clone(), b.clone()];
        for (side, holds) in sides.iter_mut().zip([true, false]) {
            let leaf = matches!(**side, ExprNode::Int { .. } | ExprNode::Float { .. });
            // A side that is always evaluated keeps indices that are valid in all cases.
            let enters = scalar && !leaf && self.may_enter() && (lazy || is_total(side));
            if !enters {
                *side = simplify(self, side);
                continue;
            }
            let mark = self.mark();
            self.enter_scope();
            self.assume(&new_condition, holds);
            *side = simplify(self, side);
            self.scopes -= 1;
            self.restore(mark);
        }
        let [x, y] = sides;
        if same(&x, &y) {
            return x;
        }
        if x.same_as(a) && y.same_as(b) && new_condition.same_as(condition) {
            return expr.clone();
        }
        if x.dtype().is_bool() && x.is_true() && y.is_false() && new_condition.lanes() == x.lanes() {
            return new_condition;
        }
        Expr::from_node(if lazy {
            ExprNode::IfThenElse { condition: new_condition, then_value: x, else_value: y }
        } else {
            ExprNode::Select { condition: new_condition, true_value: x, false_value: y }
        })
    }

    /// The constant to which facts fold a condition as it is.
    fn known_literal(&self, condition: &Expr) -> Option<Expr> {
        if self.literals.is_empty() || matches!(**condition, ExprNode::Int { .. }) {
            return None;
        }
        let (inner, negative) = match &**condition {
            ExprNode::Not { value } => (value, true),
            _ => (condition, false),
        };
        for literal in self.literals.iter().rev() {
            if literal.alive && same(&literal.condition, inner) {
                return Some(Expr::bool(literal.holds != negative));
            }
        }
        None
    }

    fn simplify_truth(&mut self, expr: &Expr) -> Expr {
        match &**expr {
            ExprNode::Compare { op, a, b } if is_index(a) => self.compare(*op, a, b, expr),
            ExprNode::Compare { op, a, b } => {
                let (x, y) = (self.simplify(a), self.simplify(b));
                let constant = |expr: &Expr| expr.as_int().is_some() || expr.as_float().is_some();
                if constant(&x) && constant(&y) {
                    return Expr::compare(*op, x, y);
                }
                // Equal integers; a float may be NaN.
                if !x.dtype().is_float() && same(&x, &y) {
                    return Expr::bool(matches!(op, CompareOp::Eq | CompareOp::Le | CompareOp::Ge));
                }
                comparison(*op, x, y, Some(expr))
            }
            ExprNode::Logic { op, .. } => self.connect(*op, expr),
            ExprNode::Not { value } => {
                let new = self.simplify(value);
                match negation(&new) {
                    Some(negation) => self.simplify(&negation),
                    None if new.same_as(value) => expr.clone(),
                    None => Expr::from_node(ExprNode::Not { value: new }),
                }
            }
            ExprNode::Call { .. } if expr.without_likely().1 => {
                let inner = expr.without_likely().0;
                let new = self.simplify(&inner);
                if new.same_as(&inner) { expr.clone() } else { new.likely() }
            }
            ExprNode::Select { condition, true_value, false_value } => {
                self.choose(expr, condition, true_value, false_value, false)
            }
            ExprNode::IfThenElse { condition, then_value, else_value } => {
                self.choose(expr, condition, then_value, else_value, true)
            }
            ExprNode::Int { .. } => expr.clone(),
            ExprNode::Var { .. } => match self.var_facts(expr).2 {
                Some(Value::Expr(value)) => value,
                _ => expr.clone(),
            },
            _ => {
                let new = self.simplify_parts(expr);
                folded(&new)
            }
        }
    }

    pub(crate) fn const_interval(&mut self, expr: &Expr) -> ConstInterval {
        if is_index(expr) {
            let sum = self.sum_of(expr);
            return self.range(&sum);
        }
        match &**expr {
            _ if expr.dtype().is_float() || expr.dtype().is_handle() => ConstInterval::EVERYTHING,
            ExprNode::Int { value, dtype } if dtype.bits() < 64 || !dtype.is_uint() => ConstInterval::point(*value),
            _ if !expr.dtype().is_scalar() => self.lanes_interval(expr, 8),
            ExprNode::Cast { value, dtype } if value.dtype().is_integer() || value.dtype().is_bool() => {
                self.const_interval(value).cast(*dtype)
            }
            ExprNode::Compare { .. } | ExprNode::Logic { .. } | ExprNode::Not { .. } => {
                let simple = self.simplify(expr);
                simple.as_int().map_or(ConstInterval::new(0, 1), ConstInterval::point)
            }
            _ => ConstInterval::of_type(expr.dtype()),
        }
    }
}
