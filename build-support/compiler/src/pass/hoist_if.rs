//! `HoistIf`: moves a loop-invariant condition out of the loop.
//!
//! Only a condition around the whole body of a loop is moved, so that nothing is copied; the
//! conditions of several loops are hoisted together. Memory that the condition reads must not be
//! written in the loop: conditions with loads are not moved. Conditions with a divisor that may be
//! 0 are not moved either, because a loop without iterations does not divide.

use kernpack::{Any, Result as PackedResult, packed_func};

use super::PassContext;
use super::loop_guards::may_fault;
use super::pipeline::on_functions;
use super::remove_no_op::has_effect;
use crate::error::Result;
use crate::ir::mutate::mutate_stmt_parts;
use crate::ir::visit::{for_each_expr, uses_var};
use crate::ir::{Expr, ExprNode, ForKind, LoweredFunc, MutateStmts, Stmt, StmtNode};

/// Moves loop-invariant conditions out of loops.
///
/// # Errors
/// Returns no errors of its own.
pub fn hoist_if(function: &LoweredFunc, _: &PassContext) -> Result<LoweredFunc> {
    Ok(function.with_body(Hoist.mutate_stmt(&function.body)?))
}

/// [`hoist_if`] for a function or for all functions of a module.
#[packed_func(name = "kernpack.pass.HoistIf")]
fn packed(program: Any, context: PassContext) -> PackedResult<Any> {
    on_functions(&program, &context, hoist_if)
}

struct Hoist;

impl MutateStmts for Hoist {
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        let stmt = mutate_stmt_parts(self, stmt)?;
        let StmtNode::For { var, min, extent, kind, annotations, body } = &*stmt else { return Ok(stmt) };
        let StmtNode::If { condition, then_body, else_body: None } = &**body else { return Ok(stmt) };
        if *kind == ForKind::ThreadBinding || has_effect(condition) {
            return Ok(stmt);
        }
        // The invariant parts of a conjunction are moved; the others stay.
        let (mut moved, mut kept) = (Vec::new(), Vec::new());
        for part in conjuncts(condition) {
            let stays = uses_var(&part, |used| used == var) || reads_memory(&part) || may_fault(&part);
            if stays { kept.push(part) } else { moved.push(part) }
        }
        let Some(outer) = all_of(moved) else { return Ok(stmt) };
        let inner = match all_of(kept) {
            Some(condition) => Stmt::if_then(condition, then_body.clone(), None),
            None => then_body.clone(),
        };
        Ok(Stmt::if_then(outer, Stmt::for_with(var.clone(), min, extent, *kind, annotations.clone(), inner), None))
    }
}

fn reads_memory(expr: &Expr) -> bool {
    let mut found = false;
    for_each_expr(expr, |part| found |= matches!(**part, ExprNode::Load { .. }));
    found
}

/// Splits a condition into its conjuncts; `likely` is passed on to each part.
pub(crate) fn conjuncts(condition: &Expr) -> Vec<Expr> {
    let (bare, likely) = condition.without_likely();
    match &*bare {
        ExprNode::Logic { op: crate::ir::LogicOp::And, a, b } => {
            let parts = conjuncts(a).into_iter().chain(conjuncts(b));
            parts.map(|part| if likely && !part.without_likely().1 { part.likely() } else { part }).collect()
        }
        _ => vec![condition.clone()],
    }
}

/// The conjunction of the parts; `None` if there are no parts.
pub(crate) fn all_of(parts: Vec<Expr>) -> Option<Expr> {
    parts.into_iter().reduce(|all, part| all.and(part))
}
