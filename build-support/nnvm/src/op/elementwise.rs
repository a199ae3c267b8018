//! Operators on elements.

use kernpack::DataType;
use kernpack_compiler::ir::{BinaryOp, Expr, Tensor};
use kernpack_compiler::te;
use kernpack_graph::Result;
use kernpack_graph::op::element_tensor;
use linkme::distributed_slice;

use super::call::operand;
use super::infer::same_shape;
use super::pattern;
use crate::symbol::registry::{Builder, OPERATORS, Registrar};
use crate::symbol::{Arity, Compute, Kind, Native, Param};

#[distributed_slice(OPERATORS)]
static ELEMENTWISE: fn(&mut Registrar) = register;

type ComputeFn = fn(&Compute) -> Result<Vec<Tensor>>;

/// Adds the properties that all elementwise operators share.
pub(super) fn elementwise<'a>(builder: Builder<'a>, compute: ComputeFn) -> Builder<'a> {
    builder
        .set("FInferShape", Native::InferShape(same_shape))
        .set("FInplaceOption", Native::Pairs(|_| Ok(vec![(0, 0)])))
        .set("FTVMCompute", Native::Compute(compute))
        .value("TOpPattern", pattern::ELEMENTWISE)
}

fn unary(operators: &mut Registrar, name: &str, level: i64, doc: &str, compute: ComputeFn) {
    let builder = operators.add(name).describe(doc).arguments(&["data"]).params(&[]).level(level);
    let _ = elementwise(builder, compute);
}

/// Creates a tensor with the shape of the first input.
pub(super) fn map(call: &Compute, body: impl FnOnce(Expr) -> Expr) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    Ok(vec![element_tensor(&x.shape, |position| body(x.at(position)))])
}

fn constant(value: f64, like: &Expr) -> Expr {
    te::constant(value, like.dtype())
}

/// Adds an operator with the attribute `scalar`.
fn with_scalar(operators: &mut Registrar, name: &str, doc: &str, compute: ComputeFn) {
    let params = [Param::required("scalar", Kind::Float)];
    let builder = operators.add(name).describe(doc).arguments(&["data"]).params(&params).level(3);
    let _ = elementwise(builder, compute);
}

fn scalar(call: &Compute, body: impl FnOnce(Expr, Expr) -> Expr) -> Result<Vec<Tensor>> {
    let value = call.used.float("scalar")?;
    map(call, |x| {
        let value = constant(value, &x);
        body(x, value)
    })
}

/// Rounds halves away from zero, like C.
fn round(x: &Expr) -> Expr {
    let half = constant(0.5, x);
    te::select(x.less(constant(0.0, x)), te::ceil(x - &half), te::floor(x + half))
}

/// Converts a boolean to a number of a type.
pub(super) fn number(truth: Expr, dtype: DataType) -> Expr {
    te::select(truth, te::constant(1.0, dtype), te::constant(0.0, dtype))
}

fn binary(operators: &mut Registrar, name: &str, doc: &str, level: i64, code: i64, compute: ComputeFn) {
    let builder = operators.add(name).describe(doc).arguments(&["lhs", "rhs"]).params(&[]).level(level);
    let _ = builder
        .set("FInferShape", Native::InferShape(same_shape))
        .set("FInplaceOption", Native::Pairs(|_| Ok(vec![(0, 0), (1, 0)])))
        .set("FTVMCompute", Native::Compute(compute))
        .value("TOpPattern", code);
}

fn register(operators: &mut Registrar) {
    unary(operators, "sigmoid", 1, "1 / (1 + exp(-x))", |call| call.plain("Sigmoid"));
    unary(operators, "tanh", 1, "the hyperbolic tangent", |call| call.plain("Tanh"));
    unary(operators, "exp", 1, "the exponential", |call| call.plain("Exp"));
    unary(operators, "log", 1, "the natural logarithm", |call| call.plain("Log"));
    unary(operators, "sqrt", 1, "the square root", |call| call.plain("Sqrt"));
    unary(operators, "relu", 1, "x where it is positive, else 0", |call| call.plain("Relu"));
    unary(operators, "negative", 3, "-x", |call| map(call, |x| -x));
    unary(operators, "copy", 3, "the same elements in memory of their own", |call| map(call, |x| x));
    unary(operators, "floor", 3, "the largest integer not above x", |call| call.plain("Floor"));
    unary(operators, "ceil", 3, "the smallest integer not below x", |call| call.plain("Ceil"));
    unary(operators, "round", 3, "the nearest integer, halves away from zero", |call| map(call, |x| round(&x)));
    unary(operators, "trunc", 3, "the integer part", |call| map(call, te::trunc));
    unary(operators, "abs", 3, "the absolute value", |call| call.plain("Abs"));
    unary(operators, "block_grad", 1, "x, through which no gradient goes", |call| map(call, |x| x));

    with_scalar(operators, "__add_scalar__", "x + scalar", |call| scalar(call, |x, s| x + s));
    with_scalar(operators, "__sub_scalar__", "x - scalar", |call| scalar(call, |x, s| x - s));
    with_scalar(operators, "__rsub_scalar__", "scalar - x", |call| scalar(call, |x, s| s - x));
    with_scalar(operators, "__mul_scalar__", "x * scalar", |call| scalar(call, |x, s| x * s));
    with_scalar(operators, "__div_scalar__", "x / scalar", |call| {
        scalar(call, |x, s| Expr::binary(BinaryOp::Div, x, s))
    });
    with_scalar(operators, "__rdiv_scalar__", "scalar / x", |call| {
        scalar(call, |x, s| Expr::binary(BinaryOp::Div, s, x))
    });
    with_scalar(operators, "__pow_scalar__", "x ^ scalar", |call| scalar(call, te::pow));
    with_scalar(operators, "__rpow_scalar__", "scalar ^ x", |call| scalar(call, |x, s| te::pow(s, x)));
    with_scalar(operators, "__lshift_scalar__", "x << scalar", |call| {
        scalar(call, |x, s| Expr::binary(BinaryOp::ShiftLeft, x, s))
    });
    with_scalar(operators, "__rshift_scalar__", "x >> scalar", |call| {
        scalar(call, |x, s| Expr::binary(BinaryOp::ShiftRight, x, s))
    });

    let broadcast = pattern::BROADCAST;
    binary(operators, "elemwise_add", "lhs + rhs", 1, broadcast, |call| call.plain("Add"));
    binary(operators, "elemwise_sub", "lhs - rhs", 1, broadcast, |call| call.plain("Sub"));
    binary(operators, "elemwise_mul", "lhs * rhs", 1, broadcast, |call| call.plain("Mul"));
    binary(operators, "elemwise_div", "lhs / rhs", 1, broadcast, |call| call.plain("Div"));
    binary(operators, "elemwise_mod", "the remainder of lhs / rhs, as in C", 1, broadcast, super::broadcast::remainder);
    binary(operators, "elemwise_pow", "lhs ^ rhs", 1, broadcast, |call| call.plain("Pow"));
    let elements = pattern::ELEMENTWISE;
    binary(operators, "greater", "1 where lhs > rhs, else 0", 4, elements, |call| {
        super::broadcast::compare(call, |a, b| a.greater(b))
    });
    binary(operators, "less", "1 where lhs < rhs, else 0", 4, elements, |call| {
        super::broadcast::compare(call, |a, b| a.less(b))
    });

    let params = [Param::required("num_args", Kind::Int)];
    let count = Arity::Native(|used| {
        let count = used.int("num_args")?;
        usize::try_from(count).map_err(|_| kernpack_graph::GraphError::new(format!("attribute `num_args` is {count}")))
    });
    let builder =
        operators.add("elemwise_sum").describe("the sum of all inputs").params(&params).level(1).inputs(count);
    let _ = elementwise(builder, |call| call.plain("Sum"));

    let params = [Param::required("a_min", Kind::Float), Param::required("a_max", Kind::Float)];
    let builder = operators
        .add("clip")
        .describe("x, but at least a_min and at most a_max")
        .arguments(&["data"])
        .params(&params)
        .level(4);
    let _ = elementwise(builder, |call| {
        let (low, high) = (call.used.float("a_min")?, call.used.float("a_max")?);
        map(call, |x| {
            let (low, high) = (constant(low, &x), constant(high, &x));
            te::clamp(x, low, high)
        })
    });

    let params = [Param::new("alpha", Kind::Float, "0.25")];
    let builder = operators
        .add("leaky_relu")
        .describe("x where it is positive, else alpha * x")
        .arguments(&["data"])
        .params(&params)
        .level(3);
    let _ = elementwise(builder, |call| {
        let alpha = call.used.float("alpha")?;
        map(call, |x| {
            let (zero, alpha) = (constant(0.0, &x), constant(alpha, &x));
            te::select(x.greater(zero), x.clone(), &x * alpha)
        })
    });

    let params = [Param::required("dtype", Kind::DataType)];
    let builder = operators.add("cast").describe("the elements in another type").arguments(&["data"]).params(&params);
    let _ = elementwise(builder, |call| {
        let dtype = call.used.data_type("dtype")?;
        map(call, |x| if x.dtype() == dtype { x } else { x.cast(dtype) })
    })
    .set(
        "FInferType",
        Native::InferType(|used, _, outs| {
            outs[0] = Some(used.data_type("dtype")?);
            Ok(())
        }),
    );

    // Two indicators for gradients of maxima and minima: 1 where the data is the reduced value.
    for (name, doc) in
        [("_max_mask", "1 where data is the maximum, else 0"), ("_min_mask", "1 where data is the minimum, else 0")]
    {
        let params = [Param::new("axis", Kind::Ints, "()"), Param::new("exclude", Kind::Bool, "False")];
        let builder = operators.add(name).describe(doc).arguments(&["data", "reduced"]).params(&params);
        let _ = builder
            .set(
                "FInferShape",
                Native::InferShape(|_, ins, outs| {
                    let shape = super::infer::merge(&ins[0], &outs[0])?;
                    ins[0].clone_from(&shape);
                    outs[0] = shape;
                    Ok(())
                }),
            )
            .set(
                "FTVMCompute",
                Native::Compute(|call| {
                    let (x, reduced) = (call.input(0)?, call.input(1)?);
                    let axes = super::reduce::axes(&call.used, x.rank())?;
                    let full = operand(&super::reduce::expanded(reduced, &x.shape, &axes)?);
                    Ok(vec![element_tensor(&x.shape, |position| {
                        number(x.at(position).equals(full.at(position)), x.dtype)
                    })])
                }),
            )
            .value("TOpPattern", pattern::INJECTIVE);
    }

    let _ = operators
        .add("__undef__")
        .describe("a value that is never computed: an output that nothing may read")
        .params(&[]);
}
