//! A graph with indices for its nodes and entries.

use std::collections::HashMap;

use kernpack::ObjRef;
use kernpack_graph::{GraphError, Result};

use super::node::{Graph, NodeRef, Value};
use super::registry::{self, Use};

/// An output of a node, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The index of the node.
    pub node: usize,
    /// The index of the output in the node.
    pub index: usize,
    /// The number of nodes that have written to the variable before.
    pub version: i64,
}

/// A node with the indices of its dependencies.
pub struct IndexedNode {
    /// The node.
    pub node: NodeRef,
    /// The inputs that it reads.
    pub inputs: Vec<Entry>,
    /// The nodes that run before it.
    pub control_deps: Vec<usize>,
    /// The number of outputs.
    pub num_outputs: usize,
}

/// The nodes of a graph in an order in which they can be computed: depth first, inputs before their
/// readers, with NNVM's numbering.
pub struct IndexedGraph {
    /// The nodes.
    pub nodes: Vec<IndexedNode>,
    /// The results of the graph.
    pub outputs: Vec<Entry>,
    /// The index of the first entry of each node, followed by the number of all entries.
    pub row_ptr: Vec<usize>,
    numbers: HashMap<usize, usize>,
}

/// The maximum number of outputs of a node.
const MOST_OUTPUTS: usize = 1 << 16;

impl IndexedGraph {
    /// Indexes the nodes of a graph.
    ///
    /// # Errors
    /// Returns an error for an entry that its node does not have.
    pub fn new(graph: &Graph) -> Result<Self> {
        Self::of_values(&graph.values())
    }

    /// Indexes the nodes that these values need.
    ///
    /// # Errors
    /// As for [`IndexedGraph::new`].
    pub fn of_values(outputs: &[Value]) -> Result<Self> {
        let mut this = Self { nodes: Vec::new(), outputs: Vec::new(), row_ptr: vec![0], numbers: HashMap::new() };
        for output in outputs {
            this.visit(&output.node);
        }
        this.count_outputs(outputs)?;
        for node in &this.nodes {
            this.row_ptr.push(this.row_ptr[this.row_ptr.len() - 1] + node.num_outputs);
        }
        this.outputs = outputs.iter().map(|value| this.entry_of(value)).collect();
        Ok(this)
    }

    /// Visits depth first with an explicit stack, so that a chain of a million nodes needs no
    /// recursion.
    fn visit(&mut self, root: &NodeRef) {
        let needs = |node: &NodeRef| -> Vec<NodeRef> {
            let inputs = node.inputs.iter().map(|entry| entry.node.clone());
            inputs.chain(node.control_deps.iter()).collect()
        };
        if self.numbers.contains_key(&address(root)) {
            return;
        }
        let mut stack = vec![(root.clone(), needs(root), 0)];
        while let Some((node, children, next)) = stack.last_mut() {
            if let Some(child) = children.get(*next) {
                *next += 1;
                if !self.numbers.contains_key(&address(child)) {
                    let child = child.clone();
                    let own = needs(&child);
                    stack.push((child, own, 0));
                }
                continue;
            }
            let node = node.clone();
            stack.pop();
            if self.numbers.contains_key(&address(&node)) {
                continue;
            }
            let values: Vec<Value> = node.input_values();
            let inputs = values.iter().map(|value| self.entry_of(value)).collect();
            let control_deps = node.control_deps.iter().map(|before| self.numbers[&address(&before)]).collect();
            self.numbers.insert(address(&node), self.nodes.len());
            self.nodes.push(IndexedNode { node, inputs, control_deps, num_outputs: 1 });
        }
    }

    /// Determines the number of outputs of each node: from its operator, or for an unregistered one
    /// from the outputs that are read.
    fn count_outputs(&mut self, outputs: &[Value]) -> Result<()> {
        let mut read = vec![1; self.nodes.len()];
        let used = self.nodes.iter().flat_map(|node| node.inputs.iter().copied());
        for entry in used.chain(outputs.iter().map(|value| self.entry_of(value))) {
            read[entry.node] = read[entry.node].max(entry.index.saturating_add(1));
        }
        for (number, node) in self.nodes.iter_mut().enumerate() {
            let known = match &node.node.op {
                None => Some(1),
                Some(op) => match registry::find(op) {
                    Ok(op) => Some(
                        Use::new(&op, &node.node).num_outputs().map_err(|error| error.within(&node.node.place()))?,
                    ),
                    Err(_) => None,
                },
            };
            node.num_outputs = known.unwrap_or(read[number]);
            if read[number] > node.num_outputs || node.num_outputs > MOST_OUTPUTS {
                let (index, count) = (read[number] - 1, node.num_outputs);
                let what = format!("output {index} is read, and there are {count}");
                return Err(GraphError::new(what).within(&node.node.place()));
            }
        }
        Ok(())
    }

    fn entry_of(&self, value: &Value) -> Entry {
        Entry { node: self.numbers[&address(&value.node)], index: value.index, version: value.version }
    }

    /// Returns the index of a node, if it is in the graph.
    pub fn number(&self, node: &NodeRef) -> Option<usize> {
        self.numbers.get(&address(node)).copied()
    }

    /// Returns the number of entries.
    pub fn num_entries(&self) -> usize {
        self.row_ptr[self.row_ptr.len() - 1]
    }

    /// Returns the index of an entry among all.
    pub fn entry_id(&self, entry: Entry) -> usize {
        self.row_ptr[entry.node] + entry.index
    }

    /// Returns the indices of the variables.
    pub fn variables(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.nodes.len()).filter(|number| self.nodes[*number].node.is_variable())
    }

    /// Returns an entry as a value.
    pub fn value(&self, entry: Entry) -> Value {
        Value { node: self.nodes[entry.node].node.clone(), index: entry.index, version: entry.version }
    }

    /// Returns the number of times that each entry is read, by nodes and as an output.
    pub fn entry_uses(&self) -> Vec<usize> {
        let mut uses = vec![0; self.num_entries()];
        for entry in self.nodes.iter().flat_map(|node| &node.inputs).chain(&self.outputs) {
            uses[self.entry_id(*entry)] += 1;
        }
        uses
    }

    /// Returns the number of times that the outputs of each node are read, by nodes and as an
    /// output.
    pub fn node_uses(&self) -> Vec<usize> {
        let mut uses = vec![0; self.nodes.len()];
        for entry in self.nodes.iter().flat_map(|node| &node.inputs).chain(&self.outputs) {
            uses[entry.node] += 1;
        }
        uses
    }
}

/// Returns the identity of a node while it is alive.
pub(crate) fn address(node: &NodeRef) -> usize {
    ObjRef::as_ptr(node) as usize
}
