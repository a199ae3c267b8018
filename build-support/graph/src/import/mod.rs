//! ONNX models as graphs: inlines functions and branches, and infers shapes and values.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod captures;
mod choice;
mod control;
mod dropout;
mod emit;
mod external;
mod flex;
mod harmless;
mod item;
mod loops;
mod microsoft;
mod ml;
mod native_loop;
mod open_dims;
mod places;
mod quantize;
mod recurrent;
mod repeated;
mod sequence;
mod site;
mod sized;

use self::item::{Item, Scope};
use crate::attrs::{Attr, Attrs};
use crate::constant::Constant;
use crate::dynamic;
use crate::error::{Fix, GraphError, Result, fail, full_name, require};
use crate::graph::{Graph, Traces, Value, ValueId};
use crate::onnx::versions::{self, NEWEST, version_of};
use crate::onnx::{
    self, AttributeValue, Dim, Model, ValueType, check_attribute_names, check_attributes, dtype_of, label, to_constant,
    to_dense,
};
use crate::op::{self, CustomOperator};
use crate::optimize::{self, Dump};
use crate::options::ModelOptions;

/// The maximum nesting depth of functions.
const DEPTH: usize = 64;
/// The maximum number of inlined nodes of functions: nested functions that call others several
/// times would have exponentially many.
const MOST_NODES: usize = 100_000;

/// A model as a graph, and the additional files that it was read from.
pub struct Imported {
    /// The graph.
    pub graph: Graph,
    /// Files with weights.
    pub files: Vec<PathBuf>,
    /// The texts of the graph after each pass, if [`ModelOptions::dump`] is set.
    pub dumps: Vec<Dump>,
}

/// Reads a model from the bytes of its file. `folder` is the folder of the files with its weights.
///
/// # Errors
/// Returns an error if the bytes are not a model, one error with everything in the model that is
/// not supported, or an error for unknown dimensions.
pub fn import(bytes: &[u8], folder: Option<&Path>, options: &ModelOptions) -> Result<Imported> {
    let (graph, files) = read_parts(bytes, folder, options)?;
    optimized(graph, files, options)
}

/// Like [`import_owned`], but adds the texts of the graph after each pass to `dumps`, also those
/// before an error. [`Imported::dumps`] is empty.
///
/// # Errors
/// As for [`import`].
pub fn import_and_dump(
    bytes: Vec<u8>,
    folder: Option<&Path>,
    options: &ModelOptions,
    dumps: &mut Vec<Dump>,
) -> Result<Imported> {
    let (mut graph, files) = read_parts(&bytes, folder, options)?;
    drop(bytes);
    optimize::run(&mut graph, options, dumps)?;
    Ok(Imported { graph, files, dumps: Vec::new() })
}

/// Like [`import`], but the bytes are dropped as soon as they are read, so at most two copies of
/// the weights are in memory.
///
/// # Errors
/// As for [`import`].
pub fn import_owned(bytes: Vec<u8>, folder: Option<&Path>, options: &ModelOptions) -> Result<Imported> {
    let (graph, files) = read_parts(&bytes, folder, options)?;
    drop(bytes);
    optimized(graph, files, options)
}

fn optimized(mut graph: Graph, files: Vec<PathBuf>, options: &ModelOptions) -> Result<Imported> {
    let mut dumps = Vec::new();
    optimize::run(&mut graph, options, &mut dumps)?;
    Ok(Imported { graph, files, dumps })
}

/// Like [`read`], for all extents of the dynamic dimensions.
fn read_parts(bytes: &[u8], folder: Option<&Path>, options: &ModelOptions) -> Result<(Graph, Vec<PathBuf>)> {
    let is_open = !(options.up_to.is_empty() && options.dims_in.is_empty() && options.ranges.is_empty());
    if !is_open && options.sums.is_empty() {
        return read(bytes, folder, options);
    }
    let named = open_dims::names(onnx::read_model(bytes)?.graph.inputs, options);
    open_dims::check_sums(options, &named)?;
    if !is_open {
        return read(bytes, folder, options);
    }
    dynamic::read(options, &named, |options| read(bytes, folder, options))
}

/// Returns the unoptimized graph of the model, and the files that were read in addition to the
/// model's own.
fn read(bytes: &[u8], folder: Option<&Path>, options: &ModelOptions) -> Result<(Graph, Vec<PathBuf>)> {
    let model = onnx::read_model(bytes)?;
    require!(
        !crate::text::has_texts(&model) || ml::names::has_class_names(&model),
        "the model takes, gives or knows texts, which have no kernels: they are not supported here. `kernpack_graph::text::TextModel` (`kernpack.graph.text_model`) steps through a model of texts; cut it off in front of this one"
    );
    versions::check(&model)?;
    check_attributes(&model)?;
    check_attribute_names(&model, |node| {
        options.operators.iter().any(|custom| custom.is(&node.domain, &node.op_type))
    })?;
    check_operators(&model, &options.operators)?;
    check_bounds(&model, options)?;
    let mut importer = Importer {
        model: &model,
        options,
        graph: Graph { traces: options.for_any_extents.then(Traces::default), ..Graph::default() },
        folder,
        files: Vec::new().into(),
        depth: 0,
        imported: 0,
    };
    importer.graph.name.clone_from(&model.graph.name);
    importer.run()?;
    Ok((importer.graph, importer.files.into_inner()))
}

/// Returns true for operators of the importer itself.
fn is_own(name: &str) -> bool {
    name == "Constant"
        || [&control::NAMES[..], &recurrent::NAMES, &sequence::NAMES, op::ml::IMPORTED]
            .iter()
            .any(|all| all.contains(&name))
}

/// Reports every unsupported operator, with its nodes.
fn check_operators(model: &Model<'_>, custom: &[CustomOperator]) -> Result<()> {
    GraphError::all(custom.iter().filter_map(|custom| custom.check().err()).collect()).map_or(Ok(()), Err)?;
    let mut missing: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    let is_function = |node: &onnx::Node<'_>| {
        model.functions.iter().any(|function| function.name == node.op_type && function.domain == node.domain)
    };
    for nodes in versions::all_nodes(model) {
        for node in nodes {
            let is_there = is_own(&node.op_type) || op::find(&node.op_type).is_some();
            let known = is_there && node.domain == op::domain_of(&node.op_type)
                || microsoft::has(&node.domain, &node.op_type)
                || custom.iter().any(|custom| custom.is(&node.domain, &node.op_type));
            if !known && !is_function(node) {
                let name = if node.name.is_empty() { node.outputs.join(", ") } else { node.name.clone() };
                missing.entry((node.domain.clone(), node.op_type.clone())).or_default().push(format!("'{name}'"));
            }
        }
    }
    let problems = missing.into_iter().map(|((domain, name), nodes)| {
        let op = full_name(&domain, &name);
        let shown = nodes[..nodes.len().min(5)].join(", ");
        let more = if nodes.len() > 5 { format!(" and {} more", nodes.len() - 5) } else { String::new() };
        let uses = if nodes.len() == 1 { "node uses" } else { "nodes use" };
        let what = format!("operator {op} is not supported, {} {uses} it ({shown}{more})", nodes.len());
        GraphError::new(what).fix(&Fix::Operator { domain, name })
    });
    GraphError::all(problems.collect()).map_or(Ok(()), Err)
}

/// Checks that bounds are positive, and of loops that exist in the model.
fn check_bounds(model: &Model<'_>, options: &ModelOptions) -> Result<()> {
    let nodes = versions::all_nodes(model);
    let loops = nodes.into_iter().flatten().filter(|node| node.op_type == "Loop").map(label);
    let loops: Vec<&str> = loops.collect();
    let problems = options.bounds.iter().filter_map(|(name, bound)| {
        if *bound < 1 {
            return Some(GraphError::new(format!("the bound of the loop '{name}' is {bound}, and has to be positive")));
        }
        let has = || format!("the model has no loop '{name}'; it has: {}", loops.join(", "));
        (!loops.contains(&name.as_str())).then(|| GraphError::new(has()))
    });
    GraphError::all(problems.collect()).map_or(Ok(()), Err)
}

/// Attributes of the call of a function.
type Arguments<'a> = HashMap<String, AttributeValue<'a>>;

struct Importer<'m, 'a> {
    model: &'m Model<'a>,
    /// Options of the build script.
    options: &'m ModelOptions,
    graph: Graph,
    folder: Option<&'m Path>,
    files: std::cell::RefCell<Vec<PathBuf>>,
    depth: usize,
    /// The number of inlined nodes of functions.
    imported: usize,
}

impl<'m, 'a> Importer<'m, 'a> {
    fn run(&mut self) -> Result<()> {
        let (model, options) = (self.model, self.options);
        let version = version_of(&model.opsets).unwrap_or(NEWEST);
        let mut scope = Scope::new();
        self.initializers(&model.graph, &mut scope)?;
        if !options.allow_nan {
            self.check_weights()?;
        }
        self.inputs(options, &mut scope)?;
        self.nodes(&model.graph.nodes, version, &mut scope, &Arguments::new())?;
        let all: Vec<String> = model.graph.outputs.iter().map(|output| output.name.clone()).collect();
        let names = if options.outputs.is_empty() { all } else { options.outputs.clone() };
        for name in names {
            let Some(item) = scope.get(&name).cloned() else {
                fail!("the model has no value '{name}', which is to be an output");
            };
            match item {
                Item::Tensor(id) => {
                    if let Some(declared) = model.graph.outputs.iter().find(|output| output.name == name) {
                        self.compare(declared, id);
                    }
                    self.output(name.clone(), id, version)?;
                    self.output_columns(&name, id, version)?;
                }
                Item::Names(id, names) => self.output_names(name, id, &names, version)?,
                // Each of its tensors is an output.
                Item::Sequence(ids) => {
                    for (index, id) in ids.into_iter().enumerate() {
                        self.output(format!("{name}_{index}"), id, version)?;
                    }
                }
                Item::Nothing | Item::Absent => {}
            }
        }
        Ok(())
    }

    /// Adds an output, followed by its extents if they are data-dependent.
    fn output(&mut self, name: String, id: ValueId, version: i64) -> Result<()> {
        let extents = self.graph.extents.get(&id).copied();
        let id = self.as_output(&name, id, version)?;
        self.graph.outputs.push((name.clone(), id));
        if let Some(extents) = extents {
            self.graph.extents.insert(id, extents);
            let name = format!("{name}_extents");
            let extents = self.as_output(&name, extents, version)?;
            self.graph.outputs.push((name, extents));
        }
        Ok(())
    }

    fn initializers(&mut self, graph: &onnx::Graph<'a>, scope: &mut Scope) -> Result<()> {
        for tensor in &graph.initializers {
            if tensor.data_type == ml::names::TEXT {
                let (constant, names) = ml::names::of_tensor(tensor)?;
                let id = self.graph.add_known(&tensor.name, constant);
                scope.insert(tensor.name.clone(), Item::Names(id, names));
                continue;
            }
            let constant = self.constant(tensor)?;
            let id = self.graph.add_known(&tensor.name, constant);
            scope.insert(tensor.name.clone(), Item::Tensor(id));
        }
        for tensor in &graph.sparse_initializers {
            let constant = self.sparse(tensor)?;
            let id = self.graph.add_known(&tensor.values.name, constant);
            scope.insert(tensor.values.name.clone(), Item::Tensor(id));
        }
        Ok(())
    }

    /// Checks weights for NaN: a failed training, or a damaged file. A NaN in a tensor with one
    /// element is intended: a padding, or a value to compare with.
    fn check_weights(&self) -> Result<()> {
        let wrong = self.graph.values.iter().filter_map(|value| {
            let known = value.known.as_ref().filter(|known| known.len() > 1)?;
            let place = known.first_nan()?;
            let what = format!("the weights '{}' are not a number at element {place} of {}", value.name, known.len());
            Some(GraphError::new(what).fix(&Fix::AllowNan))
        });
        GraphError::all(wrong.collect()).map_or(Ok(()), Err)
    }

    fn constant(&self, tensor: &onnx::RawTensor<'a>) -> Result<Constant> {
        to_constant(tensor, &|location, offset, length| self.external(location, offset, length))
    }

    fn sparse(&self, tensor: &onnx::SparseTensor<'a>) -> Result<Constant> {
        to_dense(tensor, &|location, offset, length| self.external(location, offset, length))
    }

    /// Reads bytes of a file next to the model.
    fn external(&self, location: &str, offset: u64, length: u64) -> Result<Vec<u8>> {
        let Some(folder) = self.folder else {
            fail!("its data is in the file '{location}', and the model is not a file")
        };
        let (path, bytes) = external::read(folder, location, offset, length)?;
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
                scope.insert(input.name.clone(), Item::Tensor(id));
                continue;
            }
            // A default value, unless the build script declares it as an input.
            if scope.contains_key(&input.name) && !options.inputs.contains_key(&input.name) {
                continue;
            }
            match self.input(input, options) {
                Ok(item) => _ = scope.insert(input.name.clone(), item),
                Err(error) => problems.push(error),
            }
        }
        let has = |name: &String| self.model.graph.inputs.iter().any(|input| input.name == *name);
        let named = options.inputs.keys().chain(options.constants.keys());
        let named = named.chain(options.sequences.keys()).chain(&options.absent);
        for name in named.filter(|name| !has(name)) {
            let known: Vec<&str> = self.model.graph.inputs.iter().map(|input| input.name.as_str()).collect();
            problems.push(GraphError::new(format!("the model has no input '{name}'; it has: {}", known.join(", "))));
        }
        GraphError::all(problems).map_or(Ok(()), Err)
    }

    /// Adds the arguments for an input: a tensor, each tensor of a sequence, or nothing.
    fn input(&mut self, input: &onnx::ValueInfo, options: &ModelOptions) -> Result<Item> {
        let name = &input.name;
        let ty = match &input.ty {
            ValueType::Optional(_) if options.absent.contains(name) => return Ok(Item::Nothing),
            ValueType::Optional(ty) => ty,
            ty => ty,
        };
        require!(!options.absent.contains(name), "input '{name}' is not optional, and cannot be absent");
        let ValueType::Sequence(element) = ty else {
            let batch = open_dims::batch(&self.model.graph.inputs, options);
            let (dtype, shape) = input_type(name, ty, options, batch)?;
            let id = self.graph.add_value(Value { name: name.clone(), dtype, shape, known: None, producer: None });
            self.graph.inputs.push(id);
            return Ok(Item::Tensor(id));
        };
        let ValueType::Tensor(element, _) = &**element else {
            fail!("input '{name}' is a sequence of other things than tensors, which is not supported")
        };
        let Some(shapes) = options.sequences.get(name) else {
            let what = format!("input '{name}' is a sequence, and the number of its tensors is not known");
            return Err(GraphError::new(what).fix(&Fix::Sequence(name.clone())));
        };
        let dtype = dtype_of(*element).map_err(|error| error.within(&format!("input '{name}'")))?;
        let mut ids = Vec::new();
        for (index, shape) in shapes.iter().enumerate() {
            let name = format!("{name}_{index}");
            ids.push(self.graph.add_value(Value { name, dtype, shape: shape.clone(), known: None, producer: None }));
        }
        self.graph.inputs.extend(&ids);
        Ok(Item::Sequence(ids))
    }

    fn nodes(
        &mut self,
        nodes: &[onnx::Node<'a>],
        version: i64,
        scope: &mut Scope,
        arguments: &Arguments<'a>,
    ) -> Result<()> {
        // In the order of the file as far as possible, then nodes that depended on later ones.
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
        let inputs: Vec<Option<Item>> = node.inputs.iter().map(|name| given(scope, name)).collect();
        let attributes: Vec<(&str, &AttributeValue<'a>)> = node
            .attributes
            .iter()
            .filter_map(|attribute| {
                if attribute.ref_name.is_empty() {
                    return Some((attribute.name.as_str(), &attribute.value));
                }
                // An attribute that the caller does not set is missing.
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
            vec![Some(Item::Tensor(self.graph.add_known(name, constant)))]
        } else if control::NAMES.contains(&node.op_type.as_str()) {
            self.control(node, &inputs, &attributes, version, scope, arguments)?
        } else {
            let mut attrs = Attrs::default();
            for (name, value) in attributes {
                let value = self.attribute(value).map_err(|error| error.within(&place(node)))?;
                require!(!op::OWN_ATTRIBUTES.contains(&name), "{}: the attribute `{name}` is unknown", place(node));
                if let Some(value) = value {
                    attrs.set(name, value);
                }
            }
            self.plain(node, &inputs, attrs, version).map_err(|error| error.within_once(&place(node)))?
        };
        for (name, item) in node.outputs.iter().zip(outputs) {
            if let (false, Some(item)) = (name.is_empty(), item) {
                require!(
                    scope.insert(name.clone(), item).is_none(),
                    "{}: the value '{name}' is computed twice",
                    place(node)
                );
            }
        }
        Ok(())
    }

    /// Imports a node that contains no graphs.
    fn plain(
        &mut self,
        node: &onnx::Node<'a>,
        inputs: &[Option<Item>],
        attrs: Attrs,
        version: i64,
    ) -> Result<Vec<Option<Item>>> {
        let custom = self.options.operators.iter().find(|custom| custom.is(&node.domain, &node.op_type));
        let has_tensors = inputs.iter().flatten().all(|item| matches!(item, Item::Tensor(_)));
        let has_names = inputs.iter().flatten().any(|item| matches!(item, Item::Names(..)));
        if custom.is_none()
            && sequence::NAMES.contains(&node.op_type.as_str())
            && (node.op_type != "Identity" || !has_tensors)
            && !has_names
        {
            return self.sequence_node(node, inputs, &attrs);
        }
        if custom.is_none() && has_names {
            return self.with_names(node, inputs, &attrs, version);
        }
        let mut ids = Vec::new();
        for (index, item) in inputs.iter().enumerate() {
            ids.push(item.as_ref().map(|item| item.tensor(&format!("input {index}"))).transpose()?);
        }
        let name = if node.name.is_empty() { node.outputs.first().map_or("", String::as_str) } else { &node.name };
        if let Some(custom) = custom {
            let made = self.add_sized(custom.clone().into(), name, Arc::new(attrs), version, &ids, &node.outputs)?;
            return Ok(made.into_iter().map(|id| id.map(Item::Tensor)).collect());
        }
        if let Some(made) = self.contributed(node, name, &ids, &attrs)? {
            return Ok(made);
        }
        if quantize::NAMES.contains(&node.op_type.as_str()) {
            return self.dynamic_quantization(node, &ids);
        }
        if node.op_type == "Dropout"
            && let Some(made) = self.training_dropout(name, &ids, &attrs)?
        {
            return Ok(made);
        }
        if node.domain == ml::DOMAIN
            && let Some(made) = self.learned(node, &ids, &attrs)?
        {
            return Ok(made);
        }
        if recurrent::NAMES.contains(&node.op_type.as_str()) {
            return self.recurrent(node, &ids, &attrs, version);
        }
        let Some(operator) = op::find(&node.op_type) else {
            fail!("{}: operator {} is not supported", place(node), node.op_type)
        };
        // With ranges of extents, the kernel's expressions have the places for any extents.
        if self.options.plain || self.options.for_any_extents {
            let made = self.add_sized(operator.into(), name, Arc::new(attrs), version, &ids, &node.outputs)?;
            return Ok(made.into_iter().map(|id| id.map(Item::Tensor)).collect());
        }
        if let Some(made) = self.selected(operator.name, name, &ids, &attrs)? {
            return Ok(vec![Some(Item::Tensor(made))]);
        }
        let attrs = Arc::new(attrs);
        let of = (Arc::clone(&attrs), version);
        let made = match self.by_position(operator.into(), name, of.clone(), &ids, &node.outputs)? {
            Some(made) => vec![Some(made)],
            None => self.add_sized(operator.into(), name, attrs, version, &ids, &node.outputs)?,
        };
        self.keep_repeated(operator.name, &ids, &made);
        self.keep_places(operator.into(), of, &ids, &made);
        Ok(made.into_iter().map(|id| id.map(Item::Tensor)).collect())
    }

    /// Inlines a function of the model.
    fn function(
        &mut self,
        function: &onnx::Function<'a>,
        node: &onnx::Node<'a>,
        inputs: &[Option<Item>],
        attributes: &[(&str, &AttributeValue<'a>)],
        version: i64,
    ) -> Result<Vec<Option<Item>>> {
        require!(self.depth < DEPTH, "{}: functions call each other more than {DEPTH} deep", place(node));
        self.imported += function.nodes.len();
        require!(
            self.imported <= MOST_NODES,
            "{}: with its functions written out, the model has more than {MOST_NODES} nodes",
            place(node)
        );
        let defaults = function.defaults.iter().map(|attribute| (attribute.name.clone(), attribute.value.clone()));
        let mut arguments: Arguments<'a> = defaults.collect();
        arguments.extend(attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).clone())));
        let mut scope = Scope::new();
        for (index, name) in function.inputs.iter().enumerate() {
            scope.insert(name.clone(), inputs.get(index).cloned().flatten().unwrap_or(Item::Absent));
        }
        let version = version_of(&function.opsets).unwrap_or(version);
        self.depth += 1;
        let outcome = self.nodes(&function.nodes, version, &mut scope, &arguments);
        self.depth -= 1;
        outcome.map_err(|error| error.within(&place(node)))?;
        Ok(function.outputs.iter().map(|name| given(&scope, name)).collect())
    }

    fn constant_node(&self, attributes: &[(&str, &AttributeValue<'a>)]) -> Result<Constant> {
        let [(name, value)] = attributes else { fail!("expected one attribute, got {}", attributes.len()) };
        match (*name, value) {
            ("value", AttributeValue::Tensor(tensor)) => self.constant(tensor),
            ("sparse_value", AttributeValue::Sparse(tensor)) => self.sparse(tensor),
            ("value_int", AttributeValue::Int(value)) => Constant::of_ints(&[*value]).reshaped(&[]),
            ("value_ints", AttributeValue::Ints(values)) => Ok(Constant::of_ints(values)),
            ("value_float", AttributeValue::Float(value)) => Constant::of_floats(&[*value]).reshaped(&[]),
            ("value_floats", AttributeValue::Floats(values)) => Ok(Constant::of_floats(values)),
            _ => fail!("a constant by attribute `{name}` is not supported"),
        }
    }

    /// Returns the value of an attribute for operators. Graphs are not values.
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
            // The type of an optional value.
            AttributeValue::Sparse(tensor) => Attr::Tensor(self.sparse(tensor)?),
            AttributeValue::Other("a type") => return Ok(None),
            AttributeValue::Other(what) => fail!("an attribute that is {what} is not supported"),
        }))
    }

    /// Returns a value that is computed by a node and is not another output: the memory of an
    /// output belongs to the caller.
    fn as_output(&mut self, name: &str, id: ValueId, version: i64) -> Result<ValueId> {
        let value = &self.graph.values[id];
        let is_own = value.producer.is_some_and(|node| self.graph.nodes[node].op.pattern() != op::Pattern::View);
        let is_taken = self.graph.outputs.iter().any(|(_, taken)| *taken == id);
        if is_own && !is_taken {
            return Ok(id);
        }
        self.graph.add_copy(name, id, version)
    }

    /// Compares a value with its declaration. Exporters write incorrect declarations, so a
    /// difference is a warning.
    fn compare(&mut self, declared: &onnx::ValueInfo, id: ValueId) {
        let ValueType::Tensor(_, Some(dims)) = &declared.ty else { return };
        let value = &self.graph.values[id];
        let fits = dims.len() == value.shape.len()
            && dims.iter().zip(&value.shape).all(|(dim, extent)| match dim {
                Dim::Known(known) => known == extent,
                Dim::Named(_) => true,
            });
        if !fits {
            let warning =
                format!("output '{}' is declared as {}, and is {:?}", declared.name, onnx::Dims(dims), value.shape);
            self.graph.warnings.push(warning);
        }
    }
}

/// Finds the item of a name, if it is present.
fn given(scope: &Scope, name: &str) -> Option<Item> {
    scope.get(name).filter(|item| **item != Item::Absent).cloned()
}

fn place(node: &onnx::Node<'_>) -> String {
    format!("node '{}' ({})", label(node), full_name(&node.domain, &node.op_type))
}

/// Returns the element type and the shape of an input. `batch` is the extent of a first dimension
/// without a name.
fn input_type(
    name: &str,
    ty: &ValueType,
    options: &ModelOptions,
    batch: Option<i64>,
) -> Result<(kernpack::DataType, Vec<i64>)> {
    let (element, dims) = match ty {
        ValueType::Tensor(element, dims) => (*element, dims.clone()),
        ValueType::Unknown => fail!("input '{name}' has no type"),
        ValueType::Sequence(_) | ValueType::Optional(_) => {
            fail!("input '{name}' has sequences or optional values in each other, which is not supported")
        }
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
            require!(fits, "input '{name}' is {} in the model, and was said to be {shape:?}", onnx::Dims(dims));
        }
        return Ok((dtype, shape.clone()));
    }
    let Some(dims) = dims else {
        let what = format!("input '{name}' has no shape in the model");
        return Err(GraphError::new(what).fix(&Fix::Shape(name.to_owned())));
    };
    let mut shape = Vec::new();
    let mut open = Vec::new();
    for (axis, dim) in dims.iter().enumerate() {
        match dim {
            Dim::Known(extent) => shape.push(*extent),
            Dim::Named(dim) => {
                let own = open_dims::name(name, axis, dim);
                let batch = batch.filter(|_| axis == 0 && dim.is_empty());
                match open_dims::extent(&own, options).or(batch) {
                    Some(extent) => shape.push(extent),
                    None => open.push((axis, own)),
                }
            }
        }
    }
    if open.is_empty() {
        return Ok((dtype, shape));
    }
    let are = if open.len() == 1 { "is" } else { "are" };
    let fix = Fix::Dims { input: name.to_owned(), dim: open.first().map(|(_, dim)| dim.to_string()) };
    let open: Vec<String> = open.iter().map(|(axis, dim)| format!("dimension {axis} ('{dim}')")).collect();
    Err(GraphError::new(format!("input '{name}': {} {are} not known", open.join(", "))).fix(&fix))
}
