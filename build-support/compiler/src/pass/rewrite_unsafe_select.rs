//! `RewriteUnsafeSelect`: a select evaluates both sides, so that a side that may not be evaluated
//! everywhere becomes conditional.
//!
//! With a scalar condition, the select becomes an `IfThenElse`. With a vector condition, the loads
//! of a side are masked by the condition (those of the other side by its negation): an inactive
//! lane accesses no memory. An element that the condition itself reads is read without the mask.
//! Everything else stays a select, which can be vectorized.

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
/// Returns no errors of its own.
pub fn rewrite_unsafe_select(function: &LoweredFunc, context: &PassContext) -> Result<LoweredFunc> {
    if context.options.disable_select_rewriting {
        return Ok(function.clone());
    }
    Ok(function.with_body(Rewrite { mask: None, tested: Vec::new() }.mutate_stmt(&function.body)?))
}

/// [`rewrite_unsafe_select`] for a function or for all functions of a module.
#[packed_func(name = "kernpack.pass.RewriteUnsafeSelect")]
fn packed(program: Any, context: PassContext) -> PackedResult<Any> {
    on_functions(&program, &context, rewrite_unsafe_select)
}

/// Returns true if an expression reads memory other than elements in `tested`, divides integers or
/// has an impure call.
fn is_unsafe(expr: &Expr, tested: &[Expr]) -> bool {
    let mut found = false;
    for_each_expr(expr, |part| {
        found |= match &**part {
            ExprNode::Load { .. } => !tested.iter().any(|load| is_same_load(load, part)),
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

/// The loads that a condition always executes.
fn loads_of(condition: &Expr) -> Vec<Expr> {
    let (mut loads, mut todo) = (Vec::new(), vec![condition.clone()]);
    while let Some(part) = todo.pop() {
        match &*part {
            ExprNode::Load { mask: None, .. } => loads.push(part),
            ExprNode::Compare { a, b, .. } | ExprNode::Logic { a, b, .. } | ExprNode::Binary { a, b, .. } => {
                todo.extend([a.clone(), b.clone()]);
            }
            ExprNode::Not { value } | ExprNode::Cast { value, .. } => todo.push(value.clone()),
            ExprNode::Call { name, args, .. } if matches!(name.as_str(), "isnan" | "isinf" | "isfinite" | "abs") => {
                todo.extend(args.iter());
            }
            _ => {}
        }
    }
    loads
}

/// Returns true if two loads without masks read the same element.
fn is_same_load(a: &Expr, b: &Expr) -> bool {
    match (&**a, &**b) {
        (
            ExprNode::Load { buffer, index, mask: None, .. },
            ExprNode::Load { buffer: other, index: at, mask: None, .. },
        ) => {
            a.address() == b.address()
                || buffer == other && (index == at || kernpack::structural::equal(index, at).unwrap_or(false))
        }
        _ => false,
    }
}

/// The loads of a condition, and the mask under which it is computed.
struct Tested {
    loads: Vec<Expr>,
    mask: Option<Expr>,
}

struct Rewrite {
    /// The active lanes, where loads are masked.
    mask: Option<Expr>,
    /// The surrounding conditions, outermost first.
    tested: Vec<Tested>,
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
                let tested = Tested { loads: loads_of(condition), mask: self.mask.clone() };
                let condition = self.mutate_expr(condition)?;
                self.tested.push(tested);
                let a = self.under(&condition, true_value)?;
                let b = self.under(&condition.negated(), false_value)?;
                self.tested.pop();
                Ok(Expr::from_node(ExprNode::Select { condition, true_value: a, false_value: b }))
            }
            ExprNode::Select { condition, true_value, false_value }
                if self.mask.is_none() && {
                    let tested = loads_of(condition);
                    is_unsafe(true_value, &tested) || is_unsafe(false_value, &tested)
                } =>
            {
                let (condition, a, b) =
                    (self.mutate_expr(condition)?, self.mutate_expr(true_value)?, self.mutate_expr(false_value)?);
                Ok(Expr::from_node(ExprNode::IfThenElse { condition, then_value: a, else_value: b }))
            }
            ExprNode::Load { buffer, index, mask, .. } => {
                let index = self.mutate_expr(index)?;
                let mask = mask.as_ref().map(|mask| self.mutate_expr(mask)).transpose()?;
                let around = self.tested.iter().find(|tested| tested.loads.iter().any(|load| is_same_load(load, expr)));
                let mask = match (mask, around.map_or(&self.mask, |tested| &tested.mask)) {
                    (Some(own), Some(outer)) if own.lanes() == outer.lanes() => Some(own.and(outer)),
                    (None, Some(outer)) if index.lanes() == outer.lanes() => Some(outer.clone()),
                    (None, Some(outer)) if index.lanes() == 1 => {
                        // All lanes read one element: it is read if any lane is active.
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
