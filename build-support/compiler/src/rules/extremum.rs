//! Argmax and argmin of each row, in two steps: first the value of the extremum, then its first
//! position. Each step takes two or three instructions for a vector, and the second one reads a row
//! that is already in a cache; a reduction of values and positions together takes a dozen, because
//! it has to be correct for any order of its elements.

use super::pattern::{extent_of, reduced};
use super::rows::across_row;
use super::{TargetDescription, elements_of, pays};
use crate::error::Result;
use crate::ir::{
    DataType, DataTypeExt, Expr, ExprNode, I32, I64, IterVar, IterVarNode, Operation, OperationNode, Tensor, Var,
    VarMap, substitute,
};
use crate::schedule::{Schedule, StageId};
use crate::te::operation::reduction_results;
use crate::te::{argmax, argmin, max_value, min_value, reduce_axis, reduce_max, reduce_min};

/// The length of the shortest row for which two steps are profitable.
const LEAST: i64 = 32;

/// A reduction of pairs of a position and a value.
struct Extremum {
    op: Operation,
    axes: Vec<IterVar>,
    /// The axis of a row: positions are its values.
    along: IterVar,
    /// The value that is compared: an element of a tensor.
    value: Expr,
    is_largest: bool,
    /// The type in which positions are searched for.
    place: DataType,
}

/// Schedules such a reduction; returns false if the operation is not one, or if its rows are too
/// short or too long.
pub(super) fn apply(schedule: &mut Schedule, id: StageId, target: &TargetDescription) -> Result<bool> {
    let op = schedule[id].operation().clone();
    let Some(extremum) = describe(&op, target) else { return Ok(false) };
    let (best, place, out) = extremum.steps();
    let stages = schedule.replace_through(id, &[best, place], &out)?;
    let row = extremum.axes.last().expect("there are rows").clone();
    for step in stages {
        schedule.stage(step).compute_at(id, &row)?;
        let op = schedule[step].operation().clone();
        let along = reduced(&op).expect("a step is a reduction").reduce_axes[0].clone();
        across_row(schedule, &op.output(0), &along, (id, &row), target)?;
    }
    let shared = extremum.axes.iter().find(|axis| extent_of(axis) != Some(1));
    if let Some(shared) = shared
        && pays(target, elements_of(extremum.axes.iter().chain([&extremum.along])))
    {
        schedule.stage(id).parallel(shared)?;
    }
    Ok(true)
}

fn describe(op: &Operation, target: &TargetDescription) -> Option<Extremum> {
    let parts = reduced(op)?;
    let ExprNode::Reduce { reducer, sources, condition, init, .. } = &*parts.body else { return None };
    let ([along], [place, value]) = (&parts.reduce_axes[..], &sources.to_vec()[..]) else { return None };
    let begins_at_zero = along.dom.as_ref().is_some_and(|dom| dom.min.is_int(0));
    if parts.axes.is_empty() || !condition.is_true() || !init.is_empty() || !begins_at_zero {
        return None;
    }
    if place != along.var.expr() || place.dtype() != I64 {
        return None;
    }
    // Only a plain element: arithmetic may be contracted in one step and not in the other, and the
    // value would then not be found.
    let ExprNode::TensorRead { tensor, .. } = &**value else { return None };
    if !super::reduction::is_contiguous(value, along) {
        return None;
    }
    let extent = extent_of(along);
    let bytes = i64::from(tensor.dtype.bits().max(8)) / 8;
    if extent.is_some_and(|extent| extent < LEAST || extent.saturating_mul(bytes) > target.l2_bytes / 2) {
        return None;
    }
    let of_places = |largest: bool| {
        let (of, axis) = (Var::new("x", value.dtype()), reduce_axis(0, 2, "r"));
        let [first, _] = if largest { argmax(&axis, &of, &axis) } else { argmin(&axis, &of, &axis) };
        match &*first {
            ExprNode::Reduce { reducer: known, .. } => kernpack::structural::equal(reducer, known).unwrap_or(false),
            _ => false,
        }
    };
    let is_largest = of_places(true);
    if !is_largest && !of_places(false) {
        return None;
    }
    let is_short = extent.is_some_and(|extent| extent < i64::from(i32::MAX));
    Some(Extremum {
        op: op.clone(),
        axes: parts.axes.clone(),
        along: along.clone(),
        value: value.clone(),
        is_largest,
        place: if is_short { I32 } else { I64 },
    })
}

impl Extremum {
    /// The reduction to the value, the reduction to its first position, and the operation that
    /// combines both to the original results.
    fn steps(&self) -> (Operation, Operation, Operation) {
        let OperationNode::Compute { name, span, tag, attrs, axes, bodies, .. } = &*self.op else {
            unreachable!("a reduction is computed")
        };
        let own = |name: String, of: &dyn Fn(&[IterVar], &IterVar, &VarMap) -> Expr| {
            let (axes, along) = (self.axes.iter().map(fresh).collect::<Vec<IterVar>>(), fresh(&self.along));
            let renamed: VarMap = (self.axes.iter().chain([&self.along]))
                .zip(axes.iter().chain([&along]))
                .map(|(old, new)| (old.var.clone(), new.var.expr().clone()))
                .collect();
            let body = of(&axes, &along, &renamed);
            Operation::from_node(OperationNode::Compute {
                name: name.into(),
                span: span.clone(),
                tag: tag.clone(),
                attrs: attrs.clone(),
                axes: axes.into(),
                reduce_axes: [along].into_iter().collect(),
                bodies: reduction_results(&body, 1),
            })
        };
        let best = own(format!("{name}.best"), &|_, along, renamed| {
            let value = substitute(&self.value, renamed);
            if self.is_largest { reduce_max(value, along) } else { reduce_min(value, along) }
        });
        let nowhere = max_value(self.place);
        let place = own(format!("{name}.place"), &|axes, along, renamed| {
            let value = substitute(&self.value, renamed);
            let mut is_it = value.equals(read(&best.output(0), axes));
            if value.dtype().is_float() {
                is_it = is_it.or(value.differs(&value));
            }
            reduce_min(Expr::select(is_it, along.var.expr().cast(self.place), &nowhere), along)
        });
        // An empty row has no position.
        let found = read(&place.output(0), &self.axes);
        let is_somewhere = found.differs(&nowhere);
        let last = &self.along.dom.as_ref().expect("an axis of a reduction has a range").extent - 1;
        // The element itself, because zeros of both signs are equal.
        let at = VarMap::from_iter([(self.along.var.clone(), found.cast(I64).min(last).max(0))]);
        let value = Expr::if_then_else(&is_somewhere, substitute(&self.value, &at), self.worst());
        let index = Expr::select(&is_somewhere, found.cast(I64), Expr::int(-1));
        let results = bodies.iter().map(|body| match &*body {
            ExprNode::Reduce { value_index: 0, .. } => index.clone(),
            _ => value.clone(),
        });
        let out = Operation::from_node(OperationNode::Compute {
            name: name.clone(),
            span: span.clone(),
            tag: tag.clone(),
            attrs: attrs.clone(),
            axes: axes.clone(),
            reduce_axes: Default::default(),
            bodies: results.collect(),
        });
        (best, place, out)
    }

    /// The result of an empty row.
    fn worst(&self) -> Expr {
        let dtype = self.value.dtype();
        if self.is_largest { min_value(dtype) } else { max_value(dtype) }
    }
}

/// Creates an equal axis, because each operation has its own axes.
fn fresh(axis: &IterVar) -> IterVar {
    IterVar::from_node(IterVarNode {
        dom: axis.dom.clone(),
        var: Var::index(axis.name()),
        kind: axis.kind,
        thread_tag: axis.thread_tag.clone(),
        span: axis.span.clone(),
    })
}

/// Reads the element of a tensor at axes.
fn read(tensor: &Tensor, axes: &[IterVar]) -> Expr {
    let indices = axes.iter().map(|axis| axis.var.expr().clone()).collect();
    Expr::from_node(ExprNode::TensorRead { tensor: tensor.clone(), indices })
}
