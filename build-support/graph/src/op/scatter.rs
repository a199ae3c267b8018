//! Elements scattered to positions given by other tensors. Several elements for the same position
//! are applied in the order of the indices.

use kernpack_compiler::ir::{Buffer, Expr, I64, Stmt, Tensor};
use kernpack_compiler::te::extern_op;

use super::call::{Operand, extents, tensor};
use super::statements::{at, copy, count_of, nest, put, when};
use super::{Call, Operator, Pattern, extremum};
use crate::error::{Result, fail, require};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "Scatter", pattern: Pattern::Opaque, make: scatter_elements },
    Operator { name: "ScatterElements", pattern: Pattern::Opaque, make: scatter_elements },
    Operator { name: "TensorScatter", pattern: Pattern::Injective, make: tensor_scatter },
    Operator { name: "ScatterND", pattern: Pattern::Opaque, make: scatter_nd },
];

/// Returns the function that combines an existing element and a new one.
fn reduction(call: &Call) -> Result<fn(Expr, Expr) -> Expr> {
    Ok(match call.attrs.text("reduction", "none")? {
        "none" => |_, new| new,
        "add" => |old, new| old + new,
        "mul" => |old, new| old * new,
        "min" => |old, new| extremum::min(old, new),
        "max" => |old, new| extremum::max(old, new),
        other => fail!("attribute `reduction` is '{other}', not none, add, mul, min or max"),
    })
}

/// Returns an index, which may count from the end, and whether it is in range. An index out of
/// range is an error (`checks.rs`), and never writes other memory.
fn wrapped(index: Expr, extent: i64) -> (Expr, Expr) {
    let index = index.cast(I64);
    let index = Expr::select(index.less(0), &index + extent, index);
    let fits = index.greater_equal(0).and(index.less(extent));
    (index, fits)
}

fn check_types(data: &Operand, updates: &Operand) -> Result<()> {
    require!(data.dtype == updates.dtype, "data of {} and updates of {}", data.dtype, updates.dtype);
    Ok(())
}

/// Returns the data with updates: `body` gets the buffers of data, indices, updates and the result,
/// and scatters.
fn scattered(call: &Call, body: impl FnOnce(&[Buffer], &Buffer) -> Stmt) -> Result<Vec<Tensor>> {
    let (data, indices, updates) = (call.input(0)?, call.input(1)?, call.input(2)?);
    if data.shape.contains(&0) || indices.shape.contains(&0) || updates.shape.contains(&0) {
        return Ok(vec![tensor(&data.shape, |position| data.at(position))]);
    }
    let op = extern_op("scattered", [&data.tensor, &indices.tensor, &updates.tensor]);
    Ok(op.output(extents(&data.shape), data.dtype).body(|inputs, outputs| {
        Stmt::seq([copy(&inputs[0], &outputs[0], count_of(&data.shape)), body(inputs, &outputs[0])])
    }))
}

fn scatter_elements(call: &Call) -> Result<Vec<Tensor>> {
    let (data, indices, updates) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let axis = data.axis(call.attrs.int("axis", 0)?)?;
    check_types(data, updates)?;
    require!(
        indices.shape == updates.shape && indices.rank() == data.rank(),
        "indices {:?} and updates {:?} do not fit data {:?}",
        indices.shape,
        updates.shape,
        data.shape
    );
    let fits = (0..data.rank()).all(|other| other == axis || indices.shape[other] <= data.shape[other]);
    require!(fits, "indices {:?} reach beyond data {:?}", indices.shape, data.shape);
    let combine = reduction(call)?;
    scattered(call, |inputs, result| {
        nest("i", &indices.shape, |position| {
            let (index, fits) = wrapped(at(&inputs[1], position), data.shape[axis]);
            let mut target = position.to_vec();
            target[axis] = index;
            let value = combine(at(result, &target), at(&inputs[2], position));
            when(fits, put(result, super::call::flatten(&target, &data.shape), value))
        })
    })
}

/// Writes rows of a cache along an axis, from an index of each batch on. An index out of range is
/// an error (`checks.rs`).
fn tensor_scatter(call: &Call) -> Result<Vec<Tensor>> {
    let (cache, update, first) = (call.input(0)?, call.input(1)?, call.optional(2));
    check_types(cache, update)?;
    let axis = cache.axis(call.attrs.int("axis", -2)?)?;
    require!(axis > 0, "attribute `axis` is the axis of batches, which has to stay as it is");
    let is_circular = match call.attrs.text("mode", "linear")? {
        "linear" => false,
        "circular" => true,
        other => fail!("attribute `mode` is '{other}', not linear or circular"),
    };
    let fits = update.rank() == cache.rank()
        && (0..cache.rank()).all(|other| other == axis || update.shape[other] == cache.shape[other])
        && update.shape[axis] <= cache.shape[axis];
    require!(fits, "an update {:?} does not fit a cache {:?} along axis {axis}", update.shape, cache.shape);
    if let Some(first) = first {
        require!(first.shape == cache.shape[..1], "expected indices {:?}, got {:?}", &cache.shape[..1], first.shape);
    }
    let (length, whole) = (update.shape[axis], cache.shape[axis]);
    if length == 0 {
        return Ok(vec![tensor(&cache.shape, |position| cache.at(position))]);
    }
    Ok(vec![tensor(&cache.shape, |position| {
        let from = first.map_or(Expr::int(0), |first| first.at(&position[..1]).cast(I64));
        let mut row = &position[axis] - from;
        if is_circular {
            row = row.floor_mod(whole);
        }
        let is_new = row.greater_equal(0).and(row.less(length));
        let mut at = position.to_vec();
        at[axis] = row;
        Expr::if_then_else(is_new, update.at(&at), cache.at(position))
    })])
}

fn scatter_nd(call: &Call) -> Result<Vec<Tensor>> {
    let (data, indices, updates) = (call.input(0)?, call.input(1)?, call.input(2)?);
    check_types(data, updates)?;
    let Some((&length, outer)) = indices.shape.split_last() else { fail!("the indices are a scalar") };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    require!(length <= data.rank(), "indices {:?} do not fit data {:?}", indices.shape, data.shape);
    let expected: Vec<i64> = outer.iter().chain(&data.shape[length..]).copied().collect();
    require!(
        updates.shape == expected,
        "updates {:?} of data {:?} by indices {:?} have to be {expected:?}",
        updates.shape,
        data.shape,
        indices.shape
    );
    let combine = reduction(call)?;
    scattered(call, |inputs, result| {
        nest("i", outer, |place| {
            let mut target = Vec::new();
            let mut fits = Expr::bool(true);
            for (number, extent) in data.shape[..length].iter().enumerate() {
                let mut at_index = place.to_vec();
                at_index.push(Expr::int(i64::try_from(number).unwrap_or(i64::MAX)));
                let (index, fits_here) = wrapped(at(&inputs[1], &at_index), *extent);
                target.push(index);
                fits = if number == 0 { fits_here } else { fits.and(fits_here) };
            }
            let slice = nest("j", &data.shape[length..], |inner| {
                let target: Vec<Expr> = target.iter().chain(inner).cloned().collect();
                let source: Vec<Expr> = place.iter().chain(inner).cloned().collect();
                let value = combine(at(result, &target), at(&inputs[2], &source));
                put(result, super::call::flatten(&target, &data.shape), value)
            });
            when(fits, slice)
        })
    })
}
