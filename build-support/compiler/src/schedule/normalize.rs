//! The preparation for bound inference: stages are inlined into their readers, and every leaf
//! starts at 0.

use std::collections::{HashMap, HashSet};

use kernpack::Array;

use super::relations::Relation;
use super::stage::{Annotation, Attach, Schedule, Stage, StageId};
use crate::arith::same;
use crate::error::{CompileError, ErrorKind, Result};
use crate::ir::mutate::{Mutate, mutate_expr_parts};
use crate::ir::{Expr, ExprNode, IterVar, Operation, OperationNode, Tensor, Var, VarMap, with_stack};
use crate::te::operation::{input_tensors, mutate_bodies, replace_inputs};

impl Schedule {
    /// Returns a copy with inlined stages substituted into their readers and with a
    /// [`Relation::Rebase`] for each leaf that is a root axis without a thread.
    ///
    /// # Errors
    /// Returns an error for a stage that cannot be inlined into a reader, a parallel loop inside
    /// another one, or a double buffer outside of all loops.
    pub fn normalize(&self) -> Result<Self> {
        self.check_parallel()?;
        self.check_double_buffers()?;
        let mut schedule = self.clone();
        schedule.inline_stages()?;
        schedule.rebase();
        Ok(schedule)
    }

    /// The stage and loop in which a stage is computed: its own attach point, or that of its group.
    pub(crate) fn point_of(&self, mut id: StageId) -> Option<(StageId, &IterVar)> {
        while let (Attach::Root, Some(group)) = (&self[id].attach, self[id].group) {
            id = group;
        }
        self[id].attach.point()
    }

    /// Checks that parallel loops are not nested.
    fn check_parallel(&self) -> Result<()> {
        let is_parallel = |stage: &Stage, leaf: &IterVar| {
            stage.attr(leaf).is_some_and(|attr| attr.annotation == Some(Annotation::Parallel))
        };
        for id in self.order.iter().copied() {
            let stage = &self[id];
            let Some(inner) = stage.leaves.iter().find(|leaf| is_parallel(stage, leaf)) else { continue };
            let mut inside = id;
            // Attach points cannot form a cycle: `compute_at` ensures that.
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
                    let mut error = CompileError::new(ErrorKind::Schedule, what).at(stage.operation().span());
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

    /// Checks that stages with double buffers are inside of a loop: the next part is computed while
    /// the current one is read.
    fn check_double_buffers(&self) -> Result<()> {
        for id in self.order.iter().copied().filter(|&id| self[id].double_buffer) {
            let stage = &self[id];
            let is_inlined = matches!(stage.attach, Attach::Inline | Attach::Inlined);
            if is_inlined || self.point_of(id).is_none() {
                let what = if is_inlined {
                    format!("double_buffer: `{}` is inlined: it has no memory", stage.name())
                } else {
                    format!("double_buffer: `{}` is not computed in a loop of another stage", stage.name())
                };
                let error = CompileError::new(ErrorKind::Schedule, what).at(&stage.double_buffer_place);
                return Err(error.at(stage.operation().span()).note("say in which loop with `compute_at`"));
            }
        }
        Ok(())
    }

    /// Inlines stages in one pass, producers first.
    fn inline_stages(&mut self) -> Result<()> {
        let inlined = |schedule: &Self, id: StageId| schedule[id].attach == Attach::Inline;
        if !self.order.iter().any(|&id| inlined(self, id)) {
            return Ok(());
        }
        for &id in self.order.iter().filter(|&&id| inlined(self, id)) {
            self.check_inline(id)?;
        }
        let mut inline = InlineReads::default();
        for id in self.order.clone() {
            let op = self[id].operation().clone();
            inline.reads.clear();
            let new = match &*op {
                OperationNode::Compute { name, span, tag, attrs, axes, reduce_axes, bodies } => {
                    let new_bodies = mutate_bodies(&mut inline, bodies)?;
                    if new_bodies.iter().eq(bodies.iter()) {
                        op.clone()
                    } else {
                        Operation::from_node(OperationNode::Compute {
                            name: name.clone(),
                            span: span.clone(),
                            tag: tag.clone(),
                            attrs: attrs.clone(),
                            axes: axes.clone(),
                            reduce_axes: reduce_axes.clone(),
                            bodies: new_bodies,
                        })
                    }
                }
                _ => replace_inputs(&op, &|tensor: &Tensor| inline.replacement(tensor)),
            };
            if new != op {
                self.set_op(id, &new);
            }
            if inlined(self, id) {
                self[id].attach = Attach::Inlined;
                inline.inlined.insert(op);
            } else if new != op {
                inline.replaced.insert(op, new);
            }
        }
        Ok(())
    }

    pub(crate) fn set_op(&mut self, id: StageId, new: &Operation) {
        let old = self[id].operation().clone();
        for output in &mut self.outputs {
            if *output == old {
                *output = new.clone();
            }
        }
        self[id].op = Some(new.clone());
        self[id].inputs = input_tensors(new);
        self.by_op.insert(new.clone(), id);
    }

    /// Makes every stage read the new operations, in order, so that changed readers are propagated
    /// to their own readers.
    pub(crate) fn redirect(&mut self, replaced: &mut HashMap<Operation, Operation>) {
        for id in self.order.clone() {
            if !self[id].inputs.iter().any(|input| replaced.contains_key(&input.op)) {
                continue;
            }
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

/// Replaces reads of inlined tensors by their expressions, and other reads by reads of the
/// operations that stages compute now.
///
/// An element of an inlined tensor is substituted once for each stage, however many other inlined
/// stages read it: the result of a chain of tensors that are read twice is linear in the length of
/// the chain.
#[derive(Default)]
struct InlineReads {
    /// The operations to inline.
    inlined: HashSet<Operation>,
    /// The new operations, by old ones.
    replaced: HashMap<Operation, Operation>,
    memo: HashMap<Expr, Expr>,
    /// The expressions of elements of inlined tensors in the stage that is being rewritten, by
    /// tensor.
    reads: HashMap<(Operation, i64), Vec<Element>>,
}

/// The indices of an element, and the expression that replaces it.
type Element = (Array<Expr>, Expr);

impl InlineReads {
    fn replacement(&self, tensor: &Tensor) -> Option<Tensor> {
        self.replaced.get(&tensor.op).map(|new| new.output(tensor.value_index as usize))
    }

    fn replaced_read(&mut self, expr: Expr) -> Result<Expr> {
        let ExprNode::TensorRead { tensor, indices } = &*expr else { return Ok(expr) };
        let OperationNode::Compute { axes, bodies, .. } = &*tensor.op else {
            return Ok(self.read_of_stage(&expr, tensor, indices));
        };
        if !self.inlined.contains(&tensor.op) {
            return Ok(self.read_of_stage(&expr, tensor, indices));
        }
        let key = (tensor.op.clone(), tensor.value_index);
        let is_same = |known: &Array<Expr>| known.iter().zip(indices.iter()).all(|(one, other)| same(&one, &other));
        let known = self.reads.get(&key).and_then(|known| known.iter().find(|(indices, _)| is_same(indices)));
        if let Some((_, value)) = known {
            return Ok(value.clone());
        }
        let values = axes.iter().map(|axis| axis.var.clone()).zip(indices.iter()).collect();
        let body = bodies.get(tensor.value_index as usize).expect("one body for each output");
        let body = SubstituteShared { values, memo: HashMap::new() }.mutate_expr(&body)?;
        let value = with_stack(|| self.mutate_expr(&body))?;
        self.reads.entry(key).or_default().push((indices.clone(), value.clone()));
        Ok(value)
    }

    /// A read of a tensor that has its own stage.
    fn read_of_stage(&self, expr: &Expr, tensor: &Tensor, indices: &Array<Expr>) -> Expr {
        match self.replacement(tensor) {
            Some(tensor) => Expr::from_node(ExprNode::TensorRead { tensor, indices: indices.clone() }),
            None => expr.clone(),
        }
    }
}

impl Mutate for InlineReads {
    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        if let Some(known) = self.memo.get(expr) {
            return Ok(known.clone());
        }
        let new = mutate_expr_parts(self, expr)?;
        let new = self.replaced_read(new)?;
        self.memo.insert(expr.clone(), new.clone());
        Ok(new)
    }
}

/// Substitutes values for variables; shared parts stay shared.
struct SubstituteShared {
    values: VarMap,
    memo: HashMap<Expr, Expr>,
}

impl Mutate for SubstituteShared {
    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        if let Some(var) = Var::of(expr) {
            return Ok(self.values.get(&var).cloned().unwrap_or_else(|| expr.clone()));
        }
        if let Some(known) = self.memo.get(expr) {
            return Ok(known.clone());
        }
        let new = mutate_expr_parts(self, expr)?;
        self.memo.insert(expr.clone(), new.clone());
        Ok(new)
    }
}
