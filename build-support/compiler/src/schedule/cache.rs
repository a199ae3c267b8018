//! Copies in memory of another scope or layout: `cache_read`, `cache_write`.

use std::collections::{HashMap, HashSet};

use kernpack::{Array, Map};

use super::derive::{leaves_of_roots, own_ranges, roots_of_leaves};
use super::primitives::{Context, StageKey, check_scope};
use super::stage::{Schedule, Stage, StageId};
use crate::arith::Analyzer;
use crate::error::Result;
use crate::ir::{
    Expr, ExprNode, IterKind, IterVar, IterVarNode, Operation, OperationNode, Tensor, Var, VarMap, substitute,
};
use crate::te::operation::{input_tensors, reduction_results, replace_inputs, root_axes};

impl Schedule {
    /// Adds a copy of a tensor in memory of a scope, which the given stages read instead of the
    /// tensor. The copy is a separate stage: compute it in the loops of its readers.
    ///
    /// # Errors
    /// Returns an error for an unknown scope, without readers, or if a reader does not read the
    /// tensor.
    #[track_caller]
    pub fn cache_read<K: Into<StageKey>>(
        &mut self,
        tensor: &Tensor,
        scope: &str,
        readers: impl IntoIterator<Item = K>,
    ) -> Result<Tensor> {
        let context = Context::new("cache_read");
        check_scope(&context, scope)?;
        let id = self.find(&tensor.into()).map_err(|error| context.wrap(&error))?;
        let tensor = self.current(tensor);
        let mut ids: Vec<StageId> = Vec::new();
        for reader in readers {
            let reader = self.find(&reader.into()).map_err(|error| context.wrap(&error))?;
            let stage = &self[reader];
            let reads = stage.op.as_ref().is_some_and(|op| input_tensors(op).iter().any(|input| input.is(&tensor)));
            if !reads {
                return Err(context.error(format!("stage `{}` does not read `{}`", stage.name(), tensor.name())));
            }
            if !ids.contains(&reader) {
                ids.push(reader);
            }
        }
        if ids.is_empty() {
            return Err(context.error(format!("no stage to read the copy of `{}`", tensor.name())));
        }
        let place = context.place();
        let names: Vec<String> = match &*tensor.op {
            OperationNode::Compute { axes, .. } => axes.iter().map(|axis| axis.name().to_owned()).collect(),
            _ => (0..tensor.shape.len()).map(|index| format!("i{index}")).collect(),
        };
        let axes: Vec<IterVar> = tensor
            .shape
            .iter()
            .zip(&names)
            .map(|(extent, name)| data_axis(name, crate::ir::Range::until(extent), &place))
            .collect();
        let element = read(&tensor, axes.iter().map(Expr::from));
        let name = format!("{}.{scope}", tensor.name());
        let cache = operation(&name, &place, axes.into(), Array::default(), [element].into_iter().collect());
        let copy = cache.output(0);
        let mut replaced = HashMap::new();
        for reader in ids {
            let old = self[reader].operation().clone();
            let new = replace_inputs(&old, &|input: &Tensor| input.is(&tensor).then(|| copy.clone()));
            self.set_op(reader, &new);
            replaced.insert(old, new);
        }
        let mut stage = Stage::of(&cache);
        scope.clone_into(&mut stage.scope);
        self.insert_stage(stage, id, true);
        self.redirect(&mut replaced);
        Ok(copy)
    }

    /// Computes a tensor in memory of a scope; the stage of the tensor becomes a copy of that. This
    /// applies to all results of the operation.
    ///
    /// If loops over the dimensions were split, fused or reordered before, the copy has a dimension
    /// for each of these loops, in their order, and so has another layout. The loops of the
    /// tensor's own stage are then reset.
    ///
    /// # Errors
    /// Returns an error for an unknown scope; a tensor that is not computed by an expression;
    /// reduction axes that were split before; loops that are annotated, or in which a stage is
    /// computed.
    #[track_caller]
    pub fn cache_write(&mut self, tensor: &Tensor, scope: &str) -> Result<Tensor> {
        let context = Context::new("cache_write");
        check_scope(&context, scope)?;
        let id = self.find(&tensor.into()).map_err(|error| context.wrap(&error))?;
        self.check_unused(&context, id)?;
        let stage = self[id].clone();
        let op = stage.operation().clone();
        let OperationNode::Compute { name, span, tag, attrs, axes, reduce_axes, bodies } = &*op else {
            return Err(context.error(format!("`{}` is not computed by an expression", op.name())));
        };
        let place = context.place();
        let analyzer = Analyzer::new();
        let ranges = own_ranges(&stage, &analyzer)?;

        // The axes of the copy, in the order of the loops.
        let mut layout: Vec<(IterVar, IterVar)> = Vec::new();
        let mut leaves: HashMap<IterVar, Expr> = HashMap::new();
        for leaf in &stage.leaves {
            if reduce_axes.iter().any(|axis| axis == *leaf) {
                leaves.insert(leaf.clone(), leaf.into());
                continue;
            }
            if leaf.kind != IterKind::DataPar {
                let what = format!("`{}` of stage `{}` is not a loop over dimensions", leaf.name(), stage.name());
                return Err(context.stage_error(&stage, what).note(
                    "only dimensions make a layout: apply `cache_write` before loops of the reduction are changed",
                ));
            }
            let Some(range) = ranges.get(leaf) else {
                return Err(context.stage_error(&stage, format!("`{}` has no range", leaf.name())));
            };
            let axis = data_axis(&format!("{}.c", leaf.name()), range.clone(), &place);
            leaves.insert(leaf.clone(), (&axis).into());
            layout.push((leaf.clone(), axis));
        }
        let (values, conditions) = roots_of_leaves(&stage, &ranges, &leaves, &HashSet::new(), &analyzer)?;
        let values: VarMap =
            axes.iter().filter_map(|axis| values.get(&axis).map(|value| (axis.var.clone(), value.clone()))).collect();
        let bodies = moved_bodies(bodies, &values, &conditions);
        let new_axes: Array<IterVar> = layout.iter().map(|(_, axis)| axis.clone()).collect();
        let cache_name = format!("{name}.{scope}");
        let cache = operation(&cache_name, &place, new_axes, reduce_axes.clone(), bodies);

        let roots = axes.iter().map(|axis| (axis.clone(), Expr::from(&axis))).collect();
        let positions = leaves_of_roots(&stage, &ranges, &roots)?;
        let mut indices = Vec::with_capacity(layout.len());
        for axis in axes.iter() {
            if let Some(dom) = &axis.dom {
                analyzer.bind(&axis.var, dom);
            }
        }
        for (leaf, _) in &layout {
            let Some(position) = positions.get(leaf) else {
                return Err(context.stage_error(&stage, format!("`{}` is made of no dimension", leaf.name())));
            };
            indices.push(analyzer.simplify(position));
        }
        let copies = cache.outputs().iter().map(|tensor| read(tensor, indices.iter().cloned())).collect();
        let copy = Operation::from_node(OperationNode::Compute {
            name: name.clone(),
            span: span.clone(),
            tag: tag.clone(),
            attrs: attrs.clone(),
            axes: axes.clone(),
            reduce_axes: Array::default(),
            bodies: copies,
        });
        self.restart(id, &copy, &format!("computed by `{cache_name}` since cache_write{}", context.at_place()));
        let mut cached = Stage::of(&cache);
        scope.clone_into(&mut cached.scope);
        self.insert_stage(cached, id, false);
        self.redirect(&mut HashMap::from([(op.clone(), copy)]));
        Ok(cache.output(usize::try_from(tensor.value_index).unwrap_or(0)))
    }

    /// Checks that no loop of a stage is annotated, and that no stage is computed in one.
    pub(crate) fn check_unused(&self, context: &Context, id: StageId) -> Result<()> {
        for leaf in self[id].leaves.clone() {
            self.check_free(context, id, &leaf)?;
        }
        Ok(())
    }

    /// Gives a stage another operation; its loops are reset.
    pub(crate) fn restart(&mut self, id: StageId, op: &Operation, why: &str) {
        self.set_op(id, op);
        let stage = &mut self[id];
        let roots = root_axes(op);
        for leaf in stage.leaves.clone() {
            stage.consumed.insert(leaf, why.to_owned());
        }
        for root in &roots {
            stage.consumed.remove(root);
        }
        stage.relations.clear();
        stage.leaves.clone_from(&roots);
        stage.all_axes = roots;
    }

    /// Inserts a stage after or before another one, in the group of that one.
    pub(crate) fn insert_stage(&mut self, mut stage: Stage, beside: StageId, after: bool) -> StageId {
        stage.group = self[beside].group;
        if let Some(group) = stage.group {
            self[group].num_children += 1;
        }
        let op = stage.operation().clone();
        let id = self.add(stage);
        let position = self.order.iter().position(|&other| other == beside).unwrap_or(0);
        self.order.insert(position + usize::from(after), id);
        self.by_op.insert(op, id);
        id
    }
}

pub(crate) fn data_axis(name: &str, dom: crate::ir::Range, place: &str) -> IterVar {
    IterVar::from_node(IterVarNode {
        dom: Some(dom),
        var: Var::index(name),
        kind: IterKind::DataPar,
        thread_tag: "".into(),
        span: place.into(),
    })
}

pub(crate) fn read(tensor: &Tensor, indices: impl IntoIterator<Item = Expr>) -> Expr {
    Expr::from_node(ExprNode::TensorRead { tensor: tensor.clone(), indices: indices.into_iter().collect() })
}

pub(crate) fn operation(
    name: &str,
    place: &str,
    axes: Array<IterVar>,
    reduce_axes: Array<IterVar>,
    bodies: Array<Expr>,
) -> Operation {
    Operation::from_node(OperationNode::Compute {
        name: name.into(),
        span: place.into(),
        tag: "".into(),
        attrs: Map::default(),
        axes,
        reduce_axes,
        bodies,
    })
}

/// The bodies with other axes. Elements outside of the tensor are left out of a reduction, and are
/// 0 otherwise.
fn moved_bodies(bodies: &Array<Expr>, values: &VarMap, conditions: &[Expr]) -> Array<Expr> {
    // The guard of a loop's end is still marked as likely in the reduction's condition; inside a
    // value it is an ordinary condition.
    let likely = conditions.iter().fold(Expr::bool(true), |all, condition| all.and(condition));
    let inside = conditions.iter().fold(Expr::bool(true), |all, condition| all.and(condition.without_likely().0));
    let first = bodies.get(0);
    if let Some(ExprNode::Reduce { reducer, sources, axes, condition, init, .. }) = first.as_deref() {
        let reduce = Expr::from_node(ExprNode::Reduce {
            reducer: reducer.clone(),
            sources: sources.iter().map(|source| substitute(&source, values)).collect(),
            axes: axes.clone(),
            condition: substitute(condition, values).and(&likely),
            init: init.iter().map(|value| guarded(substitute(&value, values), &inside)).collect(),
            value_index: 0,
        });
        return reduction_results(&reduce, bodies.len());
    }
    bodies.iter().map(|body| guarded(substitute(&body, values), &inside)).collect()
}

/// The value where the condition holds, otherwise 0 without evaluating the value.
fn guarded(value: Expr, inside: &Expr) -> Expr {
    if inside.is_true() {
        return value;
    }
    let zero = Expr::constant(value.dtype(), 0);
    Expr::if_then_else(inside, value, zero)
}
