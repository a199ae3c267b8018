//! Elements at positions given by other tensors.

use kernpack_compiler::ir::{Expr, I64, Tensor};

use super::call::tensor;
use super::{Call, Operator, Pattern};
use crate::error::{Result, require};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "Gather", pattern: Pattern::Injective, make: gather },
    Operator { name: "GatherElements", pattern: Pattern::Injective, make: gather_elements },
    Operator { name: "GatherND", pattern: Pattern::Injective, make: gather_nd },
    Operator { name: "ReverseSequence", pattern: Pattern::Injective, make: reverse_sequence },
];

/// Returns an index, which may count from the end. `checks.rs` turns an index out of range into an
/// error. Here it is clamped, so that the kernel accesses no other memory. An axis without elements
/// is never read ([`super::Operand::at`]).
fn wrapped(index: Expr, extent: i64) -> Expr {
    let index = index.cast(I64);
    let index = Expr::select(index.less(0), &index + extent, index);
    index.max(0).min(extent - 1)
}

fn gather(call: &Call) -> Result<Vec<Tensor>> {
    let (data, indices) = (call.input(0)?, call.input(1)?);
    let axis = data.axis(call.attrs.int("axis", 0)?)?;
    let mut shape = data.shape.clone();
    shape.splice(axis..=axis, indices.shape.iter().copied());
    Ok(vec![tensor(&shape, |position| {
        let index = indices.at(&position[axis..axis + indices.rank()]);
        let mut at = position[..axis].to_vec();
        at.push(wrapped(index, data.shape[axis]));
        at.extend_from_slice(&position[axis + indices.rank()..]);
        data.at(&at)
    })])
}

fn gather_elements(call: &Call) -> Result<Vec<Tensor>> {
    let (data, indices) = (call.input(0)?, call.input(1)?);
    let axis = data.axis(call.attrs.int("axis", 0)?)?;
    require!(
        data.rank() == indices.rank(),
        "data {:?} and indices {:?} have different ranks",
        data.shape,
        indices.shape
    );
    let fits = (0..data.rank()).all(|other| other == axis || indices.shape[other] <= data.shape[other]);
    require!(fits, "indices {:?} reach beyond data {:?}", indices.shape, data.shape);
    Ok(vec![tensor(&indices.shape, |position| {
        let mut at = position.to_vec();
        at[axis] = wrapped(indices.at(position), data.shape[axis]);
        data.at(&at)
    })])
}

fn gather_nd(call: &Call) -> Result<Vec<Tensor>> {
    let (data, indices) = (call.input(0)?, call.input(1)?);
    let batch = usize::try_from(call.attrs.int("batch_dims", 0)?).unwrap_or(usize::MAX);
    let most = data.rank().min(indices.rank());
    require!(
        batch <= most,
        "attribute `batch_dims` is {batch}: data {:?} and indices {:?} have fewer",
        data.shape,
        indices.shape
    );
    let Some((&length, outer)) = indices.shape.split_last() else {
        crate::error::fail!("the indices are a scalar");
    };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    require!(
        batch <= outer.len() && length <= data.rank().saturating_sub(batch),
        "indices {:?} do not fit data {:?} with {batch} batch dimensions",
        indices.shape,
        data.shape
    );
    require!(
        outer[..batch] == data.shape[..batch],
        "the first {batch} extents of indices {:?} are not those of data {:?}",
        indices.shape,
        data.shape
    );
    let shape: Vec<i64> = outer.iter().chain(&data.shape[batch + length..]).copied().collect();
    Ok(vec![tensor(&shape, |position| {
        let mut at = position[..batch].to_vec();
        for number in 0..length {
            let mut place = position[..outer.len()].to_vec();
            place.push(Expr::int(i64::try_from(number).unwrap_or(i64::MAX)));
            at.push(wrapped(indices.at(&place), data.shape[batch + number]));
        }
        at.extend_from_slice(&position[outer.len()..]);
        data.at(&at)
    })])
}

fn reverse_sequence(call: &Call) -> Result<Vec<Tensor>> {
    let (x, lengths) = (call.input(0)?, call.input(1)?);
    let (batch, time) = (x.axis(call.attrs.int("batch_axis", 1)?)?, x.axis(call.attrs.int("time_axis", 0)?)?);
    require!(batch != time, "the attributes `batch_axis` and `time_axis` are both axis {batch} of {:?}", x.shape);
    require!(lengths.shape == [x.shape[batch]], "expected {} lengths, got {:?}", x.shape[batch], lengths.shape);
    Ok(vec![tensor(&x.shape, |position| {
        let length = lengths.at(&[position[batch].clone()]).cast(I64);
        let mut at = position.to_vec();
        let step = &position[time];
        let turned = Expr::select(step.less(&length), length - 1 - step, step);
        at[time] = turned.max(0).min(x.shape[time] - 1);
        x.at(&at)
    })])
}
