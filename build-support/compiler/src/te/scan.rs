//! Recurrences along the first dimension.

use core::panic::Location;

use kernpack::{Array, Map};

use super::axis::axis_of;
use super::operation::{input_tensors, post_order};
use super::placeholder::counted;
use crate::error::{CompileError, ErrorKind, Result, place, report, require};
use crate::ir::{DataTypeExt, Expr, IterKind, Operation, OperationNode, Range, Tensor};

/// Creates states that are computed step by step: `init` contains the first steps, and `update`
/// computes each further one from `state` (placeholders of the whole result) at earlier times. The
/// first dimension of each is time.
///
/// States of different rank, type or extents are reported.
///
/// ```
/// use kernpack_compiler::ir::F32;
/// use kernpack_compiler::te::{compute, placeholder, scan, size};
///
/// let (m, n) = (size("m"), size("n"));
/// let x = placeholder([&m, &n], F32, "x");
/// let state = placeholder([&m, &n], F32, "state");
/// let init = compute((1, &n), |[_, i]| x.at((0, &i)));
/// let update = compute([&m, &n], |[t, i]| state.at((&t - 1, &i)) + x.at([&t, &i]));
/// let [cumsum] = scan([&init], [&update], [&state]);
/// assert_eq!(cumsum.shape.len(), 2);
/// # kernpack_compiler::take_reported().unwrap();
/// ```
#[track_caller]
pub fn scan<const M: usize>(init: [&Tensor; M], update: [&Tensor; M], state: [&Tensor; M]) -> [Tensor; M] {
    let here = Location::caller();
    let outputs = scan_dyn_at(&init.map(Clone::clone), &update.map(Clone::clone), &state.map(Clone::clone), here);
    core::array::from_fn(|index| outputs[index].clone())
}

/// [`scan`] with a number of states that is not known at compile time; all three lists have one
/// length.
#[track_caller]
pub fn scan_dyn(init: &[Tensor], update: &[Tensor], state: &[Tensor]) -> Vec<Tensor> {
    scan_dyn_at(init, update, state, Location::caller())
}

fn scan_dyn_at(init: &[Tensor], update: &[Tensor], state: &[Tensor], here: &Location<'_>) -> Vec<Tensor> {
    if let Err(error) = check(init, update, state) {
        report(error.at(place(here)));
        // Tensors of the right shape and type, for the expressions that use them.
        return state.to_vec();
    }
    let (steps, first) = (&state[0].shape.get(0), &init[0].shape.get(0));
    let (Some(steps), Some(first)) = (steps, first) else { return state.to_vec() };
    let time = axis_of("t", Some(Range::new(first, steps - first)), IterKind::Ordered, "", here);
    let mut spatial = Vec::new();
    for (number, tensor) in state.iter().enumerate() {
        for (dimension, extent) in tensor.shape.iter().enumerate().skip(1) {
            let name = if state.len() == 1 { format!("s{dimension}") } else { format!("s{number}_{dimension}") };
            spatial.push(axis_of(&name, Some(Range::until(extent)), IterKind::Opaque, "", here));
        }
    }
    let op = Operation::from_node(OperationNode::Scan {
        name: "scan".into(),
        span: place(here).into(),
        tag: "".into(),
        attrs: Map::default(),
        scan_axis: time,
        init: init.iter().cloned().collect(),
        update: update.iter().cloned().collect(),
        state: state.iter().cloned().collect(),
        inputs: outside_inputs(update, state),
        spatial_axes: spatial.into(),
    });
    op.outputs()
}

/// The tensors outside the recurrence that its operations read.
fn outside_inputs(update: &[Tensor], state: &[Tensor]) -> Array<Tensor> {
    let inside = scan_body(&update.iter().map(|tensor| tensor.op.clone()).collect::<Vec<_>>(), state);
    let mut inputs: Vec<Tensor> = Vec::new();
    for op in &inside {
        for tensor in input_tensors(op) {
            let is_inside = inside.contains(&tensor.op) || state.iter().any(|own| own.op == tensor.op);
            if !is_inside && !inputs.iter().any(|known| known.is(&tensor)) {
                inputs.push(tensor);
            }
        }
    }
    inputs.into()
}

/// The operations between the states and the updates, which are computed in each step: those that
/// depend on a state, and the updates themselves.
pub(crate) fn scan_body(updates: &[Operation], state: &[Tensor]) -> Vec<Operation> {
    let mut inside: Vec<Operation> = Vec::new();
    for op in post_order(updates) {
        let depends = input_tensors(&op)
            .iter()
            .any(|input| state.iter().any(|own| own.op == input.op) || inside.contains(&input.op));
        if depends || updates.contains(&op) {
            inside.push(op);
        }
    }
    inside
}

fn check(init: &[Tensor], update: &[Tensor], state: &[Tensor]) -> Result<()> {
    require!(!state.is_empty(), Type, "scan: no state");
    for (what, list) in [("init", init), ("update", update)] {
        let (count, states) = (list.len(), counted(state.len(), "state"));
        require!(count == state.len(), Type, "scan: {} of `{what}` for {states}", counted(count, "tensor"));
    }
    let steps = state[0].shape.get(0);
    for ((init, update), state) in init.iter().zip(update).zip(state) {
        let name = state.name();
        let is_placeholder = matches!(&*state.op, OperationNode::Placeholder { .. });
        require!(is_placeholder, Type, "scan: the state `{name}` is not a placeholder");
        let rank = state.shape.len();
        require!(rank > 0, Type, "scan: the state `{name}` has no dimension for time");
        for (what, tensor) in [("init", init), ("update", update)] {
            let (own, dtype) = (tensor.name(), tensor.dtype.short_name());
            if tensor.dtype != state.dtype {
                let expected = state.dtype.short_name();
                return Err(CompileError::new(
                    ErrorKind::Type,
                    format!("scan: {what} `{own}` is of type {dtype}, its state `{name}` of {expected}"),
                ));
            }
            let own_rank = tensor.shape.len();
            require!(
                own_rank == rank,
                Type,
                "scan: {what} `{own}` has {}, its state `{name}` {rank}",
                counted(own_rank, "dimension")
            );
            let first = usize::from(what == "init");
            for dimension in first..rank {
                let (a, b) = (tensor.shape.get(dimension), state.shape.get(dimension));
                let same = a.zip(b).is_some_and(|(a, b)| same_extent(&a, &b));
                require!(
                    same,
                    Type,
                    "scan: dimension {dimension} of {what} `{own}` differs from that of its state `{name}`"
                );
            }
        }
        let same = state.shape.get(0).zip(steps.clone()).is_some_and(|(a, b)| same_extent(&a, &b));
        require!(same, Type, "scan: the states have different numbers of steps");
        if matches!(&*update.op, OperationNode::Placeholder { .. }) {
            return Err(CompileError::new(ErrorKind::Type, format!("scan: the update of `{name}` is not computed")));
        }
        let (begin, end) = (init.shape.get(0), state.shape.get(0));
        if let (Some(begin), Some(end)) = (begin.and_then(|e| e.as_int()), end.and_then(|e| e.as_int())) {
            require!(begin <= end, Type, "scan: init of `{name}` has {begin} steps, the state {end}");
        }
    }
    let first = init[0].shape.get(0);
    for tensor in init {
        let same = tensor.shape.get(0).zip(first.clone()).is_some_and(|(a, b)| same_extent(&a, &b));
        require!(same, Type, "scan: the tensors of init have different numbers of steps");
    }
    Ok(())
}

/// Returns true if two extents are the same expression.
pub(crate) fn same_extent(a: &Expr, b: &Expr) -> bool {
    a == b || kernpack::structural::equal(a, b).unwrap_or(false)
}
