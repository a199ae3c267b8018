//! `VerifyMemory`: checks that host code does not access device memory.
//!
//! In a pipeline for devices, loads and stores of a function's tensors, and of the memory that it
//! allocates for several kernels, have to be inside of a loop over threads. Memory of a block or of
//! a thread is allocated there, too.

use std::collections::HashSet;

use kernpack::{Any, Result as PackedResult, packed_func};

use super::PassContext;
use super::pipeline::on_functions;
use crate::error::{CompileError, ErrorKind, Result};
use crate::ir::visit::{Visit, has_part, walk_expr, walk_stmt};
use crate::ir::{Buffer, Expr, ExprNode, ForKind, FuncKind, LoweredFunc, Stmt, StmtNode, Var};

/// Checks a function for a device. Returns it unchanged.
///
/// # Errors
/// Returns an error for a load or store of a tensor outside of all threads, and for memory of a
/// block or of a thread that is allocated there.
pub fn verify_memory(function: &LoweredFunc, _: &PassContext) -> Result<LoweredFunc> {
    if function.kind != FuncKind::Mixed {
        return Ok(function.clone());
    }
    let tensors = function.params.iter().filter_map(|param| Some(param.buffer.as_ref()?.data.clone()));
    let mut check =
        Check { memory: tensors.collect(), outside: HashSet::new(), depth: 0, touched: None, misplaced: None };
    check.visit_stmt(&function.body);
    if let Some(buffer) = check.misplaced {
        let what = format!(
            "function `{}` allocates `{}` of scope `{}` outside of the kernel that uses it",
            function.name, buffer.name, buffer.scope
        );
        return Err(CompileError::new(ErrorKind::Lower, what)
            .note("compute its stage inside of the kernel: `compute_at(consumer, axis)`"));
    }
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
    /// The pointers to memory of other scopes that is allocated outside of all threads.
    outside: HashSet<Var>,
    depth: usize,
    /// The memory of the device that the host accesses.
    touched: Option<Buffer>,
    /// The memory of another scope that a kernel accesses, but does not allocate.
    misplaced: Option<Buffer>,
}

impl Check {
    fn touch(&mut self, buffer: &Buffer) {
        if self.depth == 0 && self.memory.contains(&buffer.data) {
            self.touched.get_or_insert_with(|| buffer.clone());
        }
        if self.depth > 0 && self.outside.contains(&buffer.data) {
            self.misplaced.get_or_insert_with(|| buffer.clone());
        }
    }

    /// Checks a number of threads, which the host computes.
    fn on_host(&mut self, extent: &Expr) {
        let depth = core::mem::take(&mut self.depth);
        self.visit_expr(extent);
        self.depth = depth;
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
            StmtNode::Attr { key, value, .. } if matches!(key.as_str(), "thread_extent" | "device") => {
                self.on_host(value);
                true
            }
            StmtNode::For { extent, kind: ForKind::ThreadBinding, .. } => {
                self.on_host(extent);
                true
            }
            StmtNode::Alloc { buffer, .. } if self.depth == 0 => {
                let is_global = buffer.scope.as_str() == "global";
                let list = if is_global { &mut self.memory } else { &mut self.outside };
                list.insert(buffer.data.clone());
                false
            }
            StmtNode::Alias { buffer, data } => {
                for list in [&mut self.memory, &mut self.outside] {
                    if has_part(data, |part| Var::of(part).is_some_and(|var| list.contains(&var))) {
                        list.insert(buffer.data.clone());
                    }
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
