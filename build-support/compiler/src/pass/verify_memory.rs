//! `VerifyMemory`: checks that host code does not access device memory.
//!
//! For a device target, loads and stores of a function's tensors have to be inside of a loop over
//! threads.

use std::collections::HashSet;

use super::PassContext;
use crate::error::{CompileError, ErrorKind, Result};
use crate::ir::visit::{Visit, walk_expr, walk_stmt};
use crate::ir::{Buffer, Expr, ExprNode, ForKind, LoweredFunc, Stmt, StmtNode, Var};

/// Checks a function for a device; `target` is its name, for the message.
///
/// # Errors
/// Returns an error for a load or store of a tensor outside of all threads.
pub fn verify_memory(function: &LoweredFunc, target: &str, _: &PassContext) -> Result<()> {
    let tensors = function.params.iter().filter_map(|param| Some(param.buffer.as_ref()?.data.clone()));
    let mut check = Check { tensors: tensors.collect(), depth: 0, touched: None };
    check.visit_stmt(&function.body);
    match check.touched {
        None => Ok(()),
        Some(buffer) => Err(CompileError::new(
            ErrorKind::Lower,
            format!(
                "function `{}` touches memory of the device ({target}) from the cpu: `{}`",
                function.name, buffer.name
            ),
        )
        .note("bind the loops of its stage to threads: `bind(axis, thread_axis(.., \"threadIdx.x\"))`")),
    }
}

struct Check {
    tensors: HashSet<Var>,
    depth: usize,
    touched: Option<Buffer>,
}

impl Check {
    fn touch(&mut self, buffer: &Buffer) {
        if self.depth == 0 && self.tensors.contains(&buffer.data) {
            self.touched.get_or_insert_with(|| buffer.clone());
        }
    }
}

impl Visit for Check {
    fn visit_expr(&mut self, expr: &Expr) {
        if let ExprNode::Load { buffer, .. } = &**expr {
            self.touch(buffer);
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        let is_threads = match &**stmt {
            StmtNode::Attr { key, .. } => matches!(key.as_str(), "thread_extent" | "device"),
            StmtNode::For { kind, .. } => *kind == ForKind::ThreadBinding,
            StmtNode::Store { buffer, .. } => {
                self.touch(buffer);
                false
            }
            _ => false,
        };
        self.depth += usize::from(is_threads);
        walk_stmt(self, stmt);
        self.depth -= usize::from(is_threads);
    }
}
