//! `InstrumentBoundCheckers`: checks loads and stores at run time.
//!
//! Does nothing unless [`PassOptions::instrument_bound_checkers`](super::PassOptions) is set.
//! Otherwise, inserts an `Assert` before each statement that accesses memory, for each access: a
//! `RuntimeError` with the buffer's name, the index and the number of elements. Lanes whose mask is
//! false, and sides of conditions that are not taken, are not checked. It is the last pass, so that
//! it checks the final accesses, and it works for all code generators.

use kernpack::{Any, Result as PackedResult, packed_func, structural};

use super::PassContext;
use super::pipeline::on_functions;
use crate::error::Result;
use crate::ir::builtin::{self, ANY_LANE};
use crate::ir::mutate::mutate_stmt_parts;
use crate::ir::refresh::fresh_copy;
use crate::ir::visit::{Visit, walk_expr};
use crate::ir::{
    BOOLEAN, Buffer, CallKind, DataTypeExt, Expr, ExprNode, FuncKind, I64, LoweredFunc, MutateStmts, Stmt, StmtNode,
    Var, VarMap, substitute,
};
use crate::text;

/// Checks loads and stores, if the options enable it.
///
/// # Errors
/// Returns no errors of its own.
pub fn instrument_bound_checkers(function: &LoweredFunc, context: &PassContext) -> Result<LoweredFunc> {
    // A device cannot raise errors.
    if !context.options.instrument_bound_checkers || function.kind == FuncKind::Device {
        return Ok(function.clone());
    }
    Ok(function.with_body(Instrument.mutate_stmt(&function.body)?))
}

/// [`instrument_bound_checkers`] for a function or for all functions of a module.
#[packed_func(name = "kernpack.pass.InstrumentBoundCheckers")]
fn packed(program: Any, context: PassContext) -> PackedResult<Any> {
    on_functions(&program, &context, instrument_bound_checkers)
}

/// The number of elements that are reachable from a buffer's data pointer.
fn elements(buffer: &Buffer) -> Expr {
    let wide = |expr: &Expr| if expr.dtype() == I64 { expr.clone() } else { expr.cast(I64) };
    let shape: Vec<Expr> = buffer.shape.iter().map(|extent| wide(&extent)).collect();
    let offset = wide(&buffer.elem_offset);
    if buffer.strides.is_empty() {
        return shape.into_iter().fold(Expr::int(1), |product, extent| product * extent) + offset;
    }
    let mut is_empty = Expr::bool(false);
    let mut last = offset + 1;
    for (extent, stride) in shape.iter().zip(buffer.strides.iter()) {
        is_empty = is_empty.or(extent.equals(0));
        last = last + (extent - 1) * wide(&stride);
    }
    Expr::select(is_empty, 0, last)
}

/// A condition that has to hold before an access, and the message if it does not.
struct Check {
    condition: Expr,
    message: String,
}

/// Collects the accesses of expressions, ordered such that accesses that others depend on come
/// first.
#[derive(Default)]
struct Accesses {
    checks: Vec<Check>,
}

impl Accesses {
    fn access(&mut self, buffer: &Buffer, index: &Expr, mask: Option<&Expr>, verb: &str) {
        let count = elements(buffer);
        let wide = |expr: &Expr| {
            let dtype = I64.with_lanes(expr.lanes());
            if expr.dtype() == dtype { expr.clone() } else { expr.cast(dtype) }
        };
        let inside = |first: &Expr, last: &Expr| wide(first).greater_equal(0).and(wide(last).less(&count));
        let condition = match &**index {
            ExprNode::Ramp { base, stride, lanes } if mask.is_none() && stride.as_int().is_some() => {
                let last = base + stride * (i64::from(*lanes) - 1);
                if stride.as_int() < Some(0) { inside(&last, base) } else { inside(base, &last) }
            }
            _ if index.lanes() == 1 => inside(index, index),
            _ => {
                let lanes = index.lanes();
                let index = wide(index);
                let outside = index.less(Expr::int(0).broadcast(lanes)).or(index.greater_equal(count.broadcast(lanes)));
                let wrong = match mask {
                    Some(mask) if mask.lanes() == lanes => mask.and(outside),
                    _ => outside,
                };
                Expr::builtin(ANY_LANE, BOOLEAN, [wrong]).negated()
            }
        };
        let condition = match mask {
            Some(mask) if mask.lanes() == 1 => mask.negated().or(condition),
            _ => condition,
        };
        if condition.is_true() || self.has(&condition) {
            return;
        }
        let (name, index, count) = (buffer.name.as_str(), text::print(index), text::print(&count));
        let message = format!("`{name}` is {verb} at index `{index}`, which is outside of its {count} elements");
        self.checks.push(Check { condition, message });
    }

    /// Returns true if a condition is already checked.
    fn has(&self, condition: &Expr) -> bool {
        self.checks.iter().any(|check| structural::equal(&check.condition, condition).unwrap_or(false))
    }

    /// Adds the checks of a part that is evaluated under a condition.
    fn under(&mut self, part: &Expr, wrap: impl Fn(Expr) -> Expr) {
        let mut inner = Self::default();
        inner.visit_expr(part);
        for Check { condition, message } in inner.checks {
            if self.has(&condition) {
                continue;
            }
            let condition = wrap(condition);
            if !self.has(&condition) {
                self.checks.push(Check { condition, message });
            }
        }
    }
}

impl Visit for Accesses {
    fn visit_expr(&mut self, expr: &Expr) {
        match &**expr {
            ExprNode::Load { buffer, index, mask, .. } => {
                walk_expr(self, expr);
                self.access(buffer, index, mask.as_ref(), "read");
            }
            ExprNode::IfThenElse { condition, then_value, else_value } if condition.lanes() == 1 => {
                self.visit_expr(condition);
                self.under(then_value, |check| Expr::if_then_else(condition, check, Expr::bool(true)));
                self.under(else_value, |check| Expr::if_then_else(condition, Expr::bool(true), check));
            }
            ExprNode::Let { var, value, body } => {
                self.visit_expr(value);
                self.under(body, |check| {
                    // A name must be defined only once.
                    let own = Var::new(var.name(), var.dtype());
                    let check = substitute(&check, &VarMap::from([(var.clone(), own.expr().clone())]));
                    Expr::from_node(ExprNode::Let { var: own, value: value.clone(), body: check })
                });
            }
            // Only the address of the load is used, nothing is read.
            ExprNode::Call { kind: CallKind::Builtin, name, args, .. }
                if matches!(name.as_str(), builtin::ADDRESS_OF | builtin::ACCESS_PTR | builtin::MAKE_TENSOR) =>
            {
                for (position, arg) in args.iter().enumerate() {
                    match &*arg {
                        ExprNode::Load { index, .. } if position == 0 => self.visit_expr(index),
                        _ => self.visit_expr(&arg),
                    }
                }
            }
            _ => walk_expr(self, expr),
        }
    }
}

struct Instrument;

impl Instrument {
    /// The checks of a statement's own expressions.
    fn checks(stmt: &Stmt) -> Vec<Stmt> {
        let mut found = Accesses::default();
        match &**stmt {
            StmtNode::Store { buffer, index, value, mask } => {
                for part in [Some(index), Some(value), mask.as_ref()].into_iter().flatten() {
                    found.visit_expr(part);
                }
                found.access(buffer, index, mask.as_ref(), "written");
            }
            StmtNode::Bind { value, .. }
            | StmtNode::Evaluate { value }
            | StmtNode::Return { value }
            | StmtNode::Attr { value, .. }
            | StmtNode::Alias { data: value, .. } => found.visit_expr(value),
            StmtNode::Assert { condition, .. } | StmtNode::If { condition, .. } | StmtNode::While { condition, .. } => {
                found.visit_expr(condition);
            }
            StmtNode::For { min, extent, .. } => {
                found.visit_expr(min);
                found.visit_expr(extent);
            }
            _ => {}
        }
        let asserts = found.checks.into_iter().map(|check| {
            Stmt::from_node(StmtNode::Assert {
                condition: check.condition,
                kind: "RuntimeError".into(),
                parts: [kernpack::Str::from(check.message)].into_iter().collect(),
            })
        });
        asserts.collect()
    }
}

impl MutateStmts for Instrument {
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        let checks = Self::checks(stmt);
        let mut inside = mutate_stmt_parts(self, stmt)?;
        if checks.is_empty() {
            return Ok(inside);
        }
        if let StmtNode::While { condition, body } = &*inside {
            // The condition is evaluated before each iteration.
            let again = checks.iter().map(|check| fresh_copy(check, VarMap::new()));
            let body = Stmt::seq([body.clone()].into_iter().chain(again));
            inside = Stmt::from_node(StmtNode::While { condition: condition.clone(), body });
        }
        Ok(Stmt::seq(checks.into_iter().chain([inside])))
    }
}
