//! `NarrowIndex`: computes index arithmetic in 32 bits where this is sufficient.
//!
//! It applies to kernels of a device, where a 64-bit division takes several times as long. An
//! index, bound or condition is computed in 32 bits if every part of it fits, given the ranges of
//! loops and threads. Loops whose values fit get 32-bit variables. Values that are stored to memory
//! keep their type.

use std::collections::HashMap;

use kernpack::{Any, Result as PackedResult, packed_func};

use super::PassContext;
use super::pipeline::on_functions;
use super::threads::Threads;
use crate::arith::Analyzer;
use crate::error::Result;
use crate::ir::mutate::{Mutate, mutate_expr_parts, mutate_stmt_parts};
use crate::ir::refresh::Replace;
use crate::ir::{
    BinaryOp, DataTypeExt, Expr, ExprNode, FuncKind, I32, I64, IterVar, IterVarNode, LoweredFunc, LoweredFuncNode,
    Range, Stmt, StmtNode, Var, with_stack,
};

/// Narrows the indices of kernels; other functions are unchanged.
///
/// # Errors
/// Returns no errors of its own.
pub fn narrow_index(function: &LoweredFunc, _: &PassContext) -> Result<LoweredFunc> {
    if function.kind != FuncKind::Device {
        return Ok(function.clone());
    }
    let analyzer = Analyzer::of_params(&function.params);
    for axis in function.thread_axes.iter() {
        // Larger launches do not occur, for any extent.
        let most = axis.dom.as_ref().and_then(|dom| dom.extent.as_int()).unwrap_or(i64::from(i32::MAX));
        analyzer.bind(&axis.var, &Range::until(most));
    }
    let mut narrow = Narrow { analyzer, names: HashMap::new() };
    let mut threads = Vec::new();
    for axis in function.thread_axes.iter() {
        threads.push(if axis.var.dtype() == I64 {
            IterVar::from_node(IterVarNode {
                dom: axis.dom.clone(),
                var: narrow.narrowed(&axis.var),
                kind: axis.kind,
                thread_tag: axis.thread_tag.clone(),
                span: axis.span.clone(),
            })
        } else {
            axis
        });
    }
    let body = narrow.mutate_stmt(&function.body)?;
    // Shapes of memory are a part of buffers, to which statements refer.
    let vars = narrow.names.iter().map(|(old, new)| (old.clone(), new.cast(I64))).collect();
    let body = Replace { vars, ..Replace::default() }.mutate_stmt(&body)?;
    Ok(LoweredFunc::from_node(LoweredFuncNode { thread_axes: threads.into(), body, ..function.to_node() }))
}

/// [`narrow_index`] for a function or for all functions of a module.
#[packed_func(name = "kernpack.pass.NarrowIndex")]
fn packed(program: Any, context: PassContext) -> PackedResult<Any> {
    on_functions(&program, &context, narrow_index)
}

struct Narrow {
    analyzer: Analyzer,
    /// The 32-bit variables, by the variables that they replace.
    names: HashMap<Var, Var>,
}

impl Narrow {
    fn narrowed(&mut self, var: &Var) -> Var {
        let new = Var::new(var.name(), I32);
        self.names.insert(var.clone(), new.clone());
        new
    }

    fn fits(&self, expr: &Expr) -> bool {
        let interval = self.analyzer.const_interval(expr);
        interval.min >= i64::from(i32::MIN) && interval.max <= i64::from(i32::MAX)
    }

    /// The same value in 32 bits, if each part of it fits.
    fn narrow(&self, expr: &Expr) -> Option<Expr> {
        if expr.dtype().element() != I64 {
            return None;
        }
        with_stack(|| match &**expr {
            ExprNode::Int { value, .. } => i32::try_from(*value).ok().map(|_| Expr::constant(I32, *value)),
            ExprNode::Var { .. } => Var::of(expr).and_then(|var| self.names.get(&var)).map(Expr::from),
            ExprNode::Broadcast { value, lanes } => Some(self.narrow(value)?.broadcast(*lanes)),
            ExprNode::Ramp { base, stride, lanes } => {
                let last = base + stride * (i64::from(*lanes) - 1);
                let (base, stride) = (self.narrow(base)?, self.narrow(stride)?);
                self.fits(&last).then(|| base.ramp(stride, *lanes))
            }
            ExprNode::Binary { op, a, b, .. } if is_index(*op) => {
                let (x, y) = (self.narrow(a)?, self.narrow(b)?);
                let dtype = x.dtype();
                let fits = expr.lanes() == 1 && self.fits(expr)
                    || expr.lanes() > 1 && lane_ends(expr).is_some_and(|ends| ends.iter().all(|end| self.fits(end)));
                fits.then(|| Expr::from_node(ExprNode::Binary { op: *op, a: x, b: y, dtype }))
            }
            ExprNode::Select { condition, true_value, false_value } => {
                let (x, y) = (self.narrow(true_value)?, self.narrow(false_value)?);
                let condition = self.condition(condition).ok()?;
                Some(Expr::from_node(ExprNode::Select { condition, true_value: x, false_value: y }))
            }
            _ => None,
        })
    }

    /// Narrows the parts of any expression where this makes no difference.
    fn condition(&self, expr: &Expr) -> Result<Expr> {
        Parts(self).mutate_expr(expr)
    }

    /// Narrows an index, which may have any width.
    fn index(&self, expr: &Expr) -> Result<Expr> {
        match self.narrow(expr) {
            Some(narrow) => Ok(narrow),
            None => self.condition(expr),
        }
    }
}

fn is_index(op: BinaryOp) -> bool {
    use BinaryOp::{Add, Div, FloorDiv, FloorMod, Max, Min, Mod, Mul, Sub};
    matches!(op, Add | Sub | Mul | Div | Mod | FloorDiv | FloorMod | Min | Max)
}

/// The first and the last lane of a sum or product of ramps and broadcasts.
fn lane_ends(expr: &Expr) -> Option<[Expr; 2]> {
    match &**expr {
        ExprNode::Broadcast { value, .. } => Some([value.clone(), value.clone()]),
        ExprNode::Ramp { base, stride, lanes } => Some([base.clone(), base + stride * (i64::from(*lanes) - 1)]),
        ExprNode::Binary { op: op @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul), a, b, .. } => {
            let ([a, x], [b, y]) = with_stack(|| Some((lane_ends(a)?, lane_ends(b)?)))?;
            // A sum of ramps stays between its ends; a product of two ramps may not.
            let is_flat = a.same_as(&x) || b.same_as(&y);
            (is_flat || *op != BinaryOp::Mul).then(|| [Expr::binary(*op, a, b), Expr::binary(*op, x, y)])
        }
        _ => None,
    }
}

/// Narrows comparisons and indices inside of an expression, whose own type is unchanged.
struct Parts<'a>(&'a Narrow);

impl Mutate for Parts<'_> {
    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        match &**expr {
            ExprNode::Var { .. } => Ok(match Var::of(expr).and_then(|var| self.0.names.get(&var)) {
                Some(new) => new.cast(I64),
                None => expr.clone(),
            }),
            ExprNode::Compare { op, a, b } => match (self.0.narrow(a), self.0.narrow(b)) {
                (Some(a), Some(b)) => Ok(Expr::from_node(ExprNode::Compare { op: *op, a, b })),
                _ => mutate_expr_parts(self, expr),
            },
            ExprNode::Load { buffer, index, mask, .. } => {
                let mask = mask.as_ref().map(|mask| self.mutate_expr(mask)).transpose()?;
                Ok(Expr::load_masked(buffer, self.0.index(index)?, mask))
            }
            ExprNode::Cast { dtype, value } => match self.0.narrow(value) {
                Some(value) => Ok(value.cast(dtype.element())),
                None => mutate_expr_parts(self, expr),
            },
            // A whole index computed in 32 bits is widened once.
            ExprNode::Binary { .. } | ExprNode::Ramp { .. } if expr.dtype().element() == I64 => {
                match self.0.narrow(expr) {
                    Some(narrow) => Ok(narrow.cast(I64)),
                    None => mutate_expr_parts(self, expr),
                }
            }
            _ => mutate_expr_parts(self, expr),
        }
    }
}

impl Mutate for Narrow {
    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        self.condition(expr)
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        match &**stmt {
            StmtNode::For { var, min, extent, kind, annotations, body } => {
                let last = self.analyzer.const_interval(&(min + extent));
                let fits = var.dtype() == I64 && last.max <= i64::from(i32::MAX);
                let narrow = if fits { self.narrow(min).zip(self.narrow(extent)) } else { None };
                let mark = self.analyzer.mark();
                let wide = (self.mutate_expr(min)?, self.mutate_expr(extent)?);
                self.analyzer.bind(var, &Range::new(min, extent));
                let (new, (min, extent)) = match narrow {
                    Some(bounds) => (self.narrowed(var), bounds),
                    None => (var.clone(), wide),
                };
                let body = with_stack(|| self.mutate_stmt(body));
                self.analyzer.restore(mark);
                Ok(Stmt::for_with(new, min, extent, *kind, annotations.clone(), body?))
            }
            StmtNode::Bind { var, value } => {
                let new = self.narrow(value);
                if var.dtype() == I64 {
                    self.analyzer.bind_equal(var, value);
                }
                match new.filter(|new| new.lanes() == 1) {
                    Some(value) => Ok(Stmt::bind(self.narrowed(var), value)),
                    None => mutate_stmt_parts(self, stmt),
                }
            }
            StmtNode::Store { buffer, index, value, mask } => {
                let (index, value) = (self.index(index)?, self.mutate_expr(value)?);
                let mask = mask.as_ref().map(|mask| self.mutate_expr(mask)).transpose()?;
                Ok(Stmt::store_masked(buffer.clone(), index, value, mask))
            }
            StmtNode::If { condition, then_body, else_body } => {
                let new = self.mutate_expr(condition)?;
                let mark = self.analyzer.mark();
                self.analyzer.enter(condition);
                let then_body = with_stack(|| self.mutate_stmt(then_body));
                self.analyzer.restore(mark);
                let mark = self.analyzer.mark();
                self.analyzer.enter_negation(condition);
                let else_body = else_body.as_ref().map(|body| with_stack(|| self.mutate_stmt(body))).transpose();
                self.analyzer.restore(mark);
                Ok(Stmt::if_then(new, then_body?, else_body?))
            }
            StmtNode::Attr { .. } => {
                if let Some((threads, _)) = Threads::of(stmt) {
                    self.analyzer.bind(&threads.var, &Range::until(&threads.extent));
                }
                mutate_stmt_parts(self, stmt)
            }
            _ => mutate_stmt_parts(self, stmt),
        }
    }
}
