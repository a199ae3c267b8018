//! Vectors: a lane of a ramp is a sum with the lane index as a variable.
//!
//! Lanes are added and multiplied modulo `2^n`, like their scalars; comparisons and quotients are
//! those of whole numbers. The bounds of lanes assume nothing about divisors: any lane may be 0.

use super::analyzer::State;
use super::compare::comparison;
use super::facts::is_index;
use super::fold::folded;
use super::interval::ConstInterval;
use super::modular::ModularSet;
use super::render::{binary, render};
use super::same::same;
use super::sum::Sum;
use super::wrapping::of_division;
use crate::ir::visit::uses_var;
use crate::ir::{BinaryOp, DataTypeExt, Expr, ExprNode, LogicOp, Var};

impl State {
    /// Simplifies an expression of several lanes.
    pub(crate) fn simplify_lanes(&mut self, expr: &Expr) -> Expr {
        match &**expr {
            ExprNode::Ramp { base, stride, lanes } => {
                let (new_base, new_stride) = (self.simplify_operand(base), self.simplify_operand(stride));
                if new_stride.is_int(0) {
                    return new_base.broadcast(*lanes);
                }
                if new_base.same_as(base) && new_stride.same_as(stride) {
                    expr.clone()
                } else {
                    new_base.ramp(new_stride, *lanes)
                }
            }
            ExprNode::Broadcast { value, lanes } => {
                let new = self.simplify_operand(value);
                if new.same_as(value) { expr.clone() } else { new.broadcast(*lanes) }
            }
            ExprNode::Binary { op, a, b, .. } => {
                let (x, y) = (self.simplify(a), self.simplify(b));
                if self.becomes_index([a, b], [&x, &y]) {
                    return self.with_values(expr);
                }
                if let (Some(left), Some(right)) = (self.lane_of(&x), self.lane_of(&y)) {
                    let lanes = expr.lanes();
                    let lane = Expr::from_node(ExprNode::Binary { op: *op, dtype: left.dtype(), a: left, b: right });
                    let sum = self.ring_sum(&lane);
                    if !sum.has_lost_data()
                        && let Some(vector) = self.vector(&sum, lanes)
                    {
                        return vector;
                    }
                    if *op == BinaryOp::Mul {
                        let sum = self.expanded_sum(&sum);
                        if let Some(vector) = self.vector(&sum, lanes) {
                            return vector;
                        }
                    }
                }
                if let (ExprNode::Broadcast { value: p, lanes }, ExprNode::Broadcast { value: q, .. }) = (&*x, &*y) {
                    let dtype = p.dtype();
                    let scalar = Expr::from_node(ExprNode::Binary { op: *op, a: p.clone(), b: q.clone(), dtype });
                    return self.simplify_operand(&scalar).broadcast(*lanes);
                }
                folded_lanes(*op, binary(*op, x, y, Some(expr)))
            }
            ExprNode::Compare { op, a, b } => {
                let (x, y) = (self.simplify(a), self.simplify(b));
                let lanes = expr.lanes();
                if let (Some(left), Some(right)) = (self.lane_of(&x), self.lane_of(&y)) {
                    let scalar = Expr::from_node(ExprNode::Compare { op: *op, a: left.clone(), b: right.clone() });
                    let result = self.compare(*op, &left, &right, &scalar);
                    let lane = self.lane(lanes, x.dtype().element());
                    if !uses_var(&result, |var| *var == lane) {
                        return result.broadcast(lanes);
                    }
                }
                if let (ExprNode::Broadcast { value: p, .. }, ExprNode::Broadcast { value: q, .. }) = (&*x, &*y) {
                    let scalar = Expr::from_node(ExprNode::Compare { op: *op, a: p.clone(), b: q.clone() });
                    return self.simplify(&scalar).broadcast(lanes);
                }
                comparison(*op, x, y, Some(expr))
            }
            ExprNode::Logic { op, a, b } => {
                let (x, y) = (self.simplify(a), self.simplify(b));
                let and = *op == LogicOp::And;
                for (side, other) in [(&x, &y), (&y, &x)] {
                    if side.is_true() || side.is_false() {
                        return if side.is_true() == and { other.clone() } else { side.clone() };
                    }
                }
                if same(&x, &y) {
                    return x;
                }
                if let (ExprNode::Broadcast { value: p, lanes }, ExprNode::Broadcast { value: q, .. }) = (&*x, &*y) {
                    let scalar = Expr::from_node(ExprNode::Logic { op: *op, a: p.clone(), b: q.clone() });
                    return self.simplify(&scalar).broadcast(*lanes);
                }
                if x.same_as(a) && y.same_as(b) {
                    expr.clone()
                } else {
                    Expr::from_node(ExprNode::Logic { op: *op, a: x, b: y })
                }
            }
            ExprNode::Select { condition, true_value, false_value } => {
                self.choose_lanes(expr, condition, true_value, false_value, false)
            }
            ExprNode::IfThenElse { condition, then_value, else_value } => {
                self.choose_lanes(expr, condition, then_value, else_value, true)
            }
            ExprNode::Cast { dtype, value } => {
                let new = self.simplify(value);
                if let ExprNode::Broadcast { value: scalar, lanes } = &*new {
                    let cast = Expr::from_node(ExprNode::Cast { dtype: dtype.element(), value: scalar.clone() });
                    return self.simplify_operand(&cast).broadcast(*lanes);
                }
                if new.same_as(value) { expr.clone() } else { new.cast(*dtype) }
            }
            ExprNode::Not { value } => {
                let new = self.simplify(value);
                if let ExprNode::Broadcast { value: scalar, lanes } = &*new {
                    let not = Expr::from_node(ExprNode::Not { value: scalar.clone() });
                    return self.simplify(&not).broadcast(*lanes);
                }
                if let ExprNode::Not { value } = &*new {
                    return value.clone();
                }
                if new.same_as(value) { expr.clone() } else { Expr::from_node(ExprNode::Not { value: new }) }
            }
            ExprNode::Call { .. } if expr.without_likely().1 => {
                let inner = expr.without_likely().0;
                let new = self.simplify(&inner);
                if new.is_true() || new.is_false() {
                    new
                } else if new.same_as(&inner) {
                    expr.clone()
                } else {
                    new.likely()
                }
            }
            _ => folded(&self.simplify_node(expr)),
        }
    }

    fn choose_lanes(&mut self, expr: &Expr, condition: &Expr, a: &Expr, b: &Expr, lazy: bool) -> Expr {
        let new = self.choose(expr, condition, a, b, lazy);
        // A condition that is the same for all lanes is a scalar.
        let (ExprNode::Select { condition, true_value: x, false_value: y }
        | ExprNode::IfThenElse { condition, then_value: x, else_value: y }) = &*new
        else {
            return new;
        };
        let ExprNode::Broadcast { value, .. } = &**condition else { return new };
        let (condition, x, y) = (value.clone(), x.clone(), y.clone());
        Expr::from_node(if lazy {
            ExprNode::IfThenElse { condition, then_value: x, else_value: y }
        } else {
            ExprNode::Select { condition, true_value: x, false_value: y }
        })
    }

    /// Returns true if an operation on data is one on indices with its simplified operands.
    fn becomes_index(&mut self, old: [&Expr; 2], new: [&Expr; 2]) -> bool {
        let is_number = |vector: &Expr| match &**vector {
            ExprNode::Broadcast { value, .. } => value.as_int().is_some(),
            _ => false,
        };
        // Numbers are folded, and wrap then.
        !new.iter().all(|side| is_number(side))
            && old.iter().zip(new).any(|(old, new)| self.loses_data(old, new))
            && !new.iter().any(|side| self.is_data(side))
    }

    /// The variable that represents the lane index.
    fn lane(&mut self, lanes: u16, dtype: kernpack::DataType) -> Var {
        let index = self.lanes.iter().position(|(count, var)| *count == lanes && var.dtype() == dtype);
        if let Some(index) = index {
            return self.lanes[index].1.clone();
        }
        let var = Var::new("lane", dtype);
        self.lanes.push((lanes, var.clone()));
        self.know_range(&var, ConstInterval::new(0, i64::from(lanes) - 1));
        var
    }

    /// One lane of a ramp or of a broadcast, as an expression of the lane index.
    fn lane_of(&mut self, vector: &Expr) -> Option<Expr> {
        match &**vector {
            ExprNode::Ramp { base, stride, lanes } if is_index(base) => {
                let lane = self.lane(*lanes, base.dtype());
                Some(base + &(lane.expr() * stride))
            }
            ExprNode::Broadcast { value, .. } if is_index(value) => Some(value.clone()),
            _ => None,
        }
    }

    /// A sum that is linear in the lane index, as a vector. `None` if it is not linear, or if a
    /// number does not fit.
    fn vector(&mut self, sum: &Sum, lanes: u16) -> Option<Expr> {
        let lane = self.lane(lanes, sum.dtype);
        let is_lane = |var: &Var| *var == lane;
        let mut base = Sum::constant(sum.dtype, sum.base);
        let mut stride = Sum::constant(sum.dtype, 0);
        for term in &sum.terms {
            if term.index.same_as(&lane) && term.is_whole() {
                stride.add_base(term.scale);
                continue;
            }
            if !uses_var(&term.index, is_lane) {
                base.add_term(term.clone());
                continue;
            }
            let cofactor = if term.is_whole() { super::divisor::without_operand(&term.index, &lane) } else { None };
            let cofactor = cofactor.filter(|cofactor| !uses_var(cofactor, is_lane))?;
            let scale = term.scale;
            self.add(&mut stride, &cofactor, scale);
        }
        // A sum whose numbers overflowed lacks terms.
        if sum.overflow || base.overflow || stride.overflow {
            return None;
        }
        let base = render(&base, None);
        Some(if stride.as_constant() == Some(0) {
            base.broadcast(lanes)
        } else {
            base.ramp(render(&stride, None), lanes)
        })
    }

    /// The bounds of all lanes. Parts nested deeper than `depth` get the bounds of their type,
    /// because parts may be shared.
    pub(crate) fn lanes_interval(&mut self, expr: &Expr, depth: u32) -> ConstInterval {
        let own = ConstInterval::of_type(expr.dtype());
        if depth == 0 {
            return own;
        }
        let depth = depth - 1;
        if let Some(lane) = self.lane_of(expr) {
            return self.const_interval(&lane);
        }
        match &**expr {
            ExprNode::Broadcast { value, .. } => self.const_interval(value),
            ExprNode::Binary { op, a, b, .. } => {
                let (x, y) = (self.lanes_interval(a, depth), self.lanes_interval(b, depth));
                let range = match op {
                    BinaryOp::Add => x.plus(y),
                    BinaryOp::Sub => x.minus(y),
                    BinaryOp::Mul => x.times(y),
                    BinaryOp::FloorDiv => x.floor_div(y),
                    BinaryOp::FloorMod => x.floor_mod(y),
                    BinaryOp::Div => x.trunc_div(y),
                    BinaryOp::Mod => x.trunc_mod(y),
                    BinaryOp::Min => x.minimum(y),
                    BinaryOp::Max => x.maximum(y),
                    _ => own,
                };
                let divides = matches!(op, BinaryOp::Div | BinaryOp::Mod | BinaryOp::FloorDiv | BinaryOp::FloorMod);
                // A lane of the divisor may be 0, for any divisor.
                let range = if divides { of_division(range, x, y, own) } else { range };
                // A result that does not fit wraps; for unsigned 64-bit integers, also one that is
                // negative or has no end here.
                let wide = expr.dtype().is_uint() && expr.dtype().bits() == 64;
                let exact = range.is_finite() && !(wide && range.min < 0);
                if own.includes(range) && (exact || !wide && !self.is_data(expr)) { range } else { own }
            }
            ExprNode::Select { true_value: a, false_value: b, .. }
            | ExprNode::IfThenElse { then_value: a, else_value: b, .. } => {
                let (x, y) = (self.lanes_interval(a, depth), self.lanes_interval(b, depth));
                x.union(y)
            }
            ExprNode::Cast { value, dtype } if value.dtype().is_integer() || value.dtype().is_bool() => {
                self.lanes_interval(value, depth).cast(*dtype)
            }
            _ => own,
        }
    }

    pub(crate) fn modular_set(&mut self, expr: &Expr) -> ModularSet {
        if is_index(expr) {
            let sum = self.sum_of(expr);
            return match self.range(&sum).as_point() {
                Some(value) => ModularSet::point(value),
                None => sum.modular(),
            };
        }
        match self.lane_of(expr) {
            Some(lane) => self.modular_set(&lane),
            None => expr.as_int().map_or(ModularSet::EVERYTHING, ModularSet::point),
        }
    }
}

/// Folds a vector operation with an operand that has no effect.
fn folded_lanes(op: BinaryOp, expr: Expr) -> Expr {
    let ExprNode::Binary { a, b, dtype, .. } = &*expr else { return expr };
    let scalar = |side: &Expr| match &**side {
        ExprNode::Broadcast { value, .. } => value.clone(),
        _ => side.clone(),
    };
    if dtype.is_integer() {
        let (x, y) = (scalar(a), scalar(b));
        match op {
            BinaryOp::Add if x.is_int(0) => return b.clone(),
            BinaryOp::Mul if x.is_int(1) => return b.clone(),
            BinaryOp::Mul if x.is_int(0) => return a.clone(),
            BinaryOp::Mul if y.is_int(0) => return b.clone(),
            BinaryOp::Add | BinaryOp::Sub if y.is_int(0) => return a.clone(),
            BinaryOp::Mul | BinaryOp::Div | BinaryOp::FloorDiv if y.is_int(1) => return a.clone(),
            BinaryOp::Div | BinaryOp::Mod | BinaryOp::FloorDiv | BinaryOp::FloorMod if y.is_int(0) => return b.clone(),
            BinaryOp::Sub if same(a, b) => return Expr::constant(*dtype, 0),
            BinaryOp::Min | BinaryOp::Max if same(a, b) => return a.clone(),
            _ => {}
        }
    } else if dtype.is_float() {
        let is = |side: &Expr, value: f64| scalar(side).as_float().is_some_and(|own| own.to_bits() == value.to_bits());
        match op {
            BinaryOp::Mul if is(a, 1.0) => return b.clone(),
            BinaryOp::Mul | BinaryOp::Div if is(b, 1.0) => return a.clone(),
            BinaryOp::Sub if is(b, 0.0) => return a.clone(),
            BinaryOp::Add if is(b, -0.0) => return a.clone(),
            _ => {}
        }
    }
    expr
}
