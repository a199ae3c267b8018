//! Nodes with results whose extents are data-dependent.

use std::sync::Arc;

use super::Importer;
use crate::attrs::Attrs;
use crate::error::{Result, fail};
use crate::graph::{Graph, ValueId};
use crate::op::{self, NodeOp, Pattern};

impl Importer<'_, '_> {
    /// Adds a node. Its results have values for their extents if these are data-dependent. If the
    /// data is known, they are cropped immediately.
    pub(super) fn add_sized(
        &mut self,
        operator: NodeOp,
        name: &str,
        attrs: Arc<Attrs>,
        version: i64,
        inputs: &[Option<ValueId>],
        names: &[String],
    ) -> Result<Vec<Option<ValueId>>> {
        let extents = self.extents_of_result(&operator, inputs)?;
        let Some((count, which)) = op::sized_by_data(&operator) else {
            let made = self.graph.add_node(operator, name, attrs, version, inputs, names)?;
            if let Some(extents) = extents {
                self.graph.extents.extend(made.iter().flatten().map(|id| (*id, extents)));
            }
            return Ok(made);
        };
        let mut all: Vec<String> = names.iter().take(count).cloned().collect();
        all.resize(count, String::new());
        for output in which {
            all.push(if all[*output].is_empty() { String::new() } else { format!("{}_extents", all[*output]) });
        }
        let mut made = self.graph.add_node(operator, name, attrs, version, inputs, &all)?;
        for (number, output) in which.iter().enumerate() {
            let (Some(id), Some(extents)) = (made[*output], made[count + number]) else { continue };
            match (&self.graph.values[id].known, &self.graph.values[extents].known) {
                (Some(block), Some(extents)) => {
                    let constant = block.corner(&extents.to_ints()?)?;
                    made[*output] = Some(self.graph.add_known(&all[*output], constant));
                }
                _ => _ = self.graph.extents.insert(id, extents),
            }
        }
        made.truncate(names.len());
        Ok(made)
    }

    /// Returns the extents of the result of an operator whose only input has data-dependent
    /// extents: elementwise operators keep them.
    fn extents_of_result(&self, operator: &NodeOp, inputs: &[Option<ValueId>]) -> Result<Option<ValueId>> {
        let graph: &Graph = &self.graph;
        let mut found = None;
        for (index, id) in inputs.iter().enumerate() {
            let Some(extents) = id.and_then(|id| graph.extents.get(&id)) else { continue };
            let others = inputs.iter().enumerate().filter(|(other, _)| *other != index);
            let rank = id.map_or(0, |id| graph.values[id].shape.len());
            // An input of higher rank would give the result more dimensions than there are extents.
            let are_scalars = others.flat_map(|(_, id)| *id).all(|id| {
                let shape = &graph.values[id].shape;
                shape.len() <= rank && shape.iter().all(|extent| *extent == 1) && !graph.extents.contains_key(&id)
            });
            let stays = operator.pattern() == Pattern::Elementwise
                || operator.listed().is_some_and(|listed| listed.name == "Identity");
            if !stays || !are_scalars {
                fail!(
                    "the extents of input {index} depend on what the model is called with; supported are operators that compute each element by itself. \
                     Make '{}' an output of the model, and compute the rest outside",
                    id.map_or("", |id| graph.values[id].name.as_str())
                );
            }
            found = Some(*extents);
        }
        Ok(found)
    }
}
