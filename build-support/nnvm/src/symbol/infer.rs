//! InferShape and InferType: the inference of the operators, forwards and backwards, until a fixed
//! point is reached.

use std::collections::HashMap;

use kernpack::{Any, Array, DataType, Function, Map, Shape, Str};
use kernpack_graph::{GraphError, Result, fail, require};

use super::attr;
use super::index::IndexedGraph;
use super::native::{Native, PartialShape};
use super::node::{Graph, GraphRef};
use super::registry::{Cell, Use, shapes_any};

/// A kind of facts about entries.
trait Fact: Clone + PartialEq {
    /// The column of operators.
    const KEY: &'static str;
    /// The fact when nothing is known.
    fn unknown() -> Self;
    /// Returns true if it is completely known.
    fn is_known(&self) -> bool;
    /// Merges two facts. Returns `None` if they contradict.
    fn merged(&self, other: &Self) -> Option<Self>;
    /// Formats the fact.
    fn show(&self) -> String;
    /// Calls the inference function of an operator.
    fn infer(used: &Use, cell: Option<Cell>, ins: &mut Vec<Self>, outs: &mut Vec<Self>) -> Result<()>;
}

impl Fact for PartialShape {
    const KEY: &'static str = "FInferShape";

    fn unknown() -> Self {
        Self::new()
    }

    fn is_known(&self) -> bool {
        !self.is_empty() && !self.contains(&0)
    }

    fn merged(&self, other: &Self) -> Option<Self> {
        if self.is_empty() || other.is_empty() {
            return Some(if self.is_empty() { other.clone() } else { self.clone() });
        }
        if self.len() != other.len() {
            return None;
        }
        self.iter()
            .zip(other)
            .map(|(a, b)| if *a == 0 { Some(*b) } else { (*b == 0 || a == b).then_some(*a) })
            .collect()
    }

    fn show(&self) -> String {
        if self.is_empty() { "unknown".to_owned() } else { format!("{self:?}") }
    }

    fn infer(used: &Use, cell: Option<Cell>, ins: &mut Vec<Self>, outs: &mut Vec<Self>) -> Result<()> {
        match cell {
            Some(Cell::Native(Native::InferShape(infer))) => infer(used, ins, outs),
            Some(Cell::Value(value)) => {
                let function: Function = value.to()?;
                let attrs = used.op.all_attrs(used.attrs)?;
                let (a, b): (Vec<Shape>, Vec<Shape>) = function.call_as((attrs, shapes_any(ins), shapes_any(outs)))?;
                require!(
                    a.len() == ins.len() && b.len() == outs.len(),
                    "FInferShape gave {} and {} shapes for {} inputs and {} outputs",
                    a.len(),
                    b.len(),
                    ins.len(),
                    outs.len()
                );
                *ins = a.iter().map(|shape| shape.to_vec()).collect();
                *outs = b.iter().map(|shape| shape.to_vec()).collect();
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Fact for Option<DataType> {
    const KEY: &'static str = "FInferType";

    fn unknown() -> Self {
        None
    }

    fn is_known(&self) -> bool {
        self.is_some()
    }

    fn merged(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Some(a), Some(b)) => (a == b).then_some(Some(*a)),
            _ => Some(self.or(*other)),
        }
    }

    fn show(&self) -> String {
        self.map_or_else(|| "unknown".to_owned(), |dtype| dtype.to_string())
    }

    fn infer(used: &Use, cell: Option<Cell>, ins: &mut Vec<Self>, outs: &mut Vec<Self>) -> Result<()> {
        match cell {
            Some(Cell::Native(Native::InferType(infer))) => infer(used, ins, outs),
            Some(Cell::Value(value)) => {
                let function: Function = value.to()?;
                let codes = |types: &[Self]| types.iter().copied().map(attr::type_code).collect::<Array<i64>>();
                let attrs = used.op.all_attrs(used.attrs)?;
                let (a, b): (Vec<i64>, Vec<i64>) = function.call_as((attrs, codes(ins), codes(outs)))?;
                require!(
                    a.len() == ins.len() && b.len() == outs.len(),
                    "FInferType gave {} and {} types for {} inputs and {} outputs",
                    a.len(),
                    b.len(),
                    ins.len(),
                    outs.len()
                );
                *ins = a.into_iter().map(attr::type_of_code).collect::<Result<_>>()?;
                *outs = b.into_iter().map(attr::type_of_code).collect::<Result<_>>()?;
                Ok(())
            }
            // All are equal.
            _ => {
                let known = ins.iter().chain(outs.iter()).find_map(|dtype| *dtype);
                for dtype in ins.iter_mut().chain(outs.iter_mut()).filter(|dtype| dtype.is_none()) {
                    *dtype = known;
                }
                Ok(())
            }
        }
    }
}

/// Infers the facts of all entries, from those of some.
fn infer<F: Fact>(index: &IndexedGraph, mut facts: Vec<F>) -> Result<(Vec<F>, usize)> {
    let unknown = |facts: &[F]| facts.iter().filter(|fact| !fact.is_known()).count();
    let mut left = unknown(&facts);
    let mut is_forward = true;
    let mut idle = 0;
    loop {
        let mut changed = false;
        for step in 0..index.nodes.len() {
            let number = if is_forward { step } else { index.nodes.len() - 1 - step };
            changed |= infer_node(index, number, &mut facts)?;
        }
        let now = unknown(&facts);
        // Another sweep in the opposite direction if one finds nothing. Operators have checked all
        // facts by then.
        idle = if changed && now <= left { 0 } else { idle + 1 };
        if idle >= 2 || now == 0 && !changed {
            return Ok((facts, now));
        }
        left = now;
        is_forward = !is_forward;
    }
}

fn infer_node<F: Fact>(index: &IndexedGraph, number: usize, facts: &mut [F]) -> Result<bool> {
    let node = &index.nodes[number];
    if node.node.is_variable() {
        return Ok(false);
    }
    let op = node.node.operator()?;
    let used = Use::new(&op, &node.node);
    let count = used.num_inputs().map_err(|error| error.within(&node.node.place()))?;
    require!(node.inputs.len() == count, "{}: {} inputs, and it takes {count}", node.node.place(), node.inputs.len());
    let read = |facts: &[F]| {
        let ins: Vec<F> = node.inputs.iter().map(|entry| facts[index.entry_id(*entry)].clone()).collect();
        let outs: Vec<F> = (0..node.num_outputs).map(|output| facts[index.row_ptr[number] + output].clone()).collect();
        (ins, outs)
    };
    let (old_ins, old_outs) = read(facts);
    let (mut ins, mut outs) = (old_ins.clone(), old_outs.clone());
    F::infer(&used, op.cell(F::KEY), &mut ins, &mut outs).map_err(|error| error.within(&node.node.place()))?;
    let mut changed = false;
    let inputs = node.inputs.iter().map(|entry| index.entry_id(*entry)).zip(&ins);
    let outputs = (0..node.num_outputs).map(|output| index.row_ptr[number] + output).zip(&outs);
    for (place, (id, found)) in inputs.chain(outputs).enumerate() {
        let Some(merged) = facts[id].merged(found) else {
            let (old, found) = (facts[id].show(), found.show());
            let what = match node.inputs.get(place) {
                Some(entry) => {
                    let names = used.input_names().unwrap_or_default();
                    let name = names.get(place).cloned().unwrap_or_else(|| place.to_string());
                    format!("input `{name}` has to be {found}, and is {old} ({})", index.nodes[entry.node].node.place())
                }
                None => format!("output {} has to be {old}, and is {found}", place - node.inputs.len()),
            };
            return Err(GraphError::new(what).within(&node.node.place()));
        };
        if merged != facts[id] {
            changed = true;
            facts[id] = merged;
        }
    }
    Ok(changed)
}

/// The facts that are given for the variables: a map by name, or a list in the order of the
/// variables.
fn given<T>(
    graph: &Graph,
    index: &IndexedGraph,
    key: &str,
    own: [&str; 2],
    convert: impl Fn(&Any) -> Result<T>,
    parse: impl Fn(&str) -> Result<T>,
    mut take: impl FnMut(usize, T),
) -> Result<()> {
    let variables: Vec<usize> = index.variables().collect();
    for number in &variables {
        let node = &index.nodes[*number].node;
        let set = own.into_iter().find_map(|own| Some((own, node.attrs.get(own)?)));
        if let Some((own, text)) = set {
            let value = parse(&text).map_err(|error| error.within(&format!("{}: attribute `{own}`", node.place())))?;
            take(index.row_ptr[*number], value);
        }
    }
    let Some(all) = graph.attrs.get(key) else { return Ok(()) };
    if let Ok(by_name) = all.to::<Map<Str, Any>>() {
        // Of several variables of one name, the first.
        let numbers: HashMap<&str, usize> =
            variables.iter().rev().map(|number| (index.nodes[*number].node.name.as_str(), *number)).collect();
        for (name, value) in by_name.iter() {
            let value = convert(&value).map_err(|error| error.within(&format!("`{key}`: variable '{name}'")))?;
            // Names that the graph no longer has are not an error: a pass may have removed them.
            if let Some(number) = numbers.get(name.as_str()) {
                take(index.row_ptr[*number], value);
            }
        }
        return Ok(());
    }
    let Ok(list) = all.to::<Array<Any>>() else {
        fail!(
            "graph attribute `{key}` is {}, and has to be a map by the names of variables, or a list",
            all.type_name()
        )
    };
    require!(list.len() <= variables.len(), "`{key}` has {} elements for {} variables", list.len(), variables.len());
    for (number, value) in variables.iter().zip(list.iter()) {
        let value = convert(&value).map_err(|error| error.within(&format!("`{key}`")))?;
        take(index.row_ptr[*number], value);
    }
    Ok(())
}

/// Converts a shape from another language.
fn shape_of(value: &Any) -> Result<PartialShape> {
    let shape = value.to::<Shape>()?.to_vec();
    if let Some(extent) = shape.iter().find(|extent| **extent < 0) {
        fail!("the extent {extent} of {shape:?} is negative: 0 stands for one that is not known");
    }
    Ok(shape)
}

/// Converts an element type from another language: the type, its name, or NNVM's number.
pub(crate) fn type_of(value: &Any) -> Result<Option<DataType>> {
    if let Ok(code) = value.to::<i64>() {
        return attr::type_of_code(code);
    }
    if let Ok(text) = value.to::<String>() {
        return attr::data_type(&text).map(Some);
    }
    Ok(Some(value.to::<DataType>()?))
}

/// Returns the shapes of all entries. Unknown ones are empty, or have extents of 0.
///
/// # Errors
/// Returns an error for shapes that contradict each other.
pub fn shapes(graph: &Graph, index: &IndexedGraph) -> Result<Vec<PartialShape>> {
    let mut facts = vec![PartialShape::unknown(); index.num_entries()];
    let own = ["__shape__", &graph.optional_attr::<String>("shape_attr_key")?.unwrap_or_else(|| "shape".to_owned())];
    given(graph, index, "shape_inputs", own, shape_of, attr::ints, |id, shape| {
        // As in NNVM, an unknown shape leaves the attribute of the variable.
        if shape != PartialShape::unknown() {
            facts[id] = shape;
        }
    })?;
    if let Ok(old) = graph.attr::<Vec<Shape>>("shape")
        && old.len() == facts.len()
    {
        for (fact, old) in facts.iter_mut().zip(&old) {
            if let Some(merged) = fact.merged(&old.to_vec()) {
                *fact = merged;
            }
        }
    }
    infer(index, facts).map(|(shapes, _)| shapes)
}

/// Returns the element types of all entries, as far as they are known.
///
/// # Errors
/// Returns an error for types that contradict each other.
pub fn types(graph: &Graph, index: &IndexedGraph) -> Result<Vec<Option<DataType>>> {
    let mut facts = vec![None; index.num_entries()];
    let parse = |text: &str| match attr::int(text) {
        Ok(code) => attr::type_of_code(code),
        Err(_) => attr::data_type(text).map(Some),
    };
    let own = ["__dtype__", &graph.optional_attr::<String>("dtype_attr_key")?.unwrap_or_else(|| "dtype".to_owned())];
    given(graph, index, "dtype_inputs", own, type_of, parse, |id, dtype| facts[id] = dtype.or(facts[id]))?;
    infer(index, facts).map(|(types, _)| types)
}

/// Runs pass InferShape.
pub(super) fn infer_shape(graph: &GraphRef) -> Result<GraphRef> {
    let index = IndexedGraph::new(graph)?;
    let shapes = shapes(graph, &index)?;
    let unknown = shapes.iter().filter(|shape| !shape.is_known()).count();
    let unknown = i64::try_from(unknown).unwrap_or(i64::MAX);
    Ok(graph.with_attr("shape", shapes_any(&shapes)).with_attr("shape_num_unknown_nodes", unknown))
}

/// Runs pass InferType.
pub(super) fn infer_type(graph: &GraphRef) -> Result<GraphRef> {
    let index = IndexedGraph::new(graph)?;
    let types = types(graph, &index)?;
    let unknown = i64::try_from(types.iter().filter(|dtype| dtype.is_none()).count()).unwrap_or(i64::MAX);
    let codes: Array<i64> = types.into_iter().map(attr::type_code).collect();
    Ok(graph.with_attr("dtype", codes).with_attr("dtype_num_unknown_nodes", unknown))
}

/// Returns shapes and types, all of which must be known.
///
/// # Errors
/// Returns an error for unknown entries, with the variables that need more information.
pub fn complete(graph: &Graph, index: &IndexedGraph) -> Result<(Vec<Vec<i64>>, Vec<DataType>)> {
    let (shapes, types) = (shapes(graph, index)?, types(graph, index)?);
    let missing = |known: &dyn Fn(usize) -> bool| -> Vec<String> {
        let unknown = (0..index.nodes.len()).filter(|number| !known(index.row_ptr[*number]));
        let mut places: Vec<String> = unknown.map(|number| index.nodes[number].node.place()).collect();
        if places.len() > 5 {
            let more = places.len() - 5;
            places.truncate(5);
            places.push(format!("and {more} more"));
        }
        places
    };
    let open = missing(&|id| shapes[id].is_known());
    require!(
        open.is_empty(),
        "the shapes of {} are not known: give those of the inputs (`shape`, or the graph attribute `shape_inputs`)",
        open.join(", ")
    );
    let open = missing(&|id| types[id].is_some());
    require!(
        open.is_empty(),
        "the element types of {} are not known: give those of the inputs (`dtype`, or the graph attribute `dtype_inputs`)",
        open.join(", ")
    );
    Ok((shapes, types.into_iter().flatten().collect()))
}
