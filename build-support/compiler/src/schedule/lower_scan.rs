//! Loop nests of scans and of extern operations, which are opaque to the compiler.

use std::collections::HashSet;

use super::lower::{Lowering, Nest, Place};
use super::lower_compute::{binding, write};
use super::nest::nest;
use super::pass_down::{loops, made_of};
use super::stage::StageId;
use crate::error::Result;
use crate::ir::{Expr, ExprNode, ForKind, IterVar, OperationNode, Range, Stmt, Tensor, Var};

/// The key of the attribute that binds a buffer of an extern operation to a tensor; the attribute's
/// node is an array of both.
pub(crate) const BUFFER_BIND: &str = "buffer_bind";

impl Lowering<'_> {
    /// The first steps, and the loop over the others.
    pub(crate) fn scan(&mut self, id: StageId) -> Result<Stmt> {
        let stage = &self.schedule[id];
        let op = stage.operation().clone();
        let OperationNode::Scan { scan_axis, init, update, spatial_axes, .. } = &*op else {
            crate::error::fail!(Internal, "`{}` is not a scan", op.name());
        };
        let leaves: Vec<IterVar> = loops(stage).cloned().collect();
        let is_time = made_of(stage, [scan_axis.clone()]);
        let first = leaves.iter().position(|leaf| is_time.contains(leaf)).unwrap_or(leaves.len());
        let last = leaves.len() - 1;
        let mut main = Nest { has_children: true, ..Nest::default() };
        let outer = self.levels(id, &leaves[..first], &mut main)?;

        let open = self.open_threads();
        let mut before = self.stages_at(&Place::ScanInit(id))?;
        self.close_threads(open);
        let mut steps = self.levels(id, &leaves[first..last], &mut main)?;
        main.has_children = false;
        steps.extend(self.levels(id, &leaves[last..], &mut main)?);
        let spatial: HashSet<IterVar> = spatial_axes.iter().collect();
        let conditions = self.conditions(id, &mut main, &spatial, true)?;
        let time = main.values.get(scan_axis).cloned().unwrap_or_else(|| scan_axis.var.expr().clone());

        // A step is skipped where a condition excludes its time.
        let mut step = self.stages_at(&Place::Loop(id, leaves[last].clone()))?;
        let mut axes = spatial_axes.iter();
        for (number, (init, update)) in init.iter().zip(update.iter()).enumerate() {
            let state = op.output(number);
            let mut ranges = Vec::new();
            for axis in axes.by_ref().take(state.shape.len().saturating_sub(1)) {
                ranges.push((axis.clone(), self.range(&axis, stage)?));
            }
            if !self.scans.is_part(&init.op) {
                let count = init.shape.get(0).unwrap_or_else(|| Expr::int(1));
                let var = Var::index(format!("{}.init", scan_axis.var.name()));
                let copy = copy(&state, &init, var.expr(), &ranges, "init");
                before.push(Stmt::for_loop(var, 0, count, ForKind::Serial, copy));
            }
            if !self.scans.is_part(&update.op) {
                step.push(copy(&state, &update, &time, &ranges, "step"));
            }
        }
        let steps = nest(&steps, conditions, Stmt::seq(step));
        Ok(nest(&outer, Vec::new(), Stmt::seq(before.into_iter().chain([steps]))))
    }

    /// The user's statements with their buffers bound to tensors.
    pub(crate) fn external(&mut self, id: StageId) -> Result<Stmt> {
        let op = self.schedule[id].operation().clone();
        let OperationNode::Extern { inputs, input_buffers, output_buffers, body, .. } = &*op else {
            crate::error::fail!(Internal, "`{}` is not an extern operation", op.name());
        };
        let mut body = Stmt::attr("extern_scope", op.clone(), 0, body.clone());
        let outputs = op.outputs();
        let bound = inputs.iter().zip(input_buffers.iter()).chain(outputs.into_iter().zip(output_buffers.iter()));
        for (tensor, buffer) in bound.collect::<Vec<_>>().into_iter().rev() {
            body = Stmt::attr(BUFFER_BIND, binding(&buffer, &tensor), 0, body);
        }
        Ok(body)
    }
}

/// Copies one step of a tensor into a scan's state.
fn copy(state: &Tensor, from: &Tensor, time: &Expr, ranges: &[(IterVar, Range)], suffix: &str) -> Stmt {
    let mut indices = vec![time.clone()];
    let mut vars = Vec::new();
    for (axis, range) in ranges {
        let var = axis.var.renamed(format!("{}.{suffix}", axis.var.name()));
        indices.push(&var + &range.min);
        vars.push((var, range.extent.clone()));
    }
    let indices = indices.into_iter().collect();
    let read = Expr::from_node(ExprNode::TensorRead { tensor: from.clone(), indices });
    let ExprNode::TensorRead { indices, .. } = &*read else { unreachable!("it was made above") };
    let body = write(state.clone(), indices, read.clone());
    vars.into_iter().rev().fold(body, |body, (var, extent)| Stmt::for_loop(var, 0, extent, ForKind::Serial, body))
}
