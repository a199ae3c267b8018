//! Checks of reads in loops: an assertion stands before each statement that reads an element which is not known to exist.

use kernpack::structural;

use crate::arith::Analyzer;
use crate::error::Result;
use crate::ir::mutate::mutate_stmt_parts;
use crate::ir::shared::Seen;
use crate::ir::visit::{Visit, for_each_stmt, walk_expr};
use crate::ir::{
    Expr, ExprNode, ForKind, Mutate, OperationNode, Range, Stmt, StmtNode, Tensor, Var, VarMap, substitute,
};
use crate::pass::PassContext;
use crate::te::in_bounds::Checks;
use crate::text;

/// The body with the checks at its entry and before its reads.
///
/// # Errors
/// None of its own.
pub(crate) fn insert(body: Stmt, checks: &Checks, kernel: &str, context: &PassContext) -> Result<Stmt> {
    let mut body = body;
    if !checks.reads.is_empty() {
        if runs_on_threads(&body) {
            context.warn(format!(
                "`{kernel}`: its reads cannot be proved to be in bounds, and code of devices does not check them"
            ));
        } else {
            let analyzer = Analyzer::new();
            checks.known.iter().for_each(|var| analyzer.mark_data(var));
            body = Insert { checks, kernel, context, analyzer }.mutate_stmt(&body)?;
        }
    }
    let entry = checks.entry.iter().map(|check| assertion(&check.condition, &check.message));
    Ok(Stmt::seq(entry.chain([body])))
}

fn assertion(condition: &Expr, message: &str) -> Stmt {
    Stmt::assert(condition, "ValueError", [message.into()])
}

/// Threads of a device run it, which cannot raise errors.
fn runs_on_threads(body: &Stmt) -> bool {
    let mut found = false;
    for_each_stmt(body, |stmt| {
        found |= match &**stmt {
            StmtNode::For { kind, .. } => *kind == ForKind::ThreadBinding,
            StmtNode::Attr { key, .. } => matches!(key.as_str(), "thread_extent" | "virtual_thread"),
            _ => false,
        }
    });
    found
}

struct Check {
    condition: Expr,
    message: String,
}

/// Finds the reads of expressions that are checked, those first that others depend on.
struct Reads<'a> {
    checks: &'a Checks,
    kernel: &'a str,
    analyzer: &'a Analyzer,
    seen: Seen,
    found: Vec<Check>,
}

impl Reads<'_> {
    fn read(&mut self, tensor: &Tensor, indices: &[Expr]) {
        let is_input = matches!(*tensor.op, OperationNode::Placeholder { .. });
        if is_input && !self.checks.reads.contains(&tensor.key()) {
            return;
        }
        for (dimension, (index, extent)) in indices.iter().zip(tensor.shape.iter()).enumerate() {
            let condition = index.greater_equal(0).and(index.less(&extent));
            if condition.is_true() || self.has(&condition) || self.analyzer.can_prove(&condition) {
                continue;
            }
            let message = format!(
                "`{}`: `{}` is read at index `{}` of dimension {dimension}, outside of its extent `{}`",
                self.kernel,
                tensor.name(),
                text::print(index),
                text::print(&extent),
            );
            self.found.push(Check { condition, message });
        }
    }

    fn has(&self, condition: &Expr) -> bool {
        self.found.iter().any(|check| structural::equal(&check.condition, condition).unwrap_or(false))
    }

    /// The checks of a part that is evaluated under a condition.
    fn under(&mut self, part: &Expr, wrap: impl Fn(Expr) -> Expr) {
        let (checks, kernel, analyzer) = (self.checks, self.kernel, self.analyzer);
        let mut inner = Reads { checks, kernel, analyzer, seen: Seen::default(), found: Vec::new() };
        inner.visit_expr(part);
        for Check { condition, message } in inner.found {
            if !self.has(&condition) {
                self.found.push(Check { condition: wrap(condition), message });
            }
        }
    }
}

impl Visit for Reads<'_> {
    fn visit_expr(&mut self, expr: &Expr) {
        if !self.seen.is_new(expr) {
            return;
        }
        match &**expr {
            ExprNode::TensorRead { tensor, indices } => {
                walk_expr(self, expr);
                self.read(tensor, &indices.to_vec());
            }
            // A select whose sides read memory becomes a choice, too: `RewriteUnsafeSelect`.
            ExprNode::IfThenElse { condition, then_value: a, else_value: b }
            | ExprNode::Select { condition, true_value: a, false_value: b }
                if condition.lanes() == 1 =>
            {
                self.visit_expr(condition);
                crate::ir::with_stack(|| {
                    self.under(a, |check| Expr::if_then_else(condition, check, Expr::bool(true)));
                    self.under(b, |check| Expr::if_then_else(condition, Expr::bool(true), check));
                });
            }
            ExprNode::Let { var, value, body } => {
                self.visit_expr(value);
                self.analyzer.with(|state| state.mark_value(var, value));
                self.under(body, |check| {
                    // A name is defined in one place.
                    let own = Var::new(var.name(), var.dtype());
                    let check = substitute(&check, &VarMap::from([(var.clone(), own.expr().clone())]));
                    Expr::from_node(ExprNode::Let { var: own, value: value.clone(), body: check })
                });
            }
            _ => walk_expr(self, expr),
        }
    }
}

struct Insert<'a> {
    checks: &'a Checks,
    kernel: &'a str,
    context: &'a PassContext,
    analyzer: Analyzer,
}

impl Insert<'_> {
    fn before(&self, stmt: &Stmt) -> Vec<Stmt> {
        let mut reads = Reads {
            checks: self.checks,
            kernel: self.kernel,
            analyzer: &self.analyzer,
            seen: Seen::default(),
            found: Vec::new(),
        };
        match &**stmt {
            StmtNode::TensorWrite { tensor, indices, value } => {
                let own: Vec<Expr> = indices.to_vec();
                for part in own.iter().chain([value]) {
                    reads.visit_expr(part);
                }
                // A reduction reads the element that it writes.
                let found = std::mem::take(&mut reads.found);
                reads.read(tensor, &own);
                let writes = |check: &Check| {
                    reads.found.iter().any(|own| structural::equal(&own.condition, &check.condition).unwrap_or(false))
                };
                let found = found.iter().filter(|check| !writes(check));
                return found.map(|check| assertion(&check.condition, &check.message)).collect();
            }
            StmtNode::Bind { value, .. } | StmtNode::Evaluate { value } => reads.visit_expr(value),
            StmtNode::If { condition, .. } => reads.visit_expr(condition),
            _ => {}
        }
        reads.found.iter().map(|check| assertion(&check.condition, &check.message)).collect()
    }
}

impl Mutate for Insert<'_> {
    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        Ok(expr.clone())
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        if let StmtNode::Bind { var, value } = &**stmt {
            self.analyzer.with(|state| state.mark_value(var, value));
        }
        let before = self.before(stmt);
        let mark = self.analyzer.mark();
        let inside = match &**stmt {
            StmtNode::For { var, min, extent, kind, annotations, body } => {
                self.analyzer.bind(var, &Range::new(min, extent));
                let new = self.mutate_stmt(body)?;
                let mut kind = *kind;
                let mut asserts = false;
                for_each_stmt(&new, |part| asserts |= matches!(**part, StmtNode::Assert { .. }));
                if asserts && kind == ForKind::Vectorized {
                    kind = ForKind::Serial;
                    let note = "is not vectorized: each of its reads is checked";
                    self.context.note(format!("`{}`: loop `{}` {note}", self.kernel, var.name()));
                }
                Stmt::for_with(var.clone(), min, extent, kind, annotations.clone(), new)
            }
            StmtNode::If { condition, then_body, else_body } => {
                let (bare, _) = condition.without_likely();
                self.analyzer.enter(&bare);
                let then_body = self.mutate_stmt(then_body)?;
                self.analyzer.restore(mark);
                let else_body = else_body.as_ref().map(|body| self.mutate_stmt(body)).transpose()?;
                Stmt::if_then(condition, then_body, else_body)
            }
            _ => mutate_stmt_parts(self, stmt)?,
        };
        self.analyzer.restore(mark);
        Ok(Stmt::seq(before.into_iter().chain([inside])))
    }
}
