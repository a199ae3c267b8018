//! Reductions of positions: 64-bit indices that fit into 32 bits are reduced in 32 bits, so that a
//! vector contains as many of them as values, and are widened after the reduction.

use super::pattern::reduced;
use crate::arith::Analyzer;
use crate::error::Result;
use crate::ir::visit::uses_var;
use crate::ir::{
    Expr, ExprNode, I32, I64, IterVar, IterVarNode, Operation, OperationNode, Reducer, ReducerNode, Var, VarMap,
    substitute,
};
use crate::schedule::{Schedule, StageId};
use crate::te::operation::reduction_results;

/// The minimum number of reduced elements for which this is profitable.
const LEAST: i64 = 64;

/// Makes a stage reduce 32-bit indices instead of 64-bit ones. Returns the stage of the reduction,
/// which is a new one if anything was changed.
pub(super) fn narrow(schedule: &mut Schedule, id: StageId) -> Result<StageId> {
    let op = schedule[id].operation().clone();
    match in_32_bits(&op) {
        Some((reduction, wide)) => Ok(schedule.replace_through(id, &[reduction], &wide)?[0]),
        None => Ok(id),
    }
}

/// The reduction with narrow indices, and the operation that widens them.
fn in_32_bits(op: &Operation) -> Option<(Operation, Operation)> {
    let parts = reduced(op)?;
    let ExprNode::Reduce { reducer, sources, condition, init, .. } = &*parts.body else { return None };
    // There is no gain if the values are as wide, and few elements are not worth a second stage.
    let elements = super::elements_of(&parts.reduce_axes);
    if elements.is_none_or(|elements| elements < LEAST) {
        return None;
    }
    let is_index = |source: &Expr| source.dtype() == I64;
    if sources.len() < 2 || !init.is_empty() || sources.iter().filter(|source| source.dtype().bits() > 32).count() != 1
    {
        return None;
    }
    let place = sources.iter().position(|source| is_index(&source))?;
    let analyzer = Analyzer::new();
    for axis in parts.axes.iter().chain(&parts.reduce_axes) {
        analyzer.bind(&axis.var, axis.dom.as_ref()?);
    }
    let range = analyzer.const_interval(&sources.get(place)?);
    let fits = |value: i64| i32::try_from(value).is_ok();
    if !fits(range.min) || !fits(range.max) {
        return None;
    }
    let reducer = narrow_reducer(reducer, place)?;
    let OperationNode::Compute { name, span, tag, attrs, axes, .. } = &**op else { return None };
    // Each operation has its own axes.
    let fresh = |axis: &IterVar| {
        IterVar::from_node(IterVarNode {
            dom: axis.dom.clone(),
            var: Var::index(axis.name()),
            kind: axis.kind,
            thread_tag: axis.thread_tag.clone(),
            span: axis.span.clone(),
        })
    };
    let own: Vec<IterVar> = parts.axes.iter().map(fresh).collect();
    let own_reduced: Vec<IterVar> = parts.reduce_axes.iter().map(fresh).collect();
    let renamed: VarMap = (parts.axes.iter().chain(&parts.reduce_axes))
        .zip(own.iter().chain(&own_reduced))
        .map(|(old, new)| (old.var.clone(), new.var.expr().clone()))
        .collect();
    let narrowed = |(index, source): (usize, Expr)| {
        let source = substitute(&source, &renamed);
        if index == place { source.cast(I32) } else { source }
    };
    let first = Expr::from_node(ExprNode::Reduce {
        reducer,
        sources: sources.iter().enumerate().map(narrowed).collect(),
        axes: own_reduced.iter().cloned().collect(),
        condition: substitute(condition, &renamed),
        init: init.clone(),
        value_index: 0,
    });
    let count = op.num_outputs();
    let reduction = Operation::from_node(OperationNode::Compute {
        name: format!("{name}.narrow").into(),
        span: span.clone(),
        tag: tag.clone(),
        attrs: attrs.clone(),
        axes: own.into(),
        reduce_axes: own_reduced.into(),
        bodies: reduction_results(&first, count),
    });
    let widened = (0..count).map(|index| {
        let tensor = reduction.output(index);
        let indices = parts.axes.iter().map(|axis| axis.var.expr().clone()).collect();
        Expr::from_node(ExprNode::TensorRead { tensor, indices }).cast(op.output(index).dtype)
    });
    let wide = Operation::from_node(OperationNode::Compute {
        name: name.clone(),
        span: span.clone(),
        tag: tag.clone(),
        attrs: attrs.clone(),
        axes: axes.clone(),
        reduce_axes: Default::default(),
        bodies: widened.collect(),
    });
    Some((reduction, wide))
}

/// The reducer with one of its values in 32 bits; `None` if it does more than compare and select
/// the value.
fn narrow_reducer(reducer: &Reducer, place: usize) -> Option<Reducer> {
    let (left, right) = (reducer.lhs.get(place)?, reducer.rhs.get(place)?);
    let (new_left, new_right) = (Var::new(left.name(), I32), Var::new(right.name(), I32));
    let change = Narrow { vars: [(left, new_left.clone()), (right, new_right.clone())] };
    let results = reducer.results.iter().enumerate();
    let results: Option<Vec<Expr>> = results
        .map(|(index, result)| if index == place { change.narrowed(&result) } else { change.kept(&result) })
        .collect();
    let identity = reducer.identity.iter().enumerate();
    let identity: Option<Vec<Expr>> =
        identity.map(|(index, value)| if index == place { change.narrowed(&value) } else { Some(value) }).collect();
    let with = |vars: &kernpack::Array<Var>, new: &Var| {
        vars.iter().enumerate().map(|(index, var)| if index == place { new.clone() } else { var }).collect()
    };
    Some(Reducer::from_node(ReducerNode {
        lhs: with(&reducer.lhs, &new_left),
        rhs: with(&reducer.rhs, &new_right),
        results: results?.into(),
        identity: identity?.into(),
    }))
}

struct Narrow {
    vars: [(Var, Var); 2],
}

impl Narrow {
    /// An expression of an index in 32 bits.
    fn narrowed(&self, expr: &Expr) -> Option<Expr> {
        if let Some(var) = Var::of(expr) {
            return self.vars.iter().find(|(old, _)| *old == var).map(|(_, new)| new.expr().clone());
        }
        match &**expr {
            ExprNode::Int { value, .. } => i32::try_from(*value).ok().map(|value| Expr::constant(I32, value.into())),
            ExprNode::Select { condition, true_value, false_value } => {
                Some(Expr::select(self.kept(condition)?, self.narrowed(true_value)?, self.narrowed(false_value)?))
            }
            _ => None,
        }
    }

    /// An expression of another type, which may compare indices.
    fn kept(&self, expr: &Expr) -> Option<Expr> {
        if !uses_var(expr, |var| self.vars.iter().any(|(old, _)| old == var)) {
            return Some(expr.clone());
        }
        Some(match &**expr {
            ExprNode::Compare { op, a, b } if a.dtype() == I64 => {
                Expr::compare(*op, self.narrowed(a)?, self.narrowed(b)?)
            }
            ExprNode::Compare { op, a, b } => Expr::compare(*op, self.kept(a)?, self.kept(b)?),
            ExprNode::Logic { op, a, b } => {
                Expr::from_node(ExprNode::Logic { op: *op, a: self.kept(a)?, b: self.kept(b)? })
            }
            ExprNode::Not { value } => self.kept(value)?.negated(),
            ExprNode::Select { condition, true_value, false_value } => {
                Expr::select(self.kept(condition)?, self.kept(true_value)?, self.kept(false_value)?)
            }
            _ => return None,
        })
    }
}
