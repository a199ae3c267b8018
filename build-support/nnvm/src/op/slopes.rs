//! Gradients of convolutions, of pooling and of the weights of dense layers, as operators.

use kernpack_compiler::ir::{Expr, Stmt, Tensor};
use kernpack_compiler::te::{self, extern_op, reduce_axis};
use kernpack_graph::op::statements::{Variable, count_of, element, fill, nest, put, when};
use kernpack_graph::op::{Operand, element_tensor, extents, flatten};
use kernpack_graph::{Attr, Result, fail, require};
use linkme::distributed_slice;

use super::call::{operand, reshaped};
use super::conv::{Window, layout};
use super::infer::{count, set};
use super::pattern;
use super::pool::Pool;
use crate::symbol::registry::{OPERATORS, Registrar};
use crate::symbol::{Arity, Compute, Native, PartialShape, Use};

#[distributed_slice(OPERATORS)]
static SLOPES: fn(&mut Registrar) = register;

/// Inputs: the gradient of the result, the data, the weight; outputs: the gradients of data, weight
/// and bias.
fn infer_convolution(_: &Use, ins: &mut [PartialShape], outs: &mut [PartialShape]) -> Result<()> {
    set(&mut outs[0], &ins[1].clone())?;
    set(&mut outs[1], &ins[2].clone())?;
    match outs.get_mut(2) {
        Some(bias) if ins[2].first().is_some_and(|channels| *channels > 0) => set(bias, &[ins[2][0]]),
        _ => Ok(()),
    }
}

fn is_plain(used: &Use, names: &[(&str, &str)]) -> Result<()> {
    for (name, wanted) in names {
        let own = layout(used, name)?.to_string();
        require!(
            own == *wanted,
            "the gradient in {name} {own} is not supported: {wanted} is, which a __layout_transform__ before it gives"
        );
    }
    Ok(())
}

fn convolution(call: &Compute) -> Result<Vec<Tensor>> {
    is_plain(&call.used, &[("layout", "NCHW"), ("kernel_layout", "OIHW"), ("out_layout", "NCHW")])?;
    let window = Window::new(&call.used)?;
    let (head, data, weight) = (call.input(0)?, call.input(1)?, call.input(2)?);
    // Rows and columns of the data that no window covers.
    let more: Vec<i64> = (0..2)
        .map(|axis| {
            let extent = data.shape[2 + axis] + window.padding[axis] + window.padding[2 + axis];
            extent - window.reach(axis) - (head.shape[2 + axis] - 1) * window.strides[axis]
        })
        .collect();
    let mut attrs = window.attrs();
    attrs.push(("output_padding", Attr::Ints(more)));
    let of_data = call.run("ConvTranspose", &attrs, &[head.clone(), weight.clone()])?;
    let per_group = window.channels / window.groups;
    let axes = [head.shape[0], head.shape[2], head.shape[3]].map(|extent| reduce_axis(0, extent, "r"));
    let of_weight = element_tensor(&weight.shape, |p| {
        let [image, row, column] = axes.each_ref().map(|axis| axis.expr());
        let depth = p[0].floor_div(per_group) * weight.shape[1] + &p[1];
        let place = |index: &Expr, axis: usize| {
            index * window.strides[axis] + &p[2 + axis] * window.dilation[axis] - window.padding[axis]
        };
        let (y, x) = (place(&row, 0), place(&column, 1));
        let inside = |index: &Expr, extent: i64| index.greater_equal(0).and(index.less(extent));
        let is_inside = inside(&y, data.shape[2]).and(inside(&x, data.shape[3]));
        let zero = te::constant(0.0, data.dtype);
        let value = te::if_then_else(is_inside, data.at(&[image.clone(), depth, y, x]), zero);
        te::sum(head.at(&[image, p[0].clone(), row, column]) * value, &axes[..])
    });
    let mut gradients = vec![of_data, of_weight];
    if call.used.flag("use_bias")? {
        let axes = [head.shape[0], head.shape[2], head.shape[3]].map(|extent| reduce_axis(0, extent, "b"));
        gradients.push(element_tensor(&[window.channels], |p| {
            let [image, row, column] = axes.each_ref().map(|axis| axis.expr());
            te::sum(head.at(&[image, p[0].clone(), row, column]), &axes[..])
        }));
    }
    Ok(gradients)
}

/// Inputs: the gradient of the result, the data, the result; output: the gradient of the data.
fn infer_pool(_: &Use, ins: &mut [PartialShape], outs: &mut [PartialShape]) -> Result<()> {
    set(&mut outs[0], &ins[1].clone())
}

/// The gradient of each window goes to the first of its largest elements.
fn pool(call: &Compute) -> Result<Vec<Tensor>> {
    is_plain(&call.used, &[("layout", "NCHW")])?;
    let pool = Pool::new(&call.used)?;
    let (head, data, result) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let tensors = [head.tensor.clone(), data.tensor.clone(), result.tensor.clone()];
    let op = extern_op("slope", &tensors).output(extents(&data.shape), data.dtype);
    let (count, shape) = (count_of(&data.shape), data.shape.clone());
    let windows = head.shape.clone();
    Ok(op.body(|inputs, outputs| {
        let is_found = Variable::index("is_found");
        let of_window = nest("p", &windows, |p| {
            let own = flatten(p, &windows);
            let search = nest("k", &pool.kernel, |k| {
                let place = |axis: usize| &p[2 + axis] * pool.strides[axis] + &k[axis] - pool.padding[axis];
                let (y, x) = (place(0), place(1));
                let inside = |index: &Expr, extent: i64| index.greater_equal(0).and(index.less(extent));
                let is_inside = inside(&y, shape[2]).and(inside(&x, shape[3])).and(is_found.get().equals(0));
                let number = flatten(&[p[0].clone(), p[1].clone(), y, x], &shape);
                let is_largest = element(&inputs[1], number.clone()).equals(element(&inputs[2], own.clone()));
                let sum = element(&outputs[0], number.clone()) + element(&inputs[0], own.clone());
                when(is_inside, when(is_largest, Stmt::seq([put(&outputs[0], number, sum), is_found.set(1)])))
            });
            Stmt::seq([is_found.set(0), search])
        });
        Stmt::seq([is_found.begin(0), fill(&outputs[0], count, &te::constant(0.0, data.dtype)), of_window])
    }))
}

/// Inputs: the gradient of the result, the data; output: the gradient of the weight.
fn infer_dense_weight(_: &Use, ins: &mut [PartialShape], outs: &mut [PartialShape]) -> Result<()> {
    match (ins[0].last(), ins[1].last()) {
        (Some(units), Some(inner)) => set(&mut outs[0], &[*units, *inner]),
        _ => Ok(()),
    }
}

/// Sums over all axes of the data except the last.
fn dense_weight(call: &Compute) -> Result<Vec<Tensor>> {
    let matrix = |x: &Operand| -> Result<Operand> {
        let Some((last, outer)) = x.shape.split_last() else { fail!("expected a vector or more axes, got a scalar") };
        let rows = if outer.is_empty() { Some(1) } else { count(outer) };
        let Some(rows) = rows else { fail!("{:?} is too large", x.shape) };
        Ok(if x.rank() == 2 { x.clone() } else { operand(&reshaped(x, &[rows, *last])) })
    };
    let inputs = [matrix(call.input(0)?)?, matrix(call.input(1)?)?];
    Ok(vec![call.run("Gemm", &[("transA", Attr::Int(1))], &inputs)?])
}

fn register(operators: &mut Registrar) {
    let _ = operators
        .add("_dense_weight_grad")
        .describe("the gradient of the weight of a dense")
        .arguments(&["ograd", "data"])
        .params(&[])
        .set("FInferShape", Native::InferShape(infer_dense_weight))
        .set("FTVMCompute", Native::Compute(dense_weight))
        .value("TOpPattern", pattern::OUT_FUSABLE);
    let _ = operators
        .add("_conv2d_grad")
        .describe("the gradients of data, weight and bias of a conv2d")
        .arguments(&["ograd", "data", "weight"])
        .params(&super::conv::params())
        .outputs(Arity::Native(super::nn::count_with_bias))
        .set("FInferShape", Native::InferShape(infer_convolution))
        .set("FTVMCompute", Native::Compute(convolution))
        .value("TOpPattern", pattern::OPAQUE);
    let _ = operators
        .add("_max_pool2d_grad")
        .describe("the gradient of the data of a max_pool2d")
        .arguments(&["ograd", "input", "output"])
        .params(&super::pool::PARAMS)
        .set("FInferShape", Native::InferShape(infer_pool))
        .set("FTVMCompute", Native::Compute(pool))
        .value("TOpPattern", pattern::OPAQUE);
}
