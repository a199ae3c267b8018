//! Expressions as canonical sums.

use std::rc::Rc;

use super::analyzer::{State, Value};
use super::division::is_safe_part;
use super::facts::is_index;
use super::fold::folded;
use super::interval::ConstInterval;
use super::modular::ModularSet;
use super::render::{binary, render};
use super::sum::{Sum, Term, WHOLE};
use crate::ir::builder::fold_int;
use crate::ir::mutate::{Mutate, mutate_expr_parts};
use crate::ir::{BinaryOp, DataTypeExt, Expr, ExprNode, with_stack};

impl State {
    /// The canonical sum of an expression of an index type, as a whole number.
    pub(crate) fn sum_of(&mut self, expr: &Expr) -> Sum {
        let sum = self.ring_sum(expr);
        self.settled(sum, Some(expr))
    }

    /// The canonical sum of an expression of an index type; for data that wraps, it is correct only
    /// modulo `2^n`.
    pub(crate) fn ring_sum(&mut self, expr: &Expr) -> Sum {
        let mut sum = Sum::constant(expr.dtype(), 0);
        self.add(&mut sum, expr, 1);
        self.finished(sum, expr)
    }

    /// Adds `expr * factor`, modulo `2^n` if it is data.
    pub(crate) fn add(&mut self, sum: &mut Sum, expr: &Expr, factor: i64) {
        match &**expr {
            ExprNode::Int { value, .. } => match value.checked_mul(factor) {
                Some(value) => sum.add_base(value),
                None => sum.overflow = true,
            },
            ExprNode::Var { .. } => self.add_var(sum, expr, factor),
            _ => with_stack(|| self.add_node(sum, expr, factor)),
        }
    }

    fn add_var(&mut self, sum: &mut Sum, expr: &Expr, factor: i64) {
        let (range, modular, value) = self.var_facts(expr);
        let data = self.is_data(expr);
        sum.of_data |= data;
        match value {
            Some(Value::Sum(value)) => sum.add_scaled(&value, factor),
            Some(Value::Expr(value)) if is_index(&value) => self.add(sum, &value, factor),
            _ => match range.as_point() {
                Some(value) => sum.add_scaled(&Sum::constant(sum.dtype, value), factor),
                None => {
                    let mut term = Term::whole(expr.clone(), range, modular);
                    term.scale = factor;
                    term.data = data;
                    sum.add_term(term);
                }
            },
        }
    }

    fn add_node(&mut self, sum: &mut Sum, expr: &Expr, factor: i64) {
        if let ExprNode::Binary { op, a, b, .. } = &**expr {
            let times = match (op, a.as_int(), b.as_int()) {
                (BinaryOp::Mul, _, Some(value)) => Some((a, value)),
                (BinaryOp::Mul, Some(value), _) => Some((b, value)),
                _ => None,
            };
            if let Some((operand, value)) = times {
                return match value.checked_mul(factor) {
                    Some(0) => sum.of_data |= self.is_data(operand),
                    Some(factor) => self.add(sum, operand, factor),
                    None => sum.overflow = true,
                };
            }
            // A shared node is computed once: otherwise a chain of `x + x` takes exponential time.
            if matches!(op, BinaryOp::Add | BinaryOp::Sub) && expr.object().strong_count() == 1 {
                self.add(sum, a, factor);
                return match factor.checked_neg() {
                    Some(negated) => self.add(sum, b, if *op == BinaryOp::Sub { negated } else { factor }),
                    None => sum.overflow = true,
                };
            }
        }
        let part = self.remembered_sum(expr);
        sum.add_scaled(&part, factor);
    }

    fn remembered_sum(&mut self, expr: &Expr) -> Rc<Sum> {
        let shared = expr.object().strong_count() > 1;
        if shared && let Some(sum) = self.remembered(expr) {
            return sum;
        }
        let sum = self.compute(expr);
        let sum = Rc::new(self.finished(sum, expr));
        if shared {
            self.remember(expr, &sum);
        }
        sum
    }

    /// Replaces indices that became whole by their sums, and joins terms that belong together.
    pub(crate) fn taken_apart(&mut self, mut sum: Sum) -> Sum {
        while !sum.overflow
            && let Some(place) = sum.terms.iter().position(|term| term.composite && term.is_whole())
        {
            let term = sum.terms.remove(place);
            let index = self.sum_of(&term.index);
            sum.add_scaled(&index, term.scale);
        }
        self.join_multiples(&mut sum);
        self.join_products(&mut sum);
        sum
    }

    /// [`taken_apart`](Self::taken_apart); the expression itself if numbers do not fit, or if the
    /// indices that are left of data may not be computed.
    fn finished(&mut self, sum: Sum, expr: &Expr) -> Sum {
        let sum = self.taken_apart(sum).with_numbers();
        if sum.fits() {
            return if sum.has_lost_data() && !is_safe_part(&sum, &[]) { self.kept(expr, &sum) } else { sum };
        }
        // The overflow is kept as it is in the program.
        let same = folded(&self.simplify_parts(expr));
        let of_data = sum.of_data || self.is_data(expr);
        match same.as_int() {
            Some(value) if value != i64::MIN => return Sum { of_data, ..Sum::constant(expr.dtype(), value) },
            None if of_data && !self.is_data(&same) => return self.kept(expr, &sum),
            _ => {}
        }
        let mut term = Term::whole(same, ConstInterval::of_type(expr.dtype()), ModularSet::EVERYTHING);
        term.data = true;
        Sum::of(expr.dtype(), term)
    }

    /// `c * floordiv(x, c)` is `x - r` where all values of x have the remainder r.
    fn join_multiples(&mut self, sum: &mut Sum) {
        let mut place = 0;
        while place < sum.terms.len() && !sum.overflow {
            let term = &sum.terms[place];
            place += 1;
            if term.lower == 1 || term.upper != WHOLE || term.scale % term.lower != 0 || term.index_mod.coeff == 1 {
                continue;
            }
            let Some(remainder) = term.index_mod.remainder(term.lower) else { continue };
            let scale = term.scale / term.lower;
            let Some(offset) = scale.checked_mul(remainder) else { continue };
            let index = sum.terms.remove(place - 1).index;
            let index = self.sum_of(&index);
            sum.add_scaled(&index, scale);
            sum.add_base(offset.wrapping_neg());
            place = 0;
        }
    }

    fn compute(&mut self, expr: &Expr) -> Sum {
        let mut sum = match &**expr {
            ExprNode::Binary { op, a, b, .. } => return self.compute_binary(*op, a, b, expr),
            ExprNode::Cast { value, .. } if is_index(value) => {
                let inner = self.ring_sum(value);
                let of_data = inner.of_data;
                let inner = self.settled(inner, Some(value));
                let mut sum = self.compute_cast(&inner, value, expr);
                sum.of_data |= of_data;
                return self.operation(sum, expr);
            }
            ExprNode::Select { condition, true_value, false_value } => {
                self.choice(expr, condition, true_value, false_value, false)
            }
            ExprNode::IfThenElse { condition, then_value, else_value } => {
                self.choice(expr, condition, then_value, else_value, true)
            }
            _ => self.compute_other(expr),
        };
        // A choice is data also if its condition is, and if it chooses an index.
        sum.of_data = sum.of_data || self.is_data(expr);
        // One of the parts, or a new node.
        let is_part = sum.as_term().is_none_or(|term| matches!(*term.index, ExprNode::Var { .. }));
        if is_part { sum } else { self.operation(sum, expr) }
    }

    fn compute_cast(&mut self, inner: &Sum, value: &Expr, expr: &Expr) -> Sum {
        let dtype = expr.dtype();
        let (range, modular) = (self.range(inner), inner.modular());
        let fits = ConstInterval::of_type(dtype).includes(range);
        // A cast to a wider type and back results in the value itself.
        if fits
            && let Some(term) = inner.as_term()
            && term.is_whole()
            && term.scale == 1
            && let ExprNode::Cast { value: original, .. } = &*term.index
            && original.dtype() == dtype
            && ConstInterval::of_type(value.dtype()).includes(self.const_interval(original))
        {
            return self.ring_sum(original);
        }
        if let Some(number) = inner.as_number() {
            let constant = Expr::constant(dtype, number);
            return self.opaque(constant, ConstInterval::EVERYTHING, ModularSet::EVERYTHING);
        }
        // A truncated value is data.
        let data = inner.is_data() || !fits;
        let new = render(inner, Some(value));
        let node = if new.same_as(value) { expr.clone() } else { new.cast(dtype) };
        let known = if fits { (range, modular) } else { (ConstInterval::of_type(dtype), ModularSet::EVERYTHING) };
        self.value_of(node, known.0, known.1, data)
    }

    fn compute_other(&mut self, expr: &Expr) -> Sum {
        let new = self.simplify_node(expr);
        if new.same_as(expr) || !matches!(*new, ExprNode::Int { .. } | ExprNode::Var { .. } | ExprNode::Binary { .. }) {
            let range = self.opaque_range(&new);
            return self.opaque(new, range, ModularSet::EVERYTHING);
        }
        self.ring_sum(&new)
    }

    fn opaque_range(&mut self, expr: &Expr) -> ConstInterval {
        let own = ConstInterval::of_type(expr.dtype());
        match &**expr {
            ExprNode::Cast { value, .. } if value.dtype().is_integer() || value.dtype().is_bool() => {
                let range = self.const_interval(value);
                if own.includes(range) { range } else { own }
            }
            ExprNode::Let { body, .. } if is_index(body) => own,
            ExprNode::Call { name, args, .. } if name.as_str() == "abs" => match args.get(0) {
                Some(arg) if is_index(&arg) => {
                    let range = self.const_interval(&arg);
                    if range.min <= own.min && self.is_data(&arg) {
                        return own;
                    }
                    range.maximum(range.negated()).intersect(ConstInterval::new(0, i64::MAX))
                }
                _ => own,
            },
            ExprNode::Call { name, .. } if matches!(name.as_str(), "popcount" | "clz" | "ctz") => {
                ConstInterval::new(0, 64)
            }
            _ => own,
        }
    }

    /// A value that is opaque to arithmetic; facts about it are added.
    pub(crate) fn opaque(&mut self, expr: Expr, range: ConstInterval, modular: ModularSet) -> Sum {
        let data = self.is_data(&expr);
        self.value_of(expr, range, modular, data)
    }

    /// [`opaque`](Self::opaque), where the caller knows whether the expression is data.
    fn value_of(&mut self, expr: Expr, range: ConstInterval, modular: ModularSet, data: bool) -> Sum {
        let dtype = expr.dtype();
        if let ExprNode::Int { value, .. } = *expr {
            return Sum::constant(dtype, value);
        }
        let mut term = Term::whole(expr.clone(), range, modular);
        term.data = data;
        let term = self.refined(term);
        let sum = match term.range.as_point() {
            Some(value) => Sum { of_data: data, ..Sum::constant(dtype, value) },
            None => Sum::of(dtype, term),
        };
        // Proofs and nested operations examine new nodes again.
        self.remember(&expr, &Rc::new(sum.clone()));
        sum
    }

    /// The term with the facts about its value; its factor is 1.
    pub(crate) fn refined(&self, mut term: Term) -> Term {
        for fact in self.atoms.iter().rev() {
            if fact.alive && fact.term.same_value(&term) {
                term.range = term.range.intersect(fact.term.range);
                if term.is_whole() {
                    term.index_range = term.index_range.intersect(fact.term.range);
                    term.index_mod = term.index_mod.intersect(fact.term.index_mod);
                }
            }
        }
        term
    }

    fn compute_binary(&mut self, op: BinaryOp, a: &Expr, b: &Expr, expr: &Expr) -> Sum {
        let (mut left, mut right) = (self.ring_sum(a), self.ring_sum(b));
        let of_data = left.of_data || right.of_data;
        let is_sum = matches!(op, BinaryOp::Add | BinaryOp::Sub);
        if !is_sum && op != BinaryOp::Mul {
            left = self.settled(left, Some(a));
            right = self.settled(right, Some(b));
        }
        let mut sum = self.combined(op, left, right, expr);
        sum.of_data |= of_data;
        if is_sum { sum } else { self.operation(sum, expr) }
    }

    /// An operation on two sums, which are whole numbers if it is not a sum or a product.
    fn combined(&mut self, op: BinaryOp, mut left: Sum, right: Sum, expr: &Expr) -> Sum {
        let dtype = expr.dtype();
        if let (Some(x), Some(y)) = (left.as_number(), right.as_number())
            && let Some(value) = fold_int(op, dtype, x, y)
        {
            return self.opaque(Expr::constant(dtype, value), ConstInterval::point(value), ModularSet::point(value));
        }
        match op {
            BinaryOp::Add | BinaryOp::Sub => {
                left.add_scaled(&right, if op == BinaryOp::Add { 1 } else { -1 });
                left
            }
            BinaryOp::Mul => self.product(left, right, expr),
            BinaryOp::FloorDiv => self.floor_div(left, right, expr),
            BinaryOp::FloorMod => self.floor_mod(left, right, expr),
            BinaryOp::Div | BinaryOp::Mod => self.truncating(op, left, right, expr),
            BinaryOp::Min | BinaryOp::Max => self.extreme(op, left, right, expr),
            _ => {
                if right.as_constant() == Some(0) && matches!(op, BinaryOp::ShiftLeft | BinaryOp::ShiftRight) {
                    return left;
                }
                let (x, y) = (self.range(&left), self.range(&right));
                let range = match op {
                    BinaryOp::BitAnd => x.bit_and(y),
                    BinaryOp::BitOr | BinaryOp::BitXor => x.bit_or(y),
                    BinaryOp::ShiftRight => x.shift_right(y),
                    _ => ConstInterval::EVERYTHING,
                };
                let range = range.intersect(ConstInterval::of_type(dtype));
                let node = self.rebuilt(op, &left, &right, expr);
                self.opaque(node, range, ModularSet::EVERYTHING)
            }
        }
    }

    /// The operation on two sums as an expression; `expr` itself if nothing changed.
    pub(crate) fn rebuilt(&mut self, op: BinaryOp, left: &Sum, right: &Sum, expr: &Expr) -> Expr {
        let (a, b) = match &**expr {
            ExprNode::Binary { op: own, a, b, .. } if *own == op => (Some(a), Some(b)),
            _ => (None, None),
        };
        binary(op, render(left, a), render(right, b), Some(expr))
    }

    /// The node with its parts simplified, without further rewriting of the node itself.
    pub(crate) fn simplify_parts(&mut self, expr: &Expr) -> Expr {
        if let ExprNode::Let { var, value, body } = &**expr {
            return self.simplify_let(expr, var, value, body);
        }
        mutate_expr_parts(&mut Parts(self), expr).unwrap_or_else(|_| expr.clone())
    }
}

struct Parts<'a>(&'a mut State);

impl Mutate for Parts<'_> {
    fn mutate_expr(&mut self, expr: &Expr) -> crate::Result<Expr> {
        Ok(self.0.simplify(expr))
    }
}

/// Returns true if two sums are equal term by term.
pub(crate) fn same_sums(a: &Sum, b: &Sum) -> bool {
    a.base == b.base && (a.terms.is_empty() && b.terms.is_empty() || a.multiple_of_terms(b) == Some(1))
}
