//! Compilation of expressions.

use std::collections::HashMap;

use super::code::{Op, Place, Quick, Reg, Value};
use super::compile::Compiler;
use super::number::{self, Lane};
use crate::error::{CompileError, ErrorKind, Result, fail, require};
use crate::ir::builtin;
use crate::ir::{BinaryOp, Buffer, DataTypeExt, Expr, ExprNode, F32, I64, Var, with_stack};

impl Compiler<'_, '_> {
    pub(super) fn place(&mut self, buffer: &Buffer) -> Result<Place> {
        let Some(data) = self.vars.get(&buffer.data).copied() else {
            return Err(CompileError::new(ErrorKind::Run, format!("unknown buffer `{}`", buffer.name))
                .note("no parameter, `alloc` or `alias` around the statement defines its data pointer"));
        };
        let view = self.views.get(&buffer.data).copied().flatten();
        Ok(Place::new(data, view, buffer.name.as_str(), buffer.dtype))
    }

    /// An expression whose overflow is an error.
    pub(super) fn index(&mut self, expr: &Expr) -> Result<Reg> {
        let outer = core::mem::replace(&mut self.checked, true);
        let result = self.expr(expr);
        self.checked = outer;
        result
    }

    /// An expression that computes data.
    pub(super) fn value(&mut self, expr: &Expr) -> Result<Reg> {
        let outer = core::mem::replace(&mut self.checked, false);
        let result = self.expr(expr);
        self.checked = outer;
        result
    }

    pub(super) fn expr(&mut self, expr: &Expr) -> Result<Reg> {
        with_stack(|| {
            let key = (expr.address(), self.checked);
            if let Some(reg) = self.memo.iter().rev().find_map(|known| known.get(&key)) {
                return Ok(*reg);
            }
            let reg = self.new_expr(expr)?;
            let repeatable = match &**expr {
                ExprNode::Call { kind, name, .. } => builtin::effect(*kind, name.as_str()) <= builtin::Effect::Reads,
                _ => true,
            };
            if repeatable {
                self.memo.last_mut().expect("one at least").insert(key, reg);
            }
            Ok(reg)
        })
    }

    pub(super) fn same_lanes(&self, what: &str, a: &Expr, b: &Expr) -> Result<()> {
        require!(a.dtype() == b.dtype(), Run, "{what} of {} and {}", a.dtype().short_name(), b.dtype().short_name());
        Ok(())
    }

    /// The active lanes, if the value has the same number of lanes.
    pub(super) fn active_for(&self, lanes: u16) -> Option<Reg> {
        self.active.filter(|(_, count)| *count == lanes).map(|(reg, _)| reg)
    }

    pub(super) fn new_expr(&mut self, expr: &Expr) -> Result<Reg> {
        let dtype = expr.dtype();
        Ok(match &**expr {
            ExprNode::Int { value, .. } => self.constant(Value::One(*value as u64)),
            ExprNode::Float { dtype, value } => {
                let bits = number::float_bits(*dtype, *value);
                self.constant(Value::One(bits))
            }
            ExprNode::Text { .. } => fail!(Run, "a text that is not an argument of a call"),
            ExprNode::Var { name, .. } => {
                let var = Var::of(expr).expect("a variable");
                match self.vars.get(&var) {
                    Some(reg) => *reg,
                    None => fail!(Run, "unknown variable `{name}`: nothing around the statement defines it"),
                }
            }
            ExprNode::Cast { dtype, value } => {
                require!(dtype.lanes() == value.lanes(), Run, "a cast that changes the number of lanes");
                let (old, new) = (value.dtype().element(), dtype.element());
                Lane::of(old)?;
                Lane::of(new)?;
                let from = self.expr(value)?;
                let to = self.temporary();
                self.emit(Op::Cast { to, from, old, new });
                to
            }
            ExprNode::Binary { op, a, b, .. } => {
                self.same_lanes("arithmetic", a, b)?;
                let lane = Lane::of(a.dtype())?;
                let (x, y) = (self.expr(a)?, self.expr(b)?);
                let (to, active, checked) = (self.temporary(), self.active_for(dtype.lanes()), self.checked);
                let arithmetic = matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul);
                let quick = match dtype {
                    I64 if arithmetic => Some(Quick::Index(*op, checked)),
                    F32 if arithmetic => Some(Quick::Single(*op)),
                    _ => None,
                };
                if let Some(quick) = quick {
                    self.emit(Op::Quick { to, quick, a: x, b: y });
                    return Ok(to);
                }
                self.emit(Op::Binary { to, op: *op, lane, a: x, b: y, checked, active });
                to
            }
            ExprNode::Compare { op, a, b } => {
                self.same_lanes("comparison", a, b)?;
                let lane = Lane::of(a.dtype())?;
                let (x, y) = (self.expr(a)?, self.expr(b)?);
                let to = self.temporary();
                if a.dtype() == I64 {
                    self.emit(Op::Quick { to, quick: Quick::Compare(*op), a: x, b: y });
                    return Ok(to);
                }
                self.emit(Op::Compare { to, op: *op, lane, a: x, b: y });
                to
            }
            ExprNode::Logic { op, a, b } => {
                self.same_lanes("condition", a, b)?;
                let (x, y) = (self.expr(a)?, self.expr(b)?);
                let to = self.temporary();
                self.emit(Op::Logic { to, op: *op, a: x, b: y });
                to
            }
            ExprNode::Not { value } => {
                let from = self.expr(value)?;
                let to = self.temporary();
                self.emit(Op::Not { to, from });
                to
            }
            ExprNode::Select { condition, true_value, false_value } => {
                self.same_lanes("choice", true_value, false_value)?;
                let lanes = condition.lanes();
                require!(lanes == 1 || lanes == dtype.lanes(), Run, "a condition of {lanes} lanes");
                let condition = self.expr(condition)?;
                let (a, b) = (self.expr(true_value)?, self.expr(false_value)?);
                let to = self.temporary();
                self.emit(Op::Select { to, condition, a, b });
                to
            }
            ExprNode::IfThenElse { condition, then_value, else_value } => {
                self.same_lanes("choice", then_value, else_value)?;
                if condition.lanes() > 1 {
                    return self.lanes_choice(condition, then_value, else_value);
                }
                let condition = self.expr(condition)?;
                let to = self.temporary();
                let skip = self.emit(Op::JumpUnless { condition, target: 0 });
                self.arm(then_value, to)?;
                let end = self.emit(Op::Jump { target: 0 });
                self.set_target(skip);
                self.arm(else_value, to)?;
                self.set_target(end);
                to
            }
            ExprNode::Ramp { base, stride, lanes } => {
                self.same_lanes("ramp", base, stride)?;
                let dtype = base.dtype();
                require!(dtype.is_integer() && dtype.is_scalar(), Run, "a ramp of {}", dtype.short_name());
                let (base, stride) = (self.expr(base)?, self.expr(stride)?);
                let (to, checked) = (self.temporary(), self.checked);
                self.emit(Op::Ramp { to, dtype, base, stride, lanes: *lanes, checked });
                to
            }
            ExprNode::Broadcast { value, lanes } => {
                require!(value.dtype().is_scalar(), Run, "a broadcast of a vector");
                let from = self.expr(value)?;
                let to = self.temporary();
                self.emit(Op::Broadcast { to, from, lanes: *lanes });
                to
            }
            ExprNode::Shuffle { vectors, indices } => {
                let total: i64 = vectors.iter().map(|vector| i64::from(vector.lanes())).sum();
                let mut lanes = Vec::new();
                for index in indices.iter() {
                    require!((0..total).contains(&index), Run, "a shuffle takes lane {index} of {total}");
                    lanes.push(index as usize);
                }
                let vectors = vectors.iter().map(|vector| self.expr(&vector)).collect::<Result<Vec<_>>>()?;
                let to = self.temporary();
                self.emit(Op::Shuffle { to, vectors, indices: lanes });
                to
            }
            ExprNode::Let { var, value, body } => {
                let from = self.expr(value)?;
                let (outer_vars, outer_visible) = (self.vars.get(var).copied(), self.visible.clone());
                self.define_as(var, from);
                let result = self.expr(body)?;
                if let Some(reg) = outer_vars {
                    self.vars.insert(var.clone(), reg);
                }
                self.visible = outer_visible;
                result
            }
            ExprNode::Load { buffer, index, mask, .. } => {
                let place = self.place(buffer)?;
                require!(index.dtype().is_integer(), Run, "an index of {}", index.dtype().short_name());
                let active = self.active_for(index.lanes());
                let index = self.index(index)?;
                let mask = mask.as_ref().map(|mask| self.index(mask)).transpose()?;
                let mask = match (mask, active) {
                    (Some(mask), Some(active)) => {
                        let to = self.temporary();
                        self.emit(Op::Logic { to, op: crate::ir::LogicOp::And, a: mask, b: active });
                        Some(to)
                    }
                    (mask, active) => mask.or(active),
                };
                let to = self.temporary();
                self.emit(Op::Load { to, place, index, mask });
                to
            }
            ExprNode::TensorRead { .. } | ExprNode::Reduce { .. } => {
                fail!(Run, "the interpreter runs programs after StorageFlatten: this one has tensors")
            }
            ExprNode::Call { kind, name, args, dtype } => {
                let args: Vec<Expr> = args.iter().collect();
                self.call(*kind, name.as_str(), &args, *dtype)?
            }
        })
    }

    pub(super) fn constant(&mut self, value: Value) -> Reg {
        let to = self.temporary();
        self.emit(Op::Constant { to, value });
        to
    }

    /// Compiles a value that is evaluated only if its side is selected.
    pub(super) fn arm(&mut self, value: &Expr, to: Reg) -> Result<()> {
        self.memo.push(HashMap::new());
        let from = self.expr(value);
        self.memo.pop();
        let from = from?;
        self.emit(Op::Copy { to, from });
        Ok(())
    }

    /// Compiles a select for each lane, where only the selected side is evaluated.
    pub(super) fn lanes_choice(&mut self, condition: &Expr, then_value: &Expr, else_value: &Expr) -> Result<Reg> {
        let lanes = condition.lanes();
        require!(lanes == then_value.lanes(), Run, "a condition of {lanes} lanes for {}", then_value.lanes());
        let condition = self.expr(condition)?;
        let negated = self.temporary();
        self.emit(Op::Not { to: negated, from: condition });
        let mut sides = [0; 2];
        for (side, (chosen, value)) in sides.iter_mut().zip([(condition, then_value), (negated, else_value)]) {
            let mut active = chosen;
            if let Some(outer) = self.active_for(lanes) {
                active = self.temporary();
                self.emit(Op::Logic { to: active, op: crate::ir::LogicOp::And, a: chosen, b: outer });
            }
            *side = self.temporary();
            let any = self.temporary();
            self.emit(Op::Any { to: any, from: active });
            let skip = self.emit(Op::JumpUnless { condition: any, target: 0 });
            let outer = self.active.replace((active, lanes));
            let result = self.arm(value, *side);
            self.active = outer;
            result?;
            let end = self.emit(Op::Jump { target: 0 });
            self.set_target(skip);
            let zeros = vec![0; usize::from(lanes)];
            self.emit(Op::Constant { to: *side, value: Value::Many(zeros.into()) });
            self.set_target(end);
        }
        let to = self.temporary();
        self.emit(Op::Select { to, condition, a: sides[0], b: sides[1] });
        Ok(to)
    }
}
