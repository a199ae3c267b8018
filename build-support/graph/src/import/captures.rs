//! Values of a graph that graphs inside its nodes read.

use std::collections::{BTreeSet, HashMap};

use super::{Importer, Item, Scope};
use crate::error::{Result, require};
use crate::graph::{Dequantized, Graph, Value, ValueId};
use crate::onnx::{self, AttributeValue};

/// Values of the enclosing graph, as a body sees them.
#[derive(Default)]
pub(super) struct Captures {
    seen: HashMap<ValueId, ValueId>,
    /// The values that are not known: outside, and inside.
    pub(super) taken: Vec<(ValueId, ValueId)>,
}

impl Captures {
    fn value(&mut self, outer: &Graph, body: &mut Graph, id: ValueId) -> Result<ValueId> {
        if let Some(seen) = self.seen.get(&id) {
            return Ok(*seen);
        }
        require!(
            !outer.extents.contains_key(&id),
            "the extents of '{}', which the body reads, depend on what the model is called with",
            outer.values[id].name
        );
        let inside = body.add_value(Value { producer: None, ..outer.values[id].clone() });
        self.seen.insert(id, inside);
        if outer.values[id].known.is_none() {
            self.taken.push((id, inside));
        }
        if let Some(from) = outer.dequantized.get(&id) {
            let zero = from.zero.map(|zero| self.value(outer, body, zero)).transpose()?;
            let (bytes, scale) = (self.value(outer, body, from.bytes)?, self.value(outer, body, from.scale)?);
            body.dequantized.insert(inside, Dequantized { bytes, scale, zero, axis: from.axis });
        }
        Ok(inside)
    }

    pub(super) fn item(&mut self, outer: &Graph, body: &mut Graph, item: &Item) -> Result<Item> {
        Ok(match item {
            Item::Tensor(id) => Item::Tensor(self.value(outer, body, *id)?),
            Item::Names(id, names) => Item::Names(self.value(outer, body, *id)?, names.clone()),
            Item::Sequence(ids) => {
                Item::Sequence(ids.iter().map(|id| self.value(outer, body, *id)).collect::<Result<_>>()?)
            }
            Item::Nothing | Item::Absent => item.clone(),
        })
    }

    /// Returns the names that a graph reads from the enclosing one.
    ///
    /// # Errors
    /// Returns an error for a value with data-dependent extents.
    pub(super) fn scope(
        &mut self,
        outer: &Graph,
        body: &mut Graph,
        onnx: &onnx::Graph<'_>,
        around: &Scope,
    ) -> Result<Scope> {
        let mut names = BTreeSet::new();
        names_read(onnx, &mut names);
        let mut scope = Scope::new();
        for name in names {
            if let Some(item) = around.get(name) {
                scope.insert(name.to_owned(), self.item(outer, body, item)?);
            }
        }
        Ok(scope)
    }

    /// Returns the values of the enclosing graph, by the values of the body that represent them.
    pub(super) fn outside(&self) -> HashMap<ValueId, ValueId> {
        self.seen.iter().map(|(outside, inside)| (*inside, *outside)).collect()
    }
}

/// Returns true if a node of a body reads a value. Values that the body does not read are not
/// inputs.
pub(super) fn is_read(body: &Graph, id: ValueId) -> bool {
    body.nodes.iter().any(|node| node.inputs.contains(&Some(id)))
}

impl Importer<'_, '_> {
    /// Runs `work` in another graph, while the enclosing one is set aside.
    ///
    /// # Errors
    /// Returns the errors of `work`.
    pub(super) fn within<T>(&mut self, body: &mut Graph, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        body.effort = self.graph.effort;
        core::mem::swap(&mut self.graph, body);
        let made = work(self);
        core::mem::swap(&mut self.graph, body);
        self.graph.effort = body.effort;
        made
    }
}

/// Collects every name that the nodes of a graph read, including those of graphs inside them.
fn names_read<'g>(graph: &'g onnx::Graph<'_>, names: &mut BTreeSet<&'g str>) {
    names.extend(graph.outputs.iter().map(|output| output.name.as_str()));
    for node in &graph.nodes {
        names.extend(node.inputs.iter().map(String::as_str));
        for attribute in &node.attributes {
            if let AttributeValue::Graph(graph) = &attribute.value {
                names_read(graph, names);
            }
        }
    }
}
