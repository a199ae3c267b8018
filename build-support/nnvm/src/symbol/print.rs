//! Graphs as text for people: a line for each node.

use kernpack::Shape;
use kernpack_graph::Result;

use super::compose::output_name;
use super::index::IndexedGraph;
use super::node::Graph;

/// Formats the graph as text: variables and nodes with their attributes and, if they are known,
/// shapes and types.
///
/// # Errors
/// Returns an error for an invalid graph.
pub fn print(graph: &Graph) -> Result<String> {
    let index = IndexedGraph::new(graph)?;
    let shapes: Option<Vec<Shape>> =
        graph.attr("shape").ok().filter(|shapes: &Vec<Shape>| shapes.len() == index.num_entries());
    let types: Option<Vec<i64>> =
        graph.attr("dtype").ok().filter(|types: &Vec<i64>| types.len() == index.num_entries());
    let describe = |id: usize| {
        let mut text = String::new();
        if let Some(types) = &types
            && let Ok(Some(dtype)) = super::attr::type_of_code(types[id])
        {
            text.push_str(&dtype.to_string());
        }
        if let Some(shapes) = &shapes {
            text.push_str(&format!("{:?}", &shapes[id][..]));
        }
        if text.is_empty() { text } else { format!(": {text}") }
    };
    let name = |entry: &super::Entry| {
        if index.nodes[entry.node].num_outputs == 1 {
            format!("%{}", entry.node)
        } else {
            format!("%{}.{}", entry.node, entry.index)
        }
    };
    let mut lines = Vec::new();
    for (number, node) in index.nodes.iter().enumerate() {
        let types: Vec<String> = (0..node.num_outputs).map(|output| describe(index.row_ptr[number] + output)).collect();
        let mut attrs: Vec<String> = node.node.attrs.iter().map(|(key, value)| format!("{key}={value}")).collect();
        attrs.sort();
        let own = &node.node.name;
        let line = if node.node.is_variable() {
            format!(
                "%{number}{} = variable {own}{}",
                types.join(","),
                attrs.iter().map(|attr| format!(" {attr}")).collect::<String>()
            )
        } else {
            let inputs: Vec<String> = node.inputs.iter().map(name).chain(attrs).collect();
            let after: Vec<String> = node.control_deps.iter().map(|before| format!("%{before}")).collect();
            let after = if after.is_empty() { String::new() } else { format!(" after {}", after.join(", ")) };
            format!("%{number}{} = {}({}){after}  # {own}", types.join(","), node.node.op_name(), inputs.join(", "))
        };
        lines.push(line);
    }
    let outputs: Vec<String> = index
        .outputs
        .iter()
        .zip(graph.values())
        .map(|(entry, value)| Ok(format!("{} as {}", name(entry), output_name(&value)?)))
        .collect::<Result<_>>()?;
    lines.push(format!("return {}", outputs.join(", ")));
    Ok(lines.join("\n"))
}
