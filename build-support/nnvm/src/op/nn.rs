//! Layers without windows: products, norms, activations along axes, changes of layout.

use kernpack_compiler::ir::{Expr, Tensor};
use kernpack_compiler::te::{self, reduce_axis};
use kernpack_graph::op::{Operand, axis_of, element_tensor, extremum};
use kernpack_graph::{Attr, Result, fail, require};
use linkme::distributed_slice;

use super::call::{operand, reshaped};
use super::infer::{count, is_known, same_shape, set};
use super::pattern;
use crate::layout::Layout;
use crate::symbol::registry::{OPERATORS, Registrar};
use crate::symbol::{Arity, Compute, Kind, Native, Param, PartialShape, Use};

#[distributed_slice(OPERATORS)]
static NN: fn(&mut Registrar) = register;

/// Returns `data weight bias`, the last one only if the attribute `use_bias` is set.
pub(super) fn with_bias(used: &Use) -> Result<Vec<String>> {
    let names = ["data", "weight", "bias"];
    Ok(names[..if used.flag("use_bias")? { 3 } else { 2 }].iter().map(|name| (*name).to_owned()).collect())
}

/// Returns the number of inputs in [`with_bias`].
pub(super) fn count_with_bias(used: &Use) -> Result<usize> {
    Ok(if used.flag("use_bias")? { 3 } else { 2 })
}

fn infer_dense(used: &Use, ins: &mut [PartialShape], outs: &mut [PartialShape]) -> Result<()> {
    let units = used.int("units")?;
    if !outs[0].is_empty() {
        // Backwards: all extents except the last.
        let mut data = outs[0].clone();
        if let Some(last) = data.last_mut() {
            *last = ins[0].last().copied().unwrap_or(0);
        }
        set(&mut ins[0], &data)?;
    }
    if let Some(inner) = ins[0].last().copied() {
        let mut result = ins[0].clone();
        if let Some(last) = result.last_mut() {
            *last = units;
        }
        set(&mut outs[0], &result)?;
        set(&mut ins[1], &[units, inner])?;
    } else {
        set(&mut ins[1], &[units, 0])?;
    }
    if let (Some(inner), Some(last)) = (ins[1].get(1).copied().filter(|inner| *inner > 0), ins[0].last_mut())
        && *last == 0
    {
        *last = inner;
    }
    if let Some(bias) = ins.get_mut(2) {
        set(bias, &[units])?;
    }
    Ok(())
}

fn dense(call: &Compute) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let (inner, units) = (x.shape.last().copied().unwrap_or(1), call.used.int("units")?);
    let mut shape = x.shape.clone();
    let Some(last) = shape.last_mut() else { fail!("the data has no axes") };
    *last = units;
    let rows = if x.rank() == 1 { Some(1) } else { count(&x.shape[..x.rank() - 1]) };
    let matrix = if x.rank() == 2 { x.clone() } else { operand(&reshaped(x, &[rows.unwrap_or(0), inner])) };
    let mut inputs = vec![matrix, call.input(1)?.clone()];
    inputs.extend(call.inputs.get(2).cloned());
    let product = call.run("Gemm", &[("transB", Attr::Int(1))], &inputs)?;
    Ok(vec![if x.rank() == 2 { product } else { reshaped(&operand(&product), &shape) }])
}

/// Infers from the first of the kept axes of a factor, and the reduced one: the inner one, or with
/// a transposition the outer one.
fn infer_matmul(used: &Use, ins: &mut [PartialShape], outs: &mut [PartialShape]) -> Result<()> {
    if !is_known(&ins[0]) || !is_known(&ins[1]) {
        return Ok(());
    }
    let (shape, _) = product_shape(used, &ins[0], &ins[1])?;
    set(&mut outs[0], &shape)
}

fn product_shape(used: &Use, a: &[i64], b: &[i64]) -> Result<(PartialShape, i64)> {
    let (turns_a, turns_b) = (used.flag("transpose_a")?, used.flag("transpose_b")?);
    // A transposed factor has its axes in the reverse order.
    let ordered = |shape: &[i64], turns: bool| -> Vec<i64> {
        if turns { shape.iter().rev().copied().collect() } else { shape.to_vec() }
    };
    let (mut left, right) = (ordered(a, turns_a), ordered(b, turns_b));
    let (Some(k), Some((other, right))) = (left.pop(), right.split_first()) else {
        fail!("{a:?} and {b:?} cannot be multiplied: one of them has no axes")
    };
    let other = *other;
    require!(k == other, "{a:?} and {b:?} cannot be multiplied: {k} and {other} elements meet");
    let shape: PartialShape = left.iter().chain(right).copied().collect();
    Ok((if shape.is_empty() { vec![1] } else { shape }, k))
}

fn matmul(call: &Compute) -> Result<Vec<Tensor>> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let (turns_a, turns_b) = (call.used.flag("transpose_a")?, call.used.flag("transpose_b")?);
    if a.rank() == 2 && b.rank() == 2 {
        let attrs = [("transA", Attr::Int(i64::from(turns_a))), ("transB", Attr::Int(i64::from(turns_b)))];
        return Ok(vec![call.run("Gemm", &attrs, &call.inputs)?]);
    }
    let (shape, depth) = product_shape(&call.used, &a.shape, &b.shape)?;
    let k = reduce_axis(0, depth, "k");
    Ok(vec![element_tensor(&shape, |position| {
        let kept = a.rank() - 1;
        let (mut left, mut right) = (position[..kept].to_vec(), position[kept..kept + b.rank() - 1].to_vec());
        left.push(k.expr());
        right.insert(0, k.expr());
        if turns_a {
            left.reverse();
        }
        if turns_b {
            right.reverse();
        }
        te::sum(a.at(&left) * b.at(&right), &k)
    })])
}

fn infer_batch_norm(used: &Use, ins: &mut [PartialShape], outs: &mut [PartialShape]) -> Result<()> {
    let data = super::infer::merge(&ins[0], &outs[0])?;
    ins[0].clone_from(&data);
    outs[0].clone_from(&data);
    if data.is_empty() {
        return Ok(());
    }
    let mut channels = vec![data[axis_of(used.int("axis")?, data.len())?]];
    // Parameters in C16c, for data in NCHW16c.
    if ins[1..].iter().any(|shape| shape.len() == 2) {
        channels.extend(data.last());
    }
    for shape in ins[1..].iter_mut().chain(outs[1..].iter_mut()) {
        set(shape, &channels)?;
    }
    Ok(())
}

fn softmax(call: &Compute, name: &str) -> Result<Vec<Tensor>> {
    Ok(vec![call.run(name, &[("axis", Attr::Int(call.used.int("axis")?))], &call.inputs)?])
}

fn infer_pad(used: &Use, ins: &mut [PartialShape], outs: &mut [PartialShape]) -> Result<()> {
    if ins[0].is_empty() {
        return Ok(());
    }
    let pads = pads(used, ins[0].len())?;
    let grown = ins[0].iter().zip(&pads).map(
        |(extent, (before, behind))| {
            if *extent == 0 { 0 } else { extent + before + behind }
        },
    );
    set(&mut outs[0], &grown.collect::<Vec<_>>())
}

/// Returns the padding before and after each axis.
fn pads(used: &Use, rank: usize) -> Result<Vec<(i64, i64)>> {
    let widths = used.lists("pad_width")?;
    require!(widths.len() == rank, "attribute `pad_width` has {} pairs for {rank} axes", widths.len());
    widths
        .iter()
        .map(|pair| match pair[..] {
            [before, behind] if before >= 0 && behind >= 0 && before < 1 << 30 && behind < 1 << 30 => {
                Ok((before, behind))
            }
            _ => fail!("attribute `pad_width` has {pair:?}, where a pair of numbers from 0 on is expected"),
        })
        .collect()
}

fn pad(call: &Compute) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let pads = pads(&call.used, x.rank())?;
    let flat = pads.iter().map(|(before, _)| *before).chain(pads.iter().map(|(_, behind)| *behind)).collect();
    #[expect(clippy::cast_possible_truncation, reason = "NNVM has a float there")]
    let value = call.used.float("pad_value")? as f32;
    Ok(vec![call.run("Pad", &[("pads", Attr::Ints(flat)), ("value", Attr::Float(value))], core::slice::from_ref(x))?])
}

/// Normalizes over a window along an axis.
fn lrn(call: &Compute) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let (size, along) = (call.used.int("size")?, axis_of(call.used.int("axis")?, x.rank())?);
    require!(size > 0 && size < 1 << 20, "attribute `size` is {size}");
    let value = |name: &str| -> Result<Expr> { Ok(te::constant(call.used.float(name)?, x.dtype)) };
    let (alpha, beta, bias) = (value("alpha")?, value("beta")?, value("bias")?);
    let r = reduce_axis(0, size, "r");
    let squares = element_tensor(&x.shape, |position| {
        let place = &position[along] + r.expr() - size / 2;
        let mut at = position.to_vec();
        at[along] = place.clone();
        let inside = place.greater_equal(0).and(place.less(x.shape[along]));
        let value = Expr::if_then_else(inside, x.at(&at), te::constant(0.0, x.dtype));
        te::sum(&value * &value, &r)
    });
    Ok(vec![element_tensor(&x.shape, |position| {
        let mean = squares.at(position) * alpha / te::constant(size as f64, x.dtype);
        x.at(position) / te::pow(bias + mean, beta)
    })])
}

fn l2_normalize(call: &Compute) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let eps = te::constant(call.used.float("eps")?, x.dtype);
    let axes = call.used.ints("axis")?;
    let attrs = [("axes", Attr::Ints(axes)), ("keepdims", Attr::Int(1))];
    let squares = operand(&call.run("ReduceSumSquare", &attrs, core::slice::from_ref(x))?);
    Ok(vec![element_tensor(&x.shape, |position| {
        x.at(position) / te::sqrt(extremum::max(squares.broadcast_at(position), eps))
    })])
}

fn prelu(call: &Compute) -> Result<Vec<Tensor>> {
    let (x, alpha) = (call.input(0)?, call.input(1)?);
    let along = axis_of(call.used.int("axis")?, x.rank())?;
    Ok(vec![element_tensor(&x.shape, |position| {
        let value = x.at(position);
        let below = &value * alpha.at(&[position[along].clone()]);
        te::select(value.greater(te::constant(0.0, x.dtype)), value, below)
    })])
}

/// Converts the data to another layout.
pub(crate) fn relayout(x: &Operand, from: &Layout, to: &Layout) -> Result<Tensor> {
    require!(from.converts_to(to), "layout {from} cannot become {to}: they have different axes");
    let order = from.plain();
    let names: String = order.iter().collect();
    let shape = to.shape(&from.extents(&x.shape, &names)?, &names)?;
    Ok(element_tensor(&shape, |position| x.at(&from.position(&to.whole(position, &order), &order))))
}

fn register(operators: &mut Registrar) {
    let _ = operators
        .add("dense")
        .describe("data times the transposed weight, plus bias: weight is (units, inner extent)")
        .arguments(&["data", "weight", "bias"])
        .params(&[Param::required("units", Kind::Int), Param::new("use_bias", Kind::Bool, "True")])
        .inputs(Arity::Native(count_with_bias))
        .level(1)
        .set("FListInputNames", Native::Names(with_bias))
        .set("FInferShape", Native::InferShape(infer_dense))
        .set("FTVMCompute", Native::Compute(dense))
        .value("TOpPattern", pattern::OUT_FUSABLE);
    let _ = operators
        .add("matmul")
        .describe("the sums over the last axis of the first factor and the first axis of the second; a transposed factor has its axes in reverse order")
        .arguments(&["lhs", "rhs"])
        .params(&[Param::new("transpose_a", Kind::Bool, "False"), Param::new("transpose_b", Kind::Bool, "False")])
        .level(1)
        .set("FInferShape", Native::InferShape(infer_matmul))
        .set("FTVMCompute", Native::Compute(matmul))
        .value("TOpPattern", pattern::OUT_FUSABLE);
    let _ = operators
        .add("dropout")
        .describe("the data, of which training leaves out a part")
        .arguments(&["data"])
        .params(&[Param::new("rate", Kind::Float, "0.5")])
        .outputs(Arity::Fixed(2))
        .level(1)
        .value("FNumVisibleOutputs", 1_i64)
        .set("FListOutputNames", Native::Names(|_| Ok(vec!["output".to_owned(), "mask".to_owned()])))
        .set("FInferShape", Native::InferShape(same_shape));
    let _ = operators
        .add("batch_norm")
        .describe("(data - mean) / sqrt(var + epsilon) * gamma + beta, by channel")
        .arguments(&["data", "gamma", "beta", "moving_mean", "moving_var"])
        .params(&[
            Param::new("axis", Kind::Int, "1"),
            Param::new("epsilon", Kind::Float, "1e-5"),
            Param::new("center", Kind::Bool, "True"),
            Param::new("scale", Kind::Bool, "True"),
        ])
        .outputs(Arity::Fixed(3))
        .level(1)
        .value("FNumVisibleOutputs", 1_i64)
        .set(
            "FListOutputNames",
            Native::Names(|_| Ok(["output", "mean", "var"].into_iter().map(str::to_owned).collect())),
        )
        .set("FMutateInputs", Native::Indices(|_| Ok(vec![3, 4])))
        .set("FInferShape", Native::InferShape(infer_batch_norm));
    for (name, doc) in [("softmax", "exp(x) / sum(exp(x)) along an axis"), ("log_softmax", "the logarithm of softmax")]
    {
        let _ = operators
            .add(name)
            .describe(doc)
            .arguments(&["data"])
            .params(&[Param::new("axis", Kind::Int, "-1")])
            .level(1)
            .set("FInferShape", Native::InferShape(same_shape))
            .set(
                "FTVMCompute",
                if name == "softmax" {
                    Native::Compute(|call| softmax(call, "Softmax"))
                } else {
                    Native::Compute(|call| softmax(call, "LogSoftmax"))
                },
            )
            .value("TOpPattern", pattern::OPAQUE);
    }
    let _ = operators
        .add("prelu")
        .describe("x where it is positive, else x times the slope of its channel")
        .arguments(&["data", "alpha"])
        .params(&[Param::new("axis", Kind::Int, "1")])
        .level(1)
        .set(
            "FInferShape",
            Native::InferShape(|used, ins, outs| {
                let data = super::infer::merge(&ins[0], &outs[0])?;
                ins[0].clone_from(&data);
                outs[0].clone_from(&data);
                if data.is_empty() {
                    return Ok(());
                }
                let channels = [data[axis_of(used.int("axis")?, data.len())?]];
                set(&mut ins[1], &channels)
            }),
        )
        .set("FTVMCompute", Native::Compute(prelu))
        .value("TOpPattern", pattern::BROADCAST);
    let _ = operators
        .add("pad")
        .describe("the data with a value around it")
        .arguments(&["data"])
        .params(&[Param::new("pad_value", Kind::Float, "0.0"), Param::required("pad_width", Kind::Lists)])
        .level(1)
        .set("FInferShape", Native::InferShape(infer_pad))
        .set("FTVMCompute", Native::Compute(pad))
        .value("TOpPattern", pattern::INJECTIVE);
    let _ = operators
        .add("lrn")
        .describe("the data divided by (bias + alpha / size * the sum of squares in a window along an axis) ^ beta")
        .arguments(&["data"])
        .params(&[
            Param::required("size", Kind::Int),
            Param::required("axis", Kind::Int),
            Param::required("alpha", Kind::Float),
            Param::required("beta", Kind::Float),
            Param::required("bias", Kind::Float),
        ])
        .level(1)
        .set("FInferShape", Native::InferShape(same_shape))
        .set("FTVMCompute", Native::Compute(lrn))
        .value("TOpPattern", pattern::OPAQUE);
    let _ = operators
        .add("l2_normalize")
        .describe("the data divided by its norm over axes, which is at least sqrt(eps)")
        .arguments(&["data"])
        .params(&[Param::required("eps", Kind::Float), Param::required("axis", Kind::Ints)])
        .level(1)
        .set("FInferShape", Native::InferShape(same_shape))
        .set("FTVMCompute", Native::Compute(l2_normalize))
        .value("TOpPattern", pattern::OUT_FUSABLE);
    let _ = operators
        .add("__layout_transform__")
        .describe("the data in another layout")
        .arguments(&["data"])
        .params(&[Param::required("src_layout", Kind::Text), Param::required("dst_layout", Kind::Text)])
        .set(
            "FInferShape",
            Native::InferShape(|used, ins, outs| {
                let (from, to) = (Layout::parse(&used.text("src_layout")?)?, Layout::parse(&used.text("dst_layout")?)?);
                require!(from.converts_to(&to), "layout {from} cannot become {to}: they have different axes");
                let names: String = from.plain().iter().collect();
                if is_known(&ins[0]) {
                    let shape = to.shape(&from.extents(&ins[0], &names)?, &names)?;
                    set(&mut outs[0], &shape)?;
                } else if is_known(&outs[0]) {
                    let shape = from.shape(&to.extents(&outs[0], &names)?, &names)?;
                    set(&mut ins[0], &shape)?;
                }
                Ok(())
            }),
        )
        .set(
            "FTVMCompute",
            Native::Compute(|call| {
                let (from, to) =
                    (Layout::parse(&call.used.text("src_layout")?)?, Layout::parse(&call.used.text("dst_layout")?)?);
                Ok(vec![relayout(call.input(0)?, &from, &to)?])
            }),
        )
        .value("TOpPattern", pattern::INJECTIVE);
}
