//! A graph as lowered functions: a kernel for each group, and one entry that calls them over one block of memory.

use std::collections::HashMap;

use kernpack::{Any, Bytes, Map, Str};
use kernpack_compiler::ir::builtin::{ADDRESS_OF, CONSTANT_DATA, HANDLE_ADD_BYTE_OFFSET};
use kernpack_compiler::ir::dtype::NOTHING;
use kernpack_compiler::ir::{
    Buffer, BufferNode, CallKind, Expr, FuncKind, IrModule, LoweredFunc, LoweredFuncNode, Operation, POINTER, Param,
    ParamNode, Stmt, Tensor, U8,
};
use kernpack_compiler::te::operation::post_order;
use kernpack_compiler::te::placeholder;
use kernpack_compiler::{Kernel, PassContext, TargetDescription, text};

use crate::constant::{element_bytes, num_elements, stored};
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

impl Lowered {
    /// Takes the weights out of the module, whose code then refers to them by the symbol that `name` gives for their bytes. An object for the linker has to define it,
    /// hidden and aligned to 64 bytes; one object serves all machines that the same model is lowered for with the same weights.
    #[must_use]
    pub fn without_weights(mut self, name: impl Fn(&[u8]) -> String) -> (Self, Option<(String, Bytes)>) {
        let mut taken = None;
        let functions = self.module.functions.iter().map(|function| {
            let Some(data) = function.attr(CONSTANTS).and_then(|data| data.to::<Map<Str, Bytes>>().ok()) else {
                return function;
            };
            let symbols: Map<Str, Str> = data
                .iter()
                .map(|(key, bytes)| {
                    let symbol = name(bytes.as_ref());
                    taken = Some((symbol.clone(), bytes));
                    (key, Str::from(symbol))
                })
                .collect();
            let attrs = function.attrs.iter().filter(|(key, _)| key.as_str() != CONSTANTS);
            let attrs = attrs.chain([(Str::from(CONSTANTS), Any::from(symbols))]).collect();
            LoweredFunc::from_node(LoweredFuncNode { attrs, ..function.to_node() })
        });
        self.module = IrModule::new(functions);
        (self, taken)
    }
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
    let mut jobs = Vec::new();
    for group in &groups {
        jobs.extend(kernels_of(graph, group)?.into_iter().map(|outputs| (group, outputs)));
    }
    for (group, outputs) in jobs {
        let own = format!("{name}.kernel{}", functions.len());
        let (function, inputs) = kernel(graph, group, &outputs, &own, target, context)?;
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

/// What leaves a group and has elements, by kernels: what one operation computes stays together.
fn kernels_of(graph: &Graph, group: &Group) -> Result<Vec<Vec<ValueId>>> {
    let last = group.nodes.last().map(|last| &graph.nodes[*last]);
    let outputs = last.into_iter().flat_map(|last| last.outputs.iter().flatten().copied());
    let outputs: Vec<ValueId> = outputs.filter(|id| !graph.values[*id].shape.contains(&0)).collect();
    if let [_] = outputs[..] {
        return Ok(vec![outputs]);
    }
    let results = instantiate(graph, group, &outputs, |_, stand| stand())?;
    let mut kernels: Vec<(Operation, Vec<ValueId>)> = Vec::new();
    for (id, result) in outputs.into_iter().zip(results) {
        match kernels.iter_mut().find(|(op, _)| *op == result.op) {
            Some((_, ids)) => ids.push(id),
            None => kernels.push((result.op.clone(), vec![id])),
        }
    }
    Ok(kernels.into_iter().map(|(_, ids)| ids).collect())
}

/// The kernel that computes outputs of a group, with the values that it reads.
fn kernel(
    graph: &Graph,
    group: &Group,
    outputs: &[ValueId],
    name: &str,
    target: &TargetDescription,
    context: &PassContext,
) -> Result<(LoweredFunc, Vec<ValueId>)> {
    // What the other outputs read as well, and these do not, is no argument: a first round finds that out.
    let mut stands: Vec<(ValueId, Tensor)> = Vec::new();
    let results = instantiate(graph, group, outputs, |id, stand| {
        stands.push((id, stand()));
        stands[stands.len() - 1].1.clone()
    })?;
    let order = post_order(&results.iter().map(|result| result.op.clone()).collect::<Vec<_>>());
    let inputs: Vec<ValueId> =
        stands.into_iter().filter(|(_, tensor)| order.contains(&tensor.op)).map(|(id, _)| id).collect();
    let mut kernel = Kernel::new(name);
    let results = instantiate(graph, group, outputs, |id, stand| {
        let value = &graph.values[id];
        match inputs.iter().position(|input| *input == id) {
            Some(number) => kernel.input(&format!("x{number}"), extents(&value.shape), stored(value.dtype)),
            None => stand(),
        }
    })?;
    for (number, result) in results.into_iter().enumerate() {
        kernel.output(&if number == 0 { "y".to_owned() } else { format!("y{number}") }, result);
    }
    let places: Vec<String> = group.nodes.iter().map(|node| graph.nodes[*node].place()).collect();
    let function = kernel
        .lower(target, context)
        .map_err(|error| crate::error::GraphError::from(error).within(&places.join(" + ")))?;
    let function = LoweredFunc::from_node(LoweredFuncNode { kind: FuncKind::Internal, ..function.to_node() });
    Ok((function, inputs))
}

/// What a group computes for some of its outputs. `input` gives the tensor of each value that comes from outside, once; its second argument makes one that
/// stands for the value.
fn instantiate(
    graph: &Graph,
    group: &Group,
    outputs: &[ValueId],
    mut input: impl FnMut(ValueId, &dyn Fn() -> Tensor) -> Tensor,
) -> Result<Vec<Tensor>> {
    let mut tensors: HashMap<ValueId, Tensor> = HashMap::new();
    for number in &group.nodes {
        let node = &graph.nodes[*number];
        let made = node.instantiate(graph, |id| {
            let value = &graph.values[id];
            let stand = || placeholder(extents(&value.shape), stored(value.dtype), &value.name);
            tensors.entry(id).or_insert_with(|| input(id, &stand)).clone()
        })?;
        tensors.extend(node.outputs.iter().zip(made).filter_map(|(id, tensor)| Some(((*id)?, tensor))));
    }
    let results = outputs.iter().map(|output| match tensors.get(output) {
        Some(tensor) => Ok(tensor.clone()),
        None => fail!("a kernel without a result"),
    });
    results.collect()
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
    // Where weights of a length and of some of their bytes lie: hashing all bytes takes long in a build script, which is compiled without optimization.
    let mut shared: HashMap<(usize, Vec<u8>), Vec<usize>> = HashMap::new();
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
                let bytes = constant.bytes();
                let some = bytes.iter().step_by(bytes.len() / 64 + 1).copied().collect();
                let alike = shared.entry((bytes.len(), some)).or_default();
                let known = alike.iter().copied().find(|offset| weights[*offset..offset + bytes.len()] == *bytes);
                let offset = known.unwrap_or_else(|| {
                    weights.resize(plan::aligned(weights.len()), 0);
                    alike.push(weights.len());
                    weights.extend_from_slice(bytes);
                    alike[alike.len() - 1]
                });
                places.insert(memory, Place::Weights(offset));
            }
        }
    }
    let (offsets, arena) = plan::plan(&needs.iter().map(|(_, need)| *need).collect::<Vec<_>>());
    places.extend(needs.iter().zip(offsets).map(|((id, _), offset)| (*id, Place::Arena(offset))));
    Ok((places, arena, weights))
}

/// A name that all languages can write, of one that a model has: `input.1` becomes `input_1`.
pub fn identifier(name: &str) -> String {
    let mut text: String = name
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '_' })
        .collect();
    if text.is_empty() || text.starts_with(|letter: char| letter.is_ascii_digit()) {
        text.insert(0, 'm');
    }
    text
}

/// The names of the arguments of the entry, inputs first: identifiers, and no two alike.
pub fn argument_names(graph: &Graph) -> Vec<String> {
    let inputs = graph.inputs.iter().map(|id| graph.values[*id].name.as_str());
    let outputs = graph.outputs.iter().map(|(name, _)| name.as_str());
    let mut names: Vec<String> = Vec::new();
    for name in inputs.chain(outputs) {
        let plain = identifier(name);
        let mut unique = plain.clone();
        let mut number = 2;
        while names.contains(&unique) {
            unique = format!("{plain}_{number}");
            number += 1;
        }
        names.push(unique);
    }
    names
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
    let inputs = graph.inputs.iter().map(|id| (*id, false));
    let outputs = graph.outputs.iter().map(|(_, id)| (*id, true));
    for ((id, output), name) in inputs.chain(outputs).zip(argument_names(graph)) {
        let value = &graph.values[id];
        let node = Buffer::new(&name, stored(value.dtype), extents(&value.shape), "global").to_node();
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
