//! Groups of nodes that are fused into one kernel.
//!
//! Each group has one node whose results are used outside. From the end to the start, a node joins
//! the group of its readers if all of them are in one group and the patterns allow it; so the
//! groups cannot form a cycle.

use std::collections::{HashMap, HashSet};

use crate::graph::{Graph, Node, ValueId};
use crate::op::Pattern;

/// The maximum number of nodes of a group.
const MOST: usize = 24;

/// Nodes that are fused into one kernel.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// The nodes in the order of the graph. The results of the last one are used outside the group.
    pub nodes: Vec<usize>,
    /// The reduction, product or convolution in it.
    anchor: Option<usize>,
    /// Nodes that the anchor reads, directly or indirectly.
    before_anchor: Vec<usize>,
}

impl Group {
    /// Creates a group of one node.
    pub(crate) fn of_node(node: usize) -> Self {
        Self { nodes: vec![node], ..Self::default() }
    }
}

/// The maximum number of places at which a kernel computes the elements of one value. When a chain
/// of nodes that read a value at their own place and at another one is inlined, each link doubles
/// the number of places.
const MOST_PLACES: usize = 8;

/// Places of elements in kernels. The computed element of the result is place 0. Each of the others
/// is a place where a node reads an input for one of its elements.
#[derive(Default)]
struct Places {
    /// Indices of places, by the reader, the index of its input, and the place of the reader.
    numbers: HashMap<(usize, usize, usize), usize>,
    /// The places at which a kernel computes each node.
    of_node: HashMap<usize, Vec<usize>>,
}

impl Places {
    /// Adds the places at which a node reads an input.
    fn read(&mut self, node: &Node, number: usize, input: usize, all: &mut Vec<usize>) {
        let own = self.of_node.get(&number).cloned().unwrap_or_default();
        for place in own {
            let place = if node.op.pattern() == Pattern::Elementwise {
                place
            } else {
                let next = self.numbers.len() + 1;
                *self.numbers.entry((number, input, place)).or_insert(next)
            };
            if !all.contains(&place) {
                all.push(place);
            }
        }
    }
}

impl Graph {
    /// Returns the value that owns the memory of a value: views use that of their input.
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

    /// Returns the nodes that read each value at run time.
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

    /// Returns the kernels of the graph in an order in which they can run. Without `fuse` each node
    /// is a kernel, to find out which one is wrong or slow.
    pub fn groups(&self, fuse: bool) -> Vec<Group> {
        let readers = self.readers();
        let outputs: HashSet<ValueId> = self.outputs.iter().map(|(_, id)| *id).collect();
        let mut places = Places::default();
        let mut groups: Vec<Group> = Vec::new();
        let mut group_of: Vec<Option<usize>> = vec![None; self.nodes.len()];
        // Dead nodes are not computed.
        let mut is_needed = vec![false; self.nodes.len()];
        for number in (0..self.nodes.len()).rev() {
            let node = &self.nodes[number];
            let leaves = node.outputs.iter().flatten().any(|id| outputs.contains(id));
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
            let joined =
                if fuse && !leaves { self.group_to_join(number, &own, &groups, &group_of, &mut places) } else { None };
            let (group, own_places) = joined.unwrap_or_else(|| {
                groups.push(Group::default());
                (groups.len() - 1, vec![0])
            });
            places.of_node.insert(number, own_places);
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

    /// Returns the places at which its readers compute a value, if there are not too many.
    fn places(&self, value: ValueId, readers: &[usize], places: &mut Places) -> Option<Vec<usize>> {
        let mut all = Vec::new();
        for number in readers {
            let node = &self.nodes[*number];
            for (input, id) in node.inputs.iter().enumerate() {
                if *id == Some(value) && node.reads[input] {
                    places.read(node, *number, input, &mut all);
                    if all.len() > MOST_PLACES {
                        return None;
                    }
                }
            }
        }
        Some(all)
    }

    /// Returns the group that a node joins, and the places at which it computes the node.
    fn group_to_join(
        &self,
        number: usize,
        own: &[usize],
        groups: &[Group],
        group_of: &[Option<usize>],
        places: &mut Places,
    ) -> Option<(usize, Vec<usize>)> {
        let node = &self.nodes[number];
        let [Some(output)] = node.outputs[..] else { return None };
        let index = group_of[*own.first()?]?;
        if own.iter().any(|reader| group_of[*reader] != Some(index)) {
            return None;
        }
        let group = &groups[index];
        if group.nodes.len() >= MOST {
            return None;
        }
        let own_places = self.places(output, own, places)?;
        let feeds_anchor =
            own.iter().any(|reader| Some(*reader) == group.anchor || group.before_anchor.contains(reader));
        let anchor = group.anchor.map(|anchor| self.nodes[anchor].op.pattern());
        let fits = match node.op.pattern() {
            Pattern::Elementwise | Pattern::Injective => match anchor {
                None => true,
                // Reductions read their input several times: only cheap nodes are computed again.
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
        fits.then_some((index, own_places))
    }
}
