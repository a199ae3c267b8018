//! ONNX models as graphs: functions and branches inlined, shapes and values followed.

use std::collections::{BTreeMap, HashMap};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::attrs::{Attr, Attrs};
use crate::constant::Constant;
use crate::error::{GraphError, Result, fail, require};
use crate::graph::{Graph, Value, ValueId};
use crate::onnx::{self, AttributeValue, Dim, Model, OpsetId, ValueType, dtype_of, to_constant};
use crate::op;
use crate::options::ModelOptions;

/// Versions of the operators that models may ask for.
const OLDEST: i64 = 6;
const NEWEST: i64 = 23;
/// Functions in functions, at most.
const DEPTH: usize = 64;

/// A model as a graph, and the files that it was read from besides its own.
pub struct Imported {
    /// The graph.
    pub graph: Graph,
    /// Files with weights.
    pub files: Vec<PathBuf>,
}

/// Reads a model from the bytes of its file; `folder` is where files with its weights lie.
///
/// # Errors
/// What is no model; everything in it that is not supported, in one error; dimensions that are not known.
pub fn import(bytes: &[u8], folder: Option<&Path>, options: &ModelOptions) -> Result<Imported> {
    let model = onnx::read_model(bytes)?;
    check_versions(&model)?;
    check_operators(&model)?;
    let mut importer = Importer { model: &model, graph: Graph::default(), folder, files: Vec::new().into(), depth: 0 };
    importer.graph.name.clone_from(&model.graph.name);
    importer.run(options)?;
    Ok(Imported { graph: importer.graph, files: importer.files.into_inner() })
}

fn version_of(opsets: &[OpsetId]) -> Option<i64> {
    opsets.iter().find(|opset| opset.domain.is_empty()).map(|opset| opset.version)
}

fn check_versions(model: &Model<'_>) -> Result<()> {
    let Some(version) = version_of(&model.opsets) else {
        require!(!model.functions.is_empty(), "the model does not say which version of the operators it uses");
        return Ok(());
    };
    require!(
        (OLDEST..=NEWEST).contains(&version),
        "the model uses operators of version {version}; supported are {OLDEST} to {NEWEST}: convert it with onnx.version_converter"
    );
    Ok(())
}

/// Operators of the importer itself.
const OWN: [&str; 2] = ["Constant", "If"];

/// Names every operator that is not supported, with its nodes.
fn check_operators(model: &Model<'_>) -> Result<()> {
    let mut missing: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let is_function = |node: &onnx::Node<'_>| {
        model.functions.iter().any(|function| function.name == node.op_type && function.domain == node.domain)
    };
    let mut graphs = vec![&model.graph.nodes];
    graphs.extend(model.functions.iter().map(|function| &function.nodes));
    while let Some(nodes) = graphs.pop() {
        for node in nodes {
            for attribute in &node.attributes {
                if let AttributeValue::Graph(graph) = &attribute.value {
                    graphs.push(&graph.nodes);
                }
            }
            let known =
                node.domain.is_empty() && (OWN.contains(&node.op_type.as_str()) || op::find(&node.op_type).is_some());
            if !known && !is_function(node) {
                let domain = if node.domain.is_empty() { String::new() } else { format!("{}.", node.domain) };
                let name = if node.name.is_empty() { node.outputs.join(", ") } else { node.name.clone() };
                missing.entry(format!("{domain}{}", node.op_type)).or_default().push(format!("'{name}'"));
            }
        }
    }
    let problems = missing.into_iter().map(|(op, nodes)| {
        let shown = nodes[..nodes.len().min(5)].join(", ");
        let more = if nodes.len() > 5 { format!(" and {} more", nodes.len() - 5) } else { String::new() };
        GraphError::new(format!("operator {op} is not supported: {} of the nodes use it: {shown}{more}", nodes.len()))
    });
    GraphError::all(problems.collect()).map_or(Ok(()), Err)
}

/// Names of values where a node stands.
type Scope = HashMap<String, ValueId>;

/// Attributes of the call of a function.
type Arguments<'a> = HashMap<String, AttributeValue<'a>>;

struct Importer<'m, 'a> {
    model: &'m Model<'a>,
    graph: Graph,
    folder: Option<&'m Path>,
    files: std::cell::RefCell<Vec<PathBuf>>,
    depth: usize,
}

impl<'m, 'a> Importer<'m, 'a> {
    fn run(&mut self, options: &ModelOptions) -> Result<()> {
        let model = self.model;
        let version = version_of(&model.opsets).unwrap_or(NEWEST);
        let mut scope = Scope::new();
        self.initializers(&model.graph, &mut scope)?;
        self.inputs(options, &mut scope)?;
        self.nodes(&model.graph.nodes, version, &mut scope, &Arguments::new())?;
        let all: Vec<String> = model.graph.outputs.iter().map(|output| output.name.clone()).collect();
        let names = if options.outputs.is_empty() { all } else { options.outputs.clone() };
        for name in names {
            let Some(&id) = scope.get(&name) else {
                fail!("the model has no value '{name}', which is to be an output");
            };
            if let Some(declared) = model.graph.outputs.iter().find(|output| output.name == name) {
                self.compare(declared, id);
            }
            let id = self.as_output(&name, id, version)?;
            self.graph.outputs.push((name, id));
        }
        Ok(())
    }

    fn initializers(&mut self, graph: &onnx::Graph<'a>, scope: &mut Scope) -> Result<()> {
        require!(graph.sparse_initializers == 0, "sparse initializers are not supported");
        for tensor in &graph.initializers {
            let constant = self.constant(tensor)?;
            let id = self.graph.add_known(&tensor.name, constant);
            scope.insert(tensor.name.clone(), id);
        }
        Ok(())
    }

    fn constant(&self, tensor: &onnx::RawTensor<'a>) -> Result<Constant> {
        to_constant(tensor, &|location, offset, length| self.external(location, offset, length))
    }

    /// Bytes of a file beside the model.
    fn external(&self, location: &str, offset: u64, length: u64) -> Result<Vec<u8>> {
        let Some(folder) = self.folder else { fail!("its data is in the file '{location}', and the model is no file") };
        let relative = Path::new(location);
        let stays =
            relative.components().all(|component| matches!(component, Component::Normal(_) | Component::CurDir));
        require!(
            stays && !location.is_empty(),
            "its data is in '{location}', which is outside of the folder of the model"
        );
        let path = folder.join(relative);
        let read = || -> std::io::Result<Vec<u8>> {
            use std::io::{Error, Read, Seek, SeekFrom};
            let mut file = std::fs::File::open(&path)?;
            let size = file.metadata()?.len();
            if offset.checked_add(length).is_none_or(|end| end > size) {
                return Err(Error::other(format!("bytes {offset} to {offset} + {length} of a file of {size} bytes")));
            }
            file.seek(SeekFrom::Start(offset))?;
            let mut bytes = Vec::new();
            file.take(length).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let bytes = read().map_err(|error| GraphError::new(format!("{}: {error}", path.display())))?;
        let mut files = self.files.borrow_mut();
        if !files.contains(&path) {
            files.push(path);
        }
        Ok(bytes)
    }

    fn inputs(&mut self, options: &ModelOptions, scope: &mut Scope) -> Result<()> {
        let mut problems = Vec::new();
        for input in &self.model.graph.inputs {
            if let Some(constant) = options.constants.get(&input.name) {
                let id = self.graph.add_known(&input.name, constant.clone());
                scope.insert(input.name.clone(), id);
                continue;
            }
            // A default value, unless the build script says that it is an input.
            if scope.contains_key(&input.name) && !options.inputs.contains_key(&input.name) {
                continue;
            }
            match input_type(input, options) {
                Ok((dtype, shape)) => {
                    let name = input.name.clone();
                    let id =
                        self.graph.add_value(Value { name: name.clone(), dtype, shape, known: None, producer: None });
                    self.graph.inputs.push(id);
                    scope.insert(name, id);
                }
                Err(error) => problems.push(error),
            }
        }
        let has = |name: &String| self.model.graph.inputs.iter().any(|input| input.name == *name);
        for name in options.inputs.keys().chain(options.constants.keys()).filter(|name| !has(name)) {
            let known: Vec<&str> = self.model.graph.inputs.iter().map(|input| input.name.as_str()).collect();
            problems.push(GraphError::new(format!("the model has no input '{name}'; it has: {}", known.join(", "))));
        }
        GraphError::all(problems).map_or(Ok(()), Err)
    }

    fn nodes(
        &mut self,
        nodes: &[onnx::Node<'a>],
        version: i64,
        scope: &mut Scope,
        arguments: &Arguments<'a>,
    ) -> Result<()> {
        // In the order of the file, as far as that goes; then what waited for something later.
        let mut waiting: Vec<&onnx::Node<'a>> = nodes.iter().collect();
        while !waiting.is_empty() {
            let before = waiting.len();
            let mut later = Vec::new();
            for node in waiting {
                if node.inputs.iter().all(|name| name.is_empty() || scope.contains_key(name)) {
                    self.node(node, version, scope, arguments)?;
                } else {
                    later.push(node);
                }
            }
            if later.len() == before {
                let node = later[0];
                let missing: Vec<&str> = node
                    .inputs
                    .iter()
                    .filter(|name| !name.is_empty() && !scope.contains_key(*name))
                    .map(String::as_str)
                    .collect();
                fail!(
                    "{}: no node computes its inputs {} before it: the graph has a cycle, or is cut",
                    place(node),
                    missing.join(", ")
                );
            }
            waiting = later;
        }
        Ok(())
    }

    fn node(
        &mut self,
        node: &onnx::Node<'a>,
        version: i64,
        scope: &mut Scope,
        arguments: &Arguments<'a>,
    ) -> Result<()> {
        let mut inputs = Vec::new();
        for name in &node.inputs {
            inputs.push(if name.is_empty() { None } else { scope.get(name).copied() });
        }
        let attributes: Vec<(&str, &AttributeValue<'a>)> = node
            .attributes
            .iter()
            .filter_map(|attribute| {
                if attribute.ref_name.is_empty() {
                    return Some((attribute.name.as_str(), &attribute.value));
                }
                // One that the caller does not give is not there.
                arguments.get(attribute.ref_name.as_str()).map(|given| (attribute.name.as_str(), given))
            })
            .collect();
        let model: &'m Model<'a> = self.model;
        let outputs = if let Some(function) = model.functions.iter().find(|function| {
            function.name == node.op_type && function.domain == node.domain && function.overload == node.overload
        }) {
            self.function(function, node, &inputs, &attributes, version)?
        } else if node.op_type == "Constant" {
            let constant = self.constant_node(&attributes).map_err(|error| error.within(&place(node)))?;
            let name = node.outputs.first().map_or("", String::as_str);
            vec![Some(self.graph.add_known(name, constant))]
        } else if node.op_type == "If" {
            self.branch(node, &inputs, &attributes, version, scope)?
        } else {
            let Some(operator) = op::find(&node.op_type) else {
                fail!("{}: operator {} is not supported", place(node), node.op_type)
            };
            let mut attrs = Attrs::default();
            for (name, value) in attributes {
                let value = self.attribute(value).map_err(|error| error.within(&place(node)))?;
                if let Some(value) = value {
                    attrs.set(name, value);
                }
            }
            let name = if node.name.is_empty() { node.outputs.first().map_or("", String::as_str) } else { &node.name };
            self.graph.add_node(operator, name, Arc::new(attrs), version, &inputs, &node.outputs)?
        };
        for (name, id) in node.outputs.iter().zip(outputs) {
            if let (false, Some(id)) = (name.is_empty(), id) {
                require!(
                    scope.insert(name.clone(), id).is_none(),
                    "{}: the value '{name}' is computed twice",
                    place(node)
                );
            }
        }
        Ok(())
    }

    /// A function of the model: its nodes in its place.
    fn function(
        &mut self,
        function: &onnx::Function<'a>,
        node: &onnx::Node<'a>,
        inputs: &[Option<ValueId>],
        attributes: &[(&str, &AttributeValue<'a>)],
        version: i64,
    ) -> Result<Vec<Option<ValueId>>> {
        require!(self.depth < DEPTH, "{}: functions call each other more than {DEPTH} deep", place(node));
        let defaults = function.defaults.iter().map(|attribute| (attribute.name.clone(), attribute.value.clone()));
        let mut arguments: Arguments<'a> = defaults.collect();
        arguments.extend(attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).clone())));
        let mut scope = Scope::new();
        let mut absent = Vec::new();
        for (index, name) in function.inputs.iter().enumerate() {
            match inputs.get(index).copied().flatten() {
                Some(id) => _ = scope.insert(name.clone(), id),
                None => absent.push(name.clone()),
            }
        }
        require!(absent.is_empty(), "{}: the inputs {} of the function are missing", place(node), absent.join(", "));
        let version = version_of(&function.opsets).unwrap_or(version);
        self.depth += 1;
        let outcome = self.nodes(&function.nodes, version, &mut scope, &arguments);
        self.depth -= 1;
        outcome.map_err(|error| error.within(&place(node)))?;
        Ok(function.outputs.iter().map(|name| scope.get(name).copied()).collect())
    }

    /// One of two graphs, which a known value chooses.
    fn branch(
        &mut self,
        node: &onnx::Node<'a>,
        inputs: &[Option<ValueId>],
        attributes: &[(&str, &AttributeValue<'a>)],
        version: i64,
        scope: &Scope,
    ) -> Result<Vec<Option<ValueId>>> {
        let condition = inputs.first().copied().flatten().and_then(|id| self.graph.values[id].known.clone());
        let Some(condition) = condition.filter(|condition| condition.len() == 1) else {
            fail!("{}: the condition depends on what the model is called with, which is not supported", place(node));
        };
        let name = if condition.to_ints()?[0] != 0 { "then_branch" } else { "else_branch" };
        let Some(AttributeValue::Graph(graph)) =
            attributes.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
        else {
            fail!("{}: attribute `{name}` is missing", place(node));
        };
        // Names of the graph around it are seen; its own stay its own.
        let mut inner = scope.clone();
        self.initializers(graph, &mut inner)?;
        require!(self.depth < DEPTH, "{}: graphs in graphs, more than {DEPTH} deep", place(node));
        self.depth += 1;
        let outcome = self.nodes(&graph.nodes, version, &mut inner, &Arguments::new());
        self.depth -= 1;
        outcome.map_err(|error| error.within(&place(node)))?;
        Ok(graph.outputs.iter().map(|output| inner.get(&output.name).copied()).collect())
    }

    fn constant_node(&self, attributes: &[(&str, &AttributeValue<'a>)]) -> Result<Constant> {
        let [(name, value)] = attributes else { fail!("expected one attribute, got {}", attributes.len()) };
        match (*name, value) {
            ("value", AttributeValue::Tensor(tensor)) => self.constant(tensor),
            ("value_int", AttributeValue::Int(value)) => Constant::of_ints(&[*value]).reshaped(&[]),
            ("value_ints", AttributeValue::Ints(values)) => Ok(Constant::of_ints(values)),
            ("value_float", AttributeValue::Float(value)) => Constant::of_floats(&[*value]).reshaped(&[]),
            ("value_floats", AttributeValue::Floats(values)) => Ok(Constant::of_floats(values)),
            _ => fail!("a constant by attribute `{name}` is not supported"),
        }
    }

    /// The value of an attribute for operators; graphs are none.
    fn attribute(&self, value: &AttributeValue<'a>) -> Result<Option<Attr>> {
        let text = |bytes: &[u8]| match String::from_utf8(bytes.to_vec()) {
            Ok(text) => Ok(text),
            Err(error) => fail!("an attribute is not UTF-8: {error}"),
        };
        Ok(Some(match value {
            AttributeValue::Float(value) => Attr::Float(*value),
            AttributeValue::Int(value) => Attr::Int(*value),
            AttributeValue::Text(bytes) => Attr::Text(text(bytes)?),
            AttributeValue::Tensor(tensor) => Attr::Tensor(self.constant(tensor)?),
            AttributeValue::Floats(values) => Attr::Floats(values.clone()),
            AttributeValue::Ints(values) => Attr::Ints(values.clone()),
            AttributeValue::Texts(values) => {
                Attr::Texts(values.iter().map(|bytes| text(bytes)).collect::<Result<Vec<_>>>()?)
            }
            AttributeValue::Graph(_) | AttributeValue::Graphs(_) | AttributeValue::Tensors(_) => return Ok(None),
            AttributeValue::Other(what) => fail!("an attribute that is {what} is not supported"),
        }))
    }

    /// A value that a node computes and nothing else is an output of: the memory of an output is the caller's.
    fn as_output(&mut self, name: &str, id: ValueId, version: i64) -> Result<ValueId> {
        let value = &self.graph.values[id];
        let is_own = value.producer.is_some_and(|node| self.graph.nodes[node].op.pattern != op::Pattern::View);
        let is_taken = self.graph.outputs.iter().any(|(_, taken)| *taken == id);
        if is_own && !is_taken {
            return Ok(id);
        }
        self.graph.add_copy(name, id, version)
    }

    /// Exporters lie: what the model declares and does not have is a warning.
    fn compare(&mut self, declared: &onnx::ValueInfo, id: ValueId) {
        let ValueType::Tensor(_, Some(dims)) = &declared.ty else { return };
        let value = &self.graph.values[id];
        let fits = dims.len() == value.shape.len()
            && dims.iter().zip(&value.shape).all(|(dim, extent)| match dim {
                Dim::Known(known) => known == extent,
                Dim::Named(_) => true,
            });
        if !fits {
            let warning = format!("output '{}' is declared as {dims:?}, and is {:?}", declared.name, value.shape);
            self.graph.warnings.push(warning);
        }
    }
}

fn place(node: &onnx::Node<'_>) -> String {
    let name = if node.name.is_empty() { node.outputs.first().map_or("", String::as_str) } else { &node.name };
    format!("node '{name}' ({})", node.op_type)
}

/// The element type and the shape of an input.
fn input_type(input: &onnx::ValueInfo, options: &ModelOptions) -> Result<(kernpack::DataType, Vec<i64>)> {
    let name = &input.name;
    let (element, dims) = match &input.ty {
        ValueType::Tensor(element, dims) => (*element, dims.clone()),
        ValueType::Unknown => fail!("input '{name}' has no type"),
        ValueType::Other(what) => fail!("input '{name}' is {what}, which is not supported"),
    };
    let dtype = dtype_of(element).map_err(|error| error.within(&format!("input '{name}'")))?;
    if let Some(shape) = options.inputs.get(name) {
        if let Some(dims) = &dims {
            let fits = dims.len() == shape.len()
                && dims.iter().zip(shape).all(|(dim, extent)| match dim {
                    Dim::Known(known) => known == extent,
                    Dim::Named(_) => true,
                });
            require!(fits, "input '{name}' is {dims:?} in the model, and {shape:?} in the build script");
        }
        return Ok((dtype, shape.clone()));
    }
    let Some(dims) = dims else { fail!("input '{name}' has no shape: give one, `.input(\"{name}\", [..])`") };
    let mut shape = Vec::new();
    let mut open = Vec::new();
    for (axis, dim) in dims.iter().enumerate() {
        match dim {
            Dim::Known(extent) => shape.push(*extent),
            Dim::Named(dim) => match options.dims.get(dim) {
                Some(extent) => shape.push(*extent),
                None if dim.is_empty() => open.push(format!("dimension {axis}")),
                None => open.push(format!("dimension {axis} ('{dim}')")),
            },
        }
    }
    require!(
        open.is_empty(),
        "input '{name}': {} is not known: say `.dim(\"name\", extent)` for a dimension with a name, or `.input(\"{name}\", [..])` with all extents",
        open.join(", ")
    );
    Ok((dtype, shape))
}
