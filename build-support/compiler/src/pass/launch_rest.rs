//! `LaunchRest`: puts the statements that access memory of the device outside of all threads into
//! kernels of one thread.
//!
//! It belongs to the schedule that the rules make for a device: statements that no rule binds to
//! threads, such as the copies of a scan and the body of an extern operation, are correct there,
//! but slow. With a schedule of the user, such statements are an error of `VerifyMemory`. Loops and
//! conditions around other kernels, memory for several kernels and assertions on sizes stay on the
//! host.

use std::collections::HashSet;

use kernpack::{Any, Result as PackedResult, packed_func};

use super::PassContext;
use super::pipeline::on_functions;
use super::threads::Threads;
use crate::error::{CompileError, ErrorKind, Result};
use crate::ir::mutate::mutate_stmt_parts;
use crate::ir::visit::{Visit, for_each_stmt, has_part, walk_expr, walk_stmt};
use crate::ir::{
    Expr, ExprNode, ForKind, FuncKind, IterKind, IterVar, IterVarNode, LoweredFunc, MutateStmts, Range, Stmt, StmtNode,
    Var, with_stack,
};
use crate::text::headline;

/// Launches the statements of a function for a device that no thread runs.
///
/// # Errors
/// Returns an error for memory of a kernel that statements of several kernels use.
pub fn launch_rest(function: &LoweredFunc, _: &PassContext) -> Result<LoweredFunc> {
    if function.kind != FuncKind::Mixed {
        return Ok(function.clone());
    }
    let tensors = function.params.iter().filter_map(|param| Some(param.buffer.as_ref()?.data.clone()));
    let mut rest = Rest { memory: tensors.collect() };
    let body = rest.mutate_stmt(&function.body);
    Ok(function.with_body(body.map_err(|error| error.note(format!("in function `{}`", function.name)))?))
}

/// [`launch_rest`] for a function or for all functions of a module.
#[packed_func(name = "kernpack.pass.LaunchRest")]
fn packed(program: Any, context: PassContext) -> PackedResult<Any> {
    on_functions(&program, &context, launch_rest)
}

struct Rest {
    /// The pointers to memory of the device.
    memory: HashSet<Var>,
}

impl MutateStmts for Rest {
    /// Changes a body.
    fn mutate_stmt(&mut self, body: &Stmt) -> Result<Stmt> {
        let stmts = body.to_stmts();
        let (mut done, mut kernel) = (Vec::new(), Vec::new());
        for (position, stmt) in stmts.iter().enumerate() {
            self.note(stmt);
            if self.begins_kernel(stmt) {
                let rest = &stmts[position..];
                if let Some(other) = rest.iter().find(|stmt| self.is_on_host(stmt)) {
                    return Err(CompileError::new(ErrorKind::Lower, "memory of one kernel is used by others")
                        .note(format!("the statement is `{}`", headline(stmt)))
                        .note(format!("another kernel or the host runs `{}`", headline(other))));
                }
                kernel.extend(rest.iter().cloned());
                break;
            }
            let is_on_host = self.is_on_host(stmt);
            if !is_on_host && self.touches(stmt) {
                kernel.push(stmt.clone());
                continue;
            }
            done.extend(one_thread(&mut kernel));
            done.push(match is_on_host && !is_launch(stmt) {
                true => with_stack(|| mutate_stmt_parts(self, stmt))?,
                false => stmt.clone(),
            });
        }
        done.extend(one_thread(&mut kernel));
        Ok(Stmt::seq(done))
    }
}

impl Rest {
    /// Notes memory of the device that a statement of the host defines.
    fn note(&mut self, stmt: &Stmt) {
        match &**stmt {
            StmtNode::Alloc { buffer, .. } if is_global(stmt) => {
                self.memory.insert(buffer.data.clone());
            }
            StmtNode::Alias { buffer, data }
                if has_part(data, |part| Var::of(part).is_some_and(|var| self.memory.contains(&var))) =>
            {
                self.memory.insert(buffer.data.clone());
            }
            _ => {}
        }
    }

    /// Returns true if the statement defines something that only a kernel can use.
    fn begins_kernel(&self, stmt: &Stmt) -> bool {
        match &**stmt {
            StmtNode::Alloc { .. } => !is_global(stmt),
            StmtNode::Bind { .. } => self.touches(stmt),
            _ => false,
        }
    }

    /// Returns true if a part of the statement runs on the host: a launch, an allocation for
    /// several kernels, or an assertion that reads no memory of the device.
    fn is_on_host(&self, stmt: &Stmt) -> bool {
        let mut found = false;
        for_each_stmt(stmt, |part| {
            found |= match &**part {
                StmtNode::Alloc { .. } => is_global(part),
                StmtNode::Assert { .. } => !self.touches(part),
                _ => is_launch(part),
            };
        });
        found
    }

    /// Returns true if the statement accesses memory of the device outside of all threads.
    fn touches(&self, stmt: &Stmt) -> bool {
        let mut touch = Touch { memory: &self.memory, found: false };
        touch.visit_stmt(stmt);
        touch.found
    }
}

struct Touch<'a> {
    memory: &'a HashSet<Var>,
    found: bool,
}

impl Visit for Touch<'_> {
    fn visit_expr(&mut self, expr: &Expr) {
        self.found |= match &**expr {
            ExprNode::Load { buffer, .. } => self.memory.contains(&buffer.data),
            ExprNode::Var { .. } => Var::of(expr).is_some_and(|var| self.memory.contains(&var)),
            _ => false,
        };
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        match &**stmt {
            StmtNode::Alias { .. } => return,
            StmtNode::Store { buffer, .. } => self.found |= self.memory.contains(&buffer.data),
            _ if is_launch(stmt) => return,
            _ => {}
        }
        walk_stmt(self, stmt);
    }
}

/// Returns true for threads with the statements that they run.
fn is_launch(stmt: &Stmt) -> bool {
    matches!(&**stmt, StmtNode::For { kind: ForKind::ThreadBinding, .. }) || Threads::of(stmt).is_some()
}

/// Returns true for an allocation that several kernels may use.
fn is_global(stmt: &Stmt) -> bool {
    matches!(&**stmt, StmtNode::Alloc { buffer, .. } if buffer.scope.as_str() == "global")
}

/// A kernel of one thread that runs these statements, if there are any.
fn one_thread(stmts: &mut Vec<Stmt>) -> Option<Stmt> {
    if stmts.is_empty() {
        return None;
    }
    let tag = "threadIdx.x";
    let axis: IterVar = IterVar::from_node(IterVarNode {
        dom: Some(Range::until(Expr::int(1))),
        var: Var::index(tag),
        kind: IterKind::ThreadIndex,
        thread_tag: tag.into(),
        span: "".into(),
    });
    Some(Stmt::attr("thread_extent", axis, 1, Stmt::seq(stmts.drain(..))))
}
