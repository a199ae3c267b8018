//! Symbols: graphs that are composed by applying operators, as in NNVM.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use kernpack::{Map, Str};
use kernpack_graph::{GraphError, Result, fail, require};

use super::index::IndexedGraph;
use super::node::{Graph, GraphRef, Node, Value};
use super::registry::{self, Use};
use super::rewrite;

/// Returns a name for an unnamed node: the operator's in lower case, and a number. Names of
/// different threads do not conflict.
pub fn fresh_name(op: &str) -> String {
    static COUNTERS: Mutex<Option<HashMap<String, AtomicUsize>>> = Mutex::new(None);
    let mut counters = COUNTERS.lock().unwrap_or_else(PoisonError::into_inner);
    let op = op.to_lowercase();
    let counter = counters.get_or_insert_default().entry(op.clone()).or_default();
    format!("{op}{}", counter.fetch_add(1, Ordering::Relaxed))
}

/// Returns a graph of some values.
pub fn graph_of(values: &[Value]) -> GraphRef {
    Graph::new(values)
}

/// Applies an operator and returns its outputs. Missing inputs become variables named
/// `<node>_<input>`. An unnamed node gets a name.
///
/// # Errors
/// Returns an error for an unregistered operator, for unknown attributes, and for too many inputs.
pub fn apply(op: &str, name: &str, inputs: &[Value], attrs: &[(&str, &str)]) -> Result<Vec<Value>> {
    let attrs: Map<Str, Str> = attrs.iter().map(|(key, value)| (Str::from(*key), Str::from(*value))).collect();
    apply_named(op, name, inputs, &[], &attrs)
}

/// Like [`apply`], with inputs by position followed by inputs by name.
///
/// # Errors
/// As for [`apply`], and for an unknown name of an input.
pub fn apply_named(
    op: &str,
    name: &str,
    inputs: &[Value],
    named: &[(String, Value)],
    attrs: &Map<Str, Str>,
) -> Result<Vec<Value>> {
    let operator = registry::find(op)?;
    let name = if name.is_empty() { fresh_name(op) } else { name.to_owned() };
    let place = format!("node '{name}' ({op})");
    let made = (|| {
        operator.check_attrs(attrs)?;
        let used = Use { op: operator.clone(), attrs, num_inputs: inputs.len() + named.len() };
        let count = used.num_inputs()?;
        let names = used.input_names()?;
        require!(inputs.len() <= count, "{} inputs, and it takes {count}: {}", inputs.len(), names.join(", "));
        let mut slots: Vec<Option<Value>> = inputs.iter().cloned().map(Some).collect();
        slots.resize(count, None);
        for (input, value) in named {
            match names.iter().position(|known| known == input) {
                Some(place) if slots.get(place).is_some_and(Option::is_none) => slots[place] = Some(value.clone()),
                Some(_) => fail!("input `{input}` is given twice"),
                None => fail!("there is no input `{input}`; the inputs are {}", names.join(", ")),
            }
        }
        let missing = |(slot, input): (Option<Value>, &String)| {
            slot.unwrap_or_else(|| Value::variable(&format!("{name}_{input}")))
        };
        Ok(slots.into_iter().zip(&names).map(missing).collect::<Vec<Value>>())
    })();
    let mut values = made.map_err(|error: GraphError| error.within(&place))?;
    for value in &mut values {
        if value.node.is_variable() {
            value.version = value.node.version();
        }
    }
    let node = Node::new(Some(op), &name, attrs.clone(), &values);
    let used = Use::new(&operator, &node);
    for index in used.indices("FMutateInputs").map_err(|error| error.within(&place))? {
        let Some(value) = values.get(index) else { continue };
        if !value.node.is_variable() {
            let what = format!("input {index} is written to, but is not a variable: it is {}", value.node.place());
            return Err(GraphError::new(what).within(&place));
        }
        value.node.written();
    }
    let count = used.num_outputs().map_err(|error| error.within(&place))?;
    let first = Value::of(node);
    Ok((0..count).map(|index| first.output(index)).collect())
}

/// Returns the outputs of several graphs as one graph.
pub fn group(graphs: &[GraphRef]) -> GraphRef {
    let values: Vec<Value> = graphs.iter().flat_map(|graph| graph.values()).collect();
    Graph::new(&values)
}

/// Returns all entries of a graph as outputs.
///
/// # Errors
/// Returns an error for an invalid graph.
pub fn internals(graph: &Graph) -> Result<GraphRef> {
    let index = IndexedGraph::new(graph)?;
    let mut values = Vec::new();
    for node in &index.nodes {
        let first = Value::of(node.node.clone());
        values.extend((0..node.num_outputs).map(|output| first.output(output)));
    }
    Ok(Graph::new(&values))
}

/// Returns the names of the variables.
///
/// # Errors
/// Returns an error for an invalid graph.
pub fn list_inputs(graph: &Graph) -> Result<Vec<String>> {
    let index = IndexedGraph::new(graph)?;
    Ok(index.variables().map(|number| index.nodes[number].node.name.as_str().to_owned()).collect())
}

/// Returns the names of the variables that nodes write to.
///
/// # Errors
/// Returns an error for an invalid graph.
pub fn mutated(graph: &Graph) -> Result<Vec<String>> {
    let index = IndexedGraph::new(graph)?;
    let is_written = written(&index)?;
    Ok(index
        .variables()
        .filter(|number| is_written[*number])
        .map(|number| index.nodes[number].node.name.as_str().to_owned())
        .collect())
}

/// Returns for each node of a graph whether another node writes to it.
pub(crate) fn written(index: &IndexedGraph) -> Result<Vec<bool>> {
    let mut is_written = vec![false; index.nodes.len()];
    for node in index.nodes.iter().filter(|node| !node.node.is_variable()) {
        let Ok(op) = node.node.operator() else { continue };
        for input in Use::new(&op, &node.node).indices("FMutateInputs")? {
            if let Some(entry) = node.inputs.get(input) {
                is_written[entry.node] = true;
            }
        }
    }
    Ok(is_written)
}

/// Returns the names of the outputs: `<node>_<output>`, or the name itself for a variable.
///
/// # Errors
/// Returns an error for an invalid graph.
pub fn list_outputs(graph: &Graph) -> Result<Vec<String>> {
    IndexedGraph::new(graph)?;
    graph.values().iter().map(output_name).collect()
}

/// Returns the name of an output.
pub(crate) fn output_name(value: &Value) -> Result<String> {
    if value.node.is_variable() {
        return Ok(value.node.name.as_str().to_owned());
    }
    let names = match value.node.operator() {
        Ok(op) => Use::new(&op, &value.node).output_names()?,
        Err(_) => Vec::new(),
    };
    let own = names.get(value.index).cloned().unwrap_or_else(|| format!("output{}", value.index));
    Ok(format!("{}_{own}", value.node.name))
}

/// Returns the graph with variables replaced by the outputs of other graphs.
///
/// # Errors
/// Returns an error for a name that no variable has.
pub fn compose(graph: &Graph, by_name: &[(String, Value)]) -> Result<GraphRef> {
    let known = list_inputs(graph)?;
    for (name, _) in by_name {
        require!(known.contains(name), "there is no variable `{name}`; the variables are {}", known.join(", "));
    }
    rewrite(graph, |index, number, _| {
        let node = &index.nodes[number].node;
        if !node.is_variable() {
            return Ok(None);
        }
        let replaced = by_name.iter().find(|(name, _)| name == node.name.as_str());
        Ok(replaced.map(|(_, value)| vec![value.clone()]))
    })
}
