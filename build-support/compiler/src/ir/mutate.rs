//! Rewriting programs.

use kernpack::Array;

use super::expr::{Expr, ExprNode};
use super::shared::{Memo, is_shared};
use super::stmt::{Stmt, StmtNode};
use super::tensor::Range;
use super::with_stack;
use crate::error::Result;

/// A rewrite: implementations override the relevant method, and call `mutate_expr_parts` or
/// `mutate_stmt_parts` to rewrite the parts. Unchanged nodes are shared with the original. Nodes
/// are rebuilt without folding.
pub trait Mutate {
    /// Rewrites an expression.
    ///
    /// # Errors
    /// Returns the errors of the rewrite.
    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        mutate_expr_parts(self, expr)
    }

    /// Rewrites a statement.
    ///
    /// # Errors
    /// Returns the errors of the rewrite.
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        mutate_stmt_parts(self, stmt)
    }

    /// The memo of rewritten parts that several expressions [share](super::shared), so that each is
    /// rewritten once. A rewrite whose result depends on more than the expression clears the memo
    /// when that context changes, or has no memo, which is the default.
    fn memo(&mut self) -> Option<&mut Memo> {
        None
    }
}

/// A rewrite of statements that leaves expressions alone: it is a [`Mutate`], too.
pub trait MutateStmts {
    /// Rewrites a statement.
    ///
    /// # Errors
    /// Returns the errors of the rewrite.
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt>;
}

impl<M: MutateStmts> Mutate for M {
    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        Ok(expr.clone())
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        MutateStmts::mutate_stmt(self, stmt)
    }
}

/// Rewrites a part of an expression or statement, or returns its memoized result.
pub fn mutate_part<M: Mutate + ?Sized>(mutator: &mut M, expr: &Expr) -> Result<Expr> {
    if !is_shared(expr) {
        return mutator.mutate_expr(expr);
    }
    if let Some(known) = mutator.memo().and_then(|memo| memo.get(expr)) {
        return Ok(known);
    }
    let new = mutator.mutate_expr(expr)?;
    if let Some(memo) = mutator.memo() {
        memo.put(expr, &new);
    }
    Ok(new)
}

/// Rewrites each expression; returns `None` if nothing changed.
pub fn mutate_exprs<M: Mutate + ?Sized>(mutator: &mut M, exprs: &Array<Expr>) -> Result<Option<Array<Expr>>> {
    let mut changed = false;
    let mut rewritten = Vec::with_capacity(exprs.len());
    for expr in exprs.iter() {
        let new = mutate_part(mutator, &expr)?;
        changed |= !new.same_as(&expr);
        rewritten.push(new);
    }
    Ok(changed.then(|| rewritten.into()))
}

fn mutate_option<M: Mutate + ?Sized>(mutator: &mut M, expr: &Option<Expr>) -> Result<Option<Expr>> {
    expr.as_ref().map(|expr| mutate_part(mutator, expr)).transpose()
}

fn same_option(a: &Option<Expr>, b: &Option<Expr>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.same_as(b),
        (None, None) => true,
        _ => false,
    }
}

fn mutate_region<M: Mutate + ?Sized>(mutator: &mut M, region: &Array<Range>) -> Result<Option<Array<Range>>> {
    let mut changed = false;
    let mut rewritten = Vec::with_capacity(region.len());
    for range in region.iter() {
        let (min, extent) = (mutate_part(mutator, &range.min)?, mutate_part(mutator, &range.extent)?);
        if min.same_as(&range.min) && extent.same_as(&range.extent) {
            rewritten.push(range);
        } else {
            changed = true;
            rewritten.push(Range::new(min, extent));
        }
    }
    Ok(changed.then(|| rewritten.into()))
}

/// Returns the expression with its parts rewritten.
///
/// # Errors
/// Returns the errors of the mutator.
pub fn mutate_expr_parts<M: Mutate + ?Sized>(mutator: &mut M, expr: &Expr) -> Result<Expr> {
    with_stack(|| expr_parts(mutator, expr))
}

fn expr_parts<M: Mutate + ?Sized>(m: &mut M, expr: &Expr) -> Result<Expr> {
    let same = || Ok(expr.clone());
    let node = match &**expr {
        ExprNode::Int { .. } | ExprNode::Float { .. } | ExprNode::Text { .. } | ExprNode::Var { .. } => return same(),
        ExprNode::Cast { dtype, value } => {
            let new = mutate_part(m, value)?;
            if new.same_as(value) {
                return same();
            }
            ExprNode::Cast { dtype: super::DataTypeExt::with_lanes(*dtype, new.lanes()), value: new }
        }
        ExprNode::Binary { op, a, b, .. } => {
            let (x, y) = (mutate_part(m, a)?, mutate_part(m, b)?);
            if x.same_as(a) && y.same_as(b) {
                return same();
            }
            let dtype = x.dtype();
            ExprNode::Binary { op: *op, a: x, b: y, dtype }
        }
        ExprNode::Compare { op, a, b } => {
            let (x, y) = (mutate_part(m, a)?, mutate_part(m, b)?);
            if x.same_as(a) && y.same_as(b) {
                return same();
            }
            ExprNode::Compare { op: *op, a: x, b: y }
        }
        ExprNode::Logic { op, a, b } => {
            let (x, y) = (mutate_part(m, a)?, mutate_part(m, b)?);
            if x.same_as(a) && y.same_as(b) {
                return same();
            }
            ExprNode::Logic { op: *op, a: x, b: y }
        }
        ExprNode::Not { value } => {
            let new = mutate_part(m, value)?;
            if new.same_as(value) {
                return same();
            }
            ExprNode::Not { value: new }
        }
        ExprNode::Select { condition, true_value, false_value } => {
            let (c, x, y) = (mutate_part(m, condition)?, mutate_part(m, true_value)?, mutate_part(m, false_value)?);
            if c.same_as(condition) && x.same_as(true_value) && y.same_as(false_value) {
                return same();
            }
            ExprNode::Select { condition: c, true_value: x, false_value: y }
        }
        ExprNode::IfThenElse { condition, then_value, else_value } => {
            let (c, x, y) = (mutate_part(m, condition)?, mutate_part(m, then_value)?, mutate_part(m, else_value)?);
            if c.same_as(condition) && x.same_as(then_value) && y.same_as(else_value) {
                return same();
            }
            ExprNode::IfThenElse { condition: c, then_value: x, else_value: y }
        }
        ExprNode::Ramp { base, stride, lanes } => {
            let (x, y) = (mutate_part(m, base)?, mutate_part(m, stride)?);
            if x.same_as(base) && y.same_as(stride) {
                return same();
            }
            ExprNode::Ramp { base: x, stride: y, lanes: *lanes }
        }
        ExprNode::Broadcast { value, lanes } => {
            let new = mutate_part(m, value)?;
            if new.same_as(value) {
                return same();
            }
            ExprNode::Broadcast { value: new, lanes: *lanes }
        }
        ExprNode::Shuffle { vectors, indices } => match mutate_exprs(m, vectors)? {
            None => return same(),
            Some(vectors) => ExprNode::Shuffle { vectors, indices: indices.clone() },
        },
        ExprNode::Let { var, value, body } => {
            let (x, y) = (mutate_part(m, value)?, mutate_part(m, body)?);
            if x.same_as(value) && y.same_as(body) {
                return same();
            }
            ExprNode::Let { var: var.clone(), value: x, body: y }
        }
        ExprNode::Load { buffer, index, mask, .. } => {
            let (x, new_mask) = (mutate_part(m, index)?, mutate_option(m, mask)?);
            if x.same_as(index) && same_option(&new_mask, mask) {
                return same();
            }
            return Ok(Expr::load_masked(buffer, x, new_mask));
        }
        ExprNode::TensorRead { tensor, indices } => match mutate_exprs(m, indices)? {
            None => return same(),
            Some(indices) => ExprNode::TensorRead { tensor: tensor.clone(), indices },
        },
        ExprNode::Call { kind, name, args, dtype } => match mutate_exprs(m, args)? {
            None => return same(),
            Some(args) => ExprNode::Call { kind: *kind, name: name.clone(), args, dtype: *dtype },
        },
        ExprNode::Reduce { reducer, sources, axes, condition, init, value_index } => {
            let new_sources = mutate_exprs(m, sources)?;
            let new_condition = mutate_part(m, condition)?;
            let new_init = mutate_exprs(m, init)?;
            if new_sources.is_none() && new_condition.same_as(condition) && new_init.is_none() {
                return same();
            }
            ExprNode::Reduce {
                reducer: reducer.clone(),
                sources: new_sources.unwrap_or_else(|| sources.clone()),
                axes: axes.clone(),
                condition: new_condition,
                init: new_init.unwrap_or_else(|| init.clone()),
                value_index: *value_index,
            }
        }
    };
    Ok(Expr::from_node(node))
}

/// Returns the statement with its parts rewritten.
///
/// # Errors
/// Returns the errors of the mutator.
pub fn mutate_stmt_parts<M: Mutate + ?Sized>(mutator: &mut M, stmt: &Stmt) -> Result<Stmt> {
    with_stack(|| stmt_parts(mutator, stmt))
}

fn stmt_parts<M: Mutate + ?Sized>(m: &mut M, stmt: &Stmt) -> Result<Stmt> {
    let same = || Ok(stmt.clone());
    let node = match &**stmt {
        StmtNode::Seq { stmts } => {
            let mut changed = false;
            let mut rewritten = Vec::with_capacity(stmts.len());
            for part in stmts.iter() {
                let new = m.mutate_stmt(&part)?;
                changed |= !new.same_as(&part);
                rewritten.push(new);
            }
            return if changed { Ok(Stmt::seq(rewritten)) } else { same() };
        }
        StmtNode::For { var, min, extent, kind, annotations, body } => {
            let (x, y, z) = (mutate_part(m, min)?, mutate_part(m, extent)?, m.mutate_stmt(body)?);
            if x.same_as(min) && y.same_as(extent) && z.same_as(body) {
                return same();
            }
            StmtNode::For {
                var: var.clone(),
                min: x,
                extent: y,
                kind: *kind,
                annotations: annotations.clone(),
                body: z,
            }
        }
        StmtNode::Store { buffer, index, value, mask } => {
            let (x, y, new_mask) = (mutate_part(m, index)?, mutate_part(m, value)?, mutate_option(m, mask)?);
            if x.same_as(index) && y.same_as(value) && same_option(&new_mask, mask) {
                return same();
            }
            StmtNode::Store { buffer: buffer.clone(), index: x, value: y, mask: new_mask }
        }
        StmtNode::TensorWrite { tensor, indices, value } => {
            let (new_indices, y) = (mutate_exprs(m, indices)?, mutate_part(m, value)?);
            if new_indices.is_none() && y.same_as(value) {
                return same();
            }
            let indices = new_indices.unwrap_or_else(|| indices.clone());
            StmtNode::TensorWrite { tensor: tensor.clone(), indices, value: y }
        }
        StmtNode::Realize { tensor, region, scope, annotations } => match mutate_region(m, region)? {
            None => return same(),
            Some(region) => StmtNode::Realize {
                tensor: tensor.clone(),
                region,
                scope: scope.clone(),
                annotations: annotations.clone(),
            },
        },
        StmtNode::Prefetch { tensor, region } => match mutate_region(m, region)? {
            None => return same(),
            Some(region) => StmtNode::Prefetch { tensor: tensor.clone(), region },
        },
        // The shape of a buffer is a part of its identity; a pass that changes it creates a new
        // buffer and replaces each use.
        StmtNode::Alloc { .. } => return same(),
        StmtNode::Alias { buffer, data } => {
            let new = mutate_part(m, data)?;
            if new.same_as(data) {
                return same();
            }
            StmtNode::Alias { buffer: buffer.clone(), data: new }
        }
        StmtNode::Bind { var, value } => {
            let new = mutate_part(m, value)?;
            if new.same_as(value) {
                return same();
            }
            StmtNode::Bind { var: var.clone(), value: new }
        }
        StmtNode::Attr { key, node, value, body } => {
            let (x, y) = (mutate_part(m, value)?, m.mutate_stmt(body)?);
            if x.same_as(value) && y.same_as(body) {
                return same();
            }
            StmtNode::Attr { key: key.clone(), node: node.clone(), value: x, body: y }
        }
        StmtNode::Assert { condition, kind, parts } => {
            let new = mutate_part(m, condition)?;
            if new.same_as(condition) {
                return same();
            }
            StmtNode::Assert { condition: new, kind: kind.clone(), parts: parts.clone() }
        }
        StmtNode::If { condition, then_body, else_body } => {
            let (x, y) = (mutate_part(m, condition)?, m.mutate_stmt(then_body)?);
            let z = else_body.as_ref().map(|body| m.mutate_stmt(body)).transpose()?;
            let same_else = match (&z, else_body) {
                (Some(new), Some(old)) => new.same_as(old),
                _ => true,
            };
            if x.same_as(condition) && y.same_as(then_body) && same_else {
                return same();
            }
            StmtNode::If { condition: x, then_body: y, else_body: z }
        }
        StmtNode::Evaluate { value } => {
            let new = mutate_part(m, value)?;
            if new.same_as(value) {
                return same();
            }
            StmtNode::Evaluate { value: new }
        }
        StmtNode::While { condition, body } => {
            let (x, y) = (mutate_part(m, condition)?, m.mutate_stmt(body)?);
            if x.same_as(condition) && y.same_as(body) {
                return same();
            }
            StmtNode::While { condition: x, body: y }
        }
        StmtNode::Return { value } => {
            let new = mutate_part(m, value)?;
            if new.same_as(value) {
                return same();
            }
            StmtNode::Return { value: new }
        }
    };
    Ok(Stmt::from_node(node))
}
