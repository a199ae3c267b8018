//! Pass PlanMemory: determines the entries that share memory.

use std::collections::BTreeMap;

use kernpack::{Array, Shape};
use kernpack_graph::{Result, element_bytes, num_elements, require};

use crate::symbol::{GraphRef, IndexedGraph, Use, attr};

/// Returns the maximum ratio of a block's size to its contents. The environment variable of NNVM
/// sets another number.
fn match_range() -> usize {
    std::env::var("NNVM_EXEC_MATCH_RANGE").ok().and_then(|text| text.parse().ok()).unwrap_or(16)
}

/// The storage of a memory plan.
struct Plan {
    /// The number of each entry's block, or -1.
    storage: Vec<i64>,
    /// For an entry that is written over an input: the number of the input.
    inplace: Vec<i64>,
    /// The size of each block in bytes.
    sizes: Vec<usize>,
    /// The device of each block.
    devices: Vec<i64>,
    /// Free blocks, by device and size.
    free: BTreeMap<(i64, usize), Vec<usize>>,
}

impl Plan {
    /// Returns a free block of about this size on a device, or a new one.
    fn request(&mut self, device: i64, bytes: usize) -> usize {
        let range = match_range();
        if range > 0 {
            let at = |size: usize| (device, size);
            let larger = self.free.range(at(bytes)..=at(bytes.saturating_mul(range))).next().map(|(key, _)| *key);
            let smaller = self.free.range(at(bytes / range)..at(bytes)).next_back().map(|(key, _)| *key);
            if let Some(key) = larger.or(smaller)
                && let Some(blocks) = self.free.get_mut(&key)
                && let Some(block) = blocks.pop()
            {
                if blocks.is_empty() {
                    self.free.remove(&key);
                }
                self.sizes[block] = self.sizes[block].max(bytes);
                return block;
            }
        }
        self.add(device, bytes)
    }

    /// Adds a new block.
    fn add(&mut self, device: i64, bytes: usize) -> usize {
        self.sizes.push(bytes);
        self.devices.push(device);
        self.sizes.len() - 1
    }

    fn release(&mut self, block: usize) {
        self.free.entry((self.devices[block], self.sizes[block])).or_default().push(block);
    }
}

/// Plans greedily in the order of the nodes: a block is freed after all its entries were read.
/// Variables and outputs keep separate blocks, so that they can be set and read at any time.
pub(super) fn plan_memory(graph: &GraphRef) -> Result<GraphRef> {
    let index = IndexedGraph::new(graph)?;
    let shapes: Vec<Shape> = graph.attr("shape")?;
    let types: Vec<i64> = graph.attr("dtype")?;
    let count = index.num_entries();
    require!(
        shapes.len() == count && types.len() == count,
        "the shapes are those of another graph: apply InferShape and InferType again"
    );
    let bytes = (0..count)
        .map(|id| {
            let elements = num_elements(&shapes[id])?;
            let size = attr::type_of_code(types[id])?.map_or(4, element_bytes);
            Ok(elements.saturating_mul(size))
        })
        .collect::<Result<Vec<usize>>>()?;
    let mut uses = index.entry_uses();
    let mut plan = Plan {
        storage: vec![-1; count],
        inplace: vec![-1; count],
        sizes: Vec::new(),
        devices: Vec::new(),
        free: BTreeMap::new(),
    };
    // The devices from PlaceDevice. Memory belongs to one device.
    let devices = match graph.attrs.get("device") {
        Some(devices) => devices.to::<Vec<i64>>()?,
        None => vec![0; index.nodes.len()],
    };
    require!(
        devices.len() == index.nodes.len(),
        "attribute `device` is that of another graph: apply PlaceDevice again"
    );
    let number = |block: usize| i64::try_from(block).unwrap_or(i64::MAX);
    // Variables are set from outside, so their blocks are separate and never freed.
    for variable in index.variables() {
        let id = index.row_ptr[variable];
        plan.storage[id] = number(plan.add(devices[variable], bytes[id]));
        uses[id] += 1;
    }
    // The number of entries in each block that are still to be read.
    let mut living: Vec<usize> = vec![0; plan.sizes.len()];
    for id in index.variables().map(|variable| index.row_ptr[variable]) {
        living[usize::try_from(plan.storage[id]).unwrap_or(0)] += 1;
    }
    for (node_number, node) in index.nodes.iter().enumerate().filter(|(_, node)| !node.node.is_variable()) {
        let used = Use::new(&node.node.operator()?, &node.node);
        let mut own: Vec<usize> = (0..node.num_outputs).map(|output| index.row_ptr[node_number] + output).collect();
        for (input, output) in used.pairs("FInplaceOption")? {
            let (Some(entry), true) = (node.inputs.get(input), output < node.num_outputs) else { continue };
            let (from, to) = (index.entry_id(*entry), index.row_ptr[node_number] + output);
            let Ok(block) = usize::try_from(plan.storage[from]) else { continue };
            // The input is read here for the last time, and nothing else uses its block.
            let last = uses[from] == 1 && living[block] == 1;
            let last = last && devices[entry.node] == devices[node_number];
            if plan.storage[to] == -1 && last && bytes[from] == bytes[to] && uses[to] > 0 {
                plan.storage[to] = plan.storage[from];
                plan.inplace[to] = i64::try_from(input).unwrap_or(-1);
                living[block] += 1;
            }
        }
        // A node that writes to a variable uses its memory.
        for input in used.indices("FMutateInputs")? {
            if let (Some(entry), true) = (node.inputs.get(input), node.node.is_op("_assign")) {
                let (from, to) = (index.entry_id(*entry), index.row_ptr[node_number]);
                plan.storage[to] = plan.storage[from];
                plan.inplace[to] = i64::try_from(input).unwrap_or(-1);
                living[usize::try_from(plan.storage[from]).unwrap_or(0)] += 1;
            }
        }
        own.sort_by_key(|id| core::cmp::Reverse(bytes[*id]));
        for id in &own {
            if plan.storage[*id] == -1 {
                let block = plan.request(devices[node_number], bytes[*id]);
                living.resize(plan.sizes.len(), 0);
                living[block] += 1;
                plan.storage[*id] = number(block);
            }
        }
        let inputs = node.inputs.iter().map(|entry| index.entry_id(*entry));
        let ended: Vec<usize> = inputs.chain(own.iter().copied()).collect();
        for (place, id) in ended.into_iter().enumerate() {
            if place < node.inputs.len() {
                uses[id] -= 1;
            }
            let Ok(block) = usize::try_from(plan.storage[id]) else { continue };
            if uses[id] == 0 {
                // Counted once: an entry that is read twice ends at its last use.
                uses[id] = usize::MAX;
                living[block] -= 1;
                if living[block] == 0 {
                    plan.release(block);
                }
            }
        }
    }
    let total: usize = plan.sizes.iter().sum();
    Ok(graph
        .with_attr("storage_id", plan.storage.into_iter().collect::<Array<i64>>())
        .with_attr("storage_inplace_index", plan.inplace.into_iter().collect::<Array<i64>>())
        .with_attr("storage_allocated_bytes", i64::try_from(total).unwrap_or(i64::MAX)))
}
