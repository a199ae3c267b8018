//! Queries of operations: their inputs, their axes, and copies with other inputs.

use std::collections::{HashMap, HashSet};

use kernpack::{Any, Array, Map, Str};

use crate::error::Result;
use crate::ir::mutate::{Mutate, mutate_expr_parts};
use crate::ir::visit::{Visit, walk_expr};
use crate::ir::{Expr, ExprNode, IterVar, Operation, OperationNode, Tensor, Var};

impl From<&Operation> for Operation {
    fn from(op: &Operation) -> Self {
        op.clone()
    }
}

/// The operation that computes the tensor.
impl From<&Tensor> for Operation {
    fn from(tensor: &Tensor) -> Self {
        tensor.op.clone()
    }
}

/// Returns the tensors that an operation reads, each once, in order of first use.
pub fn input_tensors(op: &Operation) -> Vec<Tensor> {
    let mut found = Unique::default();
    match &**op {
        OperationNode::Placeholder { .. } => {}
        OperationNode::Compute { bodies, .. } => bodies_once(bodies).iter().for_each(|body| found.visit_expr(body)),
        OperationNode::Scan { init, update, .. } => {
            init.iter().chain(update.iter()).for_each(|tensor| found.add(&tensor))
        }
        OperationNode::Extern { inputs, .. } => inputs.iter().for_each(|tensor| found.add(&tensor)),
    }
    found.tensors
}

#[derive(Default)]
struct Unique {
    keys: HashSet<(usize, i64)>,
    tensors: Vec<Tensor>,
    visited: HashSet<usize>,
}

impl Unique {
    fn add(&mut self, tensor: &Tensor) {
        if self.keys.insert(tensor.key()) {
            self.tensors.push(tensor.clone());
        }
    }
}

impl Visit for Unique {
    fn visit_expr(&mut self, expr: &Expr) {
        // Expressions share parts: each is visited once. They are alive as long as the operation,
        // so that addresses are not reused.
        if !self.visited.insert(expr.address()) {
            return;
        }
        if let ExprNode::TensorRead { tensor, .. } = &**expr {
            self.add(tensor);
        }
        walk_expr(self, expr);
    }
}

/// Returns the variables in the expressions of an operation that are neither its axes nor defined
/// inside: scalars, sizes, and, by mistake, axes of other operations.
pub fn free_variables(op: &Operation) -> Vec<Var> {
    let OperationNode::Compute { bodies, .. } = &**op else { return Vec::new() };
    let mut found =
        Variables { defined: root_axes(op).iter().map(|axis| axis.var.clone()).collect(), ..Variables::default() };
    bodies_once(bodies).iter().for_each(|body| found.visit_expr(body));
    found.used.retain(|var| !found.defined.contains(var));
    found.used
}

#[derive(Default)]
struct Variables {
    defined: HashSet<Var>,
    used: Vec<Var>,
    visited: HashSet<usize>,
}

impl Visit for Variables {
    fn visit_expr(&mut self, expr: &Expr) {
        if !self.visited.insert(expr.address()) {
            return;
        }
        match &**expr {
            ExprNode::Let { var, .. } => {
                self.defined.insert(var.clone());
            }
            ExprNode::Var { .. } => self.used.extend(Var::of(expr)),
            _ => {}
        }
        walk_expr(self, expr);
    }
}

/// Returns true if an expression reads an element of a tensor.
pub(crate) fn reads_tensor(expr: &Expr) -> bool {
    let mut found = Unique::default();
    found.visit_expr(expr);
    !found.tensors.is_empty()
}

/// The bodies; for results of one reduction only the first, which contains all parts.
pub(crate) fn bodies_once(bodies: &Array<Expr>) -> Vec<Expr> {
    match bodies.get(0) {
        Some(first) if matches!(*first, ExprNode::Reduce { .. }) => vec![first],
        _ => bodies.to_vec(),
    }
}

/// The initial axes of an operation's loops: the dimensions, then the reduction axes; for a scan,
/// time, then the dimensions of the states.
pub fn root_axes(op: &Operation) -> Vec<IterVar> {
    match &**op {
        OperationNode::Placeholder { .. } | OperationNode::Extern { .. } => Vec::new(),
        OperationNode::Compute { axes, reduce_axes, .. } => axes.iter().chain(reduce_axes.iter()).collect(),
        OperationNode::Scan { scan_axis, spatial_axes, .. } => {
            core::iter::once(scan_axis.clone()).chain(spatial_axes.iter()).collect()
        }
    }
}

/// Returns these operations and all operations that they depend on, inputs first.
pub fn post_order(outputs: &[Operation]) -> Vec<Operation> {
    let mut seen: HashSet<Operation> = HashSet::new();
    let mut order = Vec::new();
    // An explicit stack, because graphs are as deep as models.
    let mut stack: Vec<(Operation, bool)> = outputs.iter().rev().map(|op| (op.clone(), false)).collect();
    while let Some((op, is_done)) = stack.pop() {
        if is_done {
            order.push(op);
        } else if seen.insert(op.clone()) {
            stack.push((op.clone(), true));
            let inputs = input_tensors(&op);
            stack.extend(inputs.into_iter().rev().map(|input| (input.op.clone(), false)));
        }
    }
    order
}

struct ReplaceReads<'a> {
    new: &'a dyn Fn(&Tensor) -> Option<Tensor>,
    memo: HashMap<Expr, Expr>,
}

impl Mutate for ReplaceReads<'_> {
    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        if let Some(known) = self.memo.get(expr) {
            return Ok(known.clone());
        }
        let mut new = mutate_expr_parts(self, expr)?;
        if let ExprNode::TensorRead { tensor, indices } = &*new
            && let Some(other) = (self.new)(tensor)
        {
            new = Expr::from_node(ExprNode::TensorRead { tensor: other, indices: indices.clone() });
        }
        self.memo.insert(expr.clone(), new.clone());
        Ok(new)
    }
}

/// Returns the operation with its inputs replaced where `new` returns another tensor; the operation
/// itself if none is replaced.
pub fn replace_inputs(op: &Operation, new: &dyn Fn(&Tensor) -> Option<Tensor>) -> Operation {
    let replace_all = |tensors: &Array<Tensor>| {
        let mut changed = false;
        let replaced: Array<Tensor> = tensors
            .iter()
            .map(|tensor| {
                new(&tensor).map_or(tensor, |other| {
                    changed = true;
                    other
                })
            })
            .collect();
        changed.then_some(replaced)
    };
    let node = match &**op {
        OperationNode::Placeholder { .. } => return op.clone(),
        OperationNode::Compute { name, span, tag, attrs, axes, reduce_axes, bodies } => {
            let mut replace = ReplaceReads { new, memo: HashMap::new() };
            let new_bodies =
                mutate_bodies(&mut replace, bodies).unwrap_or_else(|_| unreachable!("replacing tensors has no errors"));
            if new_bodies.iter().eq(bodies.iter()) {
                return op.clone();
            }
            OperationNode::Compute {
                name: name.clone(),
                span: span.clone(),
                tag: tag.clone(),
                attrs: attrs.clone(),
                axes: axes.clone(),
                reduce_axes: reduce_axes.clone(),
                bodies: new_bodies,
            }
        }
        OperationNode::Scan { name, span, tag, attrs, scan_axis, init, update, state, inputs, spatial_axes } => {
            let (new_init, new_update) = (replace_all(init), replace_all(update));
            let new_inputs = replace_all(inputs);
            if new_init.is_none() && new_update.is_none() && new_inputs.is_none() {
                return op.clone();
            }
            OperationNode::Scan {
                name: name.clone(),
                span: span.clone(),
                tag: tag.clone(),
                attrs: attrs.clone(),
                scan_axis: scan_axis.clone(),
                init: new_init.unwrap_or_else(|| init.clone()),
                update: new_update.unwrap_or_else(|| update.clone()),
                state: state.clone(),
                inputs: new_inputs.unwrap_or_else(|| inputs.clone()),
                spatial_axes: spatial_axes.clone(),
            }
        }
        OperationNode::Extern { name, span, tag, attrs, inputs, input_buffers, output_buffers, body } => {
            let Some(inputs) = replace_all(inputs) else { return op.clone() };
            OperationNode::Extern {
                name: name.clone(),
                span: span.clone(),
                tag: tag.clone(),
                attrs: attrs.clone(),
                inputs,
                input_buffers: input_buffers.clone(),
                output_buffers: output_buffers.clone(),
                body: body.clone(),
            }
        }
    };
    Operation::from_node(node)
}

/// Rewrites the bodies of a computed operation. The results of one reduction share their parts,
/// also afterwards.
pub(crate) fn mutate_bodies<M: Mutate>(mutator: &mut M, bodies: &Array<Expr>) -> Result<Array<Expr>> {
    let Some(first) = bodies.get(0).filter(|first| matches!(**first, ExprNode::Reduce { .. })) else {
        return bodies.iter().map(|body| mutator.mutate_expr(&body)).collect::<Result<Vec<_>>>().map(Into::into);
    };
    let new = mutator.mutate_expr(&first)?;
    if new.same_as(&first) {
        return Ok(bodies.clone());
    }
    Ok(reduction_results(&new, bodies.len()))
}

/// All results of the reduction whose first result is given.
pub(crate) fn reduction_results(first: &Expr, count: usize) -> Array<Expr> {
    let ExprNode::Reduce { reducer, sources, axes, condition, init, .. } = &**first else {
        return [first.clone()].into_iter().collect();
    };
    let results = (0..count).map(|index| {
        if index == 0 {
            return first.clone();
        }
        Expr::from_node(ExprNode::Reduce {
            reducer: reducer.clone(),
            sources: sources.clone(),
            axes: axes.clone(),
            condition: condition.clone(),
            init: init.clone(),
            value_index: index as i64,
        })
    });
    results.collect()
}

/// The operation with a changed name, tag or attributes.
pub(crate) fn with_names(op: &Operation, change: impl FnOnce(&mut Str, &mut Str, &mut Map<Str, Any>)) -> Operation {
    let (mut new_name, mut new_tag) = (Str::from(op.name()), Str::from(op.tag()));
    let mut new_attrs = match &**op {
        OperationNode::Placeholder { .. } => Map::default(),
        OperationNode::Compute { attrs, .. }
        | OperationNode::Scan { attrs, .. }
        | OperationNode::Extern { attrs, .. } => attrs.clone(),
    };
    change(&mut new_name, &mut new_tag, &mut new_attrs);
    Operation::from_node(match &**op {
        OperationNode::Placeholder { span, shape, dtype, .. } => {
            OperationNode::Placeholder { name: new_name, span: span.clone(), shape: shape.clone(), dtype: *dtype }
        }
        OperationNode::Compute { span, axes, reduce_axes, bodies, .. } => OperationNode::Compute {
            name: new_name,
            span: span.clone(),
            tag: new_tag,
            attrs: new_attrs,
            axes: axes.clone(),
            reduce_axes: reduce_axes.clone(),
            bodies: bodies.clone(),
        },
        OperationNode::Scan { span, scan_axis, init, update, state, inputs, spatial_axes, .. } => OperationNode::Scan {
            name: new_name,
            span: span.clone(),
            tag: new_tag,
            attrs: new_attrs,
            scan_axis: scan_axis.clone(),
            init: init.clone(),
            update: update.clone(),
            state: state.clone(),
            inputs: inputs.clone(),
            spatial_axes: spatial_axes.clone(),
        },
        OperationNode::Extern { span, inputs, input_buffers, output_buffers, body, .. } => OperationNode::Extern {
            name: new_name,
            span: span.clone(),
            tag: new_tag,
            attrs: new_attrs,
            inputs: inputs.clone(),
            input_buffers: input_buffers.clone(),
            output_buffers: output_buffers.clone(),
            body: body.clone(),
        },
    })
}
