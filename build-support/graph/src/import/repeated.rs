//! Known tensors that repeat: masks that an exporter expands to the batch and to the heads.
//!
//! Operators by position broadcast their inputs, so they read each element once: the batch is not
//! in the tensor, whatever its extent, and less is computed and stored.

use std::sync::Arc;

use super::Importer;
use super::emit::Emitter;
use crate::attrs::Attrs;
use crate::error::Result;
use crate::graph::ValueId;
use crate::op::{NodeOp, broadcast, is_by_position};

impl Importer<'_, '_> {
    /// Keeps the input of `Expand`, if it is known, as the elements of its result.
    pub(super) fn keep_repeated(&mut self, op: &str, inputs: &[Option<ValueId>], made: &[Option<ValueId>]) {
        let (&[Some(x), Some(_)], &[Some(result)], "Expand") = (inputs, made, op) else { return };
        let rank = self.graph.values[result].shape.len();
        let value = &self.graph.values[x];
        let Some(known) = &value.known else { return };
        let mut shape = vec![1; rank - value.shape.len().min(rank)];
        shape.extend(&value.shape);
        if shape.len() != rank || shape == self.graph.values[result].shape {
            return;
        }
        if let Ok(known) = known.reshaped(&shape) {
            let name = value.name.clone();
            let once = self.graph.add_known(&name, known);
            self.graph.repeated.insert(result, once);
        }
    }

    /// Returns a known tensor with the elements of a value, broadcast to it.
    fn once(&mut self, id: ValueId) -> Option<ValueId> {
        if let Some(once) = self.graph.repeated.get(&id) {
            return Some(*once);
        }
        let value = &self.graph.values[id];
        let known = self.graph.places.get(&id)?.once(&value.shape)?;
        if known.dtype() != value.dtype {
            return None;
        }
        let name = value.name.clone();
        let once = self.graph.add_known(&name, known);
        self.graph.repeated.insert(id, once);
        Some(once)
    }

    /// Imports a node of an operator by position, if known inputs of it repeat. Returns its result.
    pub(super) fn by_position(
        &mut self,
        op: NodeOp,
        name: &str,
        (attrs, version): (Arc<Attrs>, i64),
        inputs: &[Option<ValueId>],
        names: &[String],
    ) -> Result<Option<ValueId>> {
        // Before version 7, an attribute says how inputs are broadcast. The second input of
        // `CastLike` is not.
        let is_sized = inputs.iter().flatten().any(|id| self.graph.extents.contains_key(id));
        if version < 7 || op.name() == "CastLike" || is_sized || names.len() != 1 || !is_by_position(&op) {
            return Ok(None);
        }
        let mut narrow = inputs.to_vec();
        for id in narrow.iter_mut().flatten() {
            *id = self.once(*id).unwrap_or(*id);
        }
        if narrow == inputs {
            return Ok(None);
        }
        let shape = |ids: &[Option<ValueId>]| {
            let shapes: Vec<&[i64]> = ids.iter().flatten().map(|id| &self.graph.values[*id].shape[..]).collect();
            broadcast(&shapes)
        };
        let (Ok(whole), Ok(part)) = (shape(inputs), shape(&narrow)) else { return Ok(None) };
        let made = self.graph.add_node(op, name, attrs, version, &narrow, names)?;
        let &[Some(made)] = &made[..] else { return Ok(None) };
        if part == whole {
            return Ok(Some(made));
        }
        if self.graph.values[made].known.is_none() {
            return Ok(None);
        }
        let mut emitter = Emitter { graph: &mut self.graph, name };
        let extents = emitter.ints(&whole);
        let result = emitter.node("Expand", &[], &[made, extents])?;
        self.graph.repeated.insert(result, made);
        Ok(Some(result))
    }
}
