//! The cost of evaluating values with the reference evaluator.

use kernpack::Array;
use kernpack_compiler::ir::visit::{Visit, for_each_expr, walk_stmt};
use kernpack_compiler::ir::{Expr, IterVar, Operation, OperationNode, Stmt, StmtNode, Tensor};

/// The maximum effort for evaluating all known values of a graph, in steps of the evaluator: about
/// ten seconds in a build script. Beyond it, values are computed at run time, and those that must
/// be known are reported.
pub(crate) const MOST_EFFORT: u64 = 1 << 30;

/// Evaluations with at most this number of steps are always done: each node of a model may have
/// one.
pub(crate) const SMALL_EFFORT: u64 = 1 << 16;

fn extents<'a>(extents: impl IntoIterator<Item = &'a Expr>) -> u64 {
    let known = extents.into_iter().map(|extent| extent.as_int().and_then(|extent| u64::try_from(extent).ok()));
    known.fold(1, |product: u64, extent| product.saturating_mul(extent.unwrap_or(1)))
}

fn axes(axes: &Array<IterVar>) -> u64 {
    axes.iter().fold(1, |product: u64, axis| {
        let extent = axis.dom.as_ref().and_then(|dom| u64::try_from(dom.extent.as_int()?).ok());
        product.saturating_mul(extent.unwrap_or(1))
    })
}

fn tensors(tensors: &Array<Tensor>) -> u64 {
    tensors.iter().fold(0, |sum: u64, tensor| sum.saturating_add(extents(&tensor.shape.to_vec())))
}

/// Returns the number of steps that evaluating these operations takes: expressions for each element
/// and each iteration of a reduction.
pub(crate) fn effort(order: &[Operation]) -> u64 {
    order.iter().fold(0, |sum: u64, op| {
        sum.saturating_add(match &**op {
            OperationNode::Placeholder { .. } => 0,
            OperationNode::Compute { axes: own, reduce_axes, bodies, .. } => {
                let mut parts = 0_u64;
                for body in bodies.iter() {
                    for_each_expr(&body, |_| parts += 1);
                }
                axes(own).saturating_mul(axes(reduce_axes)).saturating_mul(parts)
            }
            OperationNode::Scan { update, spatial_axes, .. } => {
                tensors(update).saturating_mul(axes(spatial_axes).max(1))
            }
            OperationNode::Extern { body, .. } => {
                let mut loops = Loops { times: 1, total: 0 };
                loops.visit_stmt(body);
                loops.total
            }
        })
    })
}

struct Loops {
    times: u64,
    total: u64,
}

impl Visit for Loops {
    fn visit_expr(&mut self, _: &Expr) {
        self.total = self.total.saturating_add(self.times);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        let outer = self.times;
        if let StmtNode::For { extent, .. } = &**stmt {
            self.times = outer.saturating_mul(extents([extent]));
        }
        walk_stmt(self, stmt);
        self.times = outer;
    }
}
