//! Queries of operations for rules.

use super::TargetDescription;
use crate::error::Result;
use crate::intrin::FUNCTIONS;
use crate::ir::mutate::{Mutate, mutate_expr_parts};
use crate::ir::visit::{for_each_expr, uses_var};
use crate::ir::{Expr, ExprNode, IterVar, Operation, OperationNode, Stmt, Tensor, Var};
use crate::schedule::{Schedule, StageId};

/// The parts of a computed tensor with one result.
pub(crate) struct Computed {
    pub(crate) axes: Vec<IterVar>,
    pub(crate) reduce_axes: Vec<IterVar>,
    pub(crate) body: Expr,
}

/// Returns the parts, if the operation is such a tensor.
pub(crate) fn computed(op: &Operation) -> Option<Computed> {
    let OperationNode::Compute { axes, reduce_axes, bodies, .. } = &**op else { return None };
    let body = bodies.get(0)?;
    (bodies.len() == 1).then(|| Computed { axes: axes.to_vec(), reduce_axes: reduce_axes.to_vec(), body })
}

/// Returns the parts of a reduction; if it has several results, each of its bodies has the sources
/// of all.
pub(crate) fn reduced(op: &Operation) -> Option<Computed> {
    let OperationNode::Compute { axes, reduce_axes, bodies, .. } = &**op else { return None };
    let body = bodies.get(0)?;
    (!reduce_axes.is_empty()).then(|| Computed { axes: axes.to_vec(), reduce_axes: reduce_axes.to_vec(), body })
}

/// The bits of the widest result of an operation.
pub(crate) fn widest(op: &Operation) -> u8 {
    op.outputs().iter().map(|tensor| tensor.dtype.bits()).max().unwrap_or(8)
}

/// Returns true for an elementwise operation without a reduction.
pub(crate) fn is_injective(op: &Operation) -> bool {
    matches!(&**op, OperationNode::Compute { reduce_axes, .. } if reduce_axes.is_empty())
}

/// Returns true if an operation is a reduction.
pub(crate) fn is_reduction(op: &Operation) -> bool {
    matches!(&**op, OperationNode::Compute { reduce_axes, .. } if !reduce_axes.is_empty())
}

/// The tensors that an expression reads, with their indices.
pub(crate) fn reads(expr: &Expr) -> Vec<(Tensor, Vec<Expr>)> {
    let mut found = Vec::new();
    for_each_expr(expr, |part| {
        if let ExprNode::TensorRead { tensor, indices } = &**part {
            found.push((tensor.clone(), indices.to_vec()));
        }
    });
    found
}

/// The constant extent of an axis.
pub(crate) fn extent_of(axis: &IterVar) -> Option<i64> {
    axis.dom.as_ref()?.extent.as_int()
}

/// Returns the extent of an axis: a positive number, or an expression of sizes.
pub(crate) fn extent_from_zero(axis: &IterVar) -> core::result::Result<Expr, String> {
    let Some(dom) = axis.dom.as_ref().filter(|dom| dom.min.is_int(0)) else {
        return Err("an axis does not start at 0".into());
    };
    match dom.extent.as_int() {
        Some(..=0) => Err("an axis has no elements".into()),
        _ => Ok(dom.extent.clone()),
    }
}

/// The axis that equals an index.
pub(crate) fn axis_of<'a>(index: &Expr, axes: &'a [IterVar]) -> Option<&'a IterVar> {
    axes.iter().find(|axis| axis.var.expr() == index)
}

/// Returns true if an expression depends on an axis.
pub(crate) fn depends_on(expr: &Expr, axis: &IterVar) -> bool {
    uses_var(expr, |var| *var == axis.var)
}

/// The number of vectors that are computed concurrently: a math function is a chain of dependent
/// instructions, and the CPU's out-of-order window covers little more than one of them.
///
/// Measured in microseconds for 1 M of `x sigmoid(tanh(x) + 1)` with 1, 2, 4 and 8 vectors: AVX-512
/// 851, 743, 636, 544; AVX2 1594, 1370, 1019, 1108. A single function is a shorter chain where the
/// CPU has an instruction that scales by powers of two: softmax of 1024 rows of 1024, AVX-512 295,
/// 282, 312, 310; AVX2 542, 508, 469, 481.
pub(crate) fn chains(expr: &Expr, target: &TargetDescription) -> i64 {
    let mut calls = 0;
    for_each_expr(expr, |part| {
        if let ExprNode::Call { name, .. } = &**part {
            calls += usize::from(FUNCTIONS.iter().any(|(known, _)| *known == name.as_str()));
        }
    });
    match calls {
        0 => 1,
        1 if target.masks => 2,
        _ => (target.vector_registers / 4).max(1),
    }
}

/// The stages that read a stage, directly or through inlined stages.
pub(crate) fn readers(schedule: &Schedule, id: StageId) -> Vec<StageId> {
    let mut found = Vec::new();
    for reader in schedule.consumers(id) {
        if schedule[reader].attach == crate::schedule::Attach::Inline {
            for further in readers(schedule, reader) {
                if !found.contains(&further) {
                    found.push(further);
                }
            }
        } else if !found.contains(&reader) {
            found.push(reader);
        }
    }
    found
}

/// The stages that a stage reads, directly or through inlined stages, without placeholders.
pub(crate) fn producers(schedule: &Schedule, id: StageId) -> Vec<StageId> {
    schedule
        .stages()
        .filter(|&other| !schedule[other].is_placeholder() && schedule[other].attach != crate::schedule::Attach::Inline)
        .filter(|&other| other != id && readers(schedule, other).contains(&id))
        .collect()
}

/// An expression with a variable in place of reads of an operation.
pub(crate) fn with_sum(op: &Operation, sum: &Var, body: &Expr) -> Result<Expr> {
    Sums(op, sum).mutate_expr(body)
}

/// Replaces the sum by a variable.
struct Sums<'a>(&'a Operation, &'a Var);

impl Mutate for Sums<'_> {
    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        if let ExprNode::TensorRead { tensor, .. } = &**expr
            && tensor.op == *self.0
        {
            return Ok(self.1.expr().clone());
        }
        mutate_expr_parts(self, expr)
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        Ok(stmt.clone())
    }
}
