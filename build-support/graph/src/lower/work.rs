//! The work of a kernel.

use kernpack_compiler::ir::builtin::DOT;
use kernpack_compiler::ir::visit::{Visit, walk_expr, walk_stmt};
use kernpack_compiler::ir::{CallKind, DataTypeExt, Expr, ExprNode, LoweredFunc, Stmt, StmtNode};

/// Returns the number of operations on elements of a kernel: sums, products, comparisons that
/// select, mathematical functions. Each lane counts; indices and conversions do not. Of branches
/// the longer one counts, and recomputed values count each time.
pub(super) fn operations(function: &LoweredFunc) -> u64 {
    let mut count = Count { times: 1, total: 0 };
    count.visit_stmt(&function.body);
    count.total
}

struct Count {
    times: u64,
    total: u64,
}

impl Visit for Count {
    fn visit_expr(&mut self, expr: &Expr) {
        let lanes = u64::from(expr.dtype().lanes());
        match &**expr {
            // Index computations are not operations on elements.
            ExprNode::Load { .. } | ExprNode::Ramp { .. } => return,
            ExprNode::Binary { .. } => self.total = self.total.saturating_add(self.times.saturating_mul(lanes)),
            ExprNode::Call { kind: CallKind::Builtin | CallKind::PureExtern | CallKind::LlvmIntrinsic, .. }
                if expr.dtype().is_float() =>
            {
                self.total = self.total.saturating_add(self.times.saturating_mul(lanes));
            }
            // Products of neighbouring lanes are added to each lane of the sums.
            ExprNode::Call { kind: CallKind::Builtin, name, args, .. } if name.as_str() == DOT => {
                let products = args.get(1).map_or(lanes, |factor| u64::from(factor.dtype().lanes()));
                self.total = self.total.saturating_add(self.times.saturating_mul(2 * products));
            }
            _ => {}
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        match &**stmt {
            StmtNode::For { extent, body, .. } => {
                let outer = self.times;
                let extent = extent.as_int().and_then(|extent| u64::try_from(extent).ok()).unwrap_or(1);
                self.times = outer.saturating_mul(extent);
                self.visit_stmt(body);
                self.times = outer;
            }
            StmtNode::If { then_body, else_body, .. } => {
                let before = core::mem::take(&mut self.total);
                self.visit_stmt(then_body);
                let taken = core::mem::take(&mut self.total);
                if let Some(body) = else_body {
                    self.visit_stmt(body);
                }
                self.total = before.saturating_add(taken.max(self.total));
            }
            StmtNode::Store { value, .. } => self.visit_expr(value),
            StmtNode::Bind { value, .. } if value.dtype().is_float() => self.visit_expr(value),
            StmtNode::Seq { .. } | StmtNode::Attr { .. } | StmtNode::While { .. } => {
                walk_stmt(self, stmt);
            }
            _ => {}
        }
    }
}
