//! The same elements in another shape or order.

use kernpack_compiler::ir::{Expr, I64, Tensor};
use kernpack_compiler::te;
use kernpack_graph::op::{Operand, axis_of, element_tensor};
use kernpack_graph::{Attr, GraphError, Result, fail, require};
use linkme::distributed_slice;

use super::call::{known, operand, reshaped};
use super::infer::{count, is_known, merge, set};
use super::pattern;
use crate::symbol::registry::{OPERATORS, Registrar};
use crate::symbol::{Arity, Compute, InferShape, Kind, Native, Param, PartialShape, Use};

#[distributed_slice(OPERATORS)]
static TRANSFORM: fn(&mut Registrar) = register;

fn extent(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Returns input 0 in a shape that follows from its own.
fn as_shape(call: &Compute, shape: fn(&Use, &[i64]) -> Result<PartialShape>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let wanted = shape(&call.used, &x.shape)?;
    require!(count(&wanted) == count(&x.shape), "{:?} cannot be given the shape {wanted:?}", x.shape);
    Ok(vec![reshaped(x, &wanted)])
}

fn flat(_: &Use, shape: &[i64]) -> Result<PartialShape> {
    let (first, rest) = shape.split_first().ok_or_else(|| GraphError::new("the data has no axes"))?;
    let inner = if rest.is_empty() { Some(1) } else { count(rest) };
    Ok(vec![*first, inner.unwrap_or(0)])
}

fn with_axes(used: &Use, shape: &[i64]) -> Result<PartialShape> {
    let (axis, more) = (used.int("axis")?, used.int("num_newaxis")?);
    let rank = extent(shape.len());
    let place = if axis < 0 { axis + rank + 1 } else { axis };
    require!((0..=rank).contains(&place), "there is no place {axis} among the axes of {shape:?}");
    require!((1..=32).contains(&more), "attribute `num_newaxis` is {more}");
    let mut result = shape.to_vec();
    let place = usize::try_from(place).unwrap_or(0);
    result.splice(place..place, (0..more).map(|_| 1));
    Ok(result)
}

fn squeezed(used: &Use, shape: &[i64]) -> Result<PartialShape> {
    let axes = used.ints("axis")?.into_iter().map(|axis| axis_of(axis, shape.len())).collect::<Result<Vec<_>>>()?;
    if let Some(axis) = axes.iter().find(|axis| shape[**axis] != 1) {
        fail!("axis {axis} of {shape:?} cannot be removed: its extent is {}", shape[*axis]);
    }
    let goes = |axis: usize| if axes.is_empty() { shape[axis] == 1 } else { axes.contains(&axis) };
    let left: PartialShape = (0..shape.len()).filter(|axis| !goes(*axis)).map(|axis| shape[axis]).collect();
    Ok(if left.is_empty() { vec![1] } else { left })
}

/// Decodes a shape in NNVM's codes: 0 copies an extent, -1 is the rest, -2 copies all that follow,
/// -3 joins two, -4 splits one into the two that follow.
fn recoded(used: &Use, shape: &[i64]) -> Result<PartialShape> {
    let codes = used.ints("shape")?;
    let (mut result, mut at, mut open) = (PartialShape::new(), 0, None);
    let take = |at: &mut usize| -> Result<i64> {
        let extent = shape.get(*at).copied();
        *at += 1;
        extent.ok_or_else(|| GraphError::new(format!("the shape {codes:?} needs more axes than {shape:?} has")))
    };
    let mut place = 0;
    while let Some(code) = codes.get(place) {
        place += 1;
        match code {
            0 => result.push(take(&mut at)?),
            -1 => {
                require!(open.is_none(), "the shape {codes:?} leaves two extents open");
                open = Some(result.len());
                result.push(1);
                at += 1;
            }
            -2 => {
                result.extend(shape.get(at..).unwrap_or_default());
                at = shape.len();
            }
            -3 => {
                let (a, b) = (take(&mut at)?, take(&mut at)?);
                result.push(a.saturating_mul(b));
            }
            -4 => {
                let whole = take(&mut at)?;
                let [Some(&a), Some(&b)] = [codes.get(place), codes.get(place + 1)] else {
                    fail!("in the shape {codes:?} two extents follow -4")
                };
                place += 2;
                require!(a != -1 || b != -1, "the shape {codes:?} leaves both parts of an axis open");
                let known = if a == -1 { b } else { a };
                require!(known > 0 && whole % known == 0, "axis of extent {whole} is not split into {a} and {b}");
                let other = whole / known;
                result.extend(if a == -1 { [other, known] } else { [known, other] });
                require!(
                    a == -1 || b == -1 || a.saturating_mul(b) == whole,
                    "axis of extent {whole} is not split into {a} and {b}"
                );
            }
            positive if *positive > 0 => {
                result.push(*positive);
                at += 1;
            }
            other => fail!("{other} in the shape {codes:?} has no meaning"),
        }
    }
    let all = count(shape).unwrap_or(0);
    if let Some(open) = open {
        let rest = count(&result).unwrap_or(0);
        require!(rest > 0 && all % rest == 0, "the elements of {shape:?} do not fill {codes:?}");
        result[open] = all / rest;
    }
    require!(count(&result) == Some(all), "{shape:?} cannot be given the shape {codes:?}");
    Ok(result)
}

fn order(used: &Use, rank: usize) -> Result<Vec<usize>> {
    let axes = used.ints("axes")?;
    if axes.is_empty() {
        return Ok((0..rank).rev().collect());
    }
    let order = axes.iter().map(|axis| axis_of(*axis, rank)).collect::<Result<Vec<usize>>>()?;
    let mut sorted = order.clone();
    sorted.sort_unstable();
    require!(sorted == (0..rank).collect::<Vec<_>>(), "{axes:?} is not an order of {rank} axes");
    Ok(order)
}

fn infer_transpose(used: &Use, ins: &mut [PartialShape], outs: &mut [PartialShape]) -> Result<()> {
    let rank = ins[0].len().max(outs[0].len());
    if rank == 0 {
        return Ok(());
    }
    let order = order(used, rank)?;
    if !ins[0].is_empty() {
        let turned: Vec<i64> = order.iter().map(|axis| ins[0][*axis]).collect();
        set(&mut outs[0], &turned)?;
    }
    let mut back = vec![0; rank];
    for (to, from) in order.iter().enumerate() {
        back[*from] = outs[0].get(to).copied().unwrap_or(0);
    }
    set(&mut ins[0], &back)
}

/// Returns the parts of an axis according to `indices_or_sections`: a number of equal parts, or the
/// starts of parts.
fn parts(used: &Use, whole: i64) -> Result<Vec<i64>> {
    let text = used.text("indices_or_sections")?;
    if !text.trim_start().starts_with(['(', '[']) {
        let sections = used.int("indices_or_sections")?;
        require!(
            sections > 0 && whole % sections == 0,
            "an axis of extent {whole} is not split into {sections} equal parts"
        );
        return Ok(vec![whole / sections; usize::try_from(sections).unwrap_or(0)]);
    }
    let mut begin = 0;
    let mut parts = Vec::new();
    for index in used.ints("indices_or_sections")?.into_iter().chain([whole]) {
        require!(index >= begin && index <= whole, "an axis of extent {whole} is not split at {text}");
        parts.push(index - begin);
        begin = index;
    }
    Ok(parts)
}

fn num_parts(used: &Use) -> Result<usize> {
    let text = used.text("indices_or_sections")?;
    if !text.trim_start().starts_with(['(', '[']) {
        let sections = used.int("indices_or_sections")?;
        return match usize::try_from(sections) {
            Ok(count @ 1..=4096) => Ok(count),
            _ => fail!("attribute `indices_or_sections` is {sections}"),
        };
    }
    Ok(used.ints("indices_or_sections")?.len() + 1)
}

fn infer_split(used: &Use, ins: &mut [PartialShape], outs: &mut [PartialShape]) -> Result<()> {
    if !is_known(&ins[0]) {
        return Ok(());
    }
    let axis = axis_of(used.int("axis")?, ins[0].len())?;
    for (out, part) in outs.iter_mut().zip(parts(used, ins[0][axis])?) {
        let mut shape = ins[0].clone();
        shape[axis] = part;
        set(out, &shape)?;
    }
    Ok(())
}

fn infer_concatenate(used: &Use, ins: &mut [PartialShape], outs: &mut [PartialShape]) -> Result<()> {
    let Some(rank) = ins.iter().chain(outs.iter()).map(Vec::len).find(|rank| *rank > 0) else { return Ok(()) };
    let axis = axis_of(used.int("axis")?, rank)?;
    // Along the other axes all extents are equal.
    let mut common = vec![0; rank];
    for shape in ins.iter().chain(outs.iter()).filter(|shape| !shape.is_empty()) {
        require!(shape.len() == rank, "inputs of different ranks cannot be joined: {ins:?}");
        let mut open = shape.clone();
        open[axis] = 0;
        common = merge(&common, &open)
            .map_err(|_| GraphError::new(format!("{ins:?} cannot be joined along axis {axis}")))?;
    }
    let mut total = Some(0_i64);
    for shape in ins.iter_mut() {
        set(shape, &common)?;
        total = total.filter(|_| shape[axis] != 0).and_then(|total| total.checked_add(shape[axis]));
    }
    common[axis] = total.unwrap_or(0);
    set(&mut outs[0], &common)
}

/// The begin, end and step of the first axes. Missing ones at the end stand for the whole axis.
fn sliced(used: &Use, shape: &[i64]) -> Result<(Vec<i64>, Vec<i64>, Vec<i64>)> {
    let (mut begin, mut end, mut stride) = (used.ints("begin")?, used.ints("end")?, used.ints("stride")?);
    let count = begin.len().max(end.len()).max(stride.len());
    require!(
        count <= shape.len(),
        "{} begins, {} ends and {} strides for {shape:?}",
        begin.len(),
        end.len(),
        stride.len()
    );
    stride.resize(count, 1);
    for axis in begin.len()..count {
        begin.push(if stride[axis] < 0 { shape[axis] - 1 } else { 0 });
    }
    for axis in end.len()..count {
        // Backwards, the end is before the first element.
        end.push(if stride[axis] < 0 { -shape[axis] - 1 } else { shape[axis] });
    }
    Ok((begin, end, stride))
}

fn slice(call: &Compute) -> Result<Tensor> {
    let x = call.input(0)?;
    let (begin, end, stride) = sliced(&call.used, &x.shape)?;
    let axes = (0..extent(begin.len())).collect();
    let attrs = [("starts", Attr::Ints(begin)), ("ends", Attr::Ints(end)), ("axes", Attr::Ints(axes))];
    // Inputs 1 to 3 are attributes here, so these placeholders are not read.
    let nothing = known(&[0]);
    call.run("Slice", &attrs, &[x.clone(), nothing.clone(), nothing.clone(), nothing, known(&stride)])
}

fn infer_slice(used: &Use, ins: &mut [PartialShape], outs: &mut [PartialShape]) -> Result<()> {
    if !is_known(&ins[0]) {
        return Ok(());
    }
    let (begin, end, stride) = sliced(used, &ins[0])?;
    let mut shape = ins[0].clone();
    for (axis, ((begin, end), step)) in begin.into_iter().zip(end).zip(stride).enumerate() {
        let all = shape[axis];
        require!(step != 0, "the stride along axis {axis} is 0");
        let absolute = |value: i64| if value < 0 { value.saturating_add(all) } else { value };
        let (low, high) = if step > 0 { (0, all) } else { (-1, all - 1) };
        let (from, to) = (absolute(begin).clamp(low, high), absolute(end).clamp(low, high));
        let distance = if step > 0 { to - from } else { from - to };
        require!(distance > 0, "the slice {begin}..{end} along axis {axis} of {:?} is empty", ins[0]);
        shape[axis] = (distance - 1) / i64::try_from(step.unsigned_abs()).unwrap_or(i64::MAX) + 1;
    }
    set(&mut outs[0], &shape)
}

fn like_shape(used: &Use, data: &[i64], like: &[i64]) -> Result<PartialShape> {
    let axes = used.ints("axis")?;
    let axes = if axes.is_empty() { (0..extent(like.len().min(data.len()))).collect() } else { axes };
    let mut shape = data.to_vec();
    for axis in axes {
        let (own, other) = (axis_of(axis, data.len())?, axis_of(axis, like.len())?);
        require!(like[other] <= shape[own], "{data:?} cannot be cut to {like:?} along axis {axis}");
        shape[own] = like[other];
    }
    Ok(shape)
}

/// Clamps an index to the axis.
fn clipped(index: Expr, extent: i64) -> Expr {
    index.cast(I64).max(0).min(extent - 1)
}

fn taken(used: &Use, data: &[i64], indices: &[i64]) -> Result<PartialShape> {
    let Some(axis) = used.optional_int("axis")? else { return Ok(indices.to_vec()) };
    let axis = axis_of(axis, data.len())?;
    let mut shape = data.to_vec();
    shape.splice(axis..=axis, indices.iter().copied());
    Ok(shape)
}

fn take(call: &Compute) -> Result<Vec<Tensor>> {
    let (data, indices) = (call.input(0)?, call.input(1)?);
    let shape = taken(&call.used, &data.shape, &indices.shape)?;
    let (data, axis) = match call.used.optional_int("axis")? {
        Some(axis) => (data.clone(), axis_of(axis, data.rank())?),
        None => (operand(&reshaped(data, &[count(&data.shape).unwrap_or(0)])), 0),
    };
    Ok(vec![element_tensor(&shape, |position| {
        let index = indices.at(&position[axis..axis + indices.rank()]);
        let mut at = position[..axis].to_vec();
        at.push(clipped(index, data.shape[axis]));
        at.extend_from_slice(&position[axis + indices.rank()..]);
        data.at(&at)
    })])
}

/// The index of an element is along the first axis of the indices.
fn gather(call: &Compute) -> Result<Vec<Tensor>> {
    let (data, indices) = (call.input(0)?, call.input(1)?);
    let shape = gathered(&data.shape, &indices.shape)?;
    let (depth, outer) = (usize::try_from(indices.shape[0]).unwrap_or(0), indices.rank() - 1);
    Ok(vec![element_tensor(&shape, |position| {
        let mut at: Vec<Expr> = (0..depth)
            .map(|number| {
                let mut place = vec![Expr::int(extent(number))];
                place.extend_from_slice(&position[..outer.min(position.len())]);
                place.truncate(indices.rank());
                clipped(indices.at(&place), data.shape[number])
            })
            .collect();
        at.extend(position.iter().skip(outer).take(data.rank() - depth).cloned());
        data.at(&at)
    })])
}

fn gathered(data: &[i64], indices: &[i64]) -> Result<PartialShape> {
    let (depth, outer) = indices.split_first().ok_or_else(|| GraphError::new("the indices have no axes"))?;
    let depth = usize::try_from(*depth).unwrap_or(usize::MAX);
    require!(depth <= data.len(), "indices of {depth} numbers for {data:?}");
    let shape: PartialShape = outer.iter().chain(&data[depth..]).copied().collect();
    Ok(if shape.is_empty() { vec![1] } else { shape })
}

fn where_(call: &Compute) -> Result<Vec<Tensor>> {
    let (condition, x, y) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let by_row = condition.shape != x.shape;
    Ok(vec![element_tensor(&x.shape, |position| {
        let truth = if by_row { condition.at(&position[..1]) } else { condition.at(position) };
        te::select(truth.differs(te::constant(0.0, condition.dtype)), x.at(position), y.at(position))
    })])
}

/// Infers the shape of an output from that of one input.
macro_rules! forward {
    ($shape:path) => {{
        let infer: InferShape = |used, ins, outs| {
            if !is_known(&ins[0]) {
                return Ok(());
            }
            let shape = $shape(used, &ins[0])?;
            set(&mut outs[0], &shape)
        };
        Native::InferShape(infer)
    }};
}

/// Infers the shape of an output from those of two inputs.
macro_rules! forward_two {
    ($shape:expr) => {{
        let infer: InferShape = |used, ins, outs| {
            if !is_known(&ins[0]) || !is_known(&ins[1]) {
                return Ok(());
            }
            let shape: fn(&Use, &[i64], &[i64]) -> Result<PartialShape> = $shape;
            set(&mut outs[0], &shape(used, &ins[0], &ins[1])?)
        };
        Native::InferShape(infer)
    }};
}

fn register(operators: &mut Registrar) {
    let inplace = || Native::Pairs(|_| Ok(vec![(0, 0)]));
    let _ = operators
        .add("flatten")
        .describe("a matrix: a row for each element of the first axis")
        .arguments(&["data"])
        .params(&[])
        .level(1)
        .set("FInferShape", forward!(flat))
        .set("FInplaceOption", inplace())
        .set("FTVMCompute", Native::Compute(|call| as_shape(call, flat)))
        .value("TOpPattern", pattern::INJECTIVE);
    let _ = operators
        .add("expand_dims")
        .describe("the data with more axes of extent 1")
        .arguments(&["data"])
        .params(&[Param::required("axis", Kind::Int), Param::new("num_newaxis", Kind::Int, "1")])
        .level(1)
        .set("FInferShape", forward!(with_axes))
        .set("FInplaceOption", inplace())
        .set("FTVMCompute", Native::Compute(|call| as_shape(call, with_axes)))
        .value("TOpPattern", pattern::BROADCAST);
    let _ = operators
        .add("squeeze")
        .describe("the data without axes of extent 1")
        .arguments(&["data"])
        .params(&[Param::new("axis", Kind::Ints, "()")])
        .level(1)
        .set("FInferShape", forward!(squeezed))
        .set("FInplaceOption", inplace())
        .set("FTVMCompute", Native::Compute(|call| as_shape(call, squeezed)))
        .value("TOpPattern", pattern::INJECTIVE);
    let _ = operators
        .add("reshape")
        .describe("the data in another shape: 0 copies an extent, -1 is what is left, -2 copies all that follow, -3 joins two, -4 splits one")
        .arguments(&["data"])
        .params(&[Param::required("shape", Kind::Ints)])
        .level(3)
        .set("FInferShape", forward!(recoded))
        .set("FInplaceOption", inplace())
        .set("FTVMCompute", Native::Compute(|call| as_shape(call, recoded)))
        .value("TOpPattern", pattern::INJECTIVE);
    let _ = operators
        .add("transpose")
        .describe("the data with its axes in another order; without `axes` in the reverse one")
        .arguments(&["data"])
        .params(&[Param::new("axes", Kind::Ints, "()")])
        .level(4)
        .set("FInferShape", Native::InferShape(infer_transpose))
        .set(
            "FTVMCompute",
            Native::Compute(|call| {
                let x = call.input(0)?;
                let order = order(&call.used, x.rank())?.into_iter().map(extent).collect();
                Ok(vec![call.run("Transpose", &[("perm", Attr::Ints(order))], &call.inputs)?])
            }),
        )
        .value("TOpPattern", pattern::INJECTIVE);
    let _ = operators
        .add("concatenate")
        .describe("the inputs one behind the other along an axis")
        .params(&[Param::new("axis", Kind::Int, "1")])
        .inputs(Arity::Any)
        .level(1)
        .set("FInferShape", Native::InferShape(infer_concatenate))
        .set(
            "FTVMCompute",
            Native::Compute(|call| {
                Ok(vec![call.run("Concat", &[("axis", Attr::Int(call.used.int("axis")?))], &call.inputs)?])
            }),
        )
        .value("TOpPattern", pattern::INJECTIVE);
    let _ = operators
        .add("split")
        .describe("parts of the data along an axis: a number of equal ones, or those that begin at indices")
        .arguments(&["data"])
        .params(&[Param::required("indices_or_sections", Kind::Ints), Param::new("axis", Kind::Int, "1")])
        .outputs(Arity::Native(num_parts))
        .level(1)
        .set("FInferShape", Native::InferShape(infer_split))
        .set(
            "FTVMCompute",
            Native::Compute(|call| {
                let x = call.input(0)?;
                let axis = axis_of(call.used.int("axis")?, x.rank())?;
                let parts = parts(&call.used, x.shape[axis])?;
                let count = parts.len();
                call.run_all(
                    "Split",
                    &[("axis", Attr::Int(extent(axis))), ("split", Attr::Ints(parts))],
                    &call.inputs,
                    count,
                )
            }),
        )
        .value("TOpPattern", pattern::INJECTIVE);
    let _ = operators
        .add("flip")
        .describe("the data in the reverse order along an axis")
        .arguments(&["data"])
        .params(&[Param::new("axis", Kind::Int, "0")])
        .level(1)
        .set("FInferShape", Native::InferShape(super::infer::same_shape))
        .set(
            "FTVMCompute",
            Native::Compute(|call| {
                let x = call.input(0)?;
                let axis = axis_of(call.used.int("axis")?, x.rank())?;
                Ok(vec![element_tensor(&x.shape, |position| {
                    let mut at = position.to_vec();
                    at[axis] = Expr::int(x.shape[axis] - 1) - &position[axis];
                    x.at(&at)
                })])
            }),
        )
        .value("TOpPattern", pattern::INJECTIVE);
    let _ = operators
        .add("strided_slice")
        .describe("a part of the data: begin, end and stride for the first axes")
        .arguments(&["data"])
        .params(&[
            Param::required("begin", Kind::Ints),
            Param::required("end", Kind::Ints),
            Param::new("stride", Kind::Ints, "()"),
        ])
        .level(4)
        .set("FInferShape", Native::InferShape(infer_slice))
        .set("FTVMCompute", Native::Compute(|call| Ok(vec![slice(call)?])))
        .value("TOpPattern", pattern::INJECTIVE);
    let _ = operators
        .add("slice_like")
        .describe("the data cut to the extents of another tensor along some axes, or all")
        .arguments(&["data", "slice_like"])
        .params(&[Param::new("axis", Kind::Ints, "()")])
        .level(4)
        .set("FInferShape", forward_two!(like_shape))
        .set("FInferType", Native::InferType(super::infer::first_type))
        .set(
            "FTVMCompute",
            Native::Compute(|call| {
                let x: &Operand = call.input(0)?;
                let shape = like_shape(&call.used, &x.shape, &call.input(1)?.shape)?;
                Ok(vec![element_tensor(&shape, |position| x.at(position))])
            }),
        )
        .value("TOpPattern", pattern::INJECTIVE);
    let _ = operators
        .add("take")
        .describe(
            "the elements at indices, along an axis or in all of the data; indices outside read the nearest element",
        )
        .arguments(&["data", "indices"])
        .params(&[Param::new("axis", Kind::OptionalInt, "None")])
        .level(1)
        .set("FInferShape", forward_two!(taken))
        .set("FInferType", Native::InferType(super::infer::first_type))
        .set("FTVMCompute", Native::Compute(take))
        .value("TOpPattern", pattern::INJECTIVE);
    let _ = operators
        .add("gather_nd")
        .describe("the elements at positions whose numbers stand along the first axis of the indices")
        .arguments(&["data", "indices"])
        .params(&[])
        .level(1)
        .set("FInferShape", forward_two!(|_, data, indices| gathered(data, indices)))
        .set("FInferType", Native::InferType(super::infer::first_type))
        .set("FTVMCompute", Native::Compute(gather))
        .value("TOpPattern", pattern::INJECTIVE);
    let _ = operators
        .add("where")
        .describe("elements of x where the condition is not 0, else of y; a condition of one axis chooses rows")
        .arguments(&["condition", "x", "y"])
        .params(&[])
        .level(1)
        .set(
            "FInferShape",
            Native::InferShape(|_, ins, outs| {
                let all = merge(&merge(&ins[1], &ins[2])?, &outs[0])?;
                for shape in [1, 2] {
                    ins[shape].clone_from(&all);
                }
                outs[0].clone_from(&all);
                if is_known(&all) && is_known(&ins[0]) {
                    let fits = ins[0] == all || ins[0] == all[..1];
                    require!(fits, "a condition {:?} does not fit {all:?}", ins[0]);
                }
                Ok(())
            }),
        )
        .set(
            "FInferType",
            Native::InferType(|_, ins, outs| {
                let known = ins[1].or(ins[2]).or(outs[0]);
                (ins[1], ins[2], outs[0]) = (ins[1].or(known), ins[2].or(known), outs[0].or(known));
                Ok(())
            }),
        )
        .set("FTVMCompute", Native::Compute(where_))
        .value("TOpPattern", pattern::INJECTIVE);
}
