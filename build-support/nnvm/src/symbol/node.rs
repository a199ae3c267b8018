//! Nodes, edges and graphs as objects.

use std::sync::atomic::{AtomicI64, Ordering};

use kernpack::{Any, Array, Map, ObjRef, Object, Str, object_methods};
use kernpack_graph::{GraphError, Result};

use super::registry::{self, OpRef};

/// A counted reference to a node.
pub type NodeRef = ObjRef<Node>;
/// A counted reference to a graph.
pub type GraphRef = ObjRef<Graph>;

/// A call of an operator, or a variable.
#[derive(Object)]
#[object(key = "kernpack.graph.Node", structural = "dag")]
#[repr(C)]
pub struct Node {
    /// The name of the operator, or `None` for a variable.
    #[field(default = None)]
    pub op: Option<Str>,
    /// The name.
    #[field(default = Str::from(""))]
    pub name: Str,
    /// Attributes as texts: `"(1, 1)"`, `"True"`. Names in double underscores are the user's.
    #[field(default = Map::default())]
    pub attrs: Map<Str, Str>,
    /// The inputs that it reads.
    #[field(default = Array::default())]
    pub inputs: Array<ObjRef<NodeEntry>>,
    /// Nodes that run before it, in addition to its inputs.
    #[field(default = Array::default())]
    pub control_deps: Array<NodeRef>,
    /// Graphs in it.
    #[field(default = Array::default())]
    pub subgraphs: Array<GraphRef>,
    /// For a variable: the number of composed nodes that write to it so far.
    #[field(skip, default = AtomicI64::new(0))]
    version: AtomicI64,
}

/// One output of a node, as another node reads it.
#[derive(Object)]
#[object(key = "kernpack.graph.NodeEntry")]
#[repr(C)]
pub struct NodeEntry {
    /// The node.
    pub node: NodeRef,
    /// The index of the output in the node.
    #[field(default = 0)]
    pub index: i64,
    /// For a variable that nodes write to: the number of writes before this read.
    #[field(default = 0)]
    pub version: i64,
}

/// A computation: outputs, all nodes that they depend on, and attributes.
#[derive(Object)]
#[object(key = "kernpack.graph.Graph")]
#[repr(C)]
pub struct Graph {
    /// The results.
    pub outputs: Array<ObjRef<NodeEntry>>,
    /// The results of passes, by name: `shape`, `dtype`, `layout`, `storage_id`, a module, ..
    #[field(default = Map::default())]
    pub attrs: Map<Str, Any>,
}

/// A value in the attributes of a graph whose JSON type name does not follow from it: an empty
/// list, a `size_t`, layouts.
#[derive(Object)]
#[object(key = "kernpack.graph.Typed")]
#[repr(C)]
pub struct Typed {
    /// The type name in JSON.
    pub type_name: Str,
    /// The value: a number, a text, an array.
    pub value: Any,
}

/// An output of a node. Cloning only increments a reference count.
#[derive(Clone)]
pub struct Value {
    /// The node.
    pub node: NodeRef,
    /// The index of the output in the node.
    pub index: usize,
    /// See [`NodeEntry::version`].
    pub version: i64,
}

impl Node {
    /// Creates a node.
    pub fn new(op: Option<&str>, name: &str, attrs: Map<Str, Str>, inputs: &[Value]) -> NodeRef {
        ObjRef::new(Self {
            op: op.map(Str::from),
            name: name.into(),
            attrs,
            inputs: inputs.iter().map(Value::to_entry).collect(),
            control_deps: Array::default(),
            subgraphs: Array::default(),
            version: AtomicI64::new(0),
        })
    }

    /// Returns the same node with other inputs and control dependencies.
    pub fn with_inputs(&self, inputs: &[Value], control_deps: Array<NodeRef>) -> NodeRef {
        ObjRef::new(Self {
            op: self.op.clone(),
            name: self.name.clone(),
            attrs: self.attrs.clone(),
            inputs: inputs.iter().map(Value::to_entry).collect(),
            control_deps,
            subgraphs: self.subgraphs.clone(),
            version: AtomicI64::new(self.version()),
        })
    }

    /// Returns the same node with other attributes.
    pub fn with_attrs(&self, attrs: Map<Str, Str>) -> NodeRef {
        ObjRef::new(Self {
            op: self.op.clone(),
            name: self.name.clone(),
            attrs,
            inputs: self.inputs.clone(),
            control_deps: self.control_deps.clone(),
            subgraphs: self.subgraphs.clone(),
            version: AtomicI64::new(self.version()),
        })
    }

    /// Creates a node from all its parts, for readers of files.
    pub(super) fn of_parts(
        op: Option<&str>,
        name: &str,
        attrs: Map<Str, Str>,
        inputs: &[Value],
        control_deps: Array<NodeRef>,
        subgraphs: Array<GraphRef>,
    ) -> NodeRef {
        ObjRef::new(Self {
            op: op.map(Str::from),
            name: name.into(),
            attrs,
            inputs: inputs.iter().map(Value::to_entry).collect(),
            control_deps,
            subgraphs,
            version: AtomicI64::new(0),
        })
    }

    /// Returns true if it is a variable: it has no operator.
    pub fn is_variable(&self) -> bool {
        self.op.is_none()
    }

    /// Returns the name of its operator, or "null" for a variable.
    pub fn op_name(&self) -> &str {
        self.op.as_ref().map_or("null", Str::as_str)
    }

    /// Returns true if it is a call of this operator.
    pub fn is_op(&self, op: &str) -> bool {
        self.op.as_ref().is_some_and(|own| own.as_str() == op)
    }

    /// Returns the operator.
    ///
    /// # Errors
    /// Returns an error for a variable, and for an unregistered operator.
    pub fn operator(&self) -> Result<OpRef> {
        match &self.op {
            Some(op) => registry::find(op).map_err(|error| error.within(&self.place())),
            None => Err(GraphError::new("a variable has no operator").within(&self.place())),
        }
    }

    /// Returns the place for messages: `node 'conv0' (conv2d)`.
    pub fn place(&self) -> String {
        match &self.op {
            Some(op) => format!("node '{}' ({op})", self.name),
            None => format!("variable '{}'", self.name),
        }
    }

    /// For a variable: returns the number of nodes that write to it so far.
    pub fn version(&self) -> i64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Records that another node writes to this variable.
    pub(super) fn written(&self) {
        self.version.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the inputs that it reads.
    pub fn input_values(&self) -> Vec<Value> {
        self.inputs.iter().map(|entry| Value::from(&*entry)).collect()
    }
}

#[object_methods]
impl Node {
    /// Returns the attributes with the defaults of the operator's parameters.
    pub fn all_attrs(&self) -> kernpack::Result<Map<Str, Str>> {
        Ok(match &self.op {
            Some(_) => self.operator()?.all_attrs(&self.attrs)?,
            None => self.attrs.clone(),
        })
    }
}

#[object_methods]
impl Graph {
    /// Applies passes by name and returns the resulting graph.
    #[method(name = "apply")]
    fn apply_methods(this: &ObjRef<Self>, passes: Vec<String>) -> kernpack::Result<GraphRef> {
        let names: Vec<&str> = passes.iter().map(String::as_str).collect();
        Ok(super::pass::apply(this, &names)?)
    }

    /// Returns the graph with an added or replaced attribute.
    #[method(name = "with_attr")]
    fn with_attr_method(&self, name: &str, value: Any) -> GraphRef {
        self.with_attr(name, value)
    }

    /// Returns the graph as JSON in NNVM's format.
    #[method(name = "json")]
    fn json_method(this: &ObjRef<Self>) -> kernpack::Result<String> {
        Ok(super::save_json(this)?)
    }

    /// Returns the graph as text, a line for each node.
    #[method(name = "ir")]
    fn ir_method(this: &ObjRef<Self>) -> kernpack::Result<String> {
        Ok(super::print(this)?)
    }

    /// Returns the nodes, each after its dependencies.
    #[method(name = "nodes")]
    fn nodes_method(this: &ObjRef<Self>) -> kernpack::Result<Vec<NodeRef>> {
        Ok(super::IndexedGraph::new(this)?.nodes.into_iter().map(|node| node.node).collect())
    }
}

impl Graph {
    /// Creates a graph with these outputs.
    pub fn new(outputs: &[Value]) -> GraphRef {
        ObjRef::new(Self { outputs: outputs.iter().map(Value::to_entry).collect(), attrs: Map::default() })
    }

    /// Creates a graph with these outputs and attributes.
    pub fn with(outputs: &[Value], attrs: Map<Str, Any>) -> GraphRef {
        ObjRef::new(Self { outputs: outputs.iter().map(Value::to_entry).collect(), attrs })
    }

    /// Returns the graph with an added or replaced attribute.
    pub fn with_attr(&self, name: &str, value: impl Into<Any>) -> GraphRef {
        let others = self.attrs.iter().filter(|(key, _)| key.as_str() != name);
        let attrs = others.chain([(Str::from(name), value.into())]).collect();
        ObjRef::new(Self { outputs: self.outputs.clone(), attrs })
    }

    /// Returns the graph without some attributes.
    pub fn without_attrs(&self, names: &[&str]) -> GraphRef {
        let attrs = self.attrs.iter().filter(|(key, _)| !names.contains(&key.as_str())).collect();
        ObjRef::new(Self { outputs: self.outputs.clone(), attrs })
    }

    /// Returns an attribute of a type.
    ///
    /// # Errors
    /// Returns an error if it is missing, or has another type.
    pub fn attr<T: for<'a> kernpack::FromAny<'a>>(&self, name: &str) -> Result<T> {
        let Some(value) = self.attrs.get(name) else {
            return Err(GraphError::new(match super::pass::giver(name) {
                Some(pass) => format!("the graph has no attribute `{name}`: apply pass {pass} first"),
                None => format!("the graph has no attribute `{name}`"),
            }));
        };
        let value = match value.to::<ObjRef<Typed>>() {
            Ok(typed) => typed.value.clone(),
            Err(_) => value,
        };
        value.to::<T>().map_err(|error| GraphError::from(error).within(&format!("graph attribute `{name}`")))
    }

    /// Returns an attribute of a type, or `None` if it is missing.
    ///
    /// # Errors
    /// Returns an error if it has another type.
    pub(crate) fn optional_attr<T: for<'a> kernpack::FromAny<'a>>(&self, name: &str) -> Result<Option<T>> {
        self.attrs.get(name).map(|_| self.attr(name)).transpose()
    }

    /// Returns the results.
    pub fn values(&self) -> Vec<Value> {
        self.outputs.iter().map(|entry| Value::from(&*entry)).collect()
    }
}

/// Formats like [`super::print`].
impl core::fmt::Debug for Graph {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&super::print(self).unwrap_or_else(|error| error.to_string()))
    }
}

impl Value {
    /// Creates a variable.
    pub fn variable(name: &str) -> Self {
        Self::of(Node::new(None, name, Map::default(), &[]))
    }

    /// Returns the first output of a node.
    pub fn of(node: NodeRef) -> Self {
        Self { node, index: 0, version: 0 }
    }

    /// Returns another output of the same node.
    #[must_use]
    pub fn output(&self, index: usize) -> Self {
        Self { node: self.node.clone(), index, version: 0 }
    }

    /// Converts the value to an object.
    pub fn to_entry(&self) -> ObjRef<NodeEntry> {
        ObjRef::new(NodeEntry {
            node: self.node.clone(),
            index: i64::try_from(self.index).unwrap_or(i64::MAX),
            version: self.version,
        })
    }

    /// Returns true if both are the same output of the same node.
    pub fn same_as(&self, other: &Self) -> bool {
        self.node.ptr_eq(&other.node) && self.index == other.index
    }
}

impl From<&NodeEntry> for Value {
    fn from(entry: &NodeEntry) -> Self {
        // An index from another language may be negative: no node has as many outputs, and readers
        // report it.
        let index = usize::try_from(entry.index).unwrap_or(usize::MAX);
        Self { node: entry.node.clone(), index, version: entry.version }
    }
}
