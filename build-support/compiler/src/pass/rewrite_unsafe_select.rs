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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Buffer, F32, Var};

    /// The loads of a rewritten expression, in the order of their indices, each with true if it has
    /// a mask.
    fn masks(expr: &Expr) -> Vec<(String, bool)> {
        let mut rewrite = Rewrite { mask: None, tested: Vec::new() };
        let made = rewrite.mutate_expr(expr).unwrap();
        let mut found = Vec::new();
        for_each_expr(&made, |part| {
            if let ExprNode::Load { buffer, mask, .. } = &**part {
                found.push((buffer.name.to_string(), mask.is_some()));
            }
        });
        found.sort();
        found.dedup();
        found
    }

    #[test]
    fn elements_that_a_condition_reads_have_no_mask() {
        let (a, b) =
            (Buffer::new("a", F32, [Expr::int(64)], "global"), Buffer::new("b", F32, [Expr::int(64)], "global"));
        let i = Var::index("i");
        let at = |buffer: &Buffer, place: i64| Expr::load(buffer, (i.expr() + place).ramp(1, 8));
        let zero = || Expr::float(F32, 0.0).broadcast(8);
        let named = |names: &[(&str, bool)]| -> Vec<(String, bool)> {
            names.iter().map(|(name, has)| ((*name).to_owned(), *has)).collect()
        };
        // The same element, also in a part of the condition and below another select.
        let tested = at(&a, 0).less(zero());
        assert_eq!(masks(&Expr::select(&tested, zero(), at(&a, 0))), named(&[("a", false)]));
        let both = tested.and(at(&b, 1).differs(at(&b, 1)));
        let inner = Expr::select(at(&a, 0).less(at(&b, 1)), at(&a, 0), at(&b, 1));
        assert_eq!(masks(&Expr::select(both, zero(), inner)), named(&[("a", false), ("b", false)]));
        // Another element, or another tensor.
        assert_eq!(masks(&Expr::select(&tested, zero(), at(&a, 1))), named(&[("a", false), ("a", true)]));
        assert_eq!(masks(&Expr::select(&tested, at(&b, 0), zero())), named(&[("a", false), ("b", true)]));
        // An element that the condition of an inner select reads is read where the outer one is
        // active.
        let inner = Expr::select(at(&b, 0).less(zero()), zero(), at(&b, 0));
        assert_eq!(masks(&Expr::select(&tested, inner, zero())), named(&[("a", false), ("b", true)]));
        // Scalar conditions become branches only for elements that they do not read.
        let scalar = |buffer: &Buffer| Expr::load(buffer, i.expr().clone());
        let rewritten = |expr: &Expr| Rewrite { mask: None, tested: Vec::new() }.mutate_expr(expr).unwrap();
        let own = Expr::select(scalar(&a).less(Expr::float(F32, 0.0)), Expr::float(F32, 0.0), scalar(&a));
        assert!(matches!(*rewritten(&own), ExprNode::Select { .. }));
        let other = Expr::select(scalar(&a).less(Expr::float(F32, 0.0)), Expr::float(F32, 0.0), scalar(&b));
        assert!(matches!(*rewritten(&other), ExprNode::IfThenElse { .. }));
    }
}
