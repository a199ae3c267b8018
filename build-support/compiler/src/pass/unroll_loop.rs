//! `UnrollLoop`: expands loops.
//!
//! Loops of kind `Unrolled` need a constant extent. Serial loops are unrolled according to the
//! options `auto_unroll_*`: the innermost ones first, as long as the number of steps stays below
//! the limit. Each copy has its own variables.

use kernpack::{Any, Result as PackedResult, packed_func};

use super::pipeline::on_functions;
use super::{PassContext, PassOptions};
use crate::error::{CompileError, ErrorKind, Result};
use crate::ir::mutate::mutate_stmt_parts;
use crate::ir::refresh::fresh_copy;
use crate::ir::visit::for_each_stmt;
use crate::ir::{ForKind, LoweredFunc, MutateStmts, Stmt, StmtNode, with_stack};

/// The maximum number of copies; more are an error, because the code would not fit into any cache.
const MAX_COPIES: i64 = 4096;

/// Unrolls loops.
///
/// # Errors
/// Returns an error for an unrolled loop whose extent is not constant, or above 4096.
pub fn unroll_loop(function: &LoweredFunc, context: &PassContext) -> Result<LoweredFunc> {
    let mut unroll = Unroll { options: &context.options, steps: 0, depth: 0 };
    let body =
        unroll.mutate_stmt(&function.body).map_err(|error| error.note(format!("in function `{}`", function.name)))?;
    Ok(function.with_body(body))
}

/// [`unroll_loop`] for a function or for all functions of a module.
#[packed_func(name = "kernpack.pass.UnrollLoop")]
fn packed(program: Any, context: PassContext) -> PackedResult<Any> {
    on_functions(&program, &context, unroll_loop)
}

struct Unroll<'a> {
    options: &'a PassOptions,
    /// The number of stores and similar operations in the last visited statement, including
    /// repetitions by unrolled loops.
    steps: i64,
    /// The nesting depth of unrolled loops.
    depth: i64,
}

impl MutateStmts for Unroll<'_> {
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        match &**stmt {
            StmtNode::For { .. } => with_stack(|| self.unroll(stmt)),
            StmtNode::Seq { stmts } => {
                let (mut steps, mut depth) = (0i64, 0);
                let mut rewritten = Vec::with_capacity(stmts.len());
                for part in stmts.iter() {
                    (self.steps, self.depth) = (0, 0);
                    rewritten.push(self.mutate_stmt(&part)?);
                    steps = steps.saturating_add(self.steps);
                    depth = depth.max(self.depth);
                }
                (self.steps, self.depth) = (steps, depth);
                Ok(Stmt::seq(rewritten))
            }
            StmtNode::Store { .. } | StmtNode::Evaluate { .. } => {
                self.steps = self.steps.saturating_add(1);
                Ok(stmt.clone())
            }
            _ => mutate_stmt_parts(self, stmt),
        }
    }
}

impl Unroll<'_> {
    fn unroll(&mut self, stmt: &Stmt) -> Result<Stmt> {
        let StmtNode::For { var, min, extent, kind, annotations, body } = &**stmt else { return Ok(stmt.clone()) };
        (self.steps, self.depth) = (0, 0);
        let new_body = self.mutate_stmt(body)?;
        let count = extent.as_int();
        let automatic = *kind == ForKind::Serial
            && count.is_some_and(|count| {
                count > 0
                    && self.depth < self.options.auto_unroll_max_depth
                    && (count.saturating_mul(self.steps.max(1)) <= self.options.auto_unroll_max_step
                        || count <= self.options.auto_unroll_max_extent)
            })
            && !has_loop(&new_body);
        if automatic || *kind == ForKind::Unrolled && self.options.unroll_explicit {
            let Some(count) = count else {
                return Err(CompileError::new(
                    ErrorKind::Lower,
                    format!("unroll: the extent of loop `{}` is not a constant", var.name()),
                )
                .note("split it by a constant factor and unroll the inner loop"));
            };
            if count > MAX_COPIES {
                return Err(CompileError::new(
                    ErrorKind::Lower,
                    format!("unroll: loop `{}` has {count} iterations, more than {MAX_COPIES}", var.name()),
                )
                .note("split it and unroll the inner loop"));
            }
            self.steps = self.steps.saturating_mul(count);
            self.depth += 1;
            return Ok(Stmt::seq(
                (0..count).map(|step| fresh_copy(&new_body, [(var.clone(), min + step)].into_iter().collect())),
            ));
        }
        // The body is repeated an unknown number of times.
        self.steps = count.map_or(i64::MAX, |count| self.steps.saturating_mul(count.max(1)));
        if new_body.same_as(body) {
            return Ok(stmt.clone());
        }
        Ok(Stmt::for_with(var.clone(), min, extent, *kind, annotations.clone(), new_body))
    }
}

fn has_loop(stmt: &Stmt) -> bool {
    let mut found = false;
    for_each_stmt(stmt, |part| found |= matches!(**part, StmtNode::For { .. } | StmtNode::While { .. }));
    found
}
