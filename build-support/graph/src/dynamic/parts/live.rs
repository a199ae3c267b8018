//! The removal of nodes whose results nothing reads, and of the values that only they have.
//!
//! Exporters leave such nodes, and folded shapes and rewritten nodes leave more. They are not
//! computed, so what they do with the indices of a dimension does not matter for the proof.

use crate::graph::{Columns, Graph, ValueId};

impl Graph {
    /// Drops nodes and values that no output depends on. Values get other numbers, in the order in
    /// which they were.
    pub(super) fn drop_dead_nodes(&mut self) {
        let mut is_live = vec![false; self.values.len()];
        for id in self.inputs.iter().chain(self.outputs.iter().map(|(_, id)| id)) {
            is_live[*id] = true;
        }
        for id in self.outputs.iter().filter_map(|(_, id)| self.extents.get(id)) {
            is_live[*id] = true;
        }
        let mut live = Vec::new();
        for node in self.nodes.drain(..).rev() {
            if node.outputs.iter().flatten().any(|id| is_live[*id]) {
                for id in node.inputs.iter().chain(&node.outputs).flatten() {
                    is_live[*id] = true;
                }
                live.push(node);
            }
        }
        live.reverse();
        self.nodes = live;
        for (id, from) in &self.dequantized {
            if is_live[*id] {
                for id in [Some(from.bytes), Some(from.scale), from.zero].into_iter().flatten() {
                    is_live[id] = true;
                }
            }
        }
        for (id, columns) in &self.columns {
            if let (true, Columns::Labels(labels)) = (is_live[*id], columns) {
                is_live[*labels] = true;
            }
        }
        self.renumber(&is_live);
    }

    /// Keeps some of the values.
    fn renumber(&mut self, is_live: &[bool]) {
        let mut count = 0;
        let numbers: Vec<Option<ValueId>> = is_live
            .iter()
            .map(|is_live| {
                count += usize::from(*is_live);
                is_live.then(|| count - 1)
            })
            .collect();
        // Only values that stay are asked for.
        let new = |id: ValueId| numbers[id].unwrap_or(id);
        let mut is_live = is_live.iter();
        self.values.retain(|_| is_live.next() == Some(&true));
        for value in &mut self.values {
            value.producer = None;
        }
        for (number, node) in self.nodes.iter_mut().enumerate() {
            for id in node.inputs.iter_mut().chain(&mut node.outputs).flatten() {
                *id = new(*id);
            }
            for id in node.outputs.iter().flatten() {
                self.values[*id].producer = Some(number);
            }
        }
        for id in self.inputs.iter_mut().chain(self.outputs.iter_mut().map(|(_, id)| id)) {
            *id = new(*id);
        }
        let stays = |id: ValueId| numbers[id].is_some();
        let extents =
            core::mem::take(&mut self.extents).into_iter().filter(|(id, extents)| stays(*id) && stays(*extents));
        self.extents = extents.map(|(id, extents)| (new(id), new(extents))).collect();
        let dequantized = core::mem::take(&mut self.dequantized).into_iter().filter(|(id, _)| stays(*id));
        self.dequantized = dequantized
            .map(|(id, mut from)| {
                (from.bytes, from.scale, from.zero) = (new(from.bytes), new(from.scale), from.zero.map(new));
                (new(id), from)
            })
            .collect();
        let columns = core::mem::take(&mut self.columns).into_iter().filter(|(id, _)| stays(*id));
        self.columns = columns
            .map(|(id, columns)| match columns {
                Columns::Labels(labels) => (new(id), Columns::Labels(new(labels))),
                names @ Columns::Names(_) => (new(id), names),
            })
            .collect();
        self.places.clear();
        self.repeated.clear();
        self.of_failing.clear();
    }
}
