//! A graph as lowered functions: a kernel for each group, and one entry that calls them over one block of memory.

use std::collections::HashMap;

use kernpack::{Any, Bytes, Map, Str};
use kernpack_compiler::ir::builtin::{ADDRESS_OF, CONSTANT_DATA, HANDLE_ADD_BYTE_OFFSET};
use kernpack_compiler::ir::dtype::NOTHING;
use kernpack_compiler::ir::{
    Buffer, BufferNode, CallKind, Expr, FuncKind, IrModule, LoweredFunc, LoweredFuncNode, POINTER, Param, ParamNode,
    Stmt, Tensor, U8,
};
use kernpack_compiler::{Kernel, PassContext, TargetDescription, text};

use crate::constant::{element_bytes, num_elements};
use crate::error::{Result, fail};
use crate::fuse::Group;
use crate::graph::{Graph, ValueId};
use crate::op::extents;
use crate::plan::{self, Need};

/// The attribute of a function that has the data of [`CONSTANT_DATA`]: names, and bytes.
pub const CONSTANTS: &str = "constants";

/// A kernel of a model.
#[derive(Clone, Debug)]
pub struct KernelInfo {
    /// The function that computes it; equal kernels share one.
    pub function: String,
    /// The operators in it.
    pub operators: Vec<&'static str>,
}

/// A model that is lowered.
pub struct Lowered {
    /// The kernels and, last, the entry. The weights are an attribute of the entry.
    pub module: IrModule,
    /// The kernels in the order in which they run.
    pub kernels: Vec<KernelInfo>,
    /// Bytes of temporary memory for a call.
    pub arena: usize,
    /// Bytes of weights.
    pub weights: usize,
}

/// How a model is lowered.
#[derive(Clone, Copy, Debug)]
pub struct LowerOptions {
    /// Whether nodes share kernels.
    pub fuse: bool,
}

impl Default for LowerOptions {
    fn default() -> Self {
        Self { fuse: true }
    }
}

/// Where a value lies.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// It is an argument of the entry.
    Argument(usize),
    /// At an offset of the temporary memory.
    Arena(usize),
    /// At an offset of the weights.
    Weights(usize),
}

fn bytes_of(graph: &Graph, id: ValueId) -> Result<usize> {
    let value = &graph.values[id];
    Ok(num_elements(&value.shape)?.saturating_mul(element_bytes(value.dtype)))
}

/// Lowers a graph for a target: the entry is a packed function of the model's inputs and then its outputs.
///
/// # Errors
/// What the compiler says of a kernel, with its nodes.
pub fn lower(
    graph: &Graph,
    name: &str,
    target: &TargetDescription,
    context: &PassContext,
    options: LowerOptions,
) -> Result<Lowered> {
    let groups: Vec<Group> = graph.groups(options.fuse).into_iter().filter(|group| !is_empty(graph, group)).collect();
    let mut functions: Vec<LoweredFunc> = Vec::new();
    let mut known: HashMap<String, String> = HashMap::new();
    let mut steps: Vec<(String, Vec<ValueId>, Vec<ValueId>)> = Vec::new();
    let mut kernels = Vec::new();
    for group in &groups {
        let own = format!("{name}.kernel{}", functions.len());
        let (function, inputs, outputs) = kernel(graph, group, &own, target, context)?;
        // Equal programs are compiled once.
        let program = text::print(&function).replacen(&own, "", 1);
        let function = match known.get(&program) {
            Some(shared) => shared.clone(),
            None => {
                known.insert(program, own.clone());
                functions.push(function);
                own
            }
        };
        let operators = group.nodes.iter().map(|node| graph.nodes[*node].op.name).collect();
        kernels.push(KernelInfo { function: function.clone(), operators });
        steps.push((function, inputs, outputs));
    }
    let (places, arena, weights) = places(graph, &steps)?;
    let weights_bytes = weights.len();
    functions.push(entry(graph, name, &steps, &places, arena, weights));
    Ok(Lowered { module: IrModule::new(functions), kernels, arena, weights: weights_bytes })
}

/// Whether a group computes nothing, since its results have no elements.
fn is_empty(graph: &Graph, group: &Group) -> bool {
    group
        .nodes
        .last()
        .is_some_and(|last| graph.nodes[*last].outputs.iter().flatten().all(|id| graph.values[*id].shape.contains(&0)))
}

/// The kernel of a group, with the values that it reads and those that it writes.
fn kernel(
    graph: &Graph,
    group: &Group,
    name: &str,
    target: &TargetDescription,
    context: &PassContext,
) -> Result<(LoweredFunc, Vec<ValueId>, Vec<ValueId>)> {
    let mut kernel = Kernel::new(name);
    let mut tensors: HashMap<ValueId, Tensor> = HashMap::new();
    let mut inputs = Vec::new();
    for number in &group.nodes {
        let node = &graph.nodes[*number];
        for (id, reads) in node.inputs.iter().zip(&node.reads) {
            if let (Some(id), true) = (id, reads)
                && !tensors.contains_key(id)
            {
                let value = &graph.values[*id];
                let tensor = kernel.input(&format!("x{}", inputs.len()), extents(&value.shape), value.dtype);
                tensors.insert(*id, tensor);
                inputs.push(*id);
            }
        }
        let made = node.instantiate(graph, |id| {
            let value = &graph.values[id];
            let unread = || kernpack_compiler::te::placeholder(extents(&value.shape), value.dtype, &value.name);
            tensors.get(&id).cloned().unwrap_or_else(unread)
        })?;
        tensors.extend(node.outputs.iter().zip(made).filter_map(|(id, tensor)| Some(((*id)?, tensor))));
    }
    let mut outputs = Vec::new();
    let Some(last) = group.nodes.last() else { fail!("a kernel without nodes") };
    for id in graph.nodes[*last].outputs.iter().flatten() {
        if let Some(tensor) = tensors.get(id) {
            kernel.output(&format!("y{}", outputs.len()), tensor.clone());
            outputs.push(*id);
        }
    }
    let places: Vec<String> = group.nodes.iter().map(|node| graph.nodes[*node].place()).collect();
    let function = kernel
        .lower(target, context)
        .map_err(|error| crate::error::GraphError::from(error).within(&places.join(" + ")))?;
    let function = LoweredFunc::from_node(LoweredFuncNode { kind: FuncKind::Internal, ..function.to_node() });
    Ok((function, inputs, outputs))
}

/// Where each value that kernels read or write lies, the bytes of temporary memory, and the weights.
fn places(
    graph: &Graph,
    steps: &[(String, Vec<ValueId>, Vec<ValueId>)],
) -> Result<(HashMap<ValueId, Place>, usize, Vec<u8>)> {
    let mut places: HashMap<ValueId, Place> = HashMap::new();
    let arguments = graph.inputs.iter().chain(graph.outputs.iter().map(|(_, id)| id));
    for (number, id) in arguments.enumerate() {
        places.insert(*id, Place::Argument(number));
    }
    let mut weights: Vec<u8> = Vec::new();
    let mut shared: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut needs: Vec<(ValueId, Need)> = Vec::new();
    for (step, (_, inputs, outputs)) in steps.iter().enumerate() {
        for id in outputs {
            if !places.contains_key(id) {
                needs.push((*id, Need { bytes: bytes_of(graph, *id)?, first: step, last: step }));
            }
        }
        for id in inputs {
            let memory = graph.memory_of(*id);
            if let Some((_, need)) = needs.iter_mut().find(|(known, _)| *known == memory) {
                need.last = step;
            } else if let Some(constant) = &graph.values[memory].known
                && !places.contains_key(&memory)
            {
                let offset = match shared.get(constant.bytes()) {
                    Some(offset) => *offset,
                    None => {
                        weights.resize(plan::aligned(weights.len()), 0);
                        let offset = weights.len();
                        weights.extend_from_slice(constant.bytes());
                        shared.insert(constant.bytes().to_vec(), offset);
                        offset
                    }
                };
                places.insert(memory, Place::Weights(offset));
            }
        }
    }
    let (offsets, arena) = plan::plan(&needs.iter().map(|(_, need)| *need).collect::<Vec<_>>());
    places.extend(needs.iter().zip(offsets).map(|((id, _), offset)| (*id, Place::Arena(offset))));
    Ok((places, arena, weights))
}

/// The function that a caller sees.
fn entry(
    graph: &Graph,
    name: &str,
    steps: &[(String, Vec<ValueId>, Vec<ValueId>)],
    places: &HashMap<ValueId, Place>,
    arena: usize,
    weights: Vec<u8>,
) -> LoweredFunc {
    let mut params = Vec::new();
    let mut buffers = Vec::new();
    let inputs = graph.inputs.iter().map(|id| (graph.values[*id].name.clone(), *id, false));
    let outputs = graph.outputs.iter().map(|(name, id)| (name.clone(), *id, true));
    for (name, id, output) in inputs.chain(outputs) {
        let value = &graph.values[id];
        let node = Buffer::new(&name, value.dtype, extents(&value.shape), "global").to_node();
        let alignment = i64::try_from(element_bytes(value.dtype)).unwrap_or(1);
        let buffer = Buffer::from_node(BufferNode { data_alignment: alignment, ..node });
        params.push(Param::from_node(ParamNode { var: buffer.data.clone(), buffer: Some(buffer.clone()), output }));
        buffers.push(buffer);
    }
    let memory = Buffer::new("arena", U8, [Expr::int(i64::try_from(arena).unwrap_or(i64::MAX))], "global");
    let weights_name = format!("{name}.weights");
    let address = |buffer: &Buffer, offset: usize| {
        let element = Expr::load(buffer, Expr::int(i64::try_from(offset).unwrap_or(i64::MAX)));
        Expr::builtin(ADDRESS_OF, POINTER, [element])
    };
    let pointer = |id: &ValueId| match places.get(&graph.memory_of(*id)) {
        Some(Place::Argument(number)) => address(&buffers[*number], 0),
        Some(Place::Arena(offset)) => address(&memory, *offset),
        Some(Place::Weights(offset)) => {
            let base = Expr::builtin(CONSTANT_DATA, POINTER, [Expr::text(&weights_name)]);
            let offset = Expr::int(i64::try_from(*offset).unwrap_or(i64::MAX));
            Expr::builtin(HANDLE_ADD_BYTE_OFFSET, POINTER, [base, offset])
        }
        // Without elements: it is never read.
        None => buffers.first().map_or_else(|| address(&memory, 0), |buffer| address(buffer, 0)),
    };
    let mut body = Vec::new();
    if arena > 0 {
        body.push(Stmt::alloc(memory.clone()));
    }
    for (function, inputs, outputs) in steps {
        let arguments = inputs.iter().chain(outputs).map(&pointer);
        body.push(Stmt::evaluate(Expr::call(CallKind::Function, function, NOTHING, arguments)));
    }
    let mut attrs: Map<Str, Any> = Map::default();
    if !weights.is_empty() {
        let data: Map<Str, Bytes> = [(Str::from(weights_name.as_str()), Bytes::from(weights))].into_iter().collect();
        attrs = [(Str::from(CONSTANTS), Any::from(data))].into_iter().collect();
    }
    LoweredFunc::from_node(LoweredFuncNode {
        name: name.into(),
        params: params.into_iter().collect(),
        ret: NOTHING,
        kind: FuncKind::Mixed,
        thread_axes: kernpack::Array::default(),
        body: Stmt::seq(body),
        attrs,
    })
}
