//! Reductions over axes.

use kernpack_compiler::ir::{I32, Tensor};
use kernpack_graph::op::{Operand, axis_of, broadcast, element_tensor};
use kernpack_graph::{Attr, Result, require};
use linkme::distributed_slice;

use super::call::{operand, reshaped};
use super::infer::{is_known, set};
use super::pattern;
use crate::symbol::registry::{OPERATORS, Registrar};
use crate::symbol::{Compute, Kind, Native, Param, PartialShape, Use};

#[distributed_slice(OPERATORS)]
static REDUCE: fn(&mut Registrar) = register;

/// Returns the axes of the attributes `axis` and `exclude`, sorted. No axis means all of them.
pub(super) fn axes(used: &Use, rank: usize) -> Result<Vec<usize>> {
    let named = used.ints("axis")?.into_iter().map(|axis| axis_of(axis, rank)).collect::<Result<Vec<usize>>>()?;
    let exclude = used.flag("exclude")?;
    if named.is_empty() {
        return Ok(if exclude { Vec::new() } else { (0..rank).collect() });
    }
    Ok((0..rank).filter(|axis| named.contains(axis) != exclude).collect())
}

/// Returns the remaining shape. NNVM has no scalars: one element is `[1]`.
fn left(used: &Use, shape: &[i64]) -> Result<PartialShape> {
    let axes = axes(used, shape.len())?;
    let keeps = used.flag("keepdims")?;
    let extents = shape.iter().enumerate().filter_map(|(axis, extent)| match (axes.contains(&axis), keeps) {
        (false, _) => Some(*extent),
        (true, true) => Some(1),
        (true, false) => None,
    });
    let left: PartialShape = extents.collect();
    Ok(if left.is_empty() { vec![1] } else { left })
}

fn infer(used: &Use, ins: &mut [PartialShape], outs: &mut [PartialShape]) -> Result<()> {
    if !is_known(&ins[0]) {
        return Ok(());
    }
    let shape = left(used, &ins[0])?;
    set(&mut outs[0], &shape)
}

/// Reduces with an operator of models.
fn reduce(call: &Compute, name: &str) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let axes = axes(&call.used, x.rank())?;
    let shape = left(&call.used, &x.shape)?;
    if axes.is_empty() {
        return Ok(vec![element_tensor(&x.shape, |position| x.at(position))]);
    }
    let axes = axes.into_iter().filter_map(|axis| i64::try_from(axis).ok()).collect();
    let keeps = call.used.flag("keepdims")?;
    let attrs = [("axes", Attr::Ints(axes)), ("keepdims", Attr::Int(i64::from(keeps)))];
    let reduced = call.run(name, &attrs, core::slice::from_ref(x))?;
    if reduced.shape.is_empty() {
        return Ok(vec![reshaped(&operand(&reduced), &shape)]);
    }
    Ok(vec![reduced])
}

/// Returns the index of the largest or smallest element along an axis, or in all of the data.
fn place(call: &Compute, name: &str) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let axes = axes(&call.used, x.rank())?;
    let shape = left(&call.used, &x.shape)?;
    let (data, axis) = match axes[..] {
        [axis] => (x.clone(), i64::try_from(axis).unwrap_or(0)),
        _ => {
            require!(axes.len() == x.rank(), "one axis is needed, or none for all; got {axes:?}");
            let count = super::infer::count(&x.shape).unwrap_or(0);
            (operand(&reshaped(x, &[count])), 0)
        }
    };
    let attrs = [("axis", Attr::Int(axis)), ("keepdims", Attr::Int(0))];
    let found = operand(&call.run(name, &attrs, &[data])?);
    let small = operand(&element_tensor(&found.shape, |position| found.at(position).cast(I32)));
    Ok(vec![reshaped(&small, &shape)])
}

/// Returns data without some axes, broadcast along them.
pub(super) fn expanded(x: &Operand, shape: &[i64], axes: &[usize]) -> Result<Tensor> {
    let kept: Vec<i64> =
        shape.iter().enumerate().map(|(axis, extent)| if axes.contains(&axis) { 1 } else { *extent }).collect();
    let fits = super::infer::count(&kept) == super::infer::count(&x.shape);
    require!(fits, "{:?} cannot be broadcast to {shape:?} along axes {axes:?}", x.shape);
    let placed = operand(&reshaped(x, &kept));
    Ok(element_tensor(shape, |position| placed.broadcast_at(position)))
}

type ComputeFn = fn(&Compute) -> Result<Vec<Tensor>>;

fn register(operators: &mut Registrar) {
    let params = [
        Param::new("axis", Kind::Ints, "()"),
        Param::new("keepdims", Kind::Bool, "False"),
        Param::new("exclude", Kind::Bool, "False"),
        Param::new("dtype", Kind::DataType, "int32"),
    ];
    let all: [(&str, &str, ComputeFn); 7] = [
        ("sum", "the sum over axes", |call| reduce(call, "ReduceSum")),
        ("max", "the largest element over axes", |call| reduce(call, "ReduceMax")),
        ("min", "the smallest element over axes", |call| reduce(call, "ReduceMin")),
        ("mean", "the mean over axes", |call| reduce(call, "ReduceMean")),
        ("prod", "the product over axes", |call| reduce(call, "ReduceProd")),
        ("argmax", "the place of the largest element", |call| place(call, "ArgMax")),
        ("argmin", "the place of the smallest element", |call| place(call, "ArgMin")),
    ];
    for (name, doc, compute) in all {
        let builder = operators
            .add(name)
            .describe(doc)
            .arguments(&["data"])
            .params(&params)
            .level(4)
            .set("FInferShape", Native::InferShape(infer))
            .set("FTVMCompute", Native::Compute(compute))
            .value("TOpPattern", pattern::REDUCE);
        if name.starts_with("arg") {
            let _ = builder.set(
                "FInferType",
                Native::InferType(|_, _, outs| {
                    outs[0] = Some(I32);
                    Ok(())
                }),
            );
        }
    }
    let _ = operators
        .add("collapse_sum")
        .describe("the sum over the axes along which another shape would be broadcast to that of the data")
        .arguments(&["data", "as"])
        .params(&[])
        .level(4)
        .set(
            "FInferShape",
            Native::InferShape(|_, ins, outs| {
                let shape = super::infer::merge(&ins[1], &outs[0])?;
                ins[1].clone_from(&shape);
                outs[0] = shape;
                Ok(())
            }),
        )
        .set("FInferType", Native::InferType(super::infer::first_type))
        .set("FTVMCompute", Native::Compute(collapse))
        .value("TOpPattern", pattern::REDUCE);
}

fn collapse(call: &Compute) -> Result<Vec<Tensor>> {
    let (x, target) = (call.input(0)?, call.input(1)?);
    require!(
        target.rank() <= x.rank() && broadcast(&[&x.shape, &target.shape])? == x.shape,
        "{:?} is not broadcast to {:?}",
        target.shape,
        x.shape
    );
    let skipped = x.rank() - target.rank();
    let gone = (0..x.rank())
        .filter(|axis| *axis < skipped || target.shape[*axis - skipped] != x.shape[*axis])
        .filter_map(|axis| i64::try_from(axis).ok());
    let axes: Vec<i64> = gone.collect();
    if axes.is_empty() {
        return Ok(vec![element_tensor(&x.shape, |position| x.at(position))]);
    }
    let attrs = [("axes", Attr::Ints(axes)), ("keepdims", Attr::Int(1))];
    let reduced = operand(&call.run("ReduceSum", &attrs, core::slice::from_ref(x))?);
    Ok(vec![reshaped(&reduced, &target.shape)])
}
