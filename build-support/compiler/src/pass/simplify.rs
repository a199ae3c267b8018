//! `Simplify`: converts expressions to canonical form, with facts from surrounding loops,
//! conditions, asserts and names.
//!
//! Conditions with a known value are removed, as are loops without iterations. A loop with one
//! iteration becomes its body, unless its iterations are threads or it is left by `break_loop` or
//! `continue_loop`. A name for a constant, a variable or a sum of few variables is replaced by the
//! value; `RemoveNoOp` removes its `Bind`, and the statements that become empty.

use kernpack::{Any, Result as PackedResult, packed_func};

use super::PassContext;
use super::pipeline::on_functions;
use super::remove_no_op::has_effect;
use crate::arith::{Analyzer, ConstInterval};
use crate::error::Result;
use crate::ir::builtin::{ASSUME, BREAK_LOOP, CONTINUE_LOOP};
use crate::ir::mutate::mutate_stmt_parts;
use crate::ir::visit::{Visit, for_each_expr_in, walk_expr, walk_stmt};
use crate::ir::{
    BinaryOp, Buffer, DataTypeExt, Expr, ExprNode, ForKind, IterVar, LoweredFunc, Mutate, Range, Stmt, StmtNode, Var,
    with_stack,
};

/// Simplifies all expressions of a function, and removes unreachable statements.
///
/// # Errors
/// Returns no errors of its own.
pub fn simplify(function: &LoweredFunc, _: &PassContext) -> Result<LoweredFunc> {
    Ok(function.with_body(simplify_stmt(&function.body, &Analyzer::of_params(&function.params))?))
}

/// [`simplify`] for a function or for all functions of a module.
#[packed_func(name = "kernpack.pass.Simplify")]
fn packed(program: Any, context: PassContext) -> PackedResult<Any> {
    on_functions(&program, &context, simplify)
}

/// Simplifies a statement with the facts of an analyzer, which are unchanged afterwards.
///
/// # Errors
/// Returns no errors of its own.
pub fn simplify_stmt(stmt: &Stmt, analyzer: &Analyzer) -> Result<Stmt> {
    analyzer.scoped(|analyzer| Simplify { analyzer }.mutate_stmt(stmt))
}

struct Simplify<'a> {
    analyzer: &'a Analyzer,
}

impl Simplify<'_> {
    /// Simplifies a body with facts that hold in it.
    fn body(&mut self, body: &Stmt, enter: impl FnOnce(&Analyzer)) -> Result<Stmt> {
        let mark = self.analyzer.mark();
        enter(self.analyzer);
        let new = self.mutate_stmt(body);
        self.analyzer.restore(mark);
        new
    }

    fn for_loop(&mut self, stmt: &Stmt) -> Result<Stmt> {
        let StmtNode::For { var, min, extent, kind, annotations, body } = &**stmt else { return Ok(stmt.clone()) };
        let (new_min, new_extent) = (self.analyzer.simplify(min), self.analyzer.simplify(extent));
        let count = self.analyzer.const_interval(&new_extent);
        if count.max <= 0 && *kind != ForKind::ThreadBinding && !has_effect(min) && !has_effect(extent) {
            return Ok(Stmt::nothing());
        }
        if count == ConstInterval::point(1) && *kind != ForKind::ThreadBinding && !is_left(body) {
            // Facts from inside hold to the end of the surrounding body, because the statements are
            // merged into it.
            let first = self.bind(&var.clone(), &new_min);
            let new_body = self.mutate_stmt(body)?;
            return Ok(if first && !uses(&new_body, var) {
                new_body
            } else {
                Stmt::seq([Stmt::bind(var.clone(), new_min), new_body])
            });
        }
        let range = Range::new(&new_min, &new_extent);
        let new_body = self.body(body, |analyzer| analyzer.bind(var, &range))?;
        if new_min.same_as(min) && new_extent.same_as(extent) && new_body.same_as(body) {
            return Ok(stmt.clone());
        }
        Ok(Stmt::for_with(var.clone(), new_min, new_extent, *kind, annotations.clone(), new_body))
    }

    /// Binds the name to the value from here on. Returns true if the value replaces the name.
    fn bind(&mut self, var: &Var, value: &Expr) -> bool {
        let replaced = var.dtype() == value.dtype() && is_cheap(value);
        if replaced {
            self.analyzer.bind_value(var, value);
        } else {
            self.analyzer.bind_equal(var, value);
        }
        replaced
    }

    fn condition(&mut self, stmt: &Stmt) -> Result<Stmt> {
        let StmtNode::If { condition, then_body, else_body } = &**stmt else { return Ok(stmt.clone()) };
        let new = self.analyzer.simplify(condition);
        if new.is_true() && !has_effect(condition) {
            return self.mutate_stmt(then_body);
        }
        if new.is_false() && !has_effect(condition) {
            return else_body.as_ref().map_or_else(|| Ok(Stmt::nothing()), |body| self.mutate_stmt(body));
        }
        let new_then = self.body(then_body, |analyzer| analyzer.enter(&new))?;
        let new_else = match else_body {
            Some(body) => Some(self.body(body, |analyzer| analyzer.enter_negation(&new))?),
            None => None,
        };
        let same_else = match (&new_else, else_body) {
            (Some(new), Some(old)) => new.same_as(old),
            _ => true,
        };
        if new.same_as(condition) && new_then.same_as(then_body) && same_else {
            return Ok(stmt.clone());
        }
        let new_else = new_else.filter(|body| !body.is_nothing());
        Ok(Stmt::if_then(new, new_then, new_else))
    }
}

impl Mutate for Simplify<'_> {
    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        Ok(self.analyzer.simplify(expr))
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        match &**stmt {
            StmtNode::For { .. } => with_stack(|| self.for_loop(stmt)),
            StmtNode::If { .. } => with_stack(|| self.condition(stmt)),
            StmtNode::Attr { key, node, value, body } => {
                let new_value = self.analyzer.simplify(value);
                let thread = matches!(key.as_str(), "thread_extent" | "virtual_thread").then(|| thread(node)).flatten();
                let new_body = with_stack(|| {
                    self.body(body, |analyzer| {
                        if let Some(var) = &thread {
                            let count = new_value.cast(var.dtype());
                            analyzer.bind(var, &Range::new(Expr::constant(var.dtype(), 0), count));
                        }
                    })
                })?;
                if new_value.same_as(value) && new_body.same_as(body) {
                    return Ok(stmt.clone());
                }
                Ok(Stmt::from_node(StmtNode::Attr {
                    key: key.clone(),
                    node: node.clone(),
                    value: new_value,
                    body: new_body,
                }))
            }
            StmtNode::Bind { var, value } => {
                let new = self.analyzer.simplify(value);
                // Arithmetic on the name wraps, as it does on data that cancels out.
                if self.analyzer.loses_data(value, &new) {
                    self.analyzer.mark_data(var);
                    self.bind(var, &new);
                    return Ok(stmt.clone());
                }
                self.bind(var, &new);
                Ok(if new.same_as(value) { stmt.clone() } else { Stmt::bind(var.clone(), new) })
            }
            StmtNode::Assert { condition, kind, parts } => {
                let new = self.analyzer.simplify(condition);
                if new.is_true() {
                    return Ok(Stmt::nothing());
                }
                self.analyzer.enter(&new);
                if new.same_as(condition) {
                    return Ok(stmt.clone());
                }
                Ok(Stmt::assert(new, kind.as_str(), parts.iter()))
            }
            StmtNode::Evaluate { value } => {
                let new = self.analyzer.simplify(value);
                if let ExprNode::Call { name, args, .. } = &*new
                    && name.as_str() == ASSUME
                    && let Some(condition) = args.get(0)
                {
                    self.analyzer.enter(&condition);
                }
                Ok(if new.same_as(value) { stmt.clone() } else { Stmt::evaluate(new) })
            }
            StmtNode::While { condition, body } => {
                let new = self.analyzer.simplify(condition);
                if new.is_false() && !has_effect(condition) {
                    return Ok(Stmt::nothing());
                }
                let new_body = with_stack(|| self.body(body, |analyzer| analyzer.enter(&new)))?;
                if new.same_as(condition) && new_body.same_as(body) {
                    return Ok(stmt.clone());
                }
                Ok(Stmt::from_node(StmtNode::While { condition: new, body: new_body }))
            }
            StmtNode::Store { buffer, mask: Some(mask), .. } => {
                let new = mutate_stmt_parts(self, stmt)?;
                let StmtNode::Store { index, value, mask: Some(new_mask), .. } = &*new else { return Ok(new) };
                if new_mask.is_true() {
                    return Ok(Stmt::store(buffer.clone(), index, value));
                }
                let effects = [index, value, mask].iter().any(|part| has_effect(part));
                Ok(if new_mask.is_false() && !effects { Stmt::nothing() } else { new })
            }
            _ => mutate_stmt_parts(self, stmt),
        }
    }
}

/// The variable of a thread attribute.
fn thread(node: &Any) -> Option<Var> {
    if let Ok(axis) = node.to::<IterVar>() {
        return Some(axis.var.clone());
    }
    node.to::<Var>().ok()
}

/// Returns true if a value is cheap enough to replace each use of its name: a constant, a variable,
/// or a sum of at most two variables with constant factors.
fn is_cheap(value: &Expr) -> bool {
    match &**value {
        ExprNode::Int { .. } | ExprNode::Float { .. } | ExprNode::Var { .. } => true,
        ExprNode::Binary { dtype, .. } => {
            dtype.is_int() && dtype.is_scalar() && terms(value).is_some_and(|count| count <= 2)
        }
        _ => false,
    }
}

/// The number of variables in a sum with constant factors; `None` for other expressions.
fn terms(value: &Expr) -> Option<usize> {
    match &**value {
        ExprNode::Int { .. } => Some(0),
        ExprNode::Var { .. } => Some(1),
        ExprNode::Binary { op: BinaryOp::Add | BinaryOp::Sub, a, b, .. } => {
            // Canonical sums are left-associative, and have at most one constant.
            let right = with_stack(|| terms(b))?;
            if right > 2 { Some(right) } else { with_stack(|| terms(a)).map(|left| left + right) }
        }
        ExprNode::Binary { op: BinaryOp::Mul, a, b, .. } if b.as_int().is_some() => terms(a),
        _ => None,
    }
}

/// Returns true if iterations of the loop around this body may end early.
fn is_left(body: &Stmt) -> bool {
    let mut found = false;
    for_each_expr_in(body, |part| {
        if let ExprNode::Call { name, .. } = &**part {
            found |= matches!(name.as_str(), BREAK_LOOP | CONTINUE_LOOP);
        }
    });
    found
}

/// Returns true if a variable is used anywhere, including in shapes of buffers and in attributes.
fn uses(stmt: &Stmt, var: &Var) -> bool {
    let mut search = Uses { var, found: false };
    search.visit_stmt(stmt);
    search.found
}

struct Uses<'a> {
    var: &'a Var,
    found: bool,
}

impl Uses<'_> {
    fn buffer(&mut self, buffer: &Buffer) {
        self.found |= buffer.data == *self.var;
        for expr in buffer.shape.iter().chain(buffer.strides.iter()) {
            self.visit_expr(&expr);
        }
        self.visit_expr(&buffer.elem_offset);
    }
}

impl Visit for Uses<'_> {
    fn visit_expr(&mut self, expr: &Expr) {
        match &**expr {
            ExprNode::Var { .. } => self.found |= expr.same_as(self.var),
            ExprNode::Load { buffer, .. } => self.buffer(buffer),
            _ => {}
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        match &**stmt {
            StmtNode::Alloc { buffer, .. } | StmtNode::Alias { buffer, .. } | StmtNode::Store { buffer, .. } => {
                self.buffer(buffer);
            }
            StmtNode::Attr { node, .. } => {
                if let Ok(buffer) = node.to::<Buffer>() {
                    self.buffer(&buffer);
                } else if let Ok(expr) = node.to::<Expr>() {
                    self.visit_expr(&expr);
                } else if let Ok(axis) = node.to::<IterVar>() {
                    self.found |= axis.var == *self.var;
                }
            }
            _ => {}
        }
        walk_stmt(self, stmt);
    }
}
