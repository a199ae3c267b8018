//! What comes before bound inference: inlined stages vanish into their readers, and every leaf starts at 0.

use std::collections::HashMap;

use kernpack::Array;

use super::relations::Relation;
use super::stage::{Annotation, Attach, Schedule, Stage, StageId};
use crate::error::{CompileError, ErrorKind, Result};
use crate::ir::mutate::{Mutate, mutate_expr_parts};
use crate::ir::{Expr, ExprNode, IterVar, Operation, OperationNode, Tensor, VarMap, substitute};
use crate::te::operation::{input_tensors, replace_inputs};

impl Schedule {
    /// A copy with inlined stages put into their readers and with a [`Relation::Rebase`] for each leaf that is a root axis without a thread.
    ///
    /// # Errors
    /// A stage to inline whose expression cannot stand where it is read; a parallel loop inside another one.
    pub fn normalize(&self) -> Result<Self> {
        self.check_parallel()?;
        let mut schedule = self.clone();
        schedule.inline_stages()?;
        schedule.rebase();
        Ok(schedule)
    }

    /// The stage and loop in which a stage is computed: its own, or those of the group that it is in.
    pub(crate) fn point_of(&self, mut id: StageId) -> Option<(StageId, &IterVar)> {
        while let (Attach::Root, Some(group)) = (&self[id].attach, self[id].group) {
            id = group;
        }
        self[id].attach.point()
    }

    /// Threads do not start threads.
    fn check_parallel(&self) -> Result<()> {
        let is_parallel = |stage: &Stage, leaf: &IterVar| {
            stage.attr(leaf).is_some_and(|attr| attr.annotation == Some(Annotation::Parallel))
        };
        for id in self.order.iter().copied() {
            let stage = &self[id];
            let Some(inner) = stage.leaves.iter().find(|leaf| is_parallel(stage, leaf)) else { continue };
            let mut inside = id;
            // Attach points cannot be in a circle: `compute_at` sees to it.
            while let Some((at, axis)) = self.point_of(inside) {
                let around = &self[at];
                let position = around.leaf_position(axis).unwrap_or(0);
                let outer = around.leaves.iter().take(position + 1).find(|leaf| is_parallel(around, leaf));
                if let Some(outer) = outer {
                    let what = format!(
                        "`{}` of stage `{}` is inside `{}` of stage `{}`, and both are parallel",
                        inner.name(),
                        stage.name(),
                        outer.name(),
                        around.name()
                    );
                    let mut error = CompileError::new(ErrorKind::Schedule, what);
                    for (stage, leaf) in [(stage, inner), (around, outer)] {
                        if let Some(attr) = stage.attr(leaf) {
                            error = error.note(format!("`{}` was {}", leaf.name(), attr.note));
                        }
                    }
                    return Err(error.note("a nested parallel loop is not supported: keep the outer one"));
                }
                inside = at;
            }
        }
        Ok(())
    }

    fn inline_stages(&mut self) -> Result<()> {
        // From the last one on: what is put in may read other inlined stages.
        for position in (0..self.order.len()).rev() {
            let id = self.order[position];
            if self[id].attach != Attach::Inline {
                continue;
            }
            self.check_inline(id)?;
            self[id].attach = Attach::Inlined;
            let op = self[id].operation().clone();
            let OperationNode::Compute { axes, bodies, .. } = &*op else { unreachable!("checked") };
            let mut inline = InlineReads { op: &op, axes, bodies, memo: HashMap::new() };
            for later in position..self.order.len() {
                let reader = self.order[later];
                let reader_op = self[reader].operation().clone();
                let OperationNode::Compute { name, span, tag, attrs, axes, reduce_axes, bodies } = &*reader_op else {
                    continue;
                };
                if reader == id || !input_tensors(&reader_op).iter().any(|input| input.op == op) {
                    continue;
                }
                let new_bodies = inline_bodies(&mut inline, bodies)?;
                let new_op = Operation::from_node(OperationNode::Compute {
                    name: name.clone(),
                    span: span.clone(),
                    tag: tag.clone(),
                    attrs: attrs.clone(),
                    axes: axes.clone(),
                    reduce_axes: reduce_axes.clone(),
                    bodies: new_bodies,
                });
                self.replace_op(reader, &new_op);
            }
        }
        Ok(())
    }

    /// Puts a new operation in the place of a stage's; readers read the new one.
    pub(crate) fn replace_op(&mut self, id: StageId, new: &Operation) {
        let mut replaced: HashMap<Operation, Operation> = HashMap::new();
        replaced.insert(self[id].operation().clone(), new.clone());
        self.set_op(id, new);
        self.redirect(&mut replaced);
    }

    pub(crate) fn set_op(&mut self, id: StageId, new: &Operation) {
        let old = self[id].operation().clone();
        for output in &mut self.outputs {
            if *output == old {
                *output = new.clone();
            }
        }
        self[id].op = Some(new.clone());
        self.by_op.insert(new.clone(), id);
    }

    /// Makes every stage read the new operations, in order, so that new readers are followed to their own readers.
    pub(crate) fn redirect(&mut self, replaced: &mut HashMap<Operation, Operation>) {
        for id in self.order.clone() {
            let op = self[id].operation().clone();
            let new = replace_inputs(&op, &|tensor: &Tensor| {
                replaced.get(&tensor.op).map(|new| new.output(tensor.value_index as usize))
            });
            if new != op {
                replaced.insert(op, new.clone());
                self.set_op(id, &new);
            }
        }
    }

    fn rebase(&mut self) {
        for id in self.order.clone() {
            if self[id].attach == Attach::Inlined {
                continue;
            }
            let roots = crate::te::operation::root_axes(self[id].operation());
            let mut rebased = Vec::new();
            for position in 0..self[id].leaves.len() {
                let axis = self[id].leaves[position].clone();
                if !roots.contains(&axis) || self[id].thread_of(&axis).is_some() {
                    continue;
                }
                let new = IterVar::new(None, axis.var.clone().renamed(axis.var.name()), axis.kind);
                let stage = &mut self[id];
                stage.leaves[position] = new.clone();
                stage.all_axes.push(new.clone());
                if let Some(attr) = stage.attrs.get(&axis).cloned() {
                    stage.attrs.insert(new.clone(), attr);
                }
                rebased.push((axis, new));
            }
            let relations =
                rebased.iter().map(|(axis, new)| Relation::Rebase { parent: axis.clone(), rebased: new.clone() });
            let stage = &mut self[id];
            stage.relations.splice(0..0, relations);
            for (axis, new) in &rebased {
                self.move_attach_points(id, axis, new);
            }
        }
    }

    fn move_attach_points(&mut self, id: StageId, axis: &IterVar, new: &IterVar) {
        for stage in &mut self.arena {
            match &mut stage.attach {
                Attach::At { stage, axis: at } | Attach::ScanUpdate { stage, axis: at }
                    if *stage == id && at == axis =>
                {
                    *at = new.clone();
                }
                _ => {}
            }
        }
    }
}

struct InlineReads<'a> {
    op: &'a Operation,
    axes: &'a Array<IterVar>,
    bodies: &'a Array<Expr>,
    memo: HashMap<Expr, Expr>,
}

impl Mutate for InlineReads<'_> {
    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        if let Some(known) = self.memo.get(expr) {
            return Ok(known.clone());
        }
        let new = self.inlined(expr)?;
        self.memo.insert(expr.clone(), new.clone());
        Ok(new)
    }
}

impl InlineReads<'_> {
    fn inlined(&mut self, expr: &Expr) -> Result<Expr> {
        let expr = mutate_expr_parts(self, expr)?;
        match &*expr {
            ExprNode::TensorRead { tensor, indices } if tensor.op == *self.op => {
                let values: VarMap = self.axes.iter().map(|axis| axis.var.clone()).zip(indices.iter()).collect();
                let body = self.bodies.get(tensor.value_index as usize).expect("one body for each output");
                Ok(substitute(&body, &values))
            }
            _ => Ok(expr),
        }
    }
}

/// All bodies of a reduction share their sources: they are rewritten once.
fn inline_bodies(inline: &mut InlineReads<'_>, bodies: &Array<Expr>) -> Result<Array<Expr>> {
    crate::te::operation::mutate_bodies(inline, bodies)
}
