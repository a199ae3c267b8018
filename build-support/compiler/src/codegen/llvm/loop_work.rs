//! The work of parallel loops whose extents are known only when they run: waking threads costs more
//! than a small loop.

use super::CodeGenLLVM;
use crate::error::Result;
use crate::ir::builtin::{FREE_WORKSPACE, PREFETCH, THROW_LAST_ERROR};
use crate::ir::visit::{cost, for_each_expr, uses_var};
use crate::ir::{Expr, ExprNode, F64, Stmt, StmtNode, with_stack};

/// The number of simple operations from which on a loop is distributed, as in
/// [`TargetDescription::parallel_work`](crate::TargetDescription::parallel_work).
const LEAST: f64 = (1 << 18) as f64;

/// The number of multiply-adds that take as long as one other operation, with their loads and
/// stores.
const SUMS: f64 = 8.0;

/// A number of operations: a constant, and what depends on extents.
struct Work(f64, Option<Expr>);

impl Work {
    fn plus(self, other: Self) -> Self {
        let sum = match (self.1, other.1) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        Self(self.0 + other.0, sum)
    }

    fn times(self, extent: &Expr) -> Self {
        match (extent.as_int(), self.1) {
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            (Some(extent), rest) => {
                let extent = extent as f64;
                Self(self.0 * extent, rest.map(|rest| rest * Expr::float(F64, extent)))
            }
            (None, rest) => {
                let own = Expr::float(F64, self.0);
                Self(0.0, Some(rest.map_or_else(|| own.clone(), |rest| rest + &own) * extent.cast(F64)))
            }
        }
    }
}

impl CodeGenLLVM<'_, '_> {
    /// Returns a condition that is true if a parallel loop has little work. `None` if its work does
    /// not depend on extents: then the schedule has decided.
    pub(super) fn has_little_work(&mut self, extent: &Expr, body: &Stmt) -> Result<Option<Expr>> {
        let Some(work) = self.work_of(body) else { return Ok(None) };
        if !self.is_known_here(extent) {
            return Ok(None);
        }
        let Work(constant, Some(rest)) = work.times(extent) else { return Ok(None) };
        Ok(Some((rest + &Expr::float(F64, constant)).less(Expr::float(F64, LEAST))))
    }

    /// Returns true if an extent can be computed in front of the loop.
    fn is_known_here(&self, extent: &Expr) -> bool {
        let mut loads = false;
        for_each_expr(extent, |part| loads |= matches!(**part, ExprNode::Load { .. } | ExprNode::Call { .. }));
        !loads && !uses_var(extent, |var| !self.state.vars.contains_key(var))
    }

    /// The work of a statement; an extent that follows from the iteration counts as 1. `None` if it
    /// is not known, as that of a call.
    fn work_of(&self, stmt: &Stmt) -> Option<Work> {
        with_stack(|| match &**stmt {
            StmtNode::Seq { stmts } => {
                stmts.iter().try_fold(Work(0.0, None), |sum, stmt| Some(sum.plus(self.work_of(&stmt)?)))
            }
            StmtNode::For { extent, body, .. } => {
                let body = self.work_of(body)?;
                let is_known = extent.as_int().is_some() || self.is_known_here(extent);
                Some(if is_known { body.times(extent) } else { body })
            }
            // The other branch computes the rest of what the loops count.
            StmtNode::If { then_body: body, .. } | StmtNode::Attr { body, .. } => self.work_of(body),
            StmtNode::Store { buffer, value, .. } => {
                let lanes = f64::from(value.dtype().lanes());
                let by = if buffer.scope.as_str() == "local" { SUMS } else { 1.0 };
                #[expect(clippy::cast_precision_loss, reason = "an estimate")]
                let operations = cost(value).max(1) as f64;
                Some(Work(lanes * operations / by, None))
            }
            StmtNode::Evaluate { value } if is_cheap(value) => Some(Work(0.0, None)),
            StmtNode::Evaluate { .. } | StmtNode::While { .. } => None,
            _ => Some(Work(0.0, None)),
        })
    }
}

/// Returns true for calls that are not counted.
fn is_cheap(value: &Expr) -> bool {
    matches!(&**value, ExprNode::Call { name, .. } if [PREFETCH, FREE_WORKSPACE, THROW_LAST_ERROR].contains(&name.as_str()))
}
