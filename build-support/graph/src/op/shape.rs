//! Other shapes for the same elements, and shapes as values.

use kernpack_compiler::ir::{Expr, I64, Tensor};

use super::call::{axis_of, flatten, tensor, unflatten};
use super::{Call, Operator, Pattern};
use crate::constant::num_elements;
use crate::error::{Result, fail, require};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "Reshape", pattern: Pattern::View, make: reshape },
    Operator { name: "Flatten", pattern: Pattern::View, make: flatten_axes },
    Operator { name: "Squeeze", pattern: Pattern::View, make: squeeze },
    Operator { name: "Unsqueeze", pattern: Pattern::View, make: unsqueeze },
    Operator { name: "Identity", pattern: Pattern::View, make: |call| view(call, &call.input(0)?.shape.clone()) },
    Operator { name: "Dropout", pattern: Pattern::View, make: dropout },
    Operator { name: "Shape", pattern: Pattern::Opaque, make: shape },
    Operator { name: "Size", pattern: Pattern::Opaque, make: size },
];

/// Returns input 0 in another shape.
fn view(call: &Call, shape: &[i64]) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    require!(
        num_elements(shape)? == num_elements(&x.shape)?,
        "{:?} cannot be given the shape {shape:?}: they have different numbers of elements",
        x.shape
    );
    Ok(vec![tensor(shape, |position| {
        if shape == x.shape { x.at(position) } else { x.at(&unflatten(&flatten(position, shape), &x.shape)) }
    })])
}

fn reshape(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let wanted = match call.ints_or_attr(1, "shape")? {
        Some(wanted) => wanted,
        None => fail!("the new shape is missing"),
    };
    let keeps_zeros = call.attrs.flag("allowzero", false)?;
    let mut shape = Vec::new();
    for (index, extent) in wanted.iter().enumerate() {
        shape.push(match extent {
            0 if !keeps_zeros => match x.shape.get(index) {
                Some(extent) => *extent,
                None => fail!("the new shape {wanted:?} takes over extent {index} of {:?}, which has none", x.shape),
            },
            extent => *extent,
        });
    }
    if let Some(open) = shape.iter().position(|extent| *extent == -1) {
        shape[open] = 1;
        let (known, all) = (num_elements(&shape)?, num_elements(&x.shape)?);
        require!(known != 0 && all % known == 0, "the elements of {:?} do not fill {wanted:?}", x.shape);
        shape[open] = i64::try_from(all / known).unwrap_or(i64::MAX);
    }
    view(call, &shape)
}

fn flatten_axes(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let rank = i64::try_from(x.rank()).unwrap_or(i64::MAX);
    let axis = call.attrs.int("axis", 1)?;
    let axis = if axis < 0 { axis + rank } else { axis };
    require!((0..=rank).contains(&axis), "there is no axis {axis} of {:?}", x.shape);
    let (outer, inner) = x.shape.split_at(usize::try_from(axis).unwrap_or(0));
    let (outer, inner) = (num_elements(outer)?, num_elements(inner)?);
    view(call, &[i64::try_from(outer).unwrap_or(i64::MAX), i64::try_from(inner).unwrap_or(i64::MAX)])
}

fn squeeze(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let axes = match call.ints_or_attr(1, "axes")? {
        Some(axes) => axes.into_iter().map(|axis| x.axis(axis)).collect::<Result<Vec<usize>>>()?,
        None => (0..x.rank()).filter(|axis| x.shape[*axis] == 1).collect(),
    };
    if let Some(axis) = axes.iter().find(|axis| x.shape[**axis] != 1) {
        fail!("axis {axis} of {:?} cannot be removed: its extent is {}", x.shape, x.shape[*axis]);
    }
    let kept: Vec<i64> = (0..x.rank()).filter(|axis| !axes.contains(axis)).map(|axis| x.shape[axis]).collect();
    view(call, &kept)
}

fn unsqueeze(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let Some(axes) = call.ints_or_attr(1, "axes")? else { fail!("the axes are missing") };
    let rank = x.rank() + axes.len();
    let axes = axes.into_iter().map(|axis| axis_of(axis, rank)).collect::<Result<Vec<usize>>>()?;
    let mut old = x.shape.iter();
    let shape: Vec<i64> =
        (0..rank).map(|axis| if axes.contains(&axis) { 1 } else { old.next().copied().unwrap_or(1) }).collect();
    require!(old.next().is_none(), "an axis is named twice in {axes:?}");
    view(call, &shape)
}

/// Checks that a node of an operator that trains by default before version 7 does not train.
///
/// # Errors
/// Attribute `is_test` is 0 or missing in a version before 7.
pub(super) fn check_is_test(call: &Call) -> Result<()> {
    require!(
        call.version >= 7 || call.attrs.flag("is_test", false)?,
        "attribute `is_test` is 0, which is training before version 7 of the operators: set it to 1 for inference"
    );
    Ok(())
}

/// Has no effect at run time.
fn dropout(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    check_is_test(call)?;
    if let Some(training) = call.optional_ints(2)?
        && training.first().is_some_and(|training| *training != 0)
    {
        let ratio = match call.optional(1) {
            Some(ratio) => ratio.value.as_ref().and_then(|value| value.to_floats().ok()?.first().copied()),
            None => Some(0.5),
        };
        require!(ratio == Some(0.0), "training without attribute `seed` is random, which is not supported");
    }
    let mut results = view(call, &x.shape.clone())?;
    if call.wants(1) {
        results.push(tensor(&x.shape, |_| Expr::bool(true)));
    }
    Ok(results)
}

fn shape(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let rank = i64::try_from(x.rank()).unwrap_or(i64::MAX);
    let clamped =
        |value: i64| usize::try_from(if value < 0 { value + rank } else { value }.clamp(0, rank)).unwrap_or(0);
    let start = clamped(call.attrs.int("start", 0)?);
    let end = clamped(call.attrs.int("end", rank)?).max(start);
    Ok(vec![table(&x.shape[start..end])])
}

fn size(call: &Call) -> Result<Vec<Tensor>> {
    let count = num_elements(&call.input(0)?.shape)?;
    Ok(vec![tensor(&[], |_| Expr::constant(I64, i64::try_from(count).unwrap_or(i64::MAX)))])
}

/// Returns a few integers as a tensor.
fn table(values: &[i64]) -> Tensor {
    let count = i64::try_from(values.len()).unwrap_or(i64::MAX);
    tensor(&[count], |position| {
        let mut value = Expr::constant(I64, 0);
        for (index, extent) in values.iter().enumerate() {
            let index = i64::try_from(index).unwrap_or(i64::MAX);
            value = Expr::select(position[0].equals(index), Expr::constant(I64, *extent), value);
        }
        value
    })
}
