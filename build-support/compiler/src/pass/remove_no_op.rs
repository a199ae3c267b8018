//! `RemoveNoOp`: removes statements without effect: loops, conditions and attributes without a
//! body, unused memory and names.
//!
//! Expressions with side effects are kept.

use std::collections::HashSet;

use kernpack::{Any, Result as PackedResult, packed_func};

use super::PassContext;
use super::pipeline::on_functions;
use crate::error::Result;
use crate::ir::builtin::{self, Effect};
use crate::ir::mutate::mutate_stmt_parts;
use crate::ir::visit::{Visit, for_each_expr, walk_expr, walk_stmt};
use crate::ir::{Buffer, Expr, ExprNode, ForKind, LoweredFunc, MutateStmts, Stmt, StmtNode, Var};

/// Removes statements without effect.
///
/// # Errors
/// Returns no errors of its own.
pub fn remove_no_op(function: &LoweredFunc, _: &PassContext) -> Result<LoweredFunc> {
    let mut body = function.body.clone();
    // Definitions that become unused after other removals, such as a name that only another unused
    // name reads.
    for _ in 0..8 {
        let mut used = Used::default();
        used.visit_stmt(&body);
        let new = Remove { used: used.0 }.mutate_stmt(&body)?;
        if new.same_as(&body) {
            break;
        }
        body = new;
    }
    Ok(function.with_body(body))
}

/// [`remove_no_op`] for a function or for all functions of a module.
#[packed_func(name = "kernpack.pass.RemoveNoOp")]
fn packed(program: Any, context: PassContext) -> PackedResult<Any> {
    on_functions(&program, &context, remove_no_op)
}

/// Returns true if the evaluation of an expression may have side effects.
pub(crate) fn has_effect(expr: &Expr) -> bool {
    let mut found = false;
    for_each_expr(expr, |part| {
        if let ExprNode::Call { kind, name, .. } = &**part {
            found |= builtin::effect(*kind, name.as_str()) > Effect::Reads;
        }
    });
    found
}

/// The variables that are read, including data pointers.
#[derive(Default)]
struct Used(HashSet<usize>);

impl Used {
    fn buffer(&mut self, buffer: &Buffer) {
        self.0.insert(buffer.data.address());
        for expr in buffer.shape.iter().chain(buffer.strides.iter()) {
            self.visit_expr(&expr);
        }
        let offset = buffer.elem_offset.clone();
        self.visit_expr(&offset);
    }
}

impl Visit for Used {
    fn visit_expr(&mut self, expr: &Expr) {
        match &**expr {
            ExprNode::Var { .. } => {
                self.0.insert(expr.address());
            }
            ExprNode::Load { buffer, .. } => self.buffer(buffer),
            _ => {}
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        match &**stmt {
            StmtNode::Store { buffer, .. } => self.buffer(buffer),
            StmtNode::Attr { node, .. } => {
                if let Ok(buffer) = node.to::<Buffer>() {
                    self.buffer(&buffer);
                } else if let Ok(var) = node.to::<Var>() {
                    self.0.insert(var.address());
                }
            }
            _ => {}
        }
        walk_stmt(self, stmt);
    }
}

struct Remove {
    used: HashSet<usize>,
}

fn evaluate_all(exprs: impl IntoIterator<Item = Expr>) -> Stmt {
    Stmt::seq(exprs.into_iter().filter(has_effect).map(Stmt::evaluate))
}

impl MutateStmts for Remove {
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        let stmt = mutate_stmt_parts(self, stmt)?;
        Ok(match &*stmt {
            // A thread axis determines the launch of a kernel, whatever its body.
            StmtNode::For { min, extent, kind, body, .. } if body.is_nothing() && *kind != ForKind::ThreadBinding => {
                evaluate_all([min.clone(), extent.clone()])
            }
            StmtNode::For { min, extent, .. } if extent.as_int().is_some_and(|extent| extent <= 0) => {
                evaluate_all([min.clone()])
            }
            StmtNode::If { condition, then_body, else_body } => {
                let else_body = else_body.clone().filter(|body| !body.is_nothing());
                match (then_body.is_nothing(), else_body) {
                    (true, None) => evaluate_all([condition.clone()]),
                    (true, Some(body)) => Stmt::if_then(condition.negated(), body, None),
                    (false, None) => Stmt::if_then(condition, then_body.clone(), None),
                    (false, Some(_)) => stmt.clone(),
                }
            }
            StmtNode::Attr { value, body, .. } if body.is_nothing() => evaluate_all([value.clone()]),
            StmtNode::Evaluate { value } if !has_effect(value) => Stmt::nothing(),
            StmtNode::Bind { var, value } if !self.used.contains(&var.address()) => evaluate_all([value.clone()]),
            StmtNode::Alloc { buffer, .. } if !self.used.contains(&buffer.data.address()) => Stmt::nothing(),
            StmtNode::Alias { buffer, data } if !self.used.contains(&buffer.data.address()) => {
                evaluate_all([data.clone()])
            }
            _ => stmt.clone(),
        })
    }
}
