//! `CommonSubexprElim`: computes index arithmetic that several statements of a body share only
//! once.
//!
//! Parts of indices that occur more than once among adjacent statements get a name before the first
//! use. Only 64-bit integers that are computed from variables alone are considered: not expressions
//! that read memory, may fault, or are conditional. LLVM finds such parts itself; the pass is for
//! code that people or another compiler read.

use std::collections::HashMap;

use kernpack::{Any, Result as PackedResult, packed_func, structural};

use super::PassContext;
use super::accesses::Accesses;
use super::pipeline::on_functions;
use crate::error::Result;
use crate::ir::mutate::{Mutate, mutate_expr_parts, mutate_stmt_parts};
use crate::ir::visit::{Visit, walk_expr};
use crate::ir::{BinaryOp, Expr, ExprNode, I64, LoweredFunc, Stmt, StmtNode, Var};

/// Names common parts of indices.
///
/// # Errors
/// Returns no errors of its own.
pub fn common_subexpr_elim(function: &LoweredFunc, _: &PassContext) -> Result<LoweredFunc> {
    Ok(function.with_body(Bodies.mutate_stmt(&function.body)?))
}

/// [`common_subexpr_elim`] for a function or for all functions of a module.
#[packed_func(name = "kernpack.pass.CommonSubexprElim")]
fn packed(program: Any, context: PassContext) -> PackedResult<Any> {
    on_functions(&program, &context, common_subexpr_elim)
}

struct Bodies;

impl Mutate for Bodies {
    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        Ok(expr.clone())
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        let stmt = mutate_stmt_parts(self, stmt)?;
        match &*stmt {
            StmtNode::Seq { stmts } => {
                let mut new = Vec::new();
                let mut run: Vec<Stmt> = Vec::new();
                for stmt in stmts.iter() {
                    if is_plain(&stmt) {
                        run.push(stmt);
                        continue;
                    }
                    new.extend(named(std::mem::take(&mut run))?);
                    new.push(stmt);
                }
                new.extend(named(run)?);
                Ok(Stmt::seq(new))
            }
            StmtNode::Store { .. } | StmtNode::Bind { .. } => Ok(stmt),
            // A body of one statement.
            StmtNode::For { var, min, extent, kind, annotations, body } if is_plain(body) => {
                let body = Stmt::seq(named(vec![body.clone()])?);
                Ok(Stmt::for_with(var.clone(), min, extent, *kind, annotations.clone(), body))
            }
            StmtNode::If { condition, then_body, else_body: None } if is_plain(then_body) => {
                Ok(Stmt::if_then(condition, Stmt::seq(named(vec![then_body.clone()])?), None))
            }
            _ => Ok(stmt),
        }
    }
}

/// Returns true if a statement is simple, and defines nothing but a name for the following
/// statements.
fn is_plain(stmt: &Stmt) -> bool {
    matches!(**stmt, StmtNode::Store { .. } | StmtNode::Bind { .. } | StmtNode::Evaluate { .. })
}

/// Adjacent statements, preceded by their common parts.
fn named(mut stmts: Vec<Stmt>) -> Result<Vec<Stmt>> {
    // The largest part first, so that its own parts are not counted twice.
    loop {
        let mut parts = Parts::default();
        for (position, stmt) in stmts.iter().enumerate() {
            parts.at = position;
            if let StmtNode::Store { index, value, mask, .. } = &**stmt {
                [Some(index), Some(value), mask.as_ref()].into_iter().flatten().for_each(|part| parts.visit_expr(part));
            } else if let StmtNode::Bind { value, .. } | StmtNode::Evaluate { value } = &**stmt {
                parts.visit_expr(value);
            }
        }
        let repeated = parts.found.into_values().flatten().filter(|part| part.count > 1);
        let Some(best) = repeated.max_by_key(|part| (part.size, core::cmp::Reverse(part.first))) else {
            return Ok(stmts);
        };
        let name = Var::index("index");
        let mut replace = Named { part: &best.expr, name: &name };
        for stmt in &mut stmts {
            *stmt = replace.mutate_stmt(stmt)?;
        }
        // After the names that it uses.
        let needed = Accesses::of_expr(&best.expr).vars;
        let place = stmts.iter().take(best.first).rposition(|stmt| match &**stmt {
            StmtNode::Bind { var, .. } => needed.contains(var),
            _ => false,
        });
        stmts.insert(place.map_or(0, |place| place + 1), Stmt::bind(name, best.expr.clone()));
    }
}

struct Part {
    expr: Expr,
    count: usize,
    size: usize,
    /// The position of the first statement that contains it.
    first: usize,
}

#[derive(Default)]
struct Parts {
    /// The parts, by hash.
    found: HashMap<u64, Vec<Part>>,
    at: usize,
}

/// The number of operations of an index that is worth a name; `None` for other expressions.
fn size(expr: &Expr) -> Option<usize> {
    match &**expr {
        ExprNode::Int { .. } | ExprNode::Var { .. } => Some(0),
        ExprNode::Binary { op, a, b, dtype } if *dtype == I64 => {
            use BinaryOp::{Add, FloorDiv, FloorMod, Max, Min, Mul, Sub};
            let divides = matches!(op, FloorDiv | FloorMod) && b.as_int().is_some_and(|divisor| divisor != 0);
            let counts = divides || matches!(op, Add | Sub | Mul | Min | Max);
            if counts { crate::ir::with_stack(|| Some(size(a)? + size(b)? + 1)) } else { None }
        }
        _ => None,
    }
}

impl Visit for Parts {
    fn visit_expr(&mut self, expr: &Expr) {
        if expr.dtype() == I64
            && let Some(size) = size(expr).filter(|size| *size >= 2)
            && let Ok(hash) = structural::hash(expr)
        {
            let known = self.found.entry(hash).or_default();
            match known.iter_mut().find(|part| structural::equal(&part.expr, expr).unwrap_or(false)) {
                Some(part) => part.count += 1,
                None => known.push(Part { expr: expr.clone(), count: 1, size, first: self.at }),
            }
        }
        // An expression that is not always evaluated may be invalid elsewhere.
        if let ExprNode::IfThenElse { condition, .. } = &**expr {
            return self.visit_expr(condition);
        }
        if !matches!(**expr, ExprNode::Let { .. }) {
            walk_expr(self, expr);
        }
    }
}

/// Replaces a part by a name.
struct Named<'a> {
    part: &'a Expr,
    name: &'a Var,
}

impl Mutate for Named<'_> {
    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        if expr.dtype() == I64 && structural::equal(expr, self.part).unwrap_or(false) {
            return Ok(self.name.expr().clone());
        }
        mutate_expr_parts(self, expr)
    }
}
