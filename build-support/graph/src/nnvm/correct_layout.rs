//! Passes CorrectLayout and AlterOpLayout: determine the layout of each entry, and change layouts
//! where an operator requires another one.

use std::collections::HashMap;

use kernpack::{Any, Array, Function, Map, Shape, Str};
use linkme::distributed_slice;

use super::layout::Layout;
use super::make::op;
use super::op::pattern;
use super::simplify::keep_inputs;
use crate::error::{GraphError, Result, fail, require};
use crate::op::extents;
use crate::symbol::registry::{Cell, OPERATORS, Registrar};
use crate::symbol::{Entry, Graph, GraphRef, IndexedGraph, LayoutCall, Native, Use, Value, attr, rewrite};

/// Layouts that attributes name.
#[distributed_slice(OPERATORS)]
static LAYOUTS: fn(&mut Registrar) = |operators| {
    for name in ["conv2d", "_contrib_conv2d_NCHWc"] {
        let _ = operators.add(name).set("FCorrectLayout", Native::Layout(convolution));
    }
    let _ = operators.add("conv2d_transpose").set("FCorrectLayout", Native::Layout(transposed));
    for name in ["max_pool2d", "avg_pool2d", "global_max_pool2d", "global_avg_pool2d", "upsampling", "resize"] {
        let _ = operators.add(name).set("FCorrectLayout", Native::Layout(windows));
    }
    let _ = operators.add("__layout_transform__").set(
        "FCorrectLayout",
        Native::Layout(|call| {
            call.inputs[0] = call.used.text("src_layout")?;
            call.outputs[0] = call.used.text("dst_layout")?;
            Ok(())
        }),
    );
};

fn convolution(call: &mut LayoutCall) -> Result<()> {
    let data = call.used.text("layout")?;
    let out = call.used.text("out_layout")?;
    call.outputs[0] = if out == "__undef__" { data.clone() } else { out };
    call.inputs[0] = data;
    call.inputs[1] = call.used.text("kernel_layout")?;
    if let Some(bias) = call.inputs.get_mut(2) {
        let layout = Layout::parse(&call.outputs[0])?;
        let part = layout.part('C');
        // A bias by split channels, if it has more than one axis.
        if part == 1 || bias.is_empty() {
            *bias = "C".to_owned();
        }
    }
    Ok(())
}

fn transposed(call: &mut LayoutCall) -> Result<()> {
    call.inputs[0] = call.used.text("layout")?;
    call.inputs[1] = call.used.text("kernel_layout")?;
    if let Some(bias) = call.inputs.get_mut(2) {
        "C".clone_into(bias);
    }
    call.outputs[0].clone_from(&call.inputs[0]);
    Ok(())
}

fn windows(call: &mut LayoutCall) -> Result<()> {
    call.inputs[0] = call.used.text("layout")?;
    call.outputs[0].clone_from(&call.inputs[0]);
    Ok(())
}

/// Returns the axes of a layout in order, without parts: `NCHW16c` becomes `NCHW`.
fn whole(layout: &str) -> Result<String> {
    if layout.is_empty() {
        return Ok(String::new());
    }
    Ok(Layout::parse(layout)?.plain().into_iter().collect())
}

/// Determines the layouts of an operator without a layout function: elementwise ones accept any
/// layout, others whole axes.
fn usual(call: &mut LayoutCall) -> Result<()> {
    let code = call.used.pattern();
    let elementwise = code == pattern::ELEMENTWISE || call.used.op.name.starts_with("elemwise_");
    let first = call.inputs.iter().find(|layout| !layout.is_empty()).cloned().unwrap_or_default();
    if elementwise {
        for layout in &mut call.inputs {
            layout.clone_from(&first);
        }
    } else if code == pattern::BROADCAST && call.inputs.iter().all(|layout| *layout == first) {
        // All are the same, and so is the result.
    } else {
        for layout in &mut call.inputs {
            *layout = whole(layout)?;
        }
        let keeps = code == pattern::BROADCAST && call.inputs.len() > 1
            || matches!(
                call.used.op.name.as_str(),
                "softmax" | "log_softmax" | "batch_norm" | "dropout" | "lrn" | "pad" | "prelu"
            );
        if let Some(out) = call.outputs.first_mut() {
            if keeps { out.clone_from(&call.inputs[0]) } else { out.clear() }
        }
        return Ok(());
    }
    for out in &mut call.outputs {
        out.clone_from(&first);
    }
    Ok(())
}

fn ask(call: &mut LayoutCall) -> Result<()> {
    match call.used.op.cell("FCorrectLayout") {
        Some(Cell::Native(Native::Layout(correct))) => correct(call),
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

/// Runs pass CorrectLayout. Attribute `layout` has the layout of each entry, "__undef__" if it does
/// not matter; `layout_inputs` gives those of variables by name.
pub(super) fn correct_layout(graph: &GraphRef) -> Result<GraphRef> {
    let given: Map<Str, Str> = graph.attr("layout_inputs").unwrap_or_default();
    let last: Vec<String> = graph.attr("layout").unwrap_or_default();
    let mut layouts: Vec<String> = Vec::new();
    let mut changed: HashMap<(usize, String), Value> = HashMap::new();
    let old = IndexedGraph::new(graph)?;
    let has_last = last.len() == old.num_entries();
    let defined = |text: &str| if text == "__undef__" { String::new() } else { text.to_owned() };
    let mut new_layouts: HashMap<usize, String> = HashMap::new();
    let corrected = rewrite(graph, |index, number, inputs| {
        let node = &index.nodes[number];
        if node.node.is_variable() {
            // Without a layout from the caller, a variable stays in the layout that was determined
            // before.
            let before = || if has_last { defined(&last[index.row_ptr[number]]) } else { String::new() };
            layouts.push(given.get(node.node.name.as_str()).map_or_else(before, |layout| defined(&layout)));
            return Ok(None);
        }
        let used = Use::new(&node.node.operator()?, &node.node);
        let have: Vec<String> = node.inputs.iter().map(|entry| layouts[index.entry_id(*entry)].clone()).collect();
        let last_of = |entry: &Entry| if has_last { defined(&last[index.entry_id(*entry)]) } else { String::new() };
        let mut call = LayoutCall {
            used,
            inputs: have.clone(),
            last_inputs: node.inputs.iter().map(last_of).collect(),
            outputs: vec![String::new(); node.num_outputs],
        };
        ask(&mut call).map_err(|error| error.within(&node.node.place()))?;
        let mut values = Vec::new();
        for (place, (value, wanted)) in inputs.iter().zip(&call.inputs).enumerate() {
            let id = index.entry_id(node.inputs[place]);
            let wanted = defined(wanted);
            if have[place].is_empty() && !wanted.is_empty() && value.node.is_variable() {
                // A variable without a layout has the one in which it is read first.
                layouts[id].clone_from(&wanted);
                values.push(value.clone());
                continue;
            }
            if wanted.is_empty() || have[place] == wanted || have[place].is_empty() && whole(&wanted)? == wanted {
                values.push(value.clone());
                continue;
            }
            let from = if have[place].is_empty() { whole(&wanted)? } else { have[place].clone() };
            let key = (id, wanted.clone());
            if let Some(done) = changed.get(&key) {
                values.push(done.clone());
                continue;
            }
            let parse = |layout: &str| {
                let place = format!("{}: input {place}", node.node.place());
                Layout::parse(layout).map_err(|error| error.within(&place))
            };
            let (a, b) = (parse(&from)?, parse(&wanted)?);
            if !a.converts_to(&b) {
                return Err(GraphError::new(format!(
                    "its input {place} is in layout {from}, which cannot become {wanted}"
                ))
                .within(&node.node.place()));
            }
            let name = format!("{}_{wanted}", value.node.name);
            let turned =
                op("__layout_transform__", &name, &[value], &[("src_layout", &from), ("dst_layout", &wanted)])?;
            new_layouts.insert(crate::symbol::address(&turned.node), wanted);
            changed.insert(key, turned.clone());
            values.push(turned);
        }
        layouts.extend(call.outputs.iter().map(|layout| defined(layout)));
        let control = node.node.control_deps.clone();
        let same = node.node.input_values().iter().zip(&values).all(|(old, new)| old.same_as(new));
        let kept = if same && control.is_empty() { node.node.clone() } else { node.node.with_inputs(&values, control) };
        let first = Value::of(kept);
        for output in 0..node.num_outputs {
            if output == 0 {
                new_layouts.insert(crate::symbol::address(&first.node), layouts[index.row_ptr[number]].clone());
            }
        }
        Ok(Some((0..node.num_outputs).map(|output| first.output(output)).collect()))
    })?;
    // The layouts of the new graph's entries, in its order.
    let index = IndexedGraph::new(&corrected)?;
    let mut all = Vec::new();
    for node in &index.nodes {
        let known = match old.number(&node.node) {
            Some(number) => Some(layouts[old.row_ptr[number]].clone()),
            None => new_layouts.get(&crate::symbol::address(&node.node)).cloned(),
        };
        let text = known.filter(|text| !text.is_empty()).unwrap_or_else(|| "__undef__".to_owned());
        all.extend((0..node.num_outputs).map(|_| Str::from(text.as_str())));
    }
    Ok(keep_inputs(graph, &corrected).with_attr("layout", all.into_iter().collect::<Array<Str>>()))
}

/// Runs pass AlterOpLayout: replaces nodes whose operator has `FTVMAlterOpLayout` by its result: a
/// function of the attributes, the inputs as graphs, and tensors that represent inputs and outputs.
/// It returns a graph, or nothing to keep the node.
pub(super) fn alter_op_layout(graph: &GraphRef) -> Result<GraphRef> {
    let shapes: Vec<Shape> = graph.attr("shape")?;
    let codes: Vec<i64> = graph.attr("dtype")?;
    let altered = rewrite(graph, |index, number, inputs| {
        let node = &index.nodes[number];
        if node.node.is_variable() {
            return Ok(None);
        }
        let operator = node.node.operator()?;
        let Some(Cell::Value(value)) = operator.cell("FTVMAlterOpLayout") else { return Ok(None) };
        let within = |error: GraphError| error.within(&format!("{}: FTVMAlterOpLayout", node.node.place()));
        let function: Function = value.to().map_err(|error| within(GraphError::from(error)))?;
        let stand = |entry: Entry| -> Result<kernpack_compiler::ir::Tensor> {
            let id = index.entry_id(entry);
            let (Some(shape), Some(Some(dtype))) =
                (shapes.get(id), codes.get(id).map(|code| attr::type_of_code(*code).ok().flatten()))
            else {
                fail!("the shape or type of its input is not known")
            };
            Ok(kernpack_compiler::te::placeholder(extents(shape), dtype, "x"))
        };
        let own = (0..node.num_outputs).map(|output| Entry { node: number, index: output, version: 0 });
        let stands = node.inputs.iter().copied().chain(own).map(stand).collect::<Result<Vec<_>>>().map_err(within)?;
        kernpack_compiler::take_reported()?;
        let graphs: Array<GraphRef> = inputs.iter().map(|value| Graph::new(core::slice::from_ref(value))).collect();
        let attrs = operator.all_attrs(&node.node.attrs).map_err(within)?;
        let stands: Array<kernpack_compiler::ir::Tensor> = stands.into_iter().collect();
        let made: Any = function.call((attrs, graphs, stands)).map_err(|error| within(error.into()))?;
        if made.is_none() {
            return Ok(None);
        }
        let values = made.to::<GraphRef>().map_err(|error| within(error.into()))?.values();
        if values.len() != node.num_outputs {
            return Err(within(GraphError::new(format!("it gave {} outputs for {}", values.len(), node.num_outputs))));
        }
        Ok(Some(values))
    })?;
    let altered = keep_inputs(graph, &altered);
    // For the next CorrectLayout: the previous layouts of nodes that still have their names.
    let last: Vec<String> = graph.attr("layout").unwrap_or_default();
    let old = IndexedGraph::new(graph)?;
    if last.len() != old.num_entries() {
        return Ok(altered);
    }
    let known: HashMap<&str, usize> =
        old.nodes.iter().enumerate().map(|(number, node)| (node.node.name.as_str(), number)).collect();
    let mut layouts: Vec<Str> = Vec::new();
    for node in &IndexedGraph::new(&altered)?.nodes {
        let before =
            known.get(node.node.name.as_str()).filter(|number| old.nodes[**number].num_outputs == node.num_outputs);
        for output in 0..node.num_outputs {
            let layout = before.map_or("__undef__", |number| last[old.row_ptr[*number] + output].as_str());
            layouts.push(Str::from(layout));
        }
    }
    Ok(altered.with_attr("layout", layouts.into_iter().collect::<Array<Str>>()))
}
