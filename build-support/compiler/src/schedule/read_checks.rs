//! Checks of reads in loops. An assertion is inserted before each statement that may read an
//! element that does not exist. Where only unneeded elements would read out of bounds, their
//! computation is skipped.

mod conditions;

use std::rc::Rc;

use crate::arith::Analyzer;
use crate::error::{CompileError, ErrorKind, Result};
use crate::ir::mutate::mutate_stmt_parts;
use crate::ir::visit::for_each_stmt;
use crate::ir::{Expr, ForKind, IterVar, MutateStmts, Range, Stmt, StmtNode};
use crate::pass::PassContext;
use crate::te::in_bounds::Checks;

use conditions::{Conditions, Found};

/// Returns the body with the checks at its entry and before its reads.
///
/// # Errors
/// Returns an error for a read on a device that is not proved to be in bounds.
pub(crate) fn insert(body: Stmt, checks: &Checks, kernel: &str, context: &PassContext) -> Result<Stmt> {
    let mut body = body;
    let mut raises = !checks.reads.is_empty();
    if raises && !checks.on_device && runs_on_threads(&body) {
        context.warn(format!(
            "`{kernel}`: its reads cannot be proved to be in bounds, and code of devices does not check them"
        ));
        raises = false;
    }
    if raises || !checks.partly.is_empty() {
        let analyzer = Analyzer::new();
        checks.known.iter().for_each(|var| analyzer.mark_data(var));
        let mut insert = Insert { checks, raises, kernel, context, analyzer, raised: None };
        body = insert.mutate_stmt(&body)?;
        if let Some(message) = insert.raised.filter(|_| checks.on_device) {
            return Err(CompileError::new(ErrorKind::Lower, message.to_string())
                .note("the read is not proved to be in bounds, and a kernel for a device cannot check it")
                .note(
                    "limit the index, as in `i.max(0).min(&n - 1)`, or compile for CPUs only: `k.devices([\"cpu\"])`",
                ));
        }
    }
    let entry = checks.entry.iter().map(|check| assertion(&check.condition, &check.message));
    Ok(Stmt::seq(entry.chain([body])))
}

fn assertion(condition: &Expr, message: &str) -> Stmt {
    Stmt::assert(condition, "ValueError", [message.into()])
}

/// Returns true if device threads run the body; they cannot raise errors.
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

struct Insert<'a> {
    checks: &'a Checks,
    /// True if reads that are not proved are errors of the call.
    raises: bool,
    kernel: &'a str,
    context: &'a PassContext,
    analyzer: Analyzer,
    /// The message of the first assertion.
    raised: Option<Rc<str>>,
}

/// The checks that make the reads of a statement in bounds.
#[derive(Default)]
struct Needs {
    /// The assertions before it.
    before: Vec<Stmt>,
    /// The condition under which the statement runs.
    only_if: Option<Expr>,
}

impl Insert<'_> {
    fn needs(&mut self, stmt: &Stmt) -> Needs {
        let mut conditions = Conditions::new(self.checks, self.raises, self.kernel, &self.analyzer);
        let found = match &**stmt {
            StmtNode::TensorWrite { tensor, indices, value } => {
                let own: Vec<Expr> = indices.to_vec();
                let mut found = Found::default();
                own.iter().chain([value]).for_each(|part| found.join(&conditions.of(part)));
                // A reduction reads the element that it writes.
                found.without(&conditions.read(tensor, &own))
            }
            StmtNode::Bind { value, .. } | StmtNode::Evaluate { value } => conditions.of(value).as_ref().clone(),
            StmtNode::If { condition, .. } => conditions.of(condition).as_ref().clone(),
            _ => return Needs::default(),
        };
        let mut needs = Needs::default();
        for check in found.checks() {
            if check.raises {
                self.raised.get_or_insert_with(|| check.message.clone());
                needs.before.push(assertion(&check.condition, &check.message));
            } else {
                needs.only_if = Some(match needs.only_if {
                    Some(others) => others.and(&check.condition),
                    None => check.condition.clone(),
                });
            }
        }
        needs
    }
}

impl MutateStmts for Insert<'_> {
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        if let StmtNode::Bind { var, value } = &**stmt {
            self.analyzer.with(|state| state.mark_value(var, value));
        }
        let Needs { before, only_if } = self.needs(stmt);
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
            StmtNode::Attr { key, node, value, .. } if key.as_str() == "thread_extent" => {
                if let Ok(axis) = node.to::<IterVar>() {
                    self.analyzer.bind(&axis.var, &Range::until(value));
                }
                mutate_stmt_parts(self, stmt)?
            }
            StmtNode::If { condition, then_body, else_body } => {
                let (bare, _) = condition.without_likely();
                self.analyzer.enter(&bare);
                let then_body = self.mutate_stmt(then_body)?;
                self.analyzer.restore(mark);
                let else_body = else_body.as_ref().map(|body| self.mutate_stmt(body)).transpose()?;
                let condition = match only_if.clone() {
                    Some(inside) => Expr::if_then_else(&inside, condition, Expr::bool(false)),
                    None => condition.clone(),
                };
                Stmt::if_then(condition, then_body, else_body)
            }
            StmtNode::Bind { var, value } => match only_if.clone() {
                // Later statements use the name, where the value is irrelevant.
                Some(inside) => {
                    Stmt::bind(var.clone(), Expr::if_then_else(&inside, value, Expr::constant(value.dtype(), 0)))
                }
                None => stmt.clone(),
            },
            _ => {
                let stmt = mutate_stmt_parts(self, stmt)?;
                match only_if.clone() {
                    Some(inside) => Stmt::if_then(inside.likely(), stmt, None),
                    None => stmt,
                }
            }
        };
        self.analyzer.restore(mark);
        Ok(Stmt::seq(before.into_iter().chain([inside])))
    }
}
