//! Graphs, operators and passes for other languages: `kernpack.graph.*`.

use kernpack::{Any, Function, Map, ObjRef, Result, Str, error, packed_func};
use linkme::distributed_slice;

use super::node::{Graph, GraphRef, Node, NodeEntry, Value};
use super::registry::{self, Arity, Cell, OpRef};

/// Creates a variable, as a graph with one output.
#[packed_func(name = "kernpack.graph.variable")]
fn variable(name: &str, attrs: Map<Str, Str>) -> GraphRef {
    Graph::new(&[Value::of(Node::new(None, name, attrs, &[]))])
}

/// Returns the only output of a graph.
fn single(graph: &GraphRef, what: &str) -> Result<Value> {
    let mut values = graph.values();
    match values.pop() {
        Some(value) if values.is_empty() => Ok(value),
        last => Err(error!(
            ValueError,
            "{what} is a graph of {} outputs, not one: take one with `kernpack.graph.output`",
            values.len() + usize::from(last.is_some())
        )),
    }
}

/// Applies an operator to graphs of one output each, by position and by name; inputs that are not
/// given become variables. An operator of any number of inputs takes graphs of several outputs as
/// well. A node without a name gets one. The result has the visible outputs of the node:
/// `batch_norm` has one.
#[packed_func(name = "kernpack.graph.apply_op")]
fn apply_op(
    op: &str,
    name: &str,
    inputs: Vec<GraphRef>,
    named: Map<Str, GraphRef>,
    attrs: Map<Str, Str>,
) -> Result<GraphRef> {
    let operator = registry::find(op)?;
    let mut values = Vec::new();
    for (index, input) in inputs.iter().enumerate() {
        if operator.is_variadic() || inputs.len() == 1 && named.is_empty() {
            values.extend(input.values());
        } else {
            values.push(single(input, &format!("input {index} of {op}"))?);
        }
    }
    let named = named
        .iter()
        .map(|(key, graph)| Ok((key.as_str().to_owned(), single(&graph, &format!("input `{key}` of {op}"))?)));
    let mut outputs = super::apply_named(op, name, &values, &named.collect::<Result<Vec<_>>>()?, &attrs)?;
    if let Some(Cell::Value(count)) = operator.cell("FNumVisibleOutputs") {
        outputs.truncate(usize::try_from(count.to::<i64>()?).unwrap_or(usize::MAX));
    }
    Ok(Graph::new(&outputs))
}

/// Returns the outputs of several graphs as one graph.
#[packed_func(name = "kernpack.graph.group")]
fn group(graphs: Vec<GraphRef>) -> GraphRef {
    super::group(&graphs)
}

/// Returns one output of a graph, by index or by name.
#[packed_func(name = "kernpack.graph.output")]
fn output(graph: GraphRef, which: Any) -> Result<GraphRef> {
    let names = super::list_outputs(&graph)?;
    let index = match which.to::<i64>() {
        Ok(index) => usize::try_from(index).ok(),
        Err(_) => {
            let name: String = which.to()?;
            names.iter().position(|known| *known == name)
        }
    };
    match index.and_then(|index| graph.values().get(index).cloned()) {
        Some(value) => Ok(Graph::new(&[value])),
        None => Err(error!(IndexError, "there is no such output; the outputs are {}", names.join(", "))),
    }
}

/// Returns all entries of a graph as its outputs.
#[packed_func(name = "kernpack.graph.internals")]
fn internals(graph: GraphRef) -> Result<GraphRef> {
    Ok(super::internals(&graph)?)
}

/// Returns the entries that the outputs read directly, as outputs. Empty for a variable.
#[packed_func(name = "kernpack.graph.children")]
fn children(graph: GraphRef) -> GraphRef {
    let values: Vec<Value> = graph.values().iter().flat_map(|value| value.node.input_values()).collect();
    Graph::new(&values)
}

/// Returns the names of variables: `all`, `read_only`, or `aux_state` for those that nodes write
/// to.
#[packed_func(name = "kernpack.graph.list_input_names")]
fn list_input_names(graph: GraphRef, option: &str) -> Result<Vec<String>> {
    let (all, written) = (super::list_inputs(&graph)?, super::mutated(&graph)?);
    match option {
        "all" => Ok(all),
        "read_only" => Ok(all.into_iter().filter(|name| !written.contains(name)).collect()),
        "aux_state" => Ok(written),
        other => Err(error!(ValueError, "unknown option `{other}`: it is `all`, `read_only` or `aux_state`")),
    }
}

/// Returns the names of the outputs.
#[packed_func(name = "kernpack.graph.list_output_names")]
fn list_output_names(graph: GraphRef) -> Result<Vec<String>> {
    Ok(super::list_outputs(&graph)?)
}

/// Returns the graph with variables replaced by graphs with one output, by their names.
#[packed_func(name = "kernpack.graph.compose")]
fn compose(graph: GraphRef, by_name: Map<Str, GraphRef>) -> Result<GraphRef> {
    let values =
        by_name.iter().map(|(name, graph)| Ok((name.as_str().to_owned(), single(&graph, &format!("`{name}`"))?)));
    Ok(super::compose(&graph, &values.collect::<Result<Vec<_>>>()?)?)
}

/// Returns a graph with added or changed attributes of the first node of its outputs.
#[packed_func(name = "kernpack.graph.set_node_attrs")]
fn set_node_attrs(graph: GraphRef, attrs: Map<Str, Str>) -> Result<GraphRef> {
    let value = single(&graph, "it")?;
    let kept = value.node.attrs.iter().filter(|(key, _)| attrs.get(key.as_str()).is_none());
    let node = value.node.with_attrs(kept.chain(attrs.iter()).collect());
    if let Some(op) = &node.op {
        registry::find(op)?.check_attrs(&node.attrs)?;
    }
    Ok(Graph::new(&[Value { node, ..value }]))
}

/// Creates a node from its parts. An empty operator means a variable.
#[packed_func(name = "kernpack.graph.node")]
fn node(op: &str, name: &str, inputs: Vec<ObjRef<NodeEntry>>, attrs: Map<Str, Str>) -> ObjRef<Node> {
    let values: Vec<Value> = inputs.iter().map(|entry| Value::from(&**entry)).collect();
    Node::new((!op.is_empty()).then_some(op), name, attrs, &values)
}

/// Reads a graph from NNVM's JSON.
#[packed_func(name = "kernpack.graph.load_json")]
fn load_json(text: &str) -> Result<GraphRef> {
    Ok(super::load_json(text)?)
}

/// Writes a graph in NNVM's format.
#[packed_func(name = "kernpack.graph.save_json")]
fn save_json(graph: GraphRef) -> Result<String> {
    Ok(super::save_json(&graph)?)
}

/// Returns the graph as text, a line for each node.
#[packed_func(name = "kernpack.graph.print")]
fn print(graph: GraphRef) -> Result<String> {
    Ok(super::print(&graph)?)
}

/// Returns the first difference between two graphs, or nothing if they compute the same. With
/// `names`, names and the attributes of variables are compared, too.
#[packed_func(name = "kernpack.graph.difference")]
fn difference(left: GraphRef, right: GraphRef, names: bool) -> Result<Option<String>> {
    Ok(super::difference(&left, &right, names)?)
}

/// Applies passes by name and returns the resulting graph.
#[packed_func(name = "kernpack.graph.apply")]
fn apply(graph: GraphRef, passes: Any) -> Result<GraphRef> {
    let names = match passes.to::<String>() {
        Ok(name) => vec![name],
        Err(_) => passes.to::<Vec<String>>()?,
    };
    Ok(super::pass::apply(&graph, &names.iter().map(String::as_str).collect::<Vec<_>>())?)
}

/// Returns an attribute of a graph.
#[packed_func(name = "kernpack.graph.attr")]
fn attr(graph: GraphRef, key: &str) -> Result<Any> {
    Ok(graph.attr::<Any>(key)?)
}

/// Returns true if a graph has an attribute.
#[packed_func(name = "kernpack.graph.has_attr")]
fn has_attr(graph: GraphRef, key: &str) -> bool {
    graph.attrs.get(key).is_some()
}

/// Returns the graph with an attribute.
#[packed_func(name = "kernpack.graph.set_attr")]
fn set_attr(graph: GraphRef, key: &str, value: Any) -> GraphRef {
    graph.with_attr(key, value)
}

/// Returns the graph without an attribute, and the attribute.
#[packed_func(name = "kernpack.graph.move_attr")]
fn move_attr(graph: GraphRef, key: &str) -> Result<(GraphRef, Any)> {
    let value = graph.attr::<Any>(key)?;
    Ok((graph.without_attrs(&[key]), value))
}

/// Returns the index of the first entry of each node, followed by the number of all entries: the
/// indices of the lists `shape` and `dtype`.
#[packed_func(name = "kernpack.graph.node_row_ptr")]
fn node_row_ptr(graph: GraphRef) -> Result<Vec<i64>> {
    let index = super::IndexedGraph::new(&graph)?;
    Ok(index.row_ptr.iter().filter_map(|row| i64::try_from(*row).ok()).collect())
}

/// Returns an operator.
#[packed_func(name = "kernpack.graph.op")]
fn op(name: &str) -> Result<OpRef> {
    Ok(registry::find(name)?)
}

/// Returns the names of all operators.
#[packed_func(name = "kernpack.graph.op_names")]
fn op_names() -> Vec<String> {
    registry::names()
}

/// Returns an operator's attribute, or nothing.
#[packed_func(name = "kernpack.graph.op_attr")]
fn op_attr(name: &str, key: &str) -> Result<Any> {
    let op = registry::find(name)?;
    Ok(op.cell(key).map_or(Any::NONE, |cell| registry::as_any(&op, key, cell)))
}

/// Converts a number, a function of the attributes, or -1 for any number.
fn arity(value: &Any) -> Result<Arity> {
    if let Ok(function) = value.to::<Function>() {
        return Ok(Arity::Foreign(function));
    }
    let count: i64 = value.to()?;
    Ok(usize::try_from(count).map_or(Arity::Any, Arity::Fixed))
}

/// Registers an operator. The numbers of inputs and outputs are numbers, functions of the
/// attributes, or -1 for any number.
#[packed_func(name = "kernpack.graph.op_register")]
fn op_register(name: &str, doc: &str, arguments: Vec<String>, num_inputs: Any, num_outputs: Any) -> Result<OpRef> {
    Ok(registry::register(name, doc, arguments, arity(&num_inputs)?, arity(&num_outputs)?)?)
}

/// Sets an attribute of an operator. One with a higher priority replaces one with a lower priority;
/// two with the same are an error. The default is 10.
#[packed_func(name = "kernpack.graph.op_set_attr")]
fn op_set_attr(name: &str, key: &str, value: Any, priority: i64) -> Result<()> {
    Ok(registry::find(name)?.set_cell(key, Cell::Value(value), priority, "a call of kernpack.graph.op_set_attr")?)
}

/// Registers a pass: a function from a graph to a graph, with the attributes of graphs that it
/// requires and provides.
#[packed_func(name = "kernpack.graph.pass_register")]
fn pass_register(name: &str, function: Function, requires: Vec<String>, provides: Vec<String>) -> Result<()> {
    Ok(super::pass::register(name, &function, requires, provides)?)
}

/// Returns the names of all passes.
#[packed_func(name = "kernpack.graph.pass_names")]
fn pass_names() -> Vec<String> {
    super::pass::names()
}

/// Returns the attributes that a pass requires, and those that it provides.
#[packed_func(name = "kernpack.graph.pass_info")]
fn pass_info(name: &str) -> Result<(Vec<String>, Vec<String>)> {
    Ok(super::pass::describe(name)?)
}

/// Defines passes with their packed functions.
macro_rules! passes {
    ($($(#[doc = $doc:literal])* $id:ident $function:ident $name:literal $packed:literal [$($requires:literal),*] [$($provides:literal),*] $run:path;)*) => { $(
        #[distributed_slice($crate::symbol::pass::PASSES)]
        static $id: $crate::symbol::pass::PassInfo = $crate::symbol::pass::PassInfo {
            name: $name,
            doc: concat!($($doc),*),
            requires: &[$($requires),*],
            provides: &[$($provides),*],
            run: $run,
        };

        $(#[doc = $doc])*
        #[packed_func(name = $packed)]
        fn $function(graph: $crate::symbol::GraphRef) -> kernpack::Result<$crate::symbol::GraphRef> {
            Ok($crate::symbol::apply_passes(&graph, &[$name])?)
        }
    )* };
}
pub(crate) use passes;

fn save_json_pass(graph: &GraphRef) -> kernpack_graph::Result<GraphRef> {
    let text = super::save_json(&graph.without_attrs(&["json"]))?;
    Ok(graph.with_attr("json", text))
}

fn load_json_pass(graph: &GraphRef) -> kernpack_graph::Result<GraphRef> {
    super::load_json(&graph.attr::<String>("json")?)
}

fn print_pass(graph: &GraphRef) -> kernpack_graph::Result<GraphRef> {
    let text = super::print(graph)?;
    Ok(graph.with_attr("graphir", text))
}

passes! {
    /// Infers the shapes of all entries.
    INFER_SHAPE infer_shape "InferShape" "kernpack.graph.pass.InferShape" [] ["shape"] super::infer::infer_shape;
    /// Infers the element types of all entries.
    INFER_TYPE infer_type "InferType" "kernpack.graph.pass.InferType" [] ["dtype"] super::infer::infer_type;
    /// Orders nodes that read a variable and nodes that write to it.
    ORDER_MUTATION order_mutation "OrderMutation" "kernpack.graph.pass.OrderMutation" [] [] super::order::order_mutation;
    /// Assigns a device to each node, and copies values that change devices.
    PLACE_DEVICE place_device "PlaceDevice" "kernpack.graph.pass.PlaceDevice" ["device_group_attr_key", "device_assign_map", "device_copy_op"] ["device"] super::place_device::place_device;
    /// Stores the graph as JSON in an attribute.
    SAVE_JSON save_json_pass_packed "SaveJSON" "kernpack.graph.pass.SaveJSON" [] ["json"] save_json_pass;
    /// Loads the graph from JSON in an attribute.
    LOAD_JSON load_json_pass_packed "LoadJSON" "kernpack.graph.pass.LoadJSON" ["json"] [] load_json_pass;
    /// Stores the graph as text in an attribute.
    PRINT_GRAPH print_pass_packed "PrintGraphIR" "kernpack.graph.pass.PrintGraphIR" [] ["graphir"] print_pass;
}
