//! Branches with a condition that is only known at run time.
//!
//! Both branches are read as separate graphs. If they are cheap and cannot fail, they become nodes
//! of the enclosing graph, and each element of the results is selected from one of them. Otherwise
//! they stay separate, in a node that runs the selected branch.

use std::collections::HashMap;
use std::sync::Arc;

use super::captures::{Captures, is_read};
use super::control::Control;
use super::{Importer, Item, label};
use crate::attrs::Attrs;
use crate::error::{Result, require};
use crate::graph::{Body, Branch, Choice, Dequantized, Graph, Node, Value, ValueId};
use crate::onnx;
use crate::op;

/// A branch as a separate graph.
struct Apart {
    graph: Graph,
    items: Vec<Item>,
    captures: Captures,
}

impl<'a> Importer<'_, 'a> {
    /// Imports the results of one of two branches.
    pub(super) fn branch(&mut self, control: &Control<'_, 'a>) -> Result<Vec<Item>> {
        let condition = self.condition(control.needed(0)?, "the condition")?;
        let (yes, no) = (control.graph("then_branch")?, control.graph("else_branch")?);
        if let Some(holds) = self.emitter(control).known_bool(condition)? {
            return self.inside(control, if holds { yes } else { no }, Vec::new());
        }
        let branches = [self.apart(control, yes)?, self.apart(control, no)?];
        let [yes, no] = &branches;
        let (first, second) = (&yes.items, &no.items);
        require!(first.len() == second.len(), "the branches have {} and {} outputs", first.len(), second.len());
        let are_alike = first.iter().zip(second).all(|(first, second)| are_alike((yes, first), (no, second)));
        let is_harmless = yes.graph.is_harmless_from(0)? && no.graph.is_harmless_from(0)?;
        if are_alike && !is_harmless {
            return self.choice(control, condition, branches);
        }
        let [yes, no] = branches.map(|branch| self.grafted(branch));
        yes.iter().zip(&no).map(|(yes, no)| self.chosen(control, condition, yes, no)).collect()
    }

    fn apart(&mut self, control: &Control<'_, 'a>, onnx: &onnx::Graph<'a>) -> Result<Apart> {
        let mut graph = Graph { is_conditional: true, ..Graph::default() };
        let mut captures = Captures::default();
        let scope = captures.scope(&self.graph, &mut graph, onnx, control.scope)?;
        let inner = Control { scope: &scope, ..*control };
        let items = self.within(&mut graph, |importer| importer.inside(&inner, onnx, Vec::new()))?;
        Ok(Apart { graph, items, captures })
    }

    /// Adds the nodes of a branch to this graph. Returns the items for its results.
    fn grafted(&mut self, Apart { graph, items, captures }: Apart) -> Vec<Item> {
        let first = self.graph.nodes.len();
        let mut ids: HashMap<ValueId, ValueId> = captures.outside();
        for (id, value) in graph.values.into_iter().enumerate() {
            let producer = value.producer.map(|node| first + node);
            ids.entry(id).or_insert_with(|| self.graph.add_value(Value { producer, ..value }));
        }
        let moved = |id: ValueId| ids[&id];
        let all = |list: Vec<Option<ValueId>>| list.into_iter().map(|id| id.map(moved)).collect();
        for node in graph.nodes {
            let (inputs, outputs) = (all(node.inputs.clone()), all(node.outputs.clone()));
            self.graph.nodes.push(Node { inputs, outputs, ..node });
        }
        self.graph.extents.extend(graph.extents.into_iter().map(|(id, extents)| (moved(id), moved(extents))));
        for (id, from) in graph.dequantized {
            let (bytes, scale, zero) = (moved(from.bytes), moved(from.scale), from.zero.map(moved));
            self.graph.dequantized.insert(moved(id), Dequantized { bytes, scale, zero, axis: from.axis });
        }
        self.graph.warnings.extend(graph.warnings);
        items.iter().map(|item| item.map(moved)).collect()
    }

    /// Adds a node that runs one of both branches. Their results have the same structure.
    fn choice(&mut self, control: &Control<'_, 'a>, condition: ValueId, branches: [Apart; 2]) -> Result<Vec<Item>> {
        let outside = [branches[0].captures.outside(), branches[1].captures.outside()];
        let mut inputs = vec![condition];
        let number = self.graph.nodes.len();
        let mut outputs = Vec::new();
        let mut items = Vec::new();
        // The results of both branches that the node returns.
        let mut given: Vec<(String, [ValueId; 2])> = Vec::new();
        for (index, (yes, no)) in branches[0].items.iter().zip(&branches[1].items).enumerate() {
            let mut others = no.ids().into_iter();
            items.push(yes.map(|yes| {
                let no = others.next().unwrap_or(yes);
                // A value of the enclosing graph that both branches pass on.
                if let (Some(one), Some(other)) = (outside[0].get(&yes), outside[1].get(&no))
                    && one == other
                {
                    return *one;
                }
                let like = &branches[0].graph.values[yes];
                let name = control.node.outputs.get(index).map_or("", String::as_str).to_owned();
                let (dtype, shape) = (like.dtype, like.shape.clone());
                given.push((name.clone(), [yes, no]));
                outputs.push(self.graph.add_value(Value { name, dtype, shape, known: None, producer: Some(number) }));
                outputs[outputs.len() - 1]
            }));
        }
        if outputs.is_empty() {
            return Ok(items);
        }
        let mut made = Vec::new();
        for (which, Apart { mut graph, captures, .. }) in branches.into_iter().enumerate() {
            self.within(&mut graph, |importer| {
                for (name, ids) in &given {
                    let id = importer.as_output(name, ids[which], control.version)?;
                    importer.graph.outputs.push((name.clone(), id));
                }
                Ok(())
            })?;
            let mut own = Vec::new();
            let mut taken = captures.taken;
            taken.retain(|(_, inside)| is_read(&graph, *inside));
            for (outside, inside) in taken {
                let place = inputs.iter().position(|id| *id == outside).unwrap_or(inputs.len());
                if place == inputs.len() {
                    inputs.push(outside);
                }
                own.push(place);
                graph.inputs.push(inside);
            }
            made.push(Branch { body: graph, given: own });
        }
        let Ok(branches) = <[Branch; 2]>::try_from(made) else { crate::error::fail!("a choice has two branches") };
        self.graph.nodes.push(Node {
            name: label(control.node).to_owned(),
            op: (&op::IF).into(),
            attrs: Arc::new(Attrs::default()),
            version: control.version,
            reads: vec![true; inputs.len()],
            inputs: inputs.into_iter().map(Some).collect(),
            outputs: outputs.into_iter().map(Some).collect(),
            body: Some(Arc::new(Body::Choice(Choice { branches }))),
        });
        Ok(items)
    }
}

/// Returns true if results of branches have the same structure, and types and shapes that are not
/// data-dependent.
fn are_alike((yes, first): (&Apart, &Item), (no, second): (&Apart, &Item)) -> bool {
    let (ids, others) = (first.ids(), second.ids());
    let is_like = |(one, other): (&ValueId, &ValueId)| {
        let (a, b) = (&yes.graph.values[*one], &no.graph.values[*other]);
        let is_fixed = !yes.graph.extents.contains_key(one) && !no.graph.extents.contains_key(other);
        a.dtype == b.dtype && a.shape == b.shape && is_fixed
    };
    first.kind() == second.kind() && ids.len() == others.len() && ids.iter().zip(&others).all(is_like)
}
