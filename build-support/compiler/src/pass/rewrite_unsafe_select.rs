//! `RewriteUnsafeSelect`: a select evaluates both sides, so a side that may not be evaluated everywhere becomes conditional.
//!
//! With a scalar condition the select becomes an `IfThenElse`. With a vector condition the loads of a side are masked by the condition (of the other
//! side by its negation): a lane that is not taken touches no memory. Everything else stays a select, which vectorizes.

use kernpack::{Any, Result as PackedResult, packed_func};

use super::PassContext;
use super::pipeline::on_functions;
use crate::error::Result;
use crate::ir::builtin::{self, Effect};
use crate::ir::mutate::{mutate_expr_parts, mutate_stmt_parts};
use crate::ir::visit::for_each_expr;
use crate::ir::{BinaryOp, DataTypeExt, Expr, ExprNode, LoweredFunc, Mutate, Stmt};

/// Makes selects safe whose sides may not be evaluated everywhere.
///
/// # Errors
/// None of its own.
pub fn rewrite_unsafe_select(function: &LoweredFunc, context: &PassContext) -> Result<LoweredFunc> {
    if context.options.disable_select_rewriting {
        return Ok(function.clone());
    }
    Ok(function.with_body(Rewrite { mask: None }.mutate_stmt(&function.body)?))
}

/// [`rewrite_unsafe_select`] of a function or of all functions of a module.
#[packed_func(name = "kernpack.pass.RewriteUnsafeSelect")]
fn packed(program: Any, context: PassContext) -> PackedResult<Any> {
    on_functions(&program, &context, rewrite_unsafe_select)
}

/// Whether an expression reads memory, divides integers or calls what is not pure.
fn is_unsafe(expr: &Expr) -> bool {
    let mut found = false;
    for_each_expr(expr, |part| {
        found |= match &**part {
            ExprNode::Load { .. } => true,
            ExprNode::Binary {
                op: BinaryOp::Div | BinaryOp::Mod | BinaryOp::FloorDiv | BinaryOp::FloorMod,
                b,
                dtype,
                ..
            } => dtype.is_integer() && b.as_int().is_none(),
            ExprNode::Call { kind, name, .. } => builtin::effect(*kind, name.as_str()) > Effect::Pure,
            _ => false,
        };
    });
    found
}

struct Rewrite {
    /// Lanes that are taken, where loads are masked.
    mask: Option<Expr>,
}

impl Rewrite {
    fn under(&mut self, condition: &Expr, side: &Expr) -> Result<Expr> {
        let inner = match &self.mask {
            Some(outer) if outer.lanes() == condition.lanes() => outer.and(condition),
            _ => condition.clone(),
        };
        let outer = self.mask.replace(inner);
        let side = self.mutate_expr(side);
        self.mask = outer;
        side
    }
}

impl Mutate for Rewrite {
    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        match &**expr {
            ExprNode::Select { condition, true_value, false_value }
            | ExprNode::IfThenElse { condition, then_value: true_value, else_value: false_value }
                if condition.lanes() > 1 =>
            {
                let condition = self.mutate_expr(condition)?;
                let a = self.under(&condition, true_value)?;
                let b = self.under(&condition.negated(), false_value)?;
                Ok(Expr::from_node(ExprNode::Select { condition, true_value: a, false_value: b }))
            }
            ExprNode::Select { condition, true_value, false_value }
                if self.mask.is_none() && (is_unsafe(true_value) || is_unsafe(false_value)) =>
            {
                let (condition, a, b) =
                    (self.mutate_expr(condition)?, self.mutate_expr(true_value)?, self.mutate_expr(false_value)?);
                Ok(Expr::from_node(ExprNode::IfThenElse { condition, then_value: a, else_value: b }))
            }
            ExprNode::Load { buffer, index, mask, .. } => {
                let index = self.mutate_expr(index)?;
                let mask = mask.as_ref().map(|mask| self.mutate_expr(mask)).transpose()?;
                let mask = match (mask, &self.mask) {
                    (Some(own), Some(outer)) if own.lanes() == outer.lanes() => Some(own.and(outer)),
                    (None, Some(outer)) if index.lanes() == outer.lanes() => Some(outer.clone()),
                    (None, Some(outer)) if index.lanes() == 1 => {
                        // One place for all lanes: read if any lane is taken.
                        let any = Expr::builtin(builtin::ANY_LANE, crate::ir::BOOLEAN, [outer.clone()]);
                        let load = Expr::load(buffer, index);
                        let nothing = Expr::constant(load.dtype(), 0);
                        return Ok(Expr::from_node(ExprNode::IfThenElse {
                            condition: any,
                            then_value: load,
                            else_value: nothing,
                        }));
                    }
                    (own, _) => own,
                };
                Ok(Expr::load_masked(buffer, index, mask))
            }
            _ => mutate_expr_parts(self, expr),
        }
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        mutate_stmt_parts(self, stmt)
    }
}
