//! Loops that an instruction replaces: the instruction's body is compared with the computation of
//! the loops, and its buffers become views of the regions.

use std::collections::{HashMap, HashSet};

use kernpack::{Any, Array};

use super::gather::for_each_read;
use super::lower::{Lowering, Nest, Place};
use super::lower_scan::BUFFER_BIND;
use super::nest::nest;
use super::stage::{Annotation, StageId};
use super::tensorize::TensorIntrin;
use crate::arith::{Analyzer, IntSet, SetMap};
use crate::error::{CompileError, ErrorKind, Result};
use crate::ir::mutate::{Mutate, mutate_expr_parts};
use crate::ir::{
    Expr, ExprNode, IterVar, Operation, OperationNode, Range, Stmt, StmtNode, Tensor, VarMap, substitute, visit,
};
use crate::te::operation::{bodies_once, input_tensors};

/// The tile that an instruction works on: a region of each root axis, and of each tensor.
struct Tile {
    axes: HashMap<IterVar, Range>,
    inputs: Vec<(Tensor, Vec<Range>)>,
    outputs: Vec<(Tensor, Vec<Range>)>,
}

impl Lowering<'_> {
    /// The loop of a stage that an instruction replaces, if there is one.
    pub(crate) fn tensorized_at(&self, id: StageId, leaves: &[IterVar]) -> Option<(usize, TensorIntrin)> {
        let stage = &self.schedule[id];
        leaves.iter().enumerate().find_map(|(position, leaf)| {
            let attr = stage.attr(leaf).filter(|attr| attr.annotation == Some(Annotation::Tensorized))?;
            Some((position, attr.intrin.clone()?))
        })
    }

    /// The loops around an instruction and the instruction.
    pub(crate) fn tensorized(
        &mut self,
        id: StageId,
        leaves: &[IterVar],
        position: usize,
        intrin: &TensorIntrin,
    ) -> Result<Stmt> {
        let (outer, inner) = leaves.split_at(position);
        for leaf in inner {
            if let Some(other) = self.first_stage_at(&Place::Loop(id, leaf.clone())) {
                let what = format!(
                    "stage `{}` is computed in `{}`, which it replaces",
                    self.schedule[other].name(),
                    leaf.var.name()
                );
                return Err(self.refused(id, intrin, what));
            }
        }
        let is_reduced = self.reduced_axes(id);
        let first = outer.iter().position(|leaf| is_reduced.contains(leaf)).unwrap_or(position);
        let mut main = Nest { has_children: true, ..Nest::default() };
        let common = self.levels(id, &outer[..first], &mut main)?;

        let mut stmts = Vec::new();
        let parts = (intrin.reduce_init.as_ref(), intrin.reduce_update.as_ref());
        if let (true, (Some(init_body), Some(_))) = (first < position, parts) {
            let open = self.open_threads();
            let mut init = Nest {
                suffix: Some("init"),
                values: main.values.clone(),
                sets: main.sets.clone(),
                has_children: false,
            };
            let data: Vec<IterVar> =
                outer[first..].iter().filter(|leaf| !is_reduced.contains(*leaf)).cloned().collect();
            let levels = self.levels(id, &data, &mut init)?;
            let (tile, conditions) = self.tile(id, &mut init, inner, &is_reduced, intrin)?;
            stmts.push(nest(&levels, conditions, bound(init_body, intrin, &[], &tile.outputs)));
            self.close_threads(open);
        }

        let levels = self.levels(id, &outer[first..], &mut main)?;
        let (tile, conditions) = self.tile(id, &mut main, inner, &HashSet::new(), intrin)?;
        verify(self.schedule[id].operation(), &tile, intrin, &self.analyzer)
            .map_err(|what| self.refused(id, intrin, what))?;
        let with = |body: &Stmt| bound(body, intrin, &tile.inputs, &tile.outputs);
        stmts.push(match (first < position, parts) {
            (false, _) => nest(&levels, conditions, with(&intrin.body)),
            (true, (Some(_), Some(update))) => nest(&levels, conditions, with(update)),
            (true, (None, Some(update))) => {
                // The first part initializes, the others update.
                let mut is_later = Expr::bool(false);
                for leaf in outer[first..].iter().filter(|leaf| is_reduced.contains(*leaf)) {
                    if let (Some(value), Ok(range)) = (main.values.get(leaf), self.range(leaf, &self.schedule[id])) {
                        is_later = is_later.or(value.greater(&range.min));
                    }
                }
                nest(&levels, conditions, Stmt::if_then(is_later, with(update), Some(with(&intrin.body))))
            }
            (true, (_, None)) => {
                let leaf = outer[first].var.name();
                let what = format!("the reduction goes over `{leaf}` outside of it, but it cannot add to a result");
                return Err(self
                    .refused(id, intrin, what)
                    .note("give the intrinsic a `reduce_update` and a `reduce_init`"));
            }
        });
        Ok(nest(&common, Vec::new(), Stmt::seq(stmts)))
    }

    fn refused(&self, id: StageId, intrin: &TensorIntrin, what: String) -> CompileError {
        let stage = &self.schedule[id];
        CompileError::new(
            ErrorKind::Lower,
            format!("tensorize: `{}` does not fit stage `{}`: {what}", intrin.name, stage.name()),
        )
        .at(stage.operation().span())
    }

    /// The regions that the inner loops cover in one iteration of the outer ones, and the
    /// conditions around them.
    fn tile(
        &self,
        id: StageId,
        nest: &mut Nest,
        inner: &[IterVar],
        skip: &HashSet<IterVar>,
        intrin: &TensorIntrin,
    ) -> Result<(Tile, Vec<Expr>)> {
        let stage = &self.schedule[id];
        let op = stage.operation().clone();
        let mark = self.analyzer.mark();
        let mut inside = SetMap::new();
        for leaf in inner.iter().filter(|leaf| !skip.contains(*leaf)) {
            let range = self.range(leaf, stage)?;
            self.analyzer.bind(&leaf.var, &range);
            inside.insert(leaf.var.clone(), IntSet::of_range(&range));
            nest.sets.insert(leaf.var.clone(), IntSet::of_range(&range));
            nest.values.insert(leaf.clone(), leaf.var.expr().clone());
        }
        let conditions = self.conditions(id, nest, skip, true)?;
        for condition in &conditions {
            if visit::uses_var(condition, |var| inside.contains_key(var)) {
                let what = format!(
                    "split condition {} relies on a variable inside it: the extent has to be a multiple",
                    condition.without_likely().0
                );
                return Err(self.refused(id, intrin, what));
            }
        }
        let whole = |set: IntSet| {
            set.cover_range(None, &self.analyzer)
                .ok_or_else(|| self.refused(id, intrin, "it works on a region without an end".to_owned()))
        };
        let mut axes = HashMap::new();
        let mut values = VarMap::new();
        for axis in crate::te::operation::root_axes(&op) {
            let Some(value) = nest.values.get(&axis).filter(|_| !skip.contains(&axis)) else { continue };
            values.insert(axis.var.clone(), value.clone());
            let range = whole(IntSet::evaluate(value, &inside, &self.analyzer))?;
            axes.insert(axis, range);
        }
        let OperationNode::Compute { axes: data, bodies, .. } = &*op else {
            crate::error::fail!(Internal, "`{}` is not computed by expressions", op.name());
        };
        let region: Vec<Range> = data.iter().filter_map(|axis| axes.get(&axis).cloned()).collect();
        let outputs = op.outputs().into_iter().map(|tensor| (tensor, region.clone())).collect();
        let mut inputs = Vec::new();
        for tensor in input_tensors(&op) {
            let mut sets = vec![IntSet::Nothing; tensor.shape.len()];
            for_each_read(&bodies_once(bodies), &tensor.op, |read, indices| {
                if read.is(&tensor) {
                    for (set, index) in sets.iter_mut().zip(indices) {
                        let index = IntSet::evaluate(&substitute(index, &values), &inside, &self.analyzer);
                        *set = set.union(&index, &self.analyzer);
                    }
                }
            });
            inputs.push((tensor, sets.into_iter().map(whole).collect::<Result<_>>()?));
        }
        self.analyzer.restore(mark);
        Ok((Tile { axes, inputs, outputs }, conditions))
    }
}

/// The statements with the instruction's buffers bound to regions.
fn bound(
    body: &Stmt,
    intrin: &TensorIntrin,
    inputs: &[(Tensor, Vec<Range>)],
    outputs: &[(Tensor, Vec<Range>)],
) -> Stmt {
    let count = intrin.inputs.len();
    let pairs = inputs.iter().zip(intrin.buffers.iter()).chain(outputs.iter().zip(intrin.buffers.iter().skip(count)));
    pairs.fold(body.clone(), |body, ((tensor, region), buffer)| {
        let mut node = vec![Any::from(buffer), Any::from(tensor.clone())];
        node.extend(region.iter().map(|range| Any::from(range.clone())));
        let node: Array<Any> = node.into_iter().collect();
        Stmt::from_node(StmtNode::Attr { key: BUFFER_BIND.into(), node: node.into(), value: Expr::int(0), body })
    })
}

/// Maps the axes of the stage to those of the instruction, starting from the last one; the
/// remaining axes have one value.
fn match_axes(
    what: &str,
    own: &[IterVar],
    theirs: &[IterVar],
    tile: &Tile,
    values: &mut VarMap,
    analyzer: &Analyzer,
) -> Result<(), String> {
    if own.len() < theirs.len() {
        return Err(format!("it has {} {what}, the stage {}", theirs.len(), own.len()));
    }
    let extra = own.len() - theirs.len();
    for (position, axis) in own.iter().enumerate() {
        let Some(range) = tile.axes.get(axis) else {
            return Err(format!("no region is known for `{}`", axis.var.name()));
        };
        let Some(other) = position.checked_sub(extra).map(|position| &theirs[position]) else {
            if !range.extent.is_int(1) {
                let name = axis.var.name();
                return Err(format!("it has no axis for `{name}`, of which {} are inside", range.extent));
            }
            values.insert(axis.var.clone(), range.min.clone());
            continue;
        };
        let dom = other.dom.clone().unwrap_or_else(|| Range::until(1));
        if !analyzer.can_prove_equal(&dom.extent, &range.extent) {
            let (name, other) = (axis.var.name(), other.var.name());
            return Err(format!("`{name}` goes over {} inside, its `{other}` over {}", range.extent, dom.extent));
        }
        values.insert(axis.var.clone(), &range.min + (other.var.expr() - &dom.min));
    }
    Ok(())
}

/// Checks that the loops compute the same as the instruction.
fn verify(op: &Operation, tile: &Tile, intrin: &TensorIntrin, analyzer: &Analyzer) -> Result<(), String> {
    let (
        OperationNode::Compute { axes, reduce_axes, bodies, .. },
        OperationNode::Compute { axes: their_axes, reduce_axes: their_reduce_axes, bodies: their_bodies, .. },
    ) = (&**op, &*intrin.op)
    else {
        return Err("both are computed by expressions".to_owned());
    };
    if tile.inputs.len() != intrin.inputs.len() {
        return Err(format!("it has {} inputs, the stage {}", intrin.inputs.len(), tile.inputs.len()));
    }
    if bodies.len() != their_bodies.len() {
        return Err(format!("it has {} results, the stage {}", their_bodies.len(), bodies.len()));
    }
    let mut values = VarMap::new();
    match_axes("dimensions", &axes.to_vec(), &their_axes.to_vec(), tile, &mut values, analyzer)?;
    match_axes(
        "axes of the reduction",
        &reduce_axes.to_vec(),
        &their_reduce_axes.to_vec(),
        tile,
        &mut values,
        analyzer,
    )?;
    for ((tensor, region), input) in tile.inputs.iter().zip(intrin.inputs.iter()) {
        if tensor.dtype != input.dtype {
            return Err(format!("its input `{}` has another element type than `{}`", input.name(), tensor.name()));
        }
        let Some(extra) = region.len().checked_sub(input.shape.len()) else {
            return Err(format!("its input `{}` has more dimensions than `{}`", input.name(), tensor.name()));
        };
        let fits = region.iter().enumerate().all(|(dimension, range)| match dimension.checked_sub(extra) {
            None => range.extent.is_int(1),
            Some(position) => {
                input.shape.get(position).is_some_and(|extent| analyzer.can_prove_equal(&extent, &range.extent))
            }
        });
        if !fits {
            let extents: Vec<String> = region.iter().map(|range| range.extent.to_string()).collect();
            let shape: Vec<String> = input.shape.iter().map(|extent| extent.to_string()).collect();
            return Err(format!(
                "it reads `{}` with the shape [{}], the loops inside read [{}] of `{}`",
                input.name(),
                shape.join(", "),
                extents.join(", "),
                tensor.name()
            ));
        }
    }
    let mark = analyzer.mark();
    for axis in their_axes.iter().chain(their_reduce_axes.iter()) {
        if let Some(dom) = &axis.dom {
            analyzer.bind(&axis.var, dom);
        }
    }
    let equal = bodies.iter().zip(their_bodies.iter()).all(|(body, theirs)| {
        let mut move_in = MoveIn { tile, intrin, analyzer };
        move_in.mutate_expr(&substitute(&body, &values)).is_ok_and(|body| same_value(&body, &theirs, analyzer))
    });
    analyzer.restore(mark);
    if !equal {
        let body = bodies.get(0).map(|body| body.to_string()).unwrap_or_default();
        let theirs = their_bodies.get(0).map(|body| body.to_string()).unwrap_or_default();
        return Err(format!("it computes {theirs}, the stage {body}"));
    }
    Ok(())
}

/// Replaces reads of the stage's tensors by reads of the instruction's inputs.
struct MoveIn<'a> {
    tile: &'a Tile,
    intrin: &'a TensorIntrin,
    analyzer: &'a Analyzer,
}

impl Mutate for MoveIn<'_> {
    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        let expr = mutate_expr_parts(self, expr)?;
        let ExprNode::TensorRead { tensor, indices } = &*expr else { return Ok(expr) };
        let found = self.tile.inputs.iter().zip(self.intrin.inputs.iter()).find(|((own, _), _)| own.is(tensor));
        let Some(((_, region), input)) = found else { return Ok(expr) };
        let extra = region.len() - input.shape.len();
        let moved =
            indices.iter().zip(region).skip(extra).map(|(index, range)| self.analyzer.simplify(&(index - &range.min)));
        Ok(Expr::from_node(ExprNode::TensorRead { tensor: input, indices: moved.collect() }))
    }
}

fn same_value(a: &Expr, b: &Expr, analyzer: &Analyzer) -> bool {
    let equal =
        |a: &Expr, b: &Expr| kernpack::structural::equal(&analyzer.simplify(a), &analyzer.simplify(b)).unwrap_or(false);
    match (&**a, &**b) {
        (
            ExprNode::Reduce { reducer, sources, condition, init, value_index, .. },
            ExprNode::Reduce {
                reducer: their_reducer,
                sources: their_sources,
                condition: their_condition,
                init: their_init,
                value_index: their_index,
                ..
            },
        ) => {
            value_index == their_index
                && kernpack::structural::equal(reducer, their_reducer).unwrap_or(false)
                && sources.len() == their_sources.len()
                && sources.iter().zip(their_sources.iter()).all(|(a, b)| equal(&a, &b))
                && init.len() == their_init.len()
                && init.iter().zip(their_init.iter()).all(|(a, b)| equal(&a, &b))
                && equal(condition, their_condition)
        }
        _ => equal(a, b),
    }
}

/// The region to which an attribute binds a buffer, if it is a part of the tensor.
pub(crate) fn bound_region(stmt: &Stmt) -> Option<Vec<Range>> {
    let StmtNode::Attr { node, .. } = &**stmt else { return None };
    let parts: Array<Any> = node.to().ok()?;
    if parts.len() <= 2 {
        return None;
    }
    parts.iter().skip(2).map(|part| part.to().ok()).collect()
}
