//! Passes GraphFindFusibleGroups and GraphFuse: fuse nodes into kernels by NNVM's rules.

use std::collections::HashMap;

use kernpack::{Any, Array, ObjRef, Object, Shape};
use kernpack_graph::Result;

use super::op::pattern::{BROADCAST, ELEMENTWISE, INJECTIVE, OPAQUE, OUT_FUSABLE, REDUCE};
use crate::symbol::{Entry, Graph, GraphRef, IndexedGraph, NodeRef, Use, Value};

/// Nodes that are fused into one kernel.
#[derive(Object)]
#[object(key = "kernpack.graph.FusedEntry")]
#[repr(C)]
pub struct FusedEntry {
    /// The nodes. Variables `input0`, .. represent their inputs.
    pub subgraph: GraphRef,
    /// The numbers of the entries that these variables represent.
    pub inputs: Array<i64>,
    /// True if all tensors are passed with one axis.
    pub flatten_data: bool,
    /// The number of the node in the subgraph whose schedule is used first.
    pub master: i64,
}

/// The fusion state of a node.
#[derive(Clone, Copy, PartialEq)]
enum State {
    /// A variable.
    Variable,
    /// It may join the kernel of its reader.
    Open,
    /// It joined the kernel of its reader.
    Joined,
    /// Its results are written to memory.
    Realized,
}

/// Groups: the root whose results are used outside, the master, and the pattern of each node's
/// group.
pub(super) struct Groups {
    root: Vec<usize>,
    master: Vec<usize>,
    pattern: Vec<i64>,
}

fn opt_level(graph: &Graph) -> Result<i64> {
    Ok(graph.optional_attr("opt_level")?.unwrap_or(2))
}

/// Runs pass GraphFindFusibleGroups.
pub(super) fn find_fusible_groups(graph: &GraphRef) -> Result<GraphRef> {
    let index = IndexedGraph::new(graph)?;
    let shapes: Vec<Shape> = graph.attr("shape")?;
    let groups = find(&index, &shapes, opt_level(graph)? >= 1)?;
    let numbers =
        |values: &[usize]| -> Array<i64> { values.iter().filter_map(|value| i64::try_from(*value).ok()).collect() };
    Ok(graph
        .with_attr("group_root", numbers(&groups.root))
        .with_attr("group_master", numbers(&groups.master))
        .with_attr("pattern", groups.pattern.into_iter().collect::<Array<i64>>()))
}

fn find(index: &IndexedGraph, shapes: &[Shape], fuse: bool) -> Result<Groups> {
    let count = index.nodes.len();
    let uses = index.node_uses();
    let mut state = vec![State::Variable; count];
    let mut pattern = vec![OPAQUE; count];
    let mut master: Vec<usize> = (0..count).collect();
    let shape = |entry: Entry| shapes.get(index.entry_id(entry)).map(|shape| shape.to_vec());
    for (number, node) in index.nodes.iter().enumerate() {
        if node.node.is_variable() {
            continue;
        }
        let own = Use::new(&node.node.operator()?, &node.node).pattern();
        pattern[number] = own;
        state[number] = State::Open;
        let open: Vec<Entry> = node.inputs.iter().copied().filter(|entry| state[entry.node] == State::Open).collect();
        if own <= BROADCAST {
            let mut chosen: Option<usize> = None;
            let mut widest = own;
            for entry in &open {
                let other = entry.node;
                if pattern[other] == OUT_FUSABLE {
                    let fits = chosen.is_none()
                        && shape(*entry) == shape(Entry { node: number, index: 0, version: 0 })
                        && node.num_outputs == 1;
                    state[other] = if fits { State::Joined } else { State::Realized };
                    if fits {
                        chosen = Some(other);
                    }
                } else if pattern[other] <= INJECTIVE {
                    state[other] = State::Joined;
                    widest = widest.max(pattern[other]);
                } else {
                    state[other] = State::Realized;
                }
            }
            if let Some(other) = chosen {
                if widest == INJECTIVE {
                    // Operators that move elements are not fused into the kernel of a product.
                    state[other] = State::Realized;
                    pattern[number] = widest;
                } else {
                    master[number] = master[other];
                    pattern[number] = OUT_FUSABLE;
                }
            } else {
                pattern[number] = widest;
            }
        } else {
            let takes = own == INJECTIVE || own == REDUCE;
            for entry in &open {
                let joins = takes && pattern[entry.node] <= INJECTIVE;
                state[entry.node] = if joins { State::Joined } else { State::Realized };
            }
        }
        if uses[number] > 1 || own == OPAQUE || !fuse || node.num_outputs > 1 {
            state[number] = State::Realized;
        }
    }
    // A joined node has one reader, and belongs to the group of its reader.
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (number, node) in index.nodes.iter().enumerate() {
        for entry in &node.inputs {
            readers[entry.node].push(number);
        }
    }
    let mut root: Vec<usize> = (0..count).collect();
    for number in (0..count).rev() {
        if state[number] == State::Joined
            && let Some(reader) = readers[number].first()
        {
            root[number] = root[*reader];
        }
    }
    if fuse {
        join_shared(index, &readers, &mut root, &mut master, &mut pattern, shapes);
    }
    for number in 0..count {
        (master[number], pattern[number]) = (master[root[number]], pattern[root[number]]);
    }
    Ok(Groups { root, master, pattern })
}

/// Joins nodes with several readers that are all in one group of elementwise operators: a
/// convolution followed by an ELU, a residual.
fn join_shared(
    index: &IndexedGraph,
    readers: &[Vec<usize>],
    root: &mut [usize],
    master: &mut [usize],
    pattern: &mut [i64],
    shapes: &[Shape],
) {
    let shape = |number: usize| shapes.get(index.row_ptr[number]).map(|shape| shape.to_vec());
    for number in (0..index.nodes.len()).rev() {
        let node = &index.nodes[number];
        let leaves = index.outputs.iter().any(|output| output.node == number);
        if node.node.is_variable()
            || root[number] != number
            || leaves
            || readers[number].len() < 2
            || node.num_outputs > 1
        {
            continue;
        }
        let into = root[readers[number][0]];
        let is_one_group = readers[number].iter().all(|reader| root[*reader] == into);
        let fits = pattern[number] <= BROADCAST || pattern[number] == OUT_FUSABLE;
        if !is_one_group || !fits || pattern[into] > BROADCAST || shape(number) != shape(into) {
            continue;
        }
        if pattern[number] == OUT_FUSABLE {
            (master[into], pattern[into]) = (master[number], OUT_FUSABLE);
        } else {
            pattern[into] = pattern[into].max(pattern[number]);
        }
        for other in root.iter_mut().filter(|other| **other == number) {
            *other = into;
        }
    }
}

/// Runs pass GraphFuse: for each node, in the graph's order, its [`FusedEntry`] if it is the root
/// of a group, or nothing.
pub(super) fn fuse(graph: &GraphRef) -> Result<GraphRef> {
    let index = IndexedGraph::new(graph)?;
    let roots: Vec<i64> = graph.attr("group_root")?;
    let masters: Vec<i64> = graph.attr("group_master")?;
    let patterns: Vec<i64> = graph.attr("pattern")?;
    let count = index.nodes.len();
    let fits = [&roots, &masters, &patterns].iter().all(|list| list.len() == count)
        && roots.iter().chain(&masters).all(|number| usize::try_from(*number).is_ok_and(|number| number < count));
    if !fits {
        kernpack_graph::fail!("the groups are those of another graph: apply GraphFindFusibleGroups again");
    }
    let number_of = |value: i64| usize::try_from(value).unwrap_or(0);
    let mut members: HashMap<usize, Vec<usize>> = HashMap::new();
    for (number, root) in roots.iter().enumerate() {
        members.entry(number_of(*root)).or_default().push(number);
    }
    let mut entries: Vec<Any> = Vec::new();
    for (number, node) in index.nodes.iter().enumerate() {
        if node.node.is_variable() || number_of(roots[number]) != number {
            entries.push(Any::NONE);
            continue;
        }
        let own = members.get(&number).map_or(&[][..], Vec::as_slice);
        let flatten = patterns[number] == ELEMENTWISE;
        entries.push(fused(&index, own, number, number_of(masters[number]), flatten).into());
    }
    Ok(graph.with_attr("fused_entry", entries.into_iter().collect::<Array<Any>>()))
}

fn fused(
    index: &IndexedGraph,
    members: &[usize],
    root: usize,
    master: usize,
    flatten_data: bool,
) -> ObjRef<FusedEntry> {
    let mut made: HashMap<usize, NodeRef> = HashMap::new();
    let mut inputs: Vec<(usize, Value)> = Vec::new();
    for number in members {
        let node = &index.nodes[*number];
        let mut values = Vec::new();
        for entry in &node.inputs {
            if let Some(inner) = made.get(&entry.node) {
                values.push(Value { node: inner.clone(), index: entry.index, version: 0 });
                continue;
            }
            let id = index.entry_id(*entry);
            let known = inputs.iter().find(|(known, _)| *known == id).map(|(_, value)| value.clone());
            values.push(known.unwrap_or_else(|| {
                let value = Value::variable(&format!("input{}", inputs.len()));
                inputs.push((id, value.clone()));
                value
            }));
        }
        made.insert(*number, node.node.with_inputs(&values, Array::default()));
    }
    let first = Value::of(made[&root].clone());
    let outputs: Vec<Value> = (0..index.nodes[root].num_outputs).map(|output| first.output(output)).collect();
    let place = members
        .iter()
        .position(|member| *member == master)
        .or_else(|| members.iter().position(|member| *member == root));
    ObjRef::new(FusedEntry {
        subgraph: Graph::new(&outputs),
        inputs: inputs.iter().filter_map(|(id, _)| i64::try_from(*id).ok()).collect(),
        flatten_data,
        master: i64::try_from(place.unwrap_or(0)).unwrap_or(0),
    })
}
