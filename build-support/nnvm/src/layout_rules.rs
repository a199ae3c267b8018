//! The layouts that operators take and give (`FCorrectLayout`), for pass CorrectLayout.
//!
//! A layout is a text, empty if it is undefined. The rules are those of NNVM 0.5: operators that
//! work on elements take any layout, operators with an attribute `layout` take that one, and others
//! stay in the layout of the pass before.

use kernpack::{Array, Function, Str};
use kernpack_graph::op::axis_of;
use kernpack_graph::{Result, fail, require};
use linkme::distributed_slice;

use super::layout::{Axis, Layout};
use super::op::pattern;
use crate::symbol::registry::{Cell, OPERATORS, Registrar};
use crate::symbol::{LayoutCall, Native};

/// Replaces the layouts of inputs and outputs by those that an operator wants.
type Rule = fn(&mut LayoutCall) -> Result<()>;

#[distributed_slice(OPERATORS)]
static LAYOUTS: fn(&mut Registrar) = |operators| {
    let rules: [(&str, Rule); 15] = [
        ("conv2d", convolution),
        ("_contrib_conv2d_NCHWc", convolution),
        ("conv2d_transpose", transposed_convolution),
        ("max_pool2d", pooling),
        ("avg_pool2d", pooling),
        ("global_max_pool2d", pooling),
        ("global_avg_pool2d", pooling),
        ("upsampling", own_layout),
        ("resize", own_layout),
        ("dense", copied),
        ("matmul", matmul),
        ("transpose", transpose),
        ("concatenate", concatenate),
        ("batch_norm", batch_norm),
        ("__layout_transform__", transform),
    ];
    for (name, rule) in rules {
        let _ = operators.add(name).set("FCorrectLayout", Native::Layout(rule));
    }
};

/// Replaces the layouts of a node's inputs and outputs by those that its operator wants.
pub(super) fn correct(call: &mut LayoutCall) -> Result<()> {
    match call.used.op.cell("FCorrectLayout") {
        Some(Cell::Native(Native::Layout(rule))) => rule(call),
        Some(Cell::Value(value)) => {
            let function: Function = value.to()?;
            let attrs = call.used.op.all_attrs(call.used.attrs)?;
            let texts = |list: &[String]| list.iter().map(|text| Str::from(text.as_str())).collect::<Array<Str>>();
            let arguments = (attrs, texts(&call.inputs), texts(&call.last_inputs), texts(&call.outputs));
            let (inputs, outputs): (Vec<String>, Vec<String>) = function.call_as(arguments)?;
            require!(
                inputs.len() == call.inputs.len() && outputs.len() == call.outputs.len(),
                "FCorrectLayout gave {} and {} layouts for {} inputs and {} outputs",
                inputs.len(),
                outputs.len(),
                call.inputs.len(),
                call.outputs.len()
            );
            (call.inputs, call.outputs) = (inputs, outputs);
            Ok(())
        }
        _ => usual(call),
    }
}

/// The axes of a layout in its order, without parts: `NCHW16c` becomes `NCHW`.
pub(super) fn whole(layout: &str) -> Result<String> {
    if layout.is_empty() {
        return Ok(String::new());
    }
    Ok(Layout::parse(layout)?.plain().into_iter().collect())
}

fn text_of(axes: &[Axis]) -> String {
    axes.iter().map(Axis::to_string).collect()
}

/// The rule of operators without one of their own, by their pattern.
fn usual(call: &mut LayoutCall) -> Result<()> {
    let code = call.used.pattern();
    let first = call.inputs.iter().find(|layout| !layout.is_empty()).cloned().unwrap_or_default();
    if code == pattern::ELEMENTWISE || call.used.op.name.starts_with("elemwise_") {
        call.inputs.fill(first.clone());
        call.outputs.fill(first);
        return Ok(());
    }
    if code == pattern::BROADCAST && call.inputs.len() > 1 {
        return broadcast(call, &first);
    }
    fixed(call)?;
    let keeps = ["softmax", "log_softmax", "dropout", "lrn", "pad", "prelu"].contains(&call.used.op.name.as_str());
    if let Some(out) = call.outputs.first_mut() {
        if keeps { out.clone_from(&call.inputs[0]) } else { out.clear() }
    }
    Ok(())
}

/// Keeps each input in the layout of the pass before. Without one, or with other axes, parts are
/// joined: `NCHW16c` becomes `NCHW`.
fn fixed(call: &mut LayoutCall) -> Result<()> {
    for (layout, last) in call.inputs.iter_mut().zip(&call.last_inputs) {
        *layout = if same_axes(layout, last)? { last.clone() } else { whole(layout)? };
    }
    Ok(())
}

fn same_axes(a: &str, b: &str) -> Result<bool> {
    Ok(!a.is_empty() && !b.is_empty() && Layout::parse(a)?.converts_to(&Layout::parse(b)?))
}

/// Two operands whose axes are aligned at the end: the one with fewer axes takes the last axes of
/// the other.
fn broadcast(call: &mut LayoutCall, first: &str) -> Result<()> {
    if call.inputs.iter().all(|layout| layout == first) {
        call.outputs.fill(first.to_owned());
        return Ok(());
    }
    if let [left, right] = &mut call.inputs[..]
        && !left.is_empty()
        && !right.is_empty()
    {
        let (a, b) = (Layout::parse(left)?, Layout::parse(right)?);
        let (larger, smaller, changed) =
            if a.plain().len() >= b.plain().len() { (&a, &b, right) } else { (&b, &a, left) };
        if let Some(end) = last_axes(larger, smaller) {
            *changed = end;
            call.outputs.fill(larger.to_string());
            return Ok(());
        }
    }
    for layout in &mut call.inputs {
        *layout = whole(layout)?;
    }
    call.outputs.fill(call.inputs[0].clone());
    Ok(())
}

/// The end of a layout that has exactly the axes of another one.
fn last_axes(larger: &Layout, smaller: &Layout) -> Option<String> {
    let names = smaller.plain();
    let axes = larger.axes();
    let start = axes.iter().rposition(|axis| !names.contains(&axis.name)).map_or(0, |last| last + 1);
    let end = Layout::parse(&text_of(&axes[start..])).ok()?;
    end.converts_to(smaller).then(|| end.to_string())
}

fn convolution(call: &mut LayoutCall) -> Result<()> {
    let data = call.used.text("layout")?;
    let out = call.used.text("out_layout")?;
    call.outputs[0] = if out == "__undef__" { data.clone() } else { out };
    call.inputs[0] = data;
    call.inputs[1] = call.used.text("kernel_layout")?;
    if let Some(bias) = call.inputs.get_mut(2) {
        // The channels of the result, with their part: `C8c` for NCHW8c.
        let result = Layout::parse(&call.outputs[0])?;
        *bias = result.only('C')?.to_string();
    }
    Ok(())
}

fn transposed_convolution(call: &mut LayoutCall) -> Result<()> {
    call.inputs[1] = call.used.text("kernel_layout")?;
    if let Some(bias) = call.inputs.get_mut(2) {
        "C".clone_into(bias);
    }
    own_layout(call)
}

/// The data and the result are in the layout of the attribute.
fn own_layout(call: &mut LayoutCall) -> Result<()> {
    call.inputs[0] = call.used.text("layout")?;
    call.outputs[0].clone_from(&call.inputs[0]);
    Ok(())
}

/// As [`own_layout`]. A layout that differs only in a part of the channels at its end is taken as
/// it is.
fn pooling(call: &mut LayoutCall) -> Result<()> {
    let given = call.inputs[0].clone();
    own_layout(call)?;
    if given.is_empty() {
        return Ok(());
    }
    let given = Layout::parse(&given)?;
    let own = Layout::parse(&call.inputs[0])?;
    let extra = given.axes().strip_prefix(own.axes());
    if let Some([Axis { name: 'C', part: Some(_) }]) = extra {
        call.inputs[0] = given.to_string();
        call.outputs[0] = given.to_string();
    }
    Ok(())
}

/// The result has the layout of the first input that has one.
fn copied(call: &mut LayoutCall) -> Result<()> {
    fixed(call)?;
    call.outputs[0] = call.inputs.iter().find(|layout| !layout.is_empty()).cloned().unwrap_or_default();
    Ok(())
}

/// The axes of the left factor without its last one, and those of the right factor without its
/// first one. Transposed factors have their axes in the reverse order.
fn matmul(call: &mut LayoutCall) -> Result<()> {
    fixed(call)?;
    call.outputs[0].clear();
    if call.inputs.iter().any(String::is_empty) {
        return Ok(());
    }
    let mut sides = Vec::new();
    for (layout, flag) in call.inputs.iter().zip(["transpose_a", "transpose_b"]) {
        let mut axes = Layout::parse(layout)?.axes().to_vec();
        if call.used.flag(flag)? {
            axes.reverse();
        }
        sides.push(axes);
    }
    let axes = [&sides[0][..sides[0].len() - 1], &sides[1][1..]].concat();
    // Undefined if an axis would be there twice.
    call.outputs[0] = Layout::parse(&text_of(&axes)).map_or_else(|_| String::new(), |layout| layout.to_string());
    Ok(())
}

/// The axes in their new order.
fn transpose(call: &mut LayoutCall) -> Result<()> {
    let order = call.used.ints("axes")?;
    let as_given = !call.inputs[0].is_empty() && Layout::parse(&call.inputs[0])?.axes().len() == order.len();
    if !as_given || same_axes(&call.inputs[0], &call.last_inputs[0])? {
        fixed(call)?;
    }
    call.outputs[0].clear();
    if call.inputs[0].is_empty() {
        return Ok(());
    }
    let layout = Layout::parse(&call.inputs[0])?;
    let axes = layout.axes();
    let permuted: Option<Vec<Axis>> = match &order[..] {
        [] => Some(axes.iter().rev().copied().collect()),
        order => order.iter().map(|axis| axis_at(&layout, *axis)).collect(),
    };
    call.outputs[0] =
        permuted.filter(|permuted| permuted.len() == axes.len()).map_or_else(String::new, |axes| text_of(&axes));
    Ok(())
}

/// Returns an axis of a layout by its index, which may be negative.
fn axis_at(layout: &Layout, axis: i64) -> Option<Axis> {
    axis_of(axis, layout.axes().len()).ok().map(|axis| layout.axes()[axis])
}

/// All inputs are in one layout. A new one is taken if the attribute `axis` selects the same axis
/// in it.
fn concatenate(call: &mut LayoutCall) -> Result<()> {
    let defined = |layouts: &[String]| layouts.iter().find(|layout| !layout.is_empty()).cloned();
    let Some(mut layout) = defined(&call.inputs) else { return Ok(()) };
    let axis = call.used.int("axis")?;
    let last = match defined(&call.last_inputs) {
        Some(last) if same_axes(&layout, &last)? => last,
        _ => layout.clone(),
    };
    let axes = Layout::parse(&last)?.axes().to_vec();
    let own = axes[axis_of(axis, axes.len())?];
    if axis_at(&Layout::parse(&layout)?, axis) != Some(own) {
        layout = last;
    }
    call.inputs.fill(layout.clone());
    call.outputs.fill(layout);
    Ok(())
}

/// The data keeps a layout whose channels stay at their axis, with their part at the end:
/// `NCHW16c`. The parameters follow: `C16c`.
fn batch_norm(call: &mut LayoutCall) -> Result<()> {
    let given = call.inputs[0].clone();
    if given.is_empty() {
        return fixed(call);
    }
    let axis = call.used.int("axis")?;
    let joined = whole(&given)?;
    let last = if same_axes(&given, &call.last_inputs[0])? { call.last_inputs[0].clone() } else { joined.clone() };
    let before = axis_at(&Layout::parse(&last)?, axis).map(|axis| axis.name);
    let channels = |text: &str| -> Result<Option<String>> {
        let layout = Layout::parse(text)?;
        let Some(own) = axis_at(&layout, axis).filter(|own| own.part.is_none() && Some(own.name) == before) else {
            return Ok(None);
        };
        let axes = layout.axes();
        let parts: Vec<Axis> =
            axes.iter().copied().filter(|axis| axis.name == own.name && axis.part.is_some()).collect();
        let fits = parts.iter().all(|part| Some(part) == axes.last());
        Ok(fits.then(|| format!("{own}{}", text_of(&parts))))
    };
    // In the first pass the parameters are along whole axes.
    let first = if call.last_inputs[0].is_empty() { joined.clone() } else { given };
    for data in [first, last, joined] {
        if let Some(parameters) = channels(&data)? {
            call.inputs.fill(parameters.clone());
            call.outputs.fill(parameters);
            call.inputs[0].clone_from(&data);
            call.outputs[0] = data;
            return Ok(());
        }
    }
    fail!("axis {axis} is not in layout {}", call.inputs[0])
}

fn transform(call: &mut LayoutCall) -> Result<()> {
    call.inputs[0] = call.used.text("src_layout")?;
    call.outputs[0] = call.used.text("dst_layout")?;
    Ok(())
}
