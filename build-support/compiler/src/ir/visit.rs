//! Traversal of programs.

use super::expr::{Expr, ExprNode, Var};
use super::shared::Seen;
use super::stmt::{Stmt, StmtNode};
use super::with_stack;

/// A traversal: implementations override the relevant method, and call `walk_expr` or `walk_stmt`
/// to visit the parts. Variables that a node defines are not visited as expressions.
pub trait Visit {
    /// Visits an expression.
    fn visit_expr(&mut self, expr: &Expr) {
        walk_expr(self, expr);
    }

    /// Visits a statement.
    fn visit_stmt(&mut self, stmt: &Stmt) {
        walk_stmt(self, stmt);
    }
}

/// Visits the parts of an expression, in evaluation order.
pub fn walk_expr<V: Visit + ?Sized>(visitor: &mut V, expr: &Expr) {
    with_stack(|| match &**expr {
        ExprNode::Int { .. } | ExprNode::Float { .. } | ExprNode::Text { .. } | ExprNode::Var { .. } => {}
        ExprNode::Cast { value, .. } | ExprNode::Not { value } | ExprNode::Broadcast { value, .. } => {
            visitor.visit_expr(value);
        }
        ExprNode::Binary { a, b, .. } | ExprNode::Compare { a, b, .. } | ExprNode::Logic { a, b, .. } => {
            visitor.visit_expr(a);
            visitor.visit_expr(b);
        }
        ExprNode::Select { condition, true_value: a, false_value: b }
        | ExprNode::IfThenElse { condition, then_value: a, else_value: b } => {
            visitor.visit_expr(condition);
            visitor.visit_expr(a);
            visitor.visit_expr(b);
        }
        ExprNode::Ramp { base, stride, .. } => {
            visitor.visit_expr(base);
            visitor.visit_expr(stride);
        }
        ExprNode::Shuffle { vectors, .. } => vectors.iter().for_each(|vector| visitor.visit_expr(&vector)),
        ExprNode::Let { value, body, .. } => {
            visitor.visit_expr(value);
            visitor.visit_expr(body);
        }
        ExprNode::Load { index, mask, .. } => {
            visitor.visit_expr(index);
            if let Some(mask) = mask {
                visitor.visit_expr(mask);
            }
        }
        ExprNode::TensorRead { indices, .. } => indices.iter().for_each(|index| visitor.visit_expr(&index)),
        ExprNode::Call { args, .. } => args.iter().for_each(|arg| visitor.visit_expr(&arg)),
        ExprNode::Reduce { sources, condition, init, .. } => {
            sources.iter().for_each(|source| visitor.visit_expr(&source));
            visitor.visit_expr(condition);
            init.iter().for_each(|init| visitor.visit_expr(&init));
        }
    });
}

/// Visits the parts of a statement, in execution order.
pub fn walk_stmt<V: Visit + ?Sized>(visitor: &mut V, stmt: &Stmt) {
    with_stack(|| match &**stmt {
        StmtNode::Seq { stmts } => stmts.iter().for_each(|stmt| visitor.visit_stmt(&stmt)),
        StmtNode::For { min, extent, body, .. } => {
            visitor.visit_expr(min);
            visitor.visit_expr(extent);
            visitor.visit_stmt(body);
        }
        StmtNode::Store { index, value, mask, .. } => {
            visitor.visit_expr(index);
            visitor.visit_expr(value);
            if let Some(mask) = mask {
                visitor.visit_expr(mask);
            }
        }
        StmtNode::TensorWrite { indices, value, .. } => {
            indices.iter().for_each(|index| visitor.visit_expr(&index));
            visitor.visit_expr(value);
        }
        StmtNode::Realize { region, .. } | StmtNode::Prefetch { region, .. } => {
            for range in region.iter() {
                visitor.visit_expr(&range.min);
                visitor.visit_expr(&range.extent);
            }
        }
        StmtNode::Alloc { buffer, .. } => buffer.shape.iter().for_each(|extent| visitor.visit_expr(&extent)),
        StmtNode::Alias { data, .. } => visitor.visit_expr(data),
        StmtNode::Bind { value, .. } | StmtNode::Evaluate { value } | StmtNode::Return { value } => {
            visitor.visit_expr(value);
        }
        StmtNode::Attr { value, body, .. } => {
            visitor.visit_expr(value);
            visitor.visit_stmt(body);
        }
        StmtNode::Assert { condition, .. } => visitor.visit_expr(condition),
        StmtNode::If { condition, then_body, else_body } => {
            visitor.visit_expr(condition);
            visitor.visit_stmt(then_body);
            if let Some(body) = else_body {
                visitor.visit_stmt(body);
            }
        }
        StmtNode::While { condition, body } => {
            visitor.visit_expr(condition);
            visitor.visit_stmt(body);
        }
    });
}

struct EachExpr<F> {
    found: F,
    seen: Seen,
}

impl<F: FnMut(&Expr)> Visit for EachExpr<F> {
    fn visit_expr(&mut self, expr: &Expr) {
        if self.seen.is_new(expr) {
            walk_expr(self, expr);
            (self.found)(expr);
        }
    }
}

/// Calls a closure with each subexpression and with the expression itself, parts first. Parts that
/// are [shared](super::shared) are visited once.
pub fn for_each_expr(expr: &Expr, found: impl FnMut(&Expr)) {
    EachExpr { found, seen: Seen::default() }.visit_expr(expr);
}

/// Returns true if an expression contains a variable in several places. For small expressions only:
/// shared parts are visited repeatedly.
pub(crate) fn is_used_twice(expr: &Expr, var: &Var) -> bool {
    struct Uses<'v> {
        var: &'v Var,
        count: usize,
    }
    impl Visit for Uses<'_> {
        fn visit_expr(&mut self, expr: &Expr) {
            self.count += usize::from(self.var.expr() == expr);
            if self.count < 2 {
                walk_expr(self, expr);
            }
        }
    }
    let mut uses = Uses { var, count: 0 };
    uses.visit_expr(expr);
    uses.count > 1
}

/// Calls a closure with each expression in a statement, parts first. Parts that are
/// [shared](super::shared) are visited once.
pub fn for_each_expr_in(stmt: &Stmt, found: impl FnMut(&Expr)) {
    EachExpr { found, seen: Seen::default() }.visit_stmt(stmt);
}

struct Search<F> {
    test: F,
    found: bool,
    seen: Seen,
}

impl<F: FnMut(&Expr) -> bool> Visit for Search<F> {
    fn visit_expr(&mut self, expr: &Expr) {
        if self.found || !self.seen.is_new(expr) {
            return;
        }
        self.found = (self.test)(expr);
        if !self.found {
            walk_expr(self, expr);
        }
    }
}

/// Returns true if the expression or a part of it satisfies a predicate.
pub fn has_part(expr: &Expr, test: impl FnMut(&Expr) -> bool) -> bool {
    let mut search = Search { test, found: false, seen: Seen::default() };
    search.visit_expr(expr);
    search.found
}

struct EachStmt<F>(F);

impl<F: FnMut(&Stmt)> Visit for EachStmt<F> {
    fn visit_expr(&mut self, _: &Expr) {}

    fn visit_stmt(&mut self, stmt: &Stmt) {
        walk_stmt(self, stmt);
        (self.0)(stmt);
    }
}

/// Calls a closure with each statement inside and with the statement itself, parts first.
pub fn for_each_stmt(stmt: &Stmt, found: impl FnMut(&Stmt)) {
    EachStmt(found).visit_stmt(stmt);
}

/// Returns true if a variable occurs that satisfies a predicate. The data pointers of buffers in
/// loads are included.
pub fn uses_var(expr: &Expr, is_wanted: impl Fn(&Var) -> bool) -> bool {
    has_part(expr, |part| match &**part {
        ExprNode::Var { .. } => Var::of(part).is_some_and(|var| is_wanted(&var)),
        ExprNode::Load { buffer, .. } => is_wanted(&buffer.data),
        _ => false,
    })
}

/// The approximate number of operations of an expression for one lane, where a math function counts
/// as many.
pub(crate) fn cost(expr: &Expr) -> usize {
    let mut cost = 0;
    for_each_expr(expr, |part| {
        cost += match &**part {
            ExprNode::Binary { .. } | ExprNode::Compare { .. } | ExprNode::Select { .. } | ExprNode::Cast { .. } => 1,
            ExprNode::Call { .. } => 10,
            _ => 0,
        };
    });
    cost
}
