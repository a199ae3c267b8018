//! Passes CorrectLayout and AlterOpLayout: determine the layout of each entry, and change layouts
//! where an operator requires another one.

use std::collections::HashMap;

use kernpack::{Any, Array, Function, Map, Shape, Str};
use kernpack_compiler::with_reported;
use kernpack_graph::op::extents;
use kernpack_graph::{GraphError, Result, fail};

use super::layout::Layout;
use super::layout_rules::{correct, whole};
use super::make::op;
use super::simplify::keep_inputs;
use crate::symbol::registry::Cell;
use crate::symbol::{Entry, Graph, GraphRef, IndexedGraph, IndexedNode, LayoutCall, Use, Value, attr, rewrite};

/// Runs pass CorrectLayout. Attribute `layout` has the layout of each entry, "__undef__" if it does
/// not matter; `layout_inputs` contains those of variables by name.
pub(super) fn correct_layout(graph: &GraphRef) -> Result<GraphRef> {
    let given: Map<Str, Str> = graph.optional_attr("layout_inputs")?.unwrap_or_default();
    let last: Vec<String> = graph.optional_attr("layout")?.unwrap_or_default();
    let mut layouts: Vec<String> = Vec::new();
    let mut changed: HashMap<(usize, String), Value> = HashMap::new();
    let old = IndexedGraph::new(graph)?;
    let has_last = last.len() == old.num_entries();
    let defined = |text: &str| if text == "__undef__" { String::new() } else { text.to_owned() };
    let mut new_layouts: HashMap<usize, Vec<String>> = HashMap::new();
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
        correct(&mut call).map_err(|error| error.within(&node.node.place()))?;
        let mut values = Vec::new();
        for (place, (value, wanted)) in inputs.iter().zip(&call.inputs).enumerate() {
            let id = index.entry_id(node.inputs[place]);
            let wanted = defined(wanted);
            if have[place].is_empty() && !wanted.is_empty() && value.node.is_variable() {
                // A variable without a layout gets the one in which it is read first.
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
            new_layouts.insert(crate::symbol::address(&turned.node), vec![wanted]);
            changed.insert(key, turned.clone());
            values.push(turned);
        }
        layouts.extend(call.outputs.iter().map(|layout| defined(layout)));
        let control = node.node.control_deps.clone();
        let same = node.node.input_values().iter().zip(&values).all(|(old, new)| old.same_as(new));
        let kept = if same && control.is_empty() { node.node.clone() } else { node.node.with_inputs(&values, control) };
        let first = Value::of(kept);
        let own = layouts[index.row_ptr[number]..].to_vec();
        new_layouts.insert(crate::symbol::address(&first.node), own);
        Ok(Some((0..node.num_outputs).map(|output| first.output(output)).collect()))
    })?;
    // The layouts of the new graph's entries, in its order.
    let index = IndexedGraph::new(&corrected)?;
    let mut all = Vec::new();
    for node in &index.nodes {
        let known = match old.number(&node.node) {
            Some(number) => Some(&layouts[old.row_ptr[number]..][..node.num_outputs]),
            None => new_layouts.get(&crate::symbol::address(&node.node)).map(Vec::as_slice),
        };
        let text = |output: usize| known.and_then(|known| known.get(output)).filter(|text| !text.is_empty());
        all.extend((0..node.num_outputs).map(|output| Str::from(text(output).map_or("__undef__", String::as_str))));
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
        let all = node.inputs.iter().copied().chain(own);
        let stands = with_reported(|| all.map(stand).collect::<Result<Vec<_>>>()).map_err(within)?;
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
    // The next CorrectLayout reads the layouts before: those of the entries that unchanged nodes
    // read and give.
    let last: Vec<String> = graph.optional_attr("layout")?.unwrap_or_default();
    let old = IndexedGraph::new(graph)?;
    if last.len() != old.num_entries() {
        return Ok(altered);
    }
    let new = IndexedGraph::new(&altered)?;
    let known: HashMap<(&str, &str), usize> =
        old.nodes.iter().enumerate().map(|(number, node)| ((name_of(node), op_of(node)), number)).collect();
    let mut layouts = vec!["__undef__"; new.num_entries()];
    for (number, node) in new.nodes.iter().enumerate() {
        let Some(&before) = known.get(&(name_of(node), op_of(node))) else { continue };
        let unchanged = &old.nodes[before];
        if unchanged.node.attrs.iter().ne(node.node.attrs.iter()) || unchanged.num_outputs != node.num_outputs {
            continue;
        }
        for (own, entry) in node.inputs.iter().zip(&unchanged.inputs) {
            layouts[new.entry_id(*own)] = &last[old.entry_id(*entry)];
        }
        for output in 0..node.num_outputs {
            layouts[new.row_ptr[number] + output] = &last[old.row_ptr[before] + output];
        }
    }
    let layouts = layouts.into_iter().map(Str::from);
    Ok(altered.with_attr("layout", layouts.collect::<Array<Str>>()))
}

fn name_of(node: &IndexedNode) -> &str {
    node.node.name.as_str()
}

fn op_of(node: &IndexedNode) -> &str {
    node.node.op_name()
}
