//! `VectorizeLoop`: converts the iterations of a loop of kind `Vectorized` to vector lanes.
//!
//! The loop's variable becomes a ramp; values that depend on it become vectors, others stay
//! scalars. A condition that differs between lanes becomes the mask of the stores and loads below
//! it. Memory that is allocated inside gets a lane dimension. A statement without a vector form (a
//! call, a loop whose bounds differ between lanes) runs lane by lane, and the user gets a warning.
//!
//! After it no loop is `Vectorized`.

use std::collections::HashMap;

use kernpack::{Any, Array, Result as PackedResult, packed_func};

use super::PassContext;
use super::pipeline::on_functions;
use crate::error::{CompileError, ErrorKind, Result};
use crate::ir::builtin::{self, Effect};
use crate::ir::mutate::mutate_stmt_parts;
use crate::ir::refresh::fresh_copy;
use crate::ir::{
    BOOLEAN, BinaryOp, Buffer, BufferNode, CallKind, DataTypeExt, Expr, ExprNode, ForKind, LoweredFunc, MutateStmts,
    Stmt, StmtNode, Var, with_stack,
};

/// Vectorizes loops.
///
/// # Errors
/// Returns an error for a vectorized loop whose extent is not a constant, or above 1024.
pub fn vectorize_loop(function: &LoweredFunc, context: &PassContext) -> Result<LoweredFunc> {
    let body = Loops { context }
        .mutate_stmt(&function.body)
        .map_err(|error| error.note(format!("in function `{}`", function.name)))?;
    Ok(function.with_body(body))
}

/// [`vectorize_loop`] for a function or for all functions of a module.
#[packed_func(name = "kernpack.pass.VectorizeLoop")]
fn packed(program: Any, context: PassContext) -> PackedResult<Any> {
    on_functions(&program, &context, vectorize_loop)
}

/// Finds the loops, the innermost ones first.
struct Loops<'a> {
    context: &'a PassContext,
}

impl MutateStmts for Loops<'_> {
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        let stmt = mutate_stmt_parts(self, stmt)?;
        let StmtNode::For { var, min, extent, kind: ForKind::Vectorized, body, .. } = &*stmt else { return Ok(stmt) };
        let Some(lanes) = extent.as_int() else {
            return Err(CompileError::new(
                ErrorKind::Lower,
                format!("vectorize: the extent of loop `{}` is not a constant", var.name()),
            )
            .note("split it by a constant factor and vectorize the inner loop"));
        };
        match lanes {
            ..=0 => return Ok(Stmt::nothing()),
            1 => return Ok(fresh_copy(body, [(var.clone(), min.clone())].into_iter().collect())),
            2..=1024 => {}
            _ => {
                return Err(CompileError::new(
                    ErrorKind::Lower,
                    format!("vectorize: loop `{}` has {lanes} iterations, more than 1024", var.name()),
                )
                .note("split it and vectorize the inner loop"));
            }
        }
        let lanes = u16::try_from(lanes).expect("at most 1024");
        let mut lanewise = Lanewise {
            context: self.context,
            var: var.clone(),
            min: min.clone(),
            lanes,
            vectors: HashMap::from([(var.clone(), min.ramp(Expr::constant(var.dtype(), 1), lanes))]),
            scalars: HashMap::new(),
            buffers: HashMap::new(),
            mask: None,
        };
        match lanewise.stmt(body) {
            Ok(body) => Ok(body),
            Err(reason) => {
                self.context.warn(format!("loop `{}` is not vectorized: {reason}", var.name()));
                Ok(Stmt::for_loop(var.clone(), min, extent, ForKind::Serial, body.clone()))
            }
        }
    }
}

/// A result whose error is the reason why there is no vector form.
type Scalar<T> = core::result::Result<T, String>;

struct Lanewise<'a> {
    context: &'a PassContext,
    var: Var,
    min: Expr,
    lanes: u16,
    /// The vectors, by the scalar variables that they replace.
    vectors: HashMap<Var, Expr>,
    /// The scalar values of names that were replaced by vectors: for statements that run lane by
    /// lane.
    scalars: HashMap<Var, Expr>,
    /// Memory that is allocated inside, with a lane dimension.
    buffers: HashMap<Buffer, Buffer>,
    /// The active lanes; `None` if all lanes are active.
    mask: Option<Expr>,
}

impl Lanewise<'_> {
    fn wide(&self, expr: &Expr) -> Expr {
        if expr.lanes() == self.lanes { expr.clone() } else { expr.broadcast(self.lanes) }
    }

    /// Broadcasts the operands to the same number of lanes.
    fn even(&self, a: Expr, b: Expr) -> Scalar<(Expr, Expr)> {
        match (a.lanes(), b.lanes()) {
            (x, y) if x == y => Ok((a, b)),
            (1, _) => Ok((self.wide(&a), b)),
            (_, 1) => Ok((a, self.wide(&b))),
            (x, y) => Err(format!("vectors of {x} and {y} lanes meet")),
        }
    }

    fn expr(&self, expr: &Expr) -> Scalar<Expr> {
        with_stack(|| self.expr_below(expr))
    }

    fn exprs(&self, exprs: &Array<Expr>) -> Scalar<Vec<Expr>> {
        exprs.iter().map(|expr| self.expr(&expr)).collect()
    }

    fn expr_below(&self, expr: &Expr) -> Scalar<Expr> {
        let node = match &**expr {
            ExprNode::Int { .. } | ExprNode::Float { .. } | ExprNode::Text { .. } => return Ok(expr.clone()),
            ExprNode::Var { .. } => {
                return Ok(Var::of(expr)
                    .and_then(|var| self.vectors.get(&var).cloned())
                    .unwrap_or_else(|| expr.clone()));
            }
            ExprNode::Cast { dtype, value } => {
                let value = self.expr(value)?;
                ExprNode::Cast { dtype: dtype.with_lanes(value.lanes()), value }
            }
            ExprNode::Binary { op, a, b, .. } => return self.binary(*op, self.expr(a)?, self.expr(b)?),
            ExprNode::Compare { op, a, b } => {
                let (a, b) = self.even(self.expr(a)?, self.expr(b)?)?;
                ExprNode::Compare { op: *op, a, b }
            }
            ExprNode::Logic { op, a, b } => {
                let (a, b) = self.even(self.expr(a)?, self.expr(b)?)?;
                ExprNode::Logic { op: *op, a, b }
            }
            ExprNode::Not { value } => ExprNode::Not { value: self.expr(value)? },
            ExprNode::Select { condition, true_value, false_value } => {
                let condition = self.expr(condition)?;
                let (a, b) = self.even(self.expr(true_value)?, self.expr(false_value)?)?;
                let (a, b) = if condition.lanes() > 1 { (self.wide(&a), self.wide(&b)) } else { (a, b) };
                ExprNode::Select { condition, true_value: a, false_value: b }
            }
            ExprNode::IfThenElse { condition, then_value, else_value } => {
                let condition = self.expr(condition)?;
                if condition.lanes() == 1 {
                    let (a, b) = self.even(self.expr(then_value)?, self.expr(else_value)?)?;
                    ExprNode::IfThenElse { condition, then_value: a, else_value: b }
                } else {
                    let a = self.under(&condition).expr(then_value)?;
                    let b = self.under(&condition.negated()).expr(else_value)?;
                    ExprNode::Select { condition, true_value: self.wide(&a), false_value: self.wide(&b) }
                }
            }
            ExprNode::Ramp { base, stride, lanes } => {
                let (base, stride) = (self.expr(base)?, self.expr(stride)?);
                if base.lanes() > 1 || stride.lanes() > 1 {
                    return Err("it is a vector already".to_owned());
                }
                ExprNode::Ramp { base, stride, lanes: *lanes }
            }
            ExprNode::Broadcast { value, lanes } => {
                let value = self.expr(value)?;
                if value.lanes() > 1 {
                    return Err("it is a vector already".to_owned());
                }
                ExprNode::Broadcast { value, lanes: *lanes }
            }
            ExprNode::Shuffle { vectors, indices } => {
                let new = self.exprs(vectors)?;
                if new.iter().zip(vectors.iter()).any(|(new, old)| new.lanes() != old.lanes()) {
                    return Err("a shuffle has no form with more lanes".to_owned());
                }
                ExprNode::Shuffle { vectors: new.into(), indices: indices.clone() }
            }
            ExprNode::Let { var, value, body } => {
                let value = self.expr(value)?;
                let new = Var::new(var.name(), value.dtype());
                let mut inner = self.inner(self.mask.clone());
                inner.vectors.insert(var.clone(), new.expr().clone());
                let body = inner.expr(body)?;
                ExprNode::Let { var: new, value, body }
            }
            ExprNode::Load { buffer, index, mask, .. } => {
                let index = self.expr(index)?;
                let mask = mask.as_ref().map(|mask| self.expr(mask)).transpose()?;
                return self.load(buffer, index, mask);
            }
            ExprNode::Call { kind, name, args, dtype } => return self.call(*kind, name.as_str(), args, *dtype, expr),
            ExprNode::TensorRead { .. } | ExprNode::Reduce { .. } => {
                return Err("it reads a tensor whose storage is not flattened".to_owned());
            }
        };
        Ok(Expr::from_node(node))
    }

    /// Ramps stay ramps where possible.
    fn binary(&self, op: BinaryOp, a: Expr, b: Expr) -> Scalar<Expr> {
        let ramp = |base: Expr, stride: Expr, lanes: u16| Ok(base.ramp(stride, lanes));
        match (op, &*a, &*b) {
            (BinaryOp::Add, ExprNode::Ramp { base, stride, lanes }, _) if b.lanes() == 1 => {
                return ramp(base + &b, stride.clone(), *lanes);
            }
            (BinaryOp::Add, _, ExprNode::Ramp { base, stride, lanes }) if a.lanes() == 1 => {
                return ramp(&a + base, stride.clone(), *lanes);
            }
            (BinaryOp::Sub, ExprNode::Ramp { base, stride, lanes }, _) if b.lanes() == 1 => {
                return ramp(base - &b, stride.clone(), *lanes);
            }
            (BinaryOp::Sub, _, ExprNode::Ramp { base, stride, lanes }) if a.lanes() == 1 => {
                return ramp(&a - base, -stride, *lanes);
            }
            (BinaryOp::Mul, ExprNode::Ramp { base, stride, lanes }, _) if b.lanes() == 1 => {
                return ramp(base * &b, stride * &b, *lanes);
            }
            (BinaryOp::Mul, _, ExprNode::Ramp { base, stride, lanes }) if a.lanes() == 1 => {
                return ramp(&a * base, &a * stride, *lanes);
            }
            (
                BinaryOp::Add | BinaryOp::Sub,
                ExprNode::Ramp { base, stride, lanes },
                ExprNode::Ramp { base: base_b, stride: stride_b, lanes: lanes_b },
            ) if lanes == lanes_b => {
                return ramp(Expr::binary(op, base, base_b), Expr::binary(op, stride, stride_b), *lanes);
            }
            _ => {}
        }
        let (a, mut b) = self.even(a, b)?;
        let dtype = a.dtype();
        let divides = matches!(op, BinaryOp::Div | BinaryOp::Mod | BinaryOp::FloorDiv | BinaryOp::FloorMod);
        if let Some(mask) = self.mask.as_ref().filter(|_| divides && dtype.is_integer() && !is_nonzero(&b)) {
            // Inactive lanes contain 0 instead of the element that they do not load.
            if b.lanes() == mask.lanes() {
                b = Expr::select(mask, &b, Expr::constant(dtype, 1));
            } else if b.lanes() == 1 {
                b = Expr::select(
                    Expr::builtin(builtin::ANY_LANE, BOOLEAN, [mask.clone()]),
                    &b,
                    Expr::constant(dtype, 1),
                );
            }
        }
        Ok(Expr::from_node(ExprNode::Binary { op, a, b, dtype }))
    }

    /// The index of an element of memory that is allocated inside, once each lane has its own.
    fn lane_index(&self, index: Expr) -> Scalar<Expr> {
        let scaled = self.binary(BinaryOp::Mul, index, Expr::int(self.lanes.into()))?;
        self.binary(BinaryOp::Add, scaled, Expr::int(0).ramp(1, self.lanes))
    }

    fn load(&self, buffer: &Buffer, index: Expr, mask: Option<Expr>) -> Scalar<Expr> {
        let mask = match (mask, &self.mask) {
            (None, active) => active.clone(),
            (own, None) => own,
            (Some(own), Some(active)) => {
                let (own, active) = self.even(own, active.clone())?;
                Some(own.and(&active))
            }
        };
        if let Some(own) = self.buffers.get(buffer) {
            // Inactive lanes may not have stored anything there.
            let mask = mask.map(|mask| self.wide(&mask));
            return Ok(Expr::load_masked(own, self.lane_index(index)?, mask));
        }
        match mask {
            None => Ok(Expr::load(buffer, index)),
            Some(mask) if index.lanes() == mask.lanes() => Ok(Expr::load_masked(buffer, index, Some(mask))),
            // An element that is the same for all lanes is read if any lane is active.
            Some(mask) if index.lanes() == 1 => {
                let load = Expr::load(buffer, index);
                let nothing = Expr::constant(load.dtype(), 0);
                let condition = Expr::builtin(builtin::ANY_LANE, BOOLEAN, [mask]);
                Ok(Expr::from_node(ExprNode::IfThenElse { condition, then_value: load, else_value: nothing }))
            }
            Some(mask) => {
                let mask = self.wide(&mask);
                if mask.lanes() != index.lanes() {
                    return Err(format!("a mask of {} lanes for a load of {}", mask.lanes(), index.lanes()));
                }
                Ok(Expr::load_masked(buffer, index, Some(mask)))
            }
        }
    }

    fn call(
        &self,
        kind: CallKind,
        name: &str,
        args: &Array<Expr>,
        dtype: crate::ir::DataType,
        expr: &Expr,
    ) -> Scalar<Expr> {
        let new = self.exprs(args)?;
        if new.iter().zip(args.iter()).all(|(new, old)| new.lanes() == old.lanes()) {
            // The call is the same for all lanes; but a call that must not run for inactive lanes
            // stays scalar.
            if self.mask.is_some() && builtin::effect(kind, name) > Effect::Pure {
                return Err(format!("`{name}` is called for some lanes only"));
            }
            return Ok(Expr::call(kind, name, dtype, new));
        }
        let is_lanewise = match kind {
            CallKind::LlvmIntrinsic => true,
            CallKind::Builtin => {
                builtin::math_arity(name).is_some()
                    || matches!(
                        name,
                        builtin::LIKELY
                            | builtin::REINTERPRET
                            | "popcount"
                            | "clz"
                            | "ctz"
                            | "isnan"
                            | "isinf"
                            | "isfinite"
                            | "bitnot"
                    )
            }
            _ => false,
        };
        if !is_lanewise || !expr.dtype().is_scalar() {
            return Err(format!("`{name}` has no vector form"));
        }
        let args = new.iter().map(|arg| self.wide(arg));
        Ok(Expr::call(kind, name, dtype.with_lanes(self.lanes), args.collect::<Vec<_>>()))
    }

    fn inner(&self, mask: Option<Expr>) -> Lanewise<'_> {
        Lanewise {
            context: self.context,
            var: self.var.clone(),
            min: self.min.clone(),
            lanes: self.lanes,
            vectors: self.vectors.clone(),
            scalars: self.scalars.clone(),
            buffers: self.buffers.clone(),
            mask,
        }
    }

    /// The same rewrite where a condition of the lanes also holds.
    fn under(&self, condition: &Expr) -> Lanewise<'_> {
        let (condition, _) = condition.without_likely();
        let condition = self.wide(&condition);
        self.inner(Some(match &self.mask {
            Some(mask) => mask.and(condition),
            None => condition,
        }))
    }

    /// Rewrites statements in order: names and memory live to the end.
    fn body(&mut self, stmts: &[Stmt]) -> Scalar<Stmt> {
        let mut rewritten = Vec::with_capacity(stmts.len());
        for stmt in stmts {
            match self.stmt(stmt) {
                Ok(stmt) => rewritten.push(stmt),
                // A definition for the following statements cannot run lane by lane.
                Err(reason) if defines(stmt) || !self.buffers.is_empty() => return Err(reason),
                Err(reason) => rewritten.push(self.lane_by_lane(stmt, &reason)?),
            }
        }
        Ok(Stmt::seq(rewritten))
    }

    fn lane_by_lane(&self, stmt: &Stmt, reason: &str) -> Scalar<Stmt> {
        if self.mask.is_some() {
            return Err(reason.to_owned());
        }
        if !self.scalars.values().all(is_cheap) {
            return Err(reason.to_owned());
        }
        self.context.warn(format!("a statement in vectorized loop `{}` runs lane by lane: {reason}", self.var.name()));
        let lane = self.var.renamed(self.var.name());
        let mut values = self.scalars.clone();
        values.insert(self.var.clone(), &self.min + &lane);
        // The values of names may use other names.
        for _ in 0..self.scalars.len() {
            values = values.iter().map(|(var, value)| (var.clone(), crate::ir::substitute(value, &values))).collect();
        }
        let body = fresh_copy(stmt, values);
        Ok(Stmt::for_loop(lane, 0, i64::from(self.lanes), ForKind::Serial, body))
    }

    fn stmt(&mut self, stmt: &Stmt) -> Scalar<Stmt> {
        with_stack(|| self.stmt_below(stmt))
    }

    fn stmt_below(&mut self, stmt: &Stmt) -> Scalar<Stmt> {
        match &**stmt {
            StmtNode::Seq { stmts } => self.body(&stmts.to_vec()),
            StmtNode::Store { buffer, index, value, mask } => {
                let (index, value) = (self.expr(index)?, self.expr(value)?);
                let mask = mask.as_ref().map(|mask| self.expr(mask)).transpose()?;
                self.store(buffer, index, value, mask)
            }
            StmtNode::For { var, min, extent, kind, annotations, body } => {
                let (min, extent) = (self.expr(min)?, self.expr(extent)?);
                if min.lanes() > 1 || extent.lanes() > 1 {
                    return Err(format!("the bounds of loop `{}` differ between lanes", var.name()));
                }
                let body = self.inner(self.mask.clone()).body(&body.to_stmts())?;
                Ok(Stmt::for_with(var.clone(), min, extent, *kind, annotations.clone(), body))
            }
            StmtNode::If { condition, then_body, else_body } => {
                let (bare, was_likely) = condition.without_likely();
                let bare = self.expr(&bare)?;
                if bare.lanes() == 1 {
                    let condition = if was_likely { bare.likely() } else { bare };
                    let then_body = self.inner(self.mask.clone()).body(&then_body.to_stmts())?;
                    let else_body = else_body
                        .as_ref()
                        .map(|body| self.inner(self.mask.clone()).body(&body.to_stmts()))
                        .transpose()?;
                    return Ok(Stmt::if_then(condition, then_body, else_body));
                }
                // The condition is evaluated once, before the statements under it may change the
                // memory that it reads.
                let (bare, bind) = if is_cheap(&bare) { (bare, None) } else { bound("mask", bare) };
                let mut stmts: Vec<Stmt> = bind.into_iter().collect();
                stmts.push(self.under(&bare).body(&then_body.to_stmts())?);
                if let Some(body) = else_body {
                    stmts.push(self.under(&bare.negated()).body(&body.to_stmts())?);
                }
                Ok(Stmt::seq(stmts))
            }
            StmtNode::Bind { var, value } => {
                let scalar = value;
                let value = self.expr(value)?;
                if value.lanes() == 1 {
                    return Ok(Stmt::bind(var.clone(), value));
                }
                let new = Var::new(var.name(), value.dtype());
                self.vectors.insert(var.clone(), new.expr().clone());
                self.scalars.insert(var.clone(), scalar.clone());
                Ok(Stmt::bind(new, value))
            }
            StmtNode::Alloc { buffer, annotations } => {
                let mut node = BufferNode { data: buffer.data.renamed(buffer.data.name()), ..buffer.to_node() };
                if !node.strides.is_empty() {
                    return Err(format!("memory `{}` inside the loop has strides", buffer.name));
                }
                node.shape = buffer.shape.iter().chain([Expr::int(self.lanes.into())]).collect();
                let new = Buffer::from_node(node);
                self.buffers.insert(buffer.clone(), new.clone());
                Ok(Stmt::from_node(StmtNode::Alloc { buffer: new, annotations: annotations.clone() }))
            }
            StmtNode::Attr { key, node, value, body } => {
                let value = self.expr(value)?;
                if value.lanes() > 1 {
                    return Err(format!("the value of `{key}` differs between lanes"));
                }
                let body = self.inner(self.mask.clone()).body(&body.to_stmts())?;
                Ok(Stmt::from_node(StmtNode::Attr { key: key.clone(), node: node.clone(), value, body }))
            }
            StmtNode::Evaluate { value } => {
                let new = self.expr(value)?;
                // A hint about memory is emitted once.
                if let ExprNode::Call { name, .. } = &**value
                    && name.as_str() == builtin::PREFETCH
                    && new.lanes() == 1
                {
                    return Ok(Stmt::evaluate(new));
                }
                Err("it calls a function for its effect".to_owned())
            }
            StmtNode::Alias { .. } => Err("it names memory a second time".to_owned()),
            StmtNode::Assert { .. } => Err("it checks something".to_owned()),
            StmtNode::While { .. } => Err("it repeats something while a condition holds".to_owned()),
            StmtNode::Return { .. } => Err("it leaves the function".to_owned()),
            StmtNode::TensorWrite { .. } | StmtNode::Realize { .. } | StmtNode::Prefetch { .. } => {
                Err("it names a tensor whose storage is not flattened".to_owned())
            }
        }
    }

    fn store(&self, buffer: &Buffer, index: Expr, value: Expr, mask: Option<Expr>) -> Scalar<Stmt> {
        let (buffer, index) = match self.buffers.get(buffer) {
            Some(own) => (own.clone(), self.lane_index(index)?),
            None => (buffer.clone(), index),
        };
        let mask = match (mask, &self.mask) {
            (None, active) => active.clone(),
            (own, None) => own,
            (Some(own), Some(active)) => {
                let (own, active) = self.even(own, active.clone())?;
                Some(own.and(&active))
            }
        };
        if index.lanes() == 1 {
            if value.lanes() > 1 {
                return Err(format!("all lanes store to the same place of `{}`", buffer.name));
            }
            return match mask {
                None => Ok(Stmt::store(buffer, index, value)),
                Some(mask) if mask.lanes() == 1 => Ok(Stmt::store_masked(buffer, index, value, Some(mask))),
                // The value does not depend on the lane.
                Some(mask) => {
                    let any = Expr::builtin(builtin::ANY_LANE, BOOLEAN, [mask]);
                    Ok(Stmt::if_then(any, Stmt::store(buffer, index, value), None))
                }
            };
        }
        if index.lanes() != self.lanes {
            return Err("it is a vector already".to_owned());
        }
        let mask = mask.map(|mask| self.wide(&mask));
        Ok(Stmt::store_masked(buffer, index, self.wide(&value), mask))
    }
}

/// Returns true if following statements may use a definition of the statement.
fn defines(stmt: &Stmt) -> bool {
    matches!(**stmt, StmtNode::Bind { .. } | StmtNode::Alloc { .. } | StmtNode::Alias { .. })
}

/// Returns true if a condition reads no memory, so that a second evaluation has the same result.
fn is_cheap(condition: &Expr) -> bool {
    let mut reads = false;
    crate::ir::visit::for_each_expr(condition, |part| {
        reads |= match &**part {
            ExprNode::Load { .. } => true,
            ExprNode::Call { kind, name, .. } => builtin::effect(*kind, name.as_str()) > Effect::Pure,
            _ => false,
        };
    });
    !reads
}

/// Returns true for a constant other than 0.
fn is_nonzero(divisor: &Expr) -> bool {
    match &**divisor {
        ExprNode::Broadcast { value, .. } => is_nonzero(value),
        _ => divisor.as_int().is_some_and(|value| value != 0),
    }
}

fn bound(name: &str, value: Expr) -> (Expr, Option<Stmt>) {
    let var = Var::new(name, value.dtype());
    (var.expr().clone(), Some(Stmt::bind(var, value)))
}
