//! Kernels that all tasks of one launch run together.
//!
//! A separate kernel starts the threads at each of its parallel loops. In a region they are already
//! running: each task runs the whole kernel, parallel loops are split among the tasks, the first
//! task does all other work, and barriers separate them. Memory that several tasks share is passed
//! by the caller.

use kernpack_compiler::Result;
use kernpack_compiler::ir::builtin::PARALLEL_BARRIER;
use kernpack_compiler::ir::mutate::{Mutate, mutate_stmt_parts};
use kernpack_compiler::ir::visit::{for_each_expr_in, for_each_stmt, has_part, uses_var};
use kernpack_compiler::ir::{
    Buffer, CallKind, DataTypeExt, Expr, ExprNode, ForKind, I32, LoweredFunc, LoweredFuncNode, PARALLEL_TASK, Param,
    ParamNode, Stmt, StmtNode, Var,
};

/// A kernel for a region.
pub(super) struct TaskKernel {
    /// The function. Its last parameters are the memory.
    pub(super) function: LoweredFunc,
    /// The number of bytes of each block of memory that the tasks share while it runs.
    pub(super) scratch: Vec<usize>,
}

/// Waits for the other tasks.
pub(super) fn barrier() -> Stmt {
    Stmt::evaluate(Expr::builtin(PARALLEL_BARRIER, I32, []))
}

/// Returns a statement that only the first task runs.
pub(super) fn by_one(body: Stmt) -> Stmt {
    Stmt::for_loop(Var::index("one"), 0, 1, ForKind::Parallel, body)
}

/// Returns true if it contains a parallel loop.
pub(super) fn is_parallel(body: &Stmt) -> bool {
    let mut found = false;
    for_each_stmt(body, |stmt| found |= matches!(&**stmt, StmtNode::For { kind: ForKind::Parallel, .. }));
    found
}

/// Converts a kernel with parallel loops to a function that all tasks call. Returns `None` if a
/// part of it cannot be split, such as memory of unknown size.
pub(super) fn for_tasks(function: &LoweredFunc) -> Option<TaskKernel> {
    let mut can_split = true;
    for_each_stmt(&function.body, |stmt| {
        can_split &= !matches!(&**stmt, StmtNode::Return { .. });
    });
    if !can_split {
        return None;
    }
    let mut split = Split { scratch: Vec::new(), is_dirty: false };
    let body = split.body(&function.body)?;
    let mut scratch = Vec::new();
    for buffer in &split.scratch {
        scratch.push(bytes_of(buffer)?);
    }
    let param =
        |buffer: Buffer| Param::from_node(ParamNode { var: buffer.data.clone(), buffer: Some(buffer), output: true });
    let params = function.params.iter().chain(split.scratch.into_iter().map(param)).collect();
    let attrs = function.attrs.iter().chain([(PARALLEL_TASK.into(), 1_i64.into())]).collect();
    let function = LoweredFunc::from_node(LoweredFuncNode { params, body, attrs, ..function.to_node() });
    Some(TaskKernel { function, scratch })
}

/// Converts a kernel so that its loops run on the thread of the caller.
///
/// # Errors
/// Only errors of traversing a program.
pub(super) fn serial(function: &LoweredFunc) -> Result<LoweredFunc> {
    struct Serial;
    impl Mutate for Serial {
        fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
            let stmt = mutate_stmt_parts(self, stmt)?;
            Ok(match &*stmt {
                StmtNode::For { var, min, extent, kind: ForKind::Parallel, annotations, body } => {
                    let (min, extent) = (min.clone(), extent.clone());
                    Stmt::for_with(var.clone(), min, extent, ForKind::Serial, annotations.clone(), body.clone())
                }
                _ => stmt,
            })
        }
    }
    Ok(function.with_body(Serial.mutate_stmt(&function.body)?))
}

fn bytes_of(buffer: &Buffer) -> Option<usize> {
    let lanes = buffer.dtype.lane_bytes() * usize::from(buffer.dtype.lanes());
    buffer.shape.iter().try_fold(lanes, |bytes, extent| bytes.checked_mul(usize::try_from(extent.as_int()?).ok()?))
}

/// Returns true if an expression has the same value for each task at any time: it reads no memory
/// and calls nothing.
fn is_fixed(expr: &Expr) -> bool {
    !has_part(expr, |part| match &**part {
        ExprNode::Load { .. } => true,
        ExprNode::Call { kind, .. } => {
            matches!(kind, CallKind::Extern | CallKind::Function | CallKind::Packed)
        }
        _ => false,
    })
}

fn uses(stmt: &Stmt, data: &Var) -> bool {
    let mut found = false;
    for_each_expr_in(stmt, |expr| match &**expr {
        ExprNode::Var { .. } => found |= Var::of(expr).is_some_and(|var| var == *data),
        ExprNode::Load { buffer, .. } => found |= buffer.data == *data,
        _ => {}
    });
    for_each_stmt(stmt, |stmt| {
        if let StmtNode::Store { buffer, .. } = &**stmt {
            found |= buffer.data == *data;
        }
    });
    found
}

fn has_alias_of(stmt: &Stmt, data: &Var) -> bool {
    let mut found = false;
    for_each_stmt(stmt, |stmt| {
        if let StmtNode::Alias { data: own, .. } = &**stmt {
            found |= uses_var(own, |var| var == data);
        }
    });
    found
}

/// Returns true if all tasks reach a statement.
fn is_for_all(stmt: &Stmt) -> bool {
    is_parallel(stmt) || matches!(&**stmt, StmtNode::Bind { value, .. } if !is_fixed(value))
}

struct Split {
    /// Memory that several tasks share.
    scratch: Vec<Buffer>,
    /// True if a task may have read or written memory since the last barrier.
    is_dirty: bool,
}

impl Split {
    fn meet(&mut self, out: &mut Vec<Stmt>) {
        if core::mem::take(&mut self.is_dirty) {
            out.push(barrier());
        }
    }

    /// Adds the statements that only the first task runs, if there are any.
    fn flush(&mut self, alone: &mut Vec<Stmt>, out: &mut Vec<Stmt>) {
        if !alone.is_empty() {
            self.meet(out);
            out.push(by_one(Stmt::seq(core::mem::take(alone))));
            self.is_dirty = true;
        }
    }

    fn body(&mut self, body: &Stmt) -> Option<Stmt> {
        let stmts = body.to_stmts();
        let (mut out, mut alone) = (Vec::new(), Vec::new());
        for (place, stmt) in stmts.iter().enumerate() {
            match &**stmt {
                StmtNode::Alloc { buffer, .. } => {
                    let rest = &stmts[place + 1..];
                    // Uses of the memory by another name are not tracked.
                    if rest.iter().any(|stmt| has_alias_of(stmt, &buffer.data)) {
                        return None;
                    }
                    let end = rest.iter().rposition(|stmt| uses(stmt, &buffer.data)).map_or(0, |last| last + 1);
                    if rest[..end].iter().any(is_for_all) {
                        bytes_of(buffer)?;
                        self.scratch.push(buffer.clone());
                    } else {
                        alone.push(stmt.clone());
                    }
                }
                // It does not depend on computed values, so it may be moved before the preceding
                // statements.
                StmtNode::Bind { value, .. } | StmtNode::Alias { data: value, .. } if is_fixed(value) => {
                    out.push(stmt.clone());
                }
                StmtNode::Bind { .. } => {
                    self.flush(&mut alone, &mut out);
                    self.meet(&mut out);
                    out.push(stmt.clone());
                    self.is_dirty = true;
                }
                StmtNode::Alias { .. } => return None,
                _ if !is_parallel(stmt) => alone.push(stmt.clone()),
                _ => {
                    self.flush(&mut alone, &mut out);
                    let split = self.split(stmt, &mut out)?;
                    out.push(split);
                }
            }
        }
        self.flush(&mut alone, &mut out);
        Some(Stmt::seq(out))
    }

    /// Splits a statement that contains a parallel loop. Statements that must precede it are
    /// appended to `out`.
    fn split(&mut self, stmt: &Stmt, out: &mut Vec<Stmt>) -> Option<Stmt> {
        match &**stmt {
            StmtNode::For { kind: ForKind::Parallel, .. } => {
                self.meet(out);
                self.is_dirty = true;
                Some(stmt.clone())
            }
            // The number of iterations is the same for all tasks.
            StmtNode::For { var, min, extent, kind, annotations, body } if is_fixed(min) && is_fixed(extent) => {
                self.meet(out);
                let mut rounds = vec![self.body(body)?];
                // The next iteration, or the next statement, reads the values that this one wrote.
                self.meet(&mut rounds);
                let (min, extent) = (min.clone(), extent.clone());
                Some(Stmt::for_with(var.clone(), min, extent, *kind, annotations.clone(), Stmt::seq(rounds)))
            }
            StmtNode::If { condition, then_body, else_body } => {
                self.meet(out);
                let then_body = self.body(then_body)?;
                let is_dirty = core::mem::take(&mut self.is_dirty);
                let else_body = match else_body {
                    Some(body) => Some(self.body(body)?),
                    None => None,
                };
                self.is_dirty |= is_dirty || !is_fixed(condition);
                Some(Stmt::if_then(condition.clone(), then_body, else_body))
            }
            StmtNode::Attr { key, node, value, body } => {
                let body = self.body(body)?;
                Some(Stmt::from_node(StmtNode::Attr {
                    key: key.clone(),
                    node: node.clone(),
                    value: value.clone(),
                    body,
                }))
            }
            _ => None,
        }
    }
}
