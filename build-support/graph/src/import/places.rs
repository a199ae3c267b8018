//! Indices that follow from positions alone: what they select is known when the model is imported.
//!
//! Exporters write `mask[arange(batch)[:, None], arange(length)]` as `GatherND`, with a tensor of
//! indices that `Range`, `Unsqueeze`, `Expand` and `Concat` compute. Each index is that of its own
//! position, so the node copies its input: it becomes `Reshape` and `Expand`. As `GatherND`, it
//! could read any row of a batch, and a model with such a node could not be split along it.

use std::collections::HashMap;
use std::sync::Arc;

use kernpack_compiler::ir::Tensor;
use kernpack_compiler::te::placeholder;

use super::Importer;
use super::emit::Emitter;
use crate::attrs::{Attr, Attrs};
use crate::constant::stored;
use crate::error::Result;
use crate::graph::{Node, ValueId};
use crate::op::places::Places;
use crate::op::{NodeOp, Pattern, axis_of, extents};

/// Known tensors with more elements are not examined: indices of positions that are so many are
/// not known tensors.
const MOST_KNOWN: usize = 1 << 20;

/// The axes whose positions each column of indices counts, or `None` for other columns.
type Columns = Vec<Option<Vec<usize>>>;

/// Returns a shape with the extents of some axes, and 1 for the others.
fn spread_along(axes: &[usize], shape: &[i64]) -> Vec<i64> {
    shape.iter().enumerate().map(|(axis, extent)| if axes.contains(&axis) { *extent } else { 1 }).collect()
}

impl Importer<'_, '_> {
    /// Returns the formula of the elements of a value.
    fn places_of(&self, id: ValueId) -> Option<Places> {
        if let Some(places) = self.graph.places.get(&id) {
            return Some(places.clone());
        }
        let known = self.graph.values[id].known.as_ref()?;
        if known.len() > MOST_KNOWN { None } else { Places::of_constant(known) }
    }

    /// Keeps the formula of the result of a node that reads only inputs with formulas.
    pub(super) fn keep_places(
        &mut self,
        op: NodeOp,
        (attrs, version): (Arc<Attrs>, i64),
        inputs: &[Option<ValueId>],
        made: &[Option<ValueId>],
    ) {
        let &[Some(result)] = made else { return };
        // Tensors of one dimension that are known are examined when they are used.
        let value = &self.graph.values[result];
        let is_simple = matches!(op.pattern(), Pattern::View | Pattern::Elementwise | Pattern::Injective);
        let is_followed = op.listed().is_some() && is_simple && (value.shape.len() > 1 || value.known.is_none());
        if !is_followed || inputs.iter().all(Option::is_none) {
            return;
        }
        let mut given = HashMap::new();
        let mut tensors: HashMap<ValueId, Tensor> = HashMap::new();
        for id in inputs.iter().flatten() {
            let value = &self.graph.values[*id];
            let tensor = placeholder(extents(&value.shape), stored(value.dtype), &value.name);
            match self.places_of(*id) {
                Some(places) => _ = given.insert(tensor.op.clone(), places),
                // A shape, whose elements no result reads.
                None if value.known.is_some() => {}
                None => return,
            }
            tensors.insert(*id, tensor);
        }
        if given.is_empty() {
            return;
        }
        let node = Node {
            name: String::new(),
            op,
            attrs,
            version,
            inputs: inputs.to_vec(),
            reads: vec![true; inputs.len()],
            outputs: vec![Some(result)],
            body: None,
        };
        let Ok(tensors) = node.instantiate(&self.graph, |id| tensors[&id].clone()) else { return };
        if let [tensor] = &tensors[..]
            && let Some(places) = Places::of_tensor(tensor, &given)
        {
            self.graph.places.insert(result, places);
        }
    }

    /// Imports a node that selects elements by indices, if some of the indices are those of their
    /// own positions. Returns its result.
    pub(super) fn selected(
        &mut self,
        op: &str,
        name: &str,
        inputs: &[Option<ValueId>],
        attrs: &Attrs,
    ) -> Result<Option<ValueId>> {
        let &[Some(data), Some(indices)] = inputs else { return Ok(None) };
        let shape = &self.graph.values[data].shape;
        let wanted = &self.graph.values[indices].shape;
        let is_sized = [data, indices].iter().any(|id| self.graph.extents.contains_key(id));
        // The selection from a known tensor is computed now.
        let is_known = self.graph.values[data].known.is_some();
        if is_known || is_sized || shape.contains(&0) || wanted.contains(&0) {
            return Ok(None);
        }
        match op {
            "Gather" => {
                let Ok(axis) = axis_of(attrs.int("axis", 0)?, shape.len()) else { return Ok(None) };
                let Some(places) = self.places_of(indices) else { return Ok(None) };
                let Some(axes) = places.counted_axes(wanted, None, 0, shape[axis]) else { return Ok(None) };
                let (mut spread, mut whole) = (shape.clone(), shape.clone());
                spread.splice(axis..=axis, spread_along(&axes, wanted));
                whole.splice(axis..=axis, wanted.iter().copied());
                self.copied(name, data, &spread, &whole).map(Some)
            }
            "GatherND" if attrs.int("batch_dims", 0)? == 0 => self.selected_nd(name, data, indices),
            _ => Ok(None),
        }
    }

    /// `GatherND`: the columns of its indices belong to the first axes of the data.
    fn selected_nd(&mut self, name: &str, data: ValueId, indices: ValueId) -> Result<Option<ValueId>> {
        let shape = self.graph.values[data].shape.clone();
        let Some((count, outer)) = self.graph.values[indices].shape.split_last() else { return Ok(None) };
        let (count, outer) = (usize::try_from(*count).unwrap_or(usize::MAX), outer.to_vec());
        if count > shape.len() {
            return Ok(None);
        }
        let columns = self.columns_of(indices, &outer, &shape[..count]);
        if columns.iter().all(Option::is_some) {
            let axes: Vec<usize> = columns.into_iter().flatten().flatten().collect();
            let spread = spread_along(&axes, &outer);
            let rest = &shape[count..];
            return self.copied(name, data, &[&spread, rest].concat(), &[&outer, rest].concat()).map(Some);
        }
        let is_own = |column: usize| {
            let is_there = column < outer.len() && outer[column] == shape[column];
            is_there && columns[column].as_ref().is_some_and(|axes| axes.iter().all(|axis| *axis == column))
        };
        let batch = (0..count).take_while(|column| is_own(*column)).count();
        if batch == 0 {
            return Ok(None);
        }
        let rest = self.without_columns(name, indices, batch)?;
        let batch = Attr::Int(i64::try_from(batch).unwrap_or(i64::MAX));
        Emitter { graph: &mut self.graph, name }.node("GatherND", &[("batch_dims", batch)], &[data, rest]).map(Some)
    }

    /// Returns indices without the first columns: the others may be joined with them, and do not
    /// depend on rows.
    fn without_columns(&mut self, name: &str, indices: ValueId, count: usize) -> Result<ValueId> {
        let joined = self.joined(indices);
        let mut emitter = Emitter { graph: &mut self.graph, name };
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let (mut first, mut rest) = (0, Vec::new());
        for id in joined {
            if first >= count {
                rest.push(id);
            }
            first += emitter.graph.values[id].shape.last().copied().unwrap_or(0);
            if first > count && rest.is_empty() {
                break;
            }
        }
        match rest[..] {
            [] => {
                let [from, to, axis] = [count, i64::MAX, -1].map(|bound| emitter.ints(&[bound]));
                emitter.node("Slice", &[], &[indices, from, to, axis])
            }
            [one] => Ok(one),
            _ => emitter.node("Concat", &[("axis", Attr::Int(-1))], &rest),
        }
    }

    /// Returns the tensors that are joined along the last axis to a value: none if it is not a
    /// result of `Concat`.
    fn joined(&self, id: ValueId) -> Vec<ValueId> {
        let value = &self.graph.values[id];
        let Some(node) = value.producer.map(|node| &self.graph.nodes[node]) else { return Vec::new() };
        let rank = value.shape.len();
        let axis = node.attrs.int("axis", 0).and_then(|axis| axis_of(axis, rank));
        let is_last = node.op.listed().is_some_and(|op| op.name == "Concat") && axis.is_ok_and(|axis| axis + 1 == rank);
        if is_last { node.inputs.iter().flatten().copied().collect() } else { Vec::new() }
    }

    /// Returns the axes whose positions the columns of indices count, in ascending order. `outer`
    /// is the shape of the indices without the columns, and `extents` has the extents that the
    /// columns index.
    fn columns_of(&self, indices: ValueId, outer: &[i64], extents: &[i64]) -> Columns {
        let mut from = 0;
        let column = |(column, extent): (usize, &i64)| {
            let (places, column) = self.column(indices, i64::try_from(column).ok()?)?;
            let axes = places.counted_axes(outer, Some(column), from, *extent)?;
            from = axes.last().map_or(from, |last| last + 1);
            Some(axes)
        };
        extents.iter().enumerate().map(column).collect()
    }

    /// Returns the formula of the tensor that has a column of indices, and the column in it: other
    /// columns may depend on the data.
    fn column(&self, indices: ValueId, column: i64) -> Option<(Places, i64)> {
        if let Some(places) = self.places_of(indices) {
            return Some((places, column));
        }
        let mut column = column;
        for id in self.joined(indices) {
            let count = *self.graph.values[id].shape.last()?;
            if column < count {
                return self.places_of(id).map(|places| (places, column));
            }
            column -= count;
        }
        None
    }

    /// Adds the copy of a value in another shape, and then repeated to a larger one.
    fn copied(&mut self, name: &str, data: ValueId, spread: &[i64], whole: &[i64]) -> Result<ValueId> {
        let mut emitter = Emitter { graph: &mut self.graph, name };
        let shape = emitter.ints(spread);
        let copied = emitter.node("Reshape", &[("allowzero", Attr::Int(1))], &[data, shape])?;
        if spread == whole {
            return Ok(copied);
        }
        let shape = emitter.ints(whole);
        emitter.node("Expand", &[], &[copied, shape])
    }
}
