//! Operators whose inputs are broadcast to one shape.

use kernpack_compiler::ir::{BinaryOp, DataTypeExt, Expr, Tensor};
use kernpack_graph::op::{self, element_tensor, extremum};
use kernpack_graph::{Attr, Result, require};
use linkme::distributed_slice;

use super::call::{known, reshaped};
use super::elementwise::number;
use super::infer::{is_known, merge, set};
use super::pattern;
use crate::symbol::registry::{OPERATORS, Registrar};
use crate::symbol::{Compute, Kind, Native, Param, PartialShape, Use};

#[distributed_slice(OPERATORS)]
static BROADCAST: fn(&mut Registrar) = register;

fn infer(_: &Use, ins: &mut [PartialShape], outs: &mut [PartialShape]) -> Result<()> {
    if is_known(&ins[0]) && is_known(&ins[1]) {
        let shape = op::broadcast(&[&ins[0], &ins[1]])?;
        set(&mut outs[0], &shape)?;
    }
    Ok(())
}

fn pairwise(call: &Compute, body: impl FnOnce(Expr, Expr) -> Expr) -> Result<Vec<Tensor>> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    require!(a.dtype == b.dtype, "the inputs have different types: {} and {}", a.dtype, b.dtype);
    let shape = op::broadcast(&[&a.shape, &b.shape])?;
    Ok(vec![element_tensor(&shape, |position| body(a.broadcast_at(position), b.broadcast_at(position)))])
}

/// Compares, and returns the result as a number of the type of the inputs.
pub(super) fn compare(call: &Compute, body: fn(&Expr, &Expr) -> Expr) -> Result<Vec<Tensor>> {
    let dtype = call.input(0)?.dtype;
    pairwise(call, |a, b| number(body(&a, &b), dtype))
}

/// Computes the remainder of division that rounds to zero.
pub(super) fn remainder(call: &Compute) -> Result<Vec<Tensor>> {
    if call.input(0)?.dtype.is_float() {
        return Ok(vec![call.run("Mod", &[("fmod", Attr::Int(1))], &call.inputs)?]);
    }
    pairwise(call, |a, b| Expr::binary(BinaryOp::Mod, a, b))
}

type ComputeFn = fn(&Compute) -> Result<Vec<Tensor>>;

fn register(operators: &mut Registrar) {
    let pairs: [(&str, &str, ComputeFn); 16] = [
        ("broadcast_add", "lhs + rhs", |call| call.plain("Add")),
        ("broadcast_sub", "lhs - rhs", |call| call.plain("Sub")),
        ("broadcast_mul", "lhs * rhs", |call| call.plain("Mul")),
        ("broadcast_div", "lhs / rhs", |call| call.plain("Div")),
        ("broadcast_mod", "the remainder of lhs / rhs, as in C", remainder),
        ("broadcast_pow", "lhs ^ rhs", |call| call.plain("Pow")),
        ("broadcast_max", "the larger one", |call| pairwise(call, extremum::max)),
        ("broadcast_min", "the smaller one", |call| pairwise(call, extremum::min)),
        ("broadcast_left_shift", "lhs << rhs", |call| pairwise(call, |a, b| Expr::binary(BinaryOp::ShiftLeft, a, b))),
        ("broadcast_right_shift", "lhs >> rhs", |call| pairwise(call, |a, b| Expr::binary(BinaryOp::ShiftRight, a, b))),
        ("broadcast_equal", "1 where lhs = rhs, else 0", |call| compare(call, |a, b| a.equals(b))),
        ("broadcast_not_equal", "1 where they differ, else 0", |call| compare(call, |a, b| a.differs(b))),
        ("broadcast_greater", "1 where lhs > rhs, else 0", |call| compare(call, |a, b| a.greater(b))),
        ("broadcast_greater_equal", "1 where lhs >= rhs, else 0", |call| compare(call, |a, b| a.greater_equal(b))),
        ("broadcast_less", "1 where lhs < rhs, else 0", |call| compare(call, |a, b| a.less(b))),
        ("broadcast_less_equal", "1 where lhs <= rhs, else 0", |call| compare(call, |a, b| a.less_equal(b))),
    ];
    for (name, doc, compute) in pairs {
        let _ = operators
            .add(name)
            .describe(&format!("{doc}, by the broadcasting rules of NumPy"))
            .arguments(&["lhs", "rhs"])
            .params(&[])
            .level(4)
            .set("FInferShape", Native::InferShape(infer))
            .set("FInplaceOption", Native::Pairs(|_| Ok(vec![(0, 0), (1, 0)])))
            .set("FTVMCompute", Native::Compute(compute))
            .value("TOpPattern", pattern::BROADCAST);
    }
    let _ = operators
        .add("broadcast_to")
        .describe("the data broadcast to a shape; an extent of 0 is that of the data")
        .arguments(&["data"])
        .params(&[Param::new("shape", Kind::Ints, "()")])
        .level(4)
        .set(
            "FInferShape",
            Native::InferShape(|used, ins, outs| {
                if ins[0].is_empty() {
                    return Ok(());
                }
                let shape = target(used, &ins[0])?;
                set(&mut outs[0], &shape)
            }),
        )
        .set(
            "FTVMCompute",
            Native::Compute(|call| {
                let shape = target(&call.used, &call.input(0)?.shape)?;
                Ok(vec![call.run("Expand", &[], &[call.input(0)?.clone(), known(&shape)])?])
            }),
        )
        .value("TOpPattern", pattern::BROADCAST);
    let _ = operators
        .add("expand_like")
        .describe("the data broadcast to the shape of another tensor, along axes that the data does not have")
        .arguments(&["data", "shape_like"])
        .params(&[Param::new("axis", Kind::Ints, "()"), Param::new("exclude", Kind::Bool, "False")])
        .level(4)
        .set("FInferShape", Native::InferShape(|_, ins, outs| like(ins, outs)))
        .set(
            "FTVMCompute",
            Native::Compute(|call| {
                let (x, target) = (call.input(0)?, call.input(1)?);
                let axes = super::reduce::axes(&call.used, target.rank())?;
                Ok(vec![super::reduce::expanded(x, &target.shape, &axes)?])
            }),
        )
        .value("TOpPattern", pattern::BROADCAST);
    let _ = operators
        .add("reshape_like")
        .describe("the elements of the data in the shape of another tensor")
        .arguments(&["data", "shape_like"])
        .params(&[])
        .level(4)
        .set("FInferShape", Native::InferShape(|_, ins, outs| like(ins, outs)))
        .set("FInferType", Native::InferType(super::infer::first_type))
        .set(
            "FTVMCompute",
            Native::Compute(|call| {
                let (x, target) = (call.input(0)?, call.input(1)?);
                let fits = super::infer::count(&x.shape) == super::infer::count(&target.shape);
                require!(fits, "{:?} and {:?} have different numbers of elements", x.shape, target.shape);
                Ok(vec![reshaped(x, &target.shape)])
            }),
        )
        .value("TOpPattern", pattern::INJECTIVE);
}

/// The output has the shape of the second input.
fn like(ins: &mut [PartialShape], outs: &mut [PartialShape]) -> Result<()> {
    let shape = merge(&ins[1], &outs[0])?;
    ins[1].clone_from(&shape);
    outs[0] = shape;
    Ok(())
}

fn target(used: &Use, data: &[i64]) -> Result<PartialShape> {
    let wanted = used.ints("shape")?;
    require!(wanted.len() >= data.len(), "{data:?} cannot be broadcast to {wanted:?}");
    let skipped = wanted.len() - data.len();
    let mut shape = wanted.clone();
    for (extent, own) in shape[skipped..].iter_mut().zip(data) {
        if *extent == 0 {
            *extent = *own;
        }
        require!(*own == *extent || *own == 1 || *own == 0, "{data:?} cannot be broadcast to {wanted:?}");
    }
    Ok(shape)
}
