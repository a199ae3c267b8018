//! Two-step reductions: `rfactor`.

use std::collections::{HashMap, HashSet};

use kernpack::Array;

use super::cache::{data_axis, operation, read};
use super::derive::{own_ranges, roots_of_leaves};
use super::pass_down::made_of;
use super::primitives::{Context, at_place};
use super::relations::Relation;
use super::stage::{Schedule, Stage};
use crate::arith::Analyzer;
use crate::error::Result;
use crate::ir::{
    Expr, ExprNode, IterKind, IterVar, IterVarNode, Operation, OperationNode, Tensor, Var, VarMap, substitute,
};
use crate::te::operation::{reduction_results, root_axes};

impl Schedule {
    /// Factors a reduction into two steps. A new tensor `T.rf` has a loop of the reduction as its
    /// first dimension, and reduces over the rest; `T` reduces over that dimension.
    ///
    /// The order of additions changes, so that a sum of floats may differ in its last digits. The
    /// new tensor's axes are those of the operation of `T.rf` (`s.stage(&rf).axes()`); the axis of
    /// the last reduction is that of `T` (`s.stage(&t).reduce_axes()`). Loops of `T` over its
    /// dimensions are unchanged.
    ///
    /// # Errors
    /// Returns an error for a loop that is not a reduction axis, or is annotated, and if other
    /// loops of the reduction are annotated.
    #[track_caller]
    pub fn rfactor(&mut self, tensor: &Tensor, axis: &IterVar) -> Result<Tensor> {
        self.rfactored(&Context::new("rfactor"), tensor, axis, 0)
    }

    /// [`rfactor`](Self::rfactor) with the position of the loop among the dimensions of the new
    /// tensor; a negative position counts from the end, -1 is the last dimension.
    ///
    /// # Errors
    /// Returns the errors of [`rfactor`](Self::rfactor), and an error for a dimension that does not
    /// exist.
    #[track_caller]
    pub fn rfactor_at(&mut self, tensor: &Tensor, axis: &IterVar, dimension: i64) -> Result<Tensor> {
        self.rfactored(&Context::new("rfactor_at"), tensor, axis, dimension)
    }

    fn rfactored(&mut self, context: &Context, tensor: &Tensor, axis: &IterVar, dimension: i64) -> Result<Tensor> {
        let id = self.find(&tensor.into()).map_err(|error| context.wrap(&error))?;
        self.leaf_of(context, id, axis)?;
        let stage = self[id].clone();
        let op = stage.operation().clone();
        let name = op.name();
        if axis.kind != IterKind::CommReduce {
            return Err(context
                .stage_error(&stage, format!("`{}` of stage `{name}` is not an axis of a reduction", axis.name())));
        }
        let OperationNode::Compute { axes, reduce_axes, bodies, .. } = &*op else {
            return Err(context.error(format!("`{name}` is not computed by an expression")));
        };
        let first = bodies.get(0);
        let Some(ExprNode::Reduce { reducer, sources, condition: condition_of_all, init, .. }) = first.as_deref()
        else {
            return Err(context.error(format!("`{name}` is not a reduction")));
        };
        let size = axes.len() as i64;
        let position = if dimension < 0 { size + 1 + dimension } else { dimension };
        if !(0..=size).contains(&position) {
            let what = format!("dimension {dimension} of `{name}.rf`, which has {}", size + 1);
            return Err(context.error(what));
        }
        let of_reduction = made_of(&stage, reduce_axes.iter());
        for leaf in stage.leaves.iter().filter(|leaf| of_reduction.contains(*leaf)) {
            self.check_free(context, id, leaf)?;
        }

        // The root axes of the loop, and all loops derived from these; a fused loop adds the axes
        // of its other part.
        let mut roots: HashSet<IterVar> = HashSet::from([axis.clone()]);
        let touched = loop {
            let touched = made_of(&stage, roots.iter().cloned());
            let mut all = touched.clone();
            for relation in stage.relations.iter().rev() {
                if relation.children().into_iter().any(|child| all.contains(child)) {
                    all.extend(relation.parents().into_iter().cloned());
                }
            }
            all.retain(|root| reduce_axes.iter().any(|own| own == *root));
            if all == roots {
                break touched;
            }
            roots = all;
        };
        let touched_leaves: Vec<IterVar> =
            stage.leaves.iter().filter(|leaf| touched.contains(*leaf)).cloned().collect();

        let place = context.place();
        let analyzer = Analyzer::new();
        let ranges = own_ranges(&stage, &analyzer)?;
        let mut leaves: HashMap<IterVar, Expr> = HashMap::new();
        let mut factor_axis = None;
        let mut inner_axes: Vec<IterVar> = Vec::new();
        for leaf in &touched_leaves {
            let Some(range) = ranges.get(leaf).cloned() else {
                return Err(context.stage_error(&stage, format!("`{}` has no range", leaf.name())));
            };
            if leaf == axis {
                if !range.min.is_int(0) {
                    let what = format!("`{}` of stage `{name}` does not begin with 0", axis.name());
                    return Err(context.stage_error(&stage, what).note("`split` it first: parts begin with 0"));
                }
                let new = data_axis(axis.name(), range, &place);
                leaves.insert(leaf.clone(), (&new).into());
                factor_axis = Some(new);
            } else {
                let new = IterVar::from_node(IterVarNode {
                    dom: Some(range),
                    var: Var::index(leaf.name()),
                    kind: IterKind::CommReduce,
                    thread_tag: "".into(),
                    span: leaf.span.clone(),
                });
                leaves.insert(leaf.clone(), (&new).into());
                inner_axes.push(new);
            }
        }
        let Some(factor_axis) = factor_axis else {
            return Err(context.stage_error(&stage, format!("`{}` is made of no axis of the reduction", axis.name())));
        };
        let skip: HashSet<IterVar> = stage.all_axes.iter().filter(|own| !touched.contains(*own)).cloned().collect();
        let (values, conditions) = roots_of_leaves(&stage, &ranges, &leaves, &skip, &analyzer)?;
        let values: VarMap =
            roots.iter().filter_map(|root| values.get(root).map(|value| (root.var.clone(), value.clone()))).collect();
        let untouched = reduce_axes.iter().filter(|own| !roots.contains(own));
        let reduced: Array<IterVar> = untouched.chain(inner_axes).collect();
        let condition = conditions.iter().fold(substitute(condition_of_all, &values), |all, guard| all.and(guard));
        let sources: Vec<Expr> = sources.iter().map(|source| substitute(&source, &values)).collect();

        let mut new_axes = axes.to_vec();
        new_axes.insert(position as usize, factor_axis);
        // Each operation has its own axes.
        let (new_axes, renamed) = fresh_axes(&new_axes, &place);
        let new_bodies: Array<Expr> = if reduced.is_empty() {
            // There is no reduction left: elements beyond the end are the identity.
            let identity = reducer.identity.to_vec();
            let guards = conditions.iter().map(|guard| guard.without_likely().0);
            let inside = guards.fold(substitute(condition_of_all, &values), |all, guard| all.and(guard));
            let elements = sources.iter().zip(identity).map(|(source, identity)| {
                let element = Expr::if_then_else(&inside, source, identity);
                substitute(&element, &renamed)
            });
            elements.collect()
        } else {
            let reduce = Expr::from_node(ExprNode::Reduce {
                reducer: reducer.clone(),
                sources: sources.iter().map(|source| substitute(source, &renamed)).collect(),
                axes: reduced.clone(),
                condition: substitute(&condition, &renamed),
                init: Array::default(),
                value_index: 0,
            });
            reduction_results(&reduce, bodies.len())
        };
        let factored = operation(&format!("{name}.rf"), &place, new_axes.into(), reduced, new_bodies);

        let extent = ranges.get(axis).map(|range| range.extent.clone()).unwrap_or_else(|| Expr::int(1));
        let last = IterVar::from_node(IterVarNode {
            dom: Some(crate::ir::Range::until(extent)),
            var: Var::index(format!("{}.v", axis.name())),
            kind: IterKind::CommReduce,
            thread_tag: "".into(),
            span: place.as_str().into(),
        });
        let mut indices: Vec<Expr> = axes.iter().map(|own| Expr::from(&own)).collect();
        indices.insert(position as usize, (&last).into());
        let partial = factored.outputs();
        let reduce = Expr::from_node(ExprNode::Reduce {
            reducer: reducer.clone(),
            sources: partial.iter().map(|tensor| read(tensor, indices.iter().cloned())).collect(),
            axes: [last.clone()].into_iter().collect(),
            condition: Expr::bool(true),
            init: init.clone(),
            value_index: 0,
        });
        let whole = with_reduction(&op, &last, reduction_results(&reduce, bodies.len()));
        self.set_op(id, &whole);
        keep_data_loops(&mut self[id], &of_reduction, axis, &last, &place);
        self.insert_stage(Stage::of(&factored), id, false);
        self.redirect(&mut HashMap::from([(op.clone(), whole)]));
        Ok(factored.output(usize::try_from(tensor.value_index).unwrap_or(0)))
    }
}

/// New axes for the given ones, and the substitution of the old variables.
fn fresh_axes(axes: &[IterVar], place: &str) -> (Vec<IterVar>, VarMap) {
    let mut renamed = VarMap::new();
    let fresh = axes.iter().map(|axis| {
        let dom = axis.dom.clone().unwrap_or_else(|| crate::ir::Range::until(1));
        let new = data_axis(axis.name(), dom, place);
        renamed.insert(axis.var.clone(), (&new).into());
        new
    });
    let fresh = fresh.collect();
    (fresh, renamed)
}

fn with_reduction(op: &Operation, axis: &IterVar, bodies: Array<Expr>) -> Operation {
    let OperationNode::Compute { name, span, tag, attrs, axes, .. } = &**op else { return op.clone() };
    Operation::from_node(OperationNode::Compute {
        name: name.clone(),
        span: span.clone(),
        tag: tag.clone(),
        attrs: attrs.clone(),
        axes: axes.clone(),
        reduce_axes: [axis.clone()].into_iter().collect(),
        bodies,
    })
}

/// Keeps the loops over the dimensions; those of the reduction become one, at the position of the
/// loop that is a dimension now.
fn keep_data_loops(stage: &mut Stage, of_reduction: &HashSet<IterVar>, axis: &IterVar, last: &IterVar, place: &str) {
    let name = stage.name().to_owned();
    let at = at_place(place);
    for gone in stage.all_axes.iter().filter(|own| of_reduction.contains(*own)) {
        stage.consumed.insert(gone.clone(), format!("taken into `{name}.rf` by rfactor{at}"));
        stage.attrs.remove(gone);
    }
    stage.relations.retain(|relation: &Relation| {
        !relation.parents().into_iter().chain(relation.children()).any(|own| of_reduction.contains(own))
    });
    if let Some(position) = stage.leaf_position(axis) {
        stage.leaves[position] = last.clone();
    }
    stage.leaves.retain(|leaf| !of_reduction.contains(leaf));
    stage.all_axes.retain(|own| !of_reduction.contains(own));
    stage.all_axes.push(last.clone());
    debug_assert!(root_axes(stage.operation()).iter().all(|root| stage.all_axes.contains(root)));
}
