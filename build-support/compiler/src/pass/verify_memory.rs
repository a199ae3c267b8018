//! `VerifyMemory`: checks that host code does not access device memory.
//!
//! In a pipeline for devices, loads and stores of a function's tensors, and of the memory that it
//! allocates for several kernels, have to be inside of a loop over threads.

use std::collections::HashSet;

use kernpack::{Any, Result as PackedResult, packed_func};

use super::PassContext;
use super::pipeline::on_functions;
use crate::error::{CompileError, ErrorKind, Result};
use crate::ir::visit::{Visit, walk_expr, walk_stmt};
use crate::ir::{Buffer, Expr, ExprNode, ForKind, FuncKind, LoweredFunc, Stmt, StmtNode, Var};

/// Checks a function for a device. Returns it unchanged.
///
/// # Errors
/// Returns an error for a load or store of a tensor outside of all threads.
pub fn verify_memory(function: &LoweredFunc, _: &PassContext) -> Result<LoweredFunc> {
    if function.kind != FuncKind::Mixed {
        return Ok(function.clone());
    }
    let tensors = function.params.iter().filter_map(|param| Some(param.buffer.as_ref()?.data.clone()));
    let mut check = Check { memory: tensors.collect(), depth: 0, touched: None };
    check.visit_stmt(&function.body);
    let Some(buffer) = check.touched else { return Ok(function.clone()) };
    let what = format!("function `{}` accesses memory of the device from the host: `{}`", function.name, buffer.name);
    Err(CompileError::new(ErrorKind::Lower, what)
        .note("bind the loops of its stage to threads: `bind(axis, thread_axis(.., \"threadIdx.x\"))`"))
}

/// [`verify_memory`] for a function or for all functions of a module.
#[packed_func(name = "kernpack.pass.VerifyMemory")]
fn packed(program: Any, context: PassContext) -> PackedResult<Any> {
    on_functions(&program, &context, verify_memory)
}

struct Check {
    /// The pointers to memory of the device.
    memory: HashSet<Var>,
    depth: usize,
    touched: Option<Buffer>,
}

impl Check {
    fn touch(&mut self, buffer: &Buffer) {
        if self.depth == 0 && self.memory.contains(&buffer.data) {
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
            StmtNode::Alloc { buffer, .. } if self.depth == 0 && buffer.scope.as_str() == "global" => {
                self.memory.insert(buffer.data.clone());
                false
            }
            StmtNode::Alias { buffer, data } => {
                if Var::of(data).is_some_and(|data| self.memory.contains(&data)) {
                    self.memory.insert(buffer.data.clone());
                }
                false
            }
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
