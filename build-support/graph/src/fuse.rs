//! Groups of nodes that one kernel computes.
//!
//! Each group has one node whose results leave it. Going from the end to the start, a node joins the group of its readers if all of them are in one group and the
//! patterns allow it; so no group can wait for itself.

use crate::graph::{Graph, Node, ValueId};
use crate::op::Pattern;

/// Nodes of a group, at most.
const MOST: usize = 24;

/// Nodes that one kernel computes.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// In the order of the graph; the results of the last one leave the group.
    pub nodes: Vec<usize>,
    /// The reduction, product or convolution in it.
    anchor: Option<usize>,
    /// What the anchor reads.
    before_anchor: Vec<usize>,
}

/// Whether a node reads its first input at places that the second one tells.
fn is_gather(node: &Node) -> bool {
    node.op.listed().is_some_and(|listed| ["Gather", "GatherElements", "GatherND"].contains(&listed.name))
}

impl Graph {
    /// The value whose memory a value has: views have that of their input.
    pub fn memory_of(&self, mut id: ValueId) -> ValueId {
        while let Some(node) = self.values[id].producer.map(|node| &self.nodes[node]) {
            match node.inputs.first() {
                Some(Some(input)) if node.op.pattern() == Pattern::View && node.outputs.first() == Some(&Some(id)) => {
                    id = *input;
                }
                _ => break,
            }
        }
        id
    }

    /// The nodes that read each value when the model runs.
    fn readers(&self) -> Vec<Vec<usize>> {
        let mut readers = vec![Vec::new(); self.values.len()];
        for (number, node) in self.nodes.iter().enumerate() {
            for (id, reads) in node.inputs.iter().zip(&node.reads) {
                if let (Some(id), true) = (id, reads)
                    && readers[*id].last() != Some(&number)
                {
                    readers[*id].push(number);
                }
            }
        }
        readers
    }

    /// The kernels of the graph in an order in which they can run. With `fuse` off each node is a kernel, to find out which one is wrong or slow.
    pub fn groups(&self, fuse: bool) -> Vec<Group> {
        let readers = self.readers();
        let mut groups: Vec<Group> = Vec::new();
        let mut group_of: Vec<Option<usize>> = vec![None; self.nodes.len()];
        // Nodes whose results nothing reads are not computed.
        let mut is_needed = vec![false; self.nodes.len()];
        for number in (0..self.nodes.len()).rev() {
            let node = &self.nodes[number];
            let is_output = |id: &ValueId| self.outputs.iter().any(|(_, output)| output == id);
            let leaves = node.outputs.iter().flatten().any(is_output);
            let own: Vec<usize> = node
                .outputs
                .iter()
                .flatten()
                .flat_map(|id| readers[*id].iter().copied())
                .filter(|reader| is_needed[*reader])
                .collect();
            is_needed[number] = leaves || !own.is_empty();
            if !is_needed[number] || node.op.pattern() == Pattern::View {
                continue;
            }
            let joined = if fuse && !leaves { self.group_to_join(number, &own, &groups, &group_of) } else { None };
            let group = joined.unwrap_or_else(|| {
                groups.push(Group::default());
                groups.len() - 1
            });
            let joining = &mut groups[group];
            if own.iter().any(|reader| Some(*reader) == joining.anchor || joining.before_anchor.contains(reader)) {
                joining.before_anchor.push(number);
            }
            if matches!(node.op.pattern(), Pattern::Reduction | Pattern::Heavy | Pattern::Opaque) {
                joining.anchor = Some(number);
            }
            joining.nodes.push(number);
            group_of[number] = Some(group);
        }
        for group in &mut groups {
            group.nodes.reverse();
        }
        groups.sort_by_key(|group| group.nodes.last().copied());
        groups
    }

    /// Whether nodes of a group read a value both as data and within the index of that data. Written out in one kernel, the
    /// value is computed at two places for each element, and in a chain of such nodes at twice as many with each link.
    fn is_index_of_itself(&self, value: ValueId, group: &Group) -> bool {
        // Values of the group that are computed of this one; nodes of a group are collected from its end.
        let mut reached = vec![value];
        for number in group.nodes.iter().rev() {
            let node = &self.nodes[*number];
            let reads = |index: &usize| {
                node.inputs.get(*index).copied().flatten().is_some_and(|id| self.comes_of(id, &reached))
            };
            if is_gather(node) && reads(&0) && reads(&1) {
                return true;
            }
            if (0..node.inputs.len()).any(|index| reads(&index)) {
                reached.extend(node.outputs.iter().flatten());
            }
        }
        false
    }

    /// Whether a value is one of some, or a view of one.
    fn comes_of(&self, mut id: ValueId, some: &[ValueId]) -> bool {
        loop {
            if some.contains(&id) {
                return true;
            }
            let Some(node) = self.values[id].producer.map(|node| &self.nodes[node]) else { return false };
            match node.inputs.first() {
                Some(Some(input)) if node.op.pattern() == Pattern::View => id = *input,
                _ => return false,
            }
        }
    }

    fn group_to_join(
        &self,
        number: usize,
        own: &[usize],
        groups: &[Group],
        group_of: &[Option<usize>],
    ) -> Option<usize> {
        let node = &self.nodes[number];
        let [Some(output)] = node.outputs[..] else { return None };
        let index = group_of[*own.first()?]?;
        if own.iter().any(|reader| group_of[*reader] != Some(index)) {
            return None;
        }
        let group = &groups[index];
        if group.nodes.len() >= MOST || self.is_index_of_itself(output, group) {
            return None;
        }
        let feeds_anchor =
            own.iter().any(|reader| Some(*reader) == group.anchor || group.before_anchor.contains(reader));
        let anchor = group.anchor.map(|anchor| self.nodes[anchor].op.pattern());
        let fits = match node.op.pattern() {
            Pattern::Elementwise | Pattern::Injective => match anchor {
                None => true,
                // Reductions read their input several times: only what costs little is computed again.
                Some(Pattern::Reduction) => !feeds_anchor || node.op.pattern() == Pattern::Elementwise,
                Some(Pattern::Heavy) => !feeds_anchor,
                Some(_) => false,
            },
            Pattern::Reduction | Pattern::Heavy => {
                let sink = &self.nodes[*group.nodes.first()?];
                let same_shape = |id: &ValueId| self.values[*id].shape == self.values[output].shape;
                anchor.is_none()
                    && sink.outputs.iter().flatten().all(same_shape)
                    && group.nodes.iter().all(|member| self.nodes[*member].op.pattern() == Pattern::Elementwise)
            }
            Pattern::Opaque | Pattern::View => false,
        };
        fits.then_some(index)
    }
}
