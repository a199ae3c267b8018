//! Graphs as JSON, byte for byte as NNVM 0.2 to 0.6 wrote them.

use kernpack::{Any, Array, Map, ObjRef, Shape, Str};
use kernpack_graph::{Result, fail, require};

use super::index::IndexedGraph;
use super::json_text::{self, Json, Writer};
use super::node::{Graph, GraphRef, Node, NodeRef, Typed, Value};
use super::registry::shapes_any;

/// The maximum index of an output, and the maximum version, in a file.
const MOST: i64 = 1 << 20;

/// Reads a graph. Operators need not be registered. Functions that need a registered operator
/// report its absence.
///
/// # Errors
/// Returns an error if the text is not a graph, with the position in the text or the name of the
/// node.
pub fn load(text: &str) -> Result<GraphRef> {
    let json = json_text::read(text).map_err(|error| error.within("the graph is not JSON"))?;
    graph(&json, "the graph", 0)
}

type Members = [(String, Json)];

fn members<'a>(json: &'a Json, what: &str) -> Result<&'a Members> {
    match json {
        Json::Object(members) => Ok(members),
        other => fail!("{what} is {}, not an object", other.kind()),
    }
}

fn find<'a>(members: &'a Members, name: &str) -> Option<&'a Json> {
    members.iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

fn list<'a>(json: Option<&'a Json>, what: &str) -> Result<&'a [Json]> {
    match json {
        Some(Json::List(values)) => Ok(values),
        Some(other) => fail!("{what} is {}, not a list", other.kind()),
        None => fail!("{what} is missing"),
    }
}

fn text<'a>(json: &'a Json, what: &str) -> Result<&'a str> {
    match json {
        Json::Text(text) => Ok(text),
        other => fail!("{what} is {}, not a text", other.kind()),
    }
}

fn ints(json: &Json, what: &str) -> Result<Vec<i64>> {
    list(Some(json), what)?
        .iter()
        .map(|value| match value {
            Json::Int(value) => Ok(*value),
            other => fail!("{what} has {}, where an integer is expected", other.kind()),
        })
        .collect()
}

fn graph(json: &Json, what: &str, depth: usize) -> Result<GraphRef> {
    require!(depth < 8, "{what}: graphs in graphs are nested too deeply");
    let members = members(json, what)?;
    let listed = list(find(members, "nodes"), &format!("{what}: `nodes`"))?;
    let mut nodes: Vec<NodeRef> = Vec::with_capacity(listed.len());
    for (number, json) in listed.iter().enumerate() {
        let made = node(json, &nodes, depth).map_err(|error| error.within(&format!("{what}: node {number}")))?;
        nodes.push(made);
    }
    let heads = list(find(members, "heads"), &format!("{what}: `heads`"))?;
    let heads = heads.iter().map(|head| entry(head, &nodes)).collect::<Result<Vec<Value>>>();
    let heads = heads.map_err(|error| error.within(&format!("{what}: `heads`")))?;
    check_arguments(members, &nodes).map_err(|error| error.within(what))?;
    let mut attrs: Vec<(Str, Any)> = Vec::new();
    if let Some(own) = find(members, "attrs") {
        for (name, value) in self::members(own, &format!("{what}: `attrs`"))? {
            let value = attribute(value).map_err(|error| error.within(&format!("{what}: attribute `{name}`")))?;
            attrs.push((name.as_str().into(), value));
        }
    }
    let graph = Graph::with(&heads, attrs.into_iter().collect());
    // Checks for outputs that a node does not have.
    IndexedGraph::new(&graph).map_err(|error| error.within(what))?;
    Ok(graph)
}

/// Checks members that follow from the nodes. They are optional, but must match if they are
/// present.
fn check_arguments(members: &Members, nodes: &[NodeRef]) -> Result<()> {
    let Some(listed) = find(members, "arg_nodes") else { return Ok(()) };
    for number in ints(listed, "`arg_nodes`")? {
        let node = usize::try_from(number).ok().and_then(|number| nodes.get(number));
        require!(
            node.is_some_and(|node| node.is_variable()),
            "`arg_nodes` has {number}, which is not a variable: the graph has {} nodes",
            nodes.len()
        );
    }
    if let Some(rows) = find(members, "node_row_ptr") {
        let rows = ints(rows, "`node_row_ptr`")?;
        require!(
            rows.len() == nodes.len() + 1 && rows.is_sorted(),
            "`node_row_ptr` has {} numbers for {} nodes, or is not sorted",
            rows.len(),
            nodes.len()
        );
    }
    Ok(())
}

fn node(json: &Json, nodes: &[NodeRef], depth: usize) -> Result<NodeRef> {
    let members = members(json, "it")?;
    let op = match find(members, "op") {
        Some(op) => text(op, "`op`")?,
        None => fail!("`op` is missing"),
    };
    let name = find(members, "name").map_or(Ok(""), |name| text(name, "`name`"))?;
    let mut attrs: Vec<(Str, Str)> = Vec::new();
    // Three generations of spellings, of which a file has one or two.
    for key in ["param", "attr", "attrs"] {
        let Some(own) = find(members, key) else { continue };
        for (name, value) in self::members(own, &format!("`{key}`"))? {
            let value = text(value, &format!("attribute `{name}`"))?;
            attrs.push((name.as_str().into(), value.into()));
        }
    }
    let inputs = match find(members, "inputs") {
        Some(inputs) => list(Some(inputs), "`inputs`")?,
        None => &[],
    };
    let inputs = inputs.iter().map(|input| entry(input, nodes)).collect::<Result<Vec<Value>>>();
    let inputs = inputs.map_err(|error| error.within("`inputs`"))?;
    require!(op != "null" || inputs.is_empty(), "a variable has {} inputs", inputs.len());
    let control_deps = match find(members, "control_deps") {
        Some(numbers) => ints(numbers, "`control_deps`")?,
        None => Vec::new(),
    };
    let control_deps = control_deps.into_iter().map(|number| earlier(number, nodes));
    let control_deps =
        control_deps.collect::<Result<Vec<NodeRef>>>().map_err(|error| error.within("`control_deps`"))?;
    let subgraphs = match find(members, "subgraphs") {
        Some(graphs) => list(Some(graphs), "`subgraphs`")?,
        None => &[],
    };
    let subgraphs: Result<Vec<GraphRef>> = subgraphs.iter().map(|own| graph(own, "a subgraph", depth + 1)).collect();
    Ok(Node::of_parts(
        (op != "null").then_some(op),
        name,
        attrs.into_iter().collect(),
        &inputs,
        control_deps.into_iter().collect(),
        subgraphs?.into_iter().collect(),
    ))
}

/// Returns an earlier node, so that no node can depend on itself.
fn earlier(number: i64, nodes: &[NodeRef]) -> Result<NodeRef> {
    match usize::try_from(number).ok().and_then(|number| nodes.get(number)) {
        Some(node) => Ok(node.clone()),
        None => fail!("node {number} does not stand before it: the graph has a cycle, or is cut"),
    }
}

/// Parses `[node, index]` or `[node, index, version]`.
fn entry(json: &Json, nodes: &[NodeRef]) -> Result<Value> {
    let numbers = ints(json, "an entry")?;
    let (node, index, version) = match numbers[..] {
        [node, index] => (node, index, 0),
        [node, index, version] => (node, index, version),
        _ => fail!("an entry has {} numbers, not 2 or 3", numbers.len()),
    };
    require!((0..MOST).contains(&index), "{index} is not an output of a node");
    require!((0..MOST).contains(&version), "{version} is not a version of a variable");
    Ok(Value { node: earlier(node, nodes)?, index: usize::try_from(index).unwrap_or(0), version })
}

fn attribute(json: &Json) -> Result<Any> {
    let pair = list(Some(json), "it")?;
    let [type_name, value] = pair else { fail!("expected a type and a value, got {} parts", pair.len()) };
    let type_name = text(type_name, "the type")?;
    let plain = match (type_name, value) {
        ("list_shape", Json::List(shapes)) => {
            let shapes = shapes.iter().map(|shape| ints(shape, "a shape")).collect::<Result<Vec<_>>>()?;
            Any::from(shapes_any(&shapes))
        }
        ("list_str" | "list_layout", Json::List(texts)) => {
            let texts = texts.iter().map(|one| Ok(Str::from(text(one, "an element")?)));
            Any::from(texts.collect::<Result<Vec<Str>>>()?.into_iter().collect::<Array<Str>>())
        }
        ("list_int", Json::List(_)) => Any::from(ints(value, "the list")?.into_iter().collect::<Array<i64>>()),
        _ => any_of(value)?,
    };
    // A type that is written back with the same name needs no record.
    if natural(&plain).as_deref() == Some(type_name) {
        return Ok(plain);
    }
    Ok(ObjRef::new(Typed { type_name: type_name.into(), value: plain }).into())
}

/// Converts any JSON to a value.
fn any_of(json: &Json) -> Result<Any> {
    Ok(match json {
        Json::Null => Any::NONE,
        Json::Bool(value) => Any::from(*value),
        Json::Int(value) => Any::from(*value),
        Json::Float(value) => Any::from(*value),
        Json::Text(value) => Any::from(value.as_str()),
        Json::List(values) => {
            Any::from(values.iter().map(any_of).collect::<Result<Vec<_>>>()?.into_iter().collect::<Array<Any>>())
        }
        Json::Object(members) => {
            let pairs = members.iter().map(|(key, value)| Ok((Str::from(key.as_str()), any_of(value)?)));
            Any::from(pairs.collect::<Result<Vec<_>>>()?.into_iter().collect::<Map<Str, Any>>())
        }
    })
}

/// Returns the default type name of a value in JSON.
fn natural(value: &Any) -> Option<String> {
    if value.to::<bool>().is_ok() && value.type_name() == "bool" {
        return None;
    }
    if let Ok(list) = value.to::<Array<Any>>() {
        let first = list.get(0)?;
        let name = if first.to::<Shape>().is_ok() && first.to::<i64>().is_err() {
            "list_shape"
        } else if first.to::<Str>().is_ok() {
            "list_str"
        } else if first.to::<i64>().is_ok() {
            "list_int"
        } else {
            return None;
        };
        return Some(name.to_owned());
    }
    match value.type_name().as_ref() {
        "int" => Some("int".to_owned()),
        "str" | "ffi.String" => Some("str".to_owned()),
        _ => value.to::<Str>().is_ok().then(|| "str".to_owned()),
    }
}

/// Writes a graph in NNVM's format: `nodes`, `arg_nodes`, `node_row_ptr`, `heads`, `attrs`.
///
/// # Errors
/// Returns an error for an attribute of the graph that JSON cannot represent: a module, a function.
pub fn save(graph: &Graph) -> Result<String> {
    let mut writer = Writer::default();
    write_graph(&mut writer, graph)?;
    Ok(writer.text)
}

fn write_graph(writer: &mut Writer, graph: &Graph) -> Result<()> {
    let index = IndexedGraph::new(graph)?;
    writer.begin('{', true);
    writer.key("nodes");
    writer.begin('[', true);
    for node in &index.nodes {
        writer.next();
        writer.begin('{', true);
        writer.key("op");
        writer.string(node.node.op_name());
        writer.key("name");
        writer.string(&node.node.name);
        let mut attrs: Vec<(Str, Str)> = node.node.attrs.iter().collect();
        if !attrs.is_empty() {
            attrs.sort_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
            writer.key("attrs");
            writer.begin('{', attrs.len() > 1);
            for (key, value) in attrs {
                writer.key(&key);
                writer.string(&value);
            }
            writer.end('}');
        }
        writer.key("inputs");
        entries(writer, &node.inputs);
        if !node.control_deps.is_empty() {
            writer.key("control_deps");
            writer.numbers(&node.control_deps);
        }
        if !node.node.subgraphs.is_empty() {
            writer.key("subgraphs");
            writer.begin('[', true);
            for own in node.node.subgraphs.iter() {
                writer.next();
                write_graph(writer, &own)?;
            }
            writer.end(']');
        }
        writer.end('}');
    }
    writer.end(']');
    writer.key("arg_nodes");
    writer.numbers(&index.variables().collect::<Vec<_>>());
    writer.key("node_row_ptr");
    writer.numbers(&index.row_ptr);
    writer.key("heads");
    entries(writer, &index.outputs);
    if !graph.attrs.is_empty() {
        writer.key("attrs");
        writer.begin('{', graph.attrs.len() > 1);
        for (name, value) in graph.attrs.iter() {
            writer.key(&name);
            write_attribute(writer, &value).map_err(|error| error.within(&format!("graph attribute `{name}`")))?;
        }
        writer.end('}');
    }
    writer.end('}');
    Ok(())
}

fn entries(writer: &mut Writer, entries: &[super::Entry]) {
    writer.begin('[', entries.len() > 10);
    for entry in entries {
        writer.next();
        writer.begin('[', false);
        for number in [entry.node.to_string(), entry.index.to_string(), entry.version.to_string()] {
            writer.next();
            writer.text.push_str(&number);
        }
        writer.end(']');
    }
    writer.end(']');
}

fn write_attribute(writer: &mut Writer, value: &Any) -> Result<()> {
    let (type_name, value) = match value.to::<ObjRef<Typed>>() {
        Ok(typed) => (typed.type_name.as_str().to_owned(), typed.value.clone()),
        Err(_) => match natural(value) {
            Some(name) => (name, value.clone()),
            None => fail!(
                "JSON cannot hold {}: take it out of the graph first, with `kernpack.graph.move_attr`",
                value.type_name()
            ),
        },
    };
    writer.begin('[', false);
    writer.next();
    writer.string(&type_name);
    writer.next();
    write_any(writer, &value)?;
    writer.end(']');
    Ok(())
}

fn write_any(writer: &mut Writer, value: &Any) -> Result<()> {
    if value.is_none() {
        writer.text.push_str("null");
    } else if value.type_name() == "bool" {
        writer.text.push_str(if value.to::<bool>()? { "true" } else { "false" });
    } else if let Ok(text) = value.to::<Str>() {
        writer.string(&text);
    } else if let Ok(number) = value.to::<i64>() {
        writer.text.push_str(&number.to_string());
    } else if let Ok(number) = value.to::<f64>() {
        writer.text.push_str(&number.to_string());
    } else if let Ok(shape) = value.to::<Shape>() {
        // Also an array of only integers.
        writer.numbers(&shape);
    } else if let Ok(list) = value.to::<Array<Any>>() {
        writer.begin('[', true);
        for element in list.iter() {
            writer.next();
            write_any(writer, &element)?;
        }
        writer.end(']');
    } else if let Ok(members) = value.to::<Map<Str, Any>>() {
        writer.begin('{', members.len() > 1);
        for (key, member) in members.iter() {
            writer.key(&key);
            write_any(writer, &member)?;
        }
        writer.end('}');
    } else {
        fail!("JSON cannot hold {}", value.type_name());
    }
    Ok(())
}
