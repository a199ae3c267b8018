//! The functions of a model that callers see, and where its values lie.

use std::collections::HashMap;

use kernpack::{Any, Bytes, Map, Str};
use kernpack_compiler::ir::builtin::{ADDRESS_OF, CONSTANT_DATA, HANDLE_ADD_BYTE_OFFSET, REINTERPRET};
use kernpack_compiler::ir::dtype::NOTHING;
use kernpack_compiler::ir::{
    Buffer, BufferNode, CallKind, Expr, FuncKind, I64, LoweredFunc, LoweredFuncNode, POINTER, Param, ParamNode, Stmt,
    U8, Var,
};

use super::region::{barrier, by_one};
use super::weights::Weights;
use super::{CONSTANTS, Step, argument_names};
use crate::constant::{Constant, element_bytes, num_elements, stored};
use crate::error::Result;
use crate::graph::{Graph, ValueId};
use crate::op::extents;
use crate::plan::{self, ALIGNMENT, Need};

/// Where a value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is an argument of the entry: its number, inputs first.
    Argument(usize),
    /// At an offset of the temporary memory.
    Arena(usize),
    /// At an offset of the weights.
    Weights(usize),
}

/// Where code finds the weights.
pub(super) enum Data {
    /// There are none.
    None,
    /// In the object of the code.
    Inside(Bytes),
    /// Behind a symbol that another object defines.
    Symbol(String),
}

/// Where everything lies that kernels read or write.
pub(super) struct Layout {
    pub(super) places: HashMap<ValueId, Place>,
    /// Offsets of the memory that each step has for itself.
    pub(super) scratch: Vec<Vec<usize>>,
    /// Offsets of the weights that each step has for itself.
    pub(super) known: Vec<Vec<usize>>,
    /// Which steps each value of the temporary memory is kept for: the first, and the last.
    pub(super) lives: HashMap<ValueId, (usize, usize)>,
    /// Bytes of temporary memory.
    pub(super) arena: usize,
    pub(super) weights: Weights,
}

pub(super) fn bytes_of(graph: &Graph, id: ValueId) -> Result<usize> {
    let value = &graph.values[id];
    Ok(num_elements(&value.shape)?.saturating_mul(element_bytes(value.dtype)))
}

/// Numbers of weights by their length and some of their bytes: hashing all bytes takes long in a build script, which is compiled without optimization.
#[derive(Default)]
struct Shared(HashMap<(usize, Vec<u8>), Vec<usize>>);

impl Shared {
    /// Where weights lie, which may be where others with the same bytes do.
    fn offset(&mut self, weights: &mut Weights, constant: &Constant) -> usize {
        let bytes = constant.bytes();
        let some = bytes.iter().step_by(bytes.len() / 64 + 1).copied().collect();
        let alike = self.0.entry((bytes.len(), some)).or_default();
        let known = alike.iter().copied().find(|number| weights.tensor(*number) == bytes);
        let number = known.unwrap_or_else(|| {
            alike.push(weights.add(constant));
            alike[alike.len() - 1]
        });
        weights.offset(number)
    }
}

/// Where each value that kernels read or write lies.
pub(super) fn layout(graph: &Graph, steps: &[Step]) -> Result<Layout> {
    let mut places: HashMap<ValueId, Place> = HashMap::new();
    let arguments = graph.inputs.iter().chain(graph.outputs.iter().map(|(_, id)| id));
    for (number, id) in arguments.enumerate() {
        places.insert(*id, Place::Argument(number));
    }
    let mut weights = Weights::default();
    let (mut shared, mut known) = (Shared::default(), Vec::new());
    let mut values: Vec<ValueId> = Vec::new();
    let mut place_of: HashMap<ValueId, usize> = HashMap::new();
    let mut needs: Vec<Need> = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        for id in &step.outputs {
            if !places.contains_key(id) {
                place_of.insert(*id, needs.len());
                values.push(*id);
                needs.push(Need { bytes: bytes_of(graph, *id)?, first: number, last: number });
            }
        }
        for id in &step.inputs {
            let memory = graph.memory_of(*id);
            if let Some(place) = place_of.get(&memory) {
                needs[*place].last = number;
            } else if let Some(constant) = &graph.values[memory].known
                && !places.contains_key(&memory)
            {
                places.insert(memory, Place::Weights(shared.offset(&mut weights, constant)));
            }
        }
        known.push(step.known.iter().map(|constant| shared.offset(&mut weights, constant)).collect());
    }
    for (number, step) in steps.iter().enumerate() {
        needs.extend(step.scratch.iter().map(|bytes| Need { bytes: *bytes, first: number, last: number }));
    }
    let (offsets, arena) = plan::plan(&needs);
    places.extend(values.iter().zip(&offsets).map(|(id, offset)| (*id, Place::Arena(*offset))));
    let lives = values.iter().zip(&needs).map(|(id, need)| (*id, (need.first, need.last))).collect();
    let mut rest = offsets[values.len()..].iter().copied();
    let scratch = steps.iter().map(|step| rest.by_ref().take(step.scratch.len()).collect()).collect();
    Ok(Layout { places, scratch, known, lives, arena, weights })
}

pub(super) fn int(value: usize) -> Expr {
    Expr::int(i64::try_from(value).unwrap_or(i64::MAX))
}

pub(super) fn behind(pointer: impl Into<Expr>, offset: Expr) -> Expr {
    Expr::builtin(HANDLE_ADD_BYTE_OFFSET, POINTER, [pointer.into(), offset])
}

pub(super) fn plain(var: Var) -> Param {
    Param::from_node(ParamNode { var, buffer: None, output: false })
}

pub(super) fn function(
    name: &str,
    kind: FuncKind,
    params: Vec<Param>,
    body: Stmt,
    attrs: Map<Str, Any>,
) -> LoweredFunc {
    LoweredFunc::from_node(LoweredFuncNode {
        name: name.into(),
        params: params.into_iter().collect(),
        ret: NOTHING,
        kind,
        thread_axes: kernpack::Array::default(),
        body,
        attrs,
    })
}

/// The functions of a model besides its kernels: that which runs the kernels, and what callers call.
pub(super) fn functions(graph: &Graph, name: &str, steps: &[Step], layout: &Layout, data: Data) -> Vec<LoweredFunc> {
    let arena = layout.arena;
    let run = run(graph, name, steps, layout, data);
    let runner = run.name.to_string();
    vec![run, entry(graph, name, &runner, arena, steps.len()), part(graph, name, &runner, arena, steps.len())]
}

/// The function with the kernels: those from `first` up to `end`, over the memory that `arena` points to. Callers have checked the arguments.
fn run(graph: &Graph, name: &str, steps: &[Step], layout: &Layout, data: Data) -> LoweredFunc {
    let Layout { places, scratch, known, .. } = layout;
    let (memory, first, end) = (Var::new("arena", POINTER), Var::new("first", I64), Var::new("end", I64));
    let arguments: Vec<Var> = argument_names(graph).iter().map(|name| Var::new(name, POINTER)).collect();
    let weights_name = format!("{name}.weights");
    let weights =
        |offset: usize| behind(Expr::builtin(CONSTANT_DATA, POINTER, [Expr::text(&weights_name)]), int(offset));
    let pointer = |id: &ValueId| match places.get(&graph.memory_of(*id)) {
        Some(Place::Argument(number)) => arguments[*number].expr().clone(),
        Some(Place::Arena(offset)) => behind(&memory, int(*offset)),
        Some(Place::Weights(offset)) => weights(*offset),
        // Without elements: it is never read.
        None => memory.expr().clone(),
    };
    let in_region = steps.iter().any(|step| step.is_task);
    let mut body = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let own = scratch[number].iter().map(|offset| behind(&memory, int(*offset)));
        let known = known[number].iter().map(|offset| weights(*offset));
        let arguments = step.inputs.iter().chain(&step.outputs).map(&pointer).chain(own).chain(known);
        let call = Stmt::evaluate(Expr::call(CallKind::Function, &step.function, NOTHING, arguments));
        let mut run = vec![if in_region && !step.is_task { by_one(call) } else { call }];
        let following = steps.get(number + 1);
        // What the first task does alone needs no barrier to what it does next.
        if in_region && following.is_some_and(|following| step.is_task || following.is_task) {
            run.push(barrier());
        }
        let is_wanted = first.less_equal(int(number)).and(end.greater(int(number)));
        body.push(Stmt::if_then(is_wanted, Stmt::seq(run), None));
    }
    let mut body = Stmt::seq(body);
    if in_region {
        body = Stmt::attr("pragma_parallel_launch_point", Any::from(name), 1, body);
    }
    let key = || Str::from(weights_name.as_str());
    let data: Option<Any> = match data {
        Data::None => None,
        Data::Inside(bytes) => Some([(key(), bytes)].into_iter().collect::<Map<Str, Bytes>>().into()),
        Data::Symbol(symbol) => Some([(key(), Str::from(symbol))].into_iter().collect::<Map<Str, Str>>().into()),
    };
    let attrs = data.into_iter().map(|data| (Str::from(CONSTANTS), data)).collect();
    let params = [memory.clone(), first.clone(), end.clone()].into_iter().chain(arguments.iter().cloned());
    function(&format!("{name}.run"), FuncKind::Internal, params.map(plain).collect(), body, attrs)
}

/// The parameters for the inputs and outputs of a model, and their addresses.
fn arguments(graph: &Graph) -> (Vec<Param>, Vec<Expr>) {
    let inputs = graph.inputs.iter().map(|id| (*id, false));
    let outputs = graph.outputs.iter().map(|(_, id)| (*id, true));
    let (mut params, mut addresses) = (Vec::new(), Vec::new());
    for ((id, output), name) in inputs.chain(outputs).zip(argument_names(graph)) {
        let value = &graph.values[id];
        let node = Buffer::new(&name, stored(value.dtype), extents(&value.shape), "global").to_node();
        let alignment = i64::try_from(element_bytes(value.dtype)).unwrap_or(1);
        let buffer = Buffer::from_node(BufferNode { data_alignment: alignment, ..node });
        addresses.push(Expr::builtin(ADDRESS_OF, POINTER, [Expr::load(&buffer, Expr::int(0))]));
        params.push(Param::from_node(ParamNode { var: buffer.data.clone(), buffer: Some(buffer), output }));
    }
    (params, addresses)
}

fn call(runner: &str, arguments: impl IntoIterator<Item = Expr>) -> Stmt {
    Stmt::evaluate(Expr::call(CallKind::Function, runner, NOTHING, arguments))
}

/// The function that a caller sees: inputs, then outputs. Its temporary memory is the thread's workspace.
fn entry(graph: &Graph, name: &str, runner: &str, arena: usize, steps: usize) -> LoweredFunc {
    let (params, addresses) = arguments(graph);
    let memory = Buffer::new("arena", U8, [int(arena.max(1))], "global");
    let address = Expr::builtin(ADDRESS_OF, POINTER, [Expr::load(&memory, Expr::int(0))]);
    let all = [address, Expr::int(0), int(steps)].into_iter().chain(addresses);
    let body = Stmt::seq([Stmt::alloc(memory), call(runner, all)]);
    function(name, FuncKind::Mixed, params, body, Map::default())
}

/// `NAME_steps(state, first, end, inputs.., outputs..)`: the kernels from `first` up to `end`, with temporary memory of the caller's.
fn part(graph: &Graph, name: &str, runner: &str, arena: usize, steps: usize) -> LoweredFunc {
    let (params, addresses) = arguments(graph);
    let bytes = Var::size("bytes", I64);
    let node = Buffer::new("state", U8, [bytes.expr().clone()], "global").to_node();
    let state = Buffer::from_node(BufferNode { data_alignment: 1, ..node });
    let (first, end) = (Var::new("first", I64), Var::new("end", I64));
    let needed = state_bytes(arena);
    let text = format!("{name}_steps: the state has fewer than {needed} bytes");
    let fits = Stmt::assert(bytes.greater_equal(int(needed)), "ValueError", [text.as_str().into()]);
    let text = format!("{name}_steps: expected 0 <= first <= end <= {steps}, which is the number of steps");
    let in_range = first.greater_equal(0).and(first.less_equal(&end)).and(end.less_equal(int(steps)));
    let in_range = Stmt::assert(in_range, "ValueError", [text.as_str().into()]);
    // The caller's memory lies anywhere; it has room for this.
    let number = Expr::builtin(REINTERPRET, I64, [state.data.expr().clone()]);
    let mask = i64::try_from(ALIGNMENT - 1).unwrap_or(0);
    let offset = (Expr::int(0) - number) & mask;
    let address = behind(&state.data, offset);
    let all = [address, first.expr().clone(), end.expr().clone()].into_iter().chain(addresses);
    let own = Param::from_node(ParamNode { var: state.data.clone(), buffer: Some(state), output: true });
    let params = [own, plain(first), plain(end)].into_iter().chain(params).collect();
    let body = Stmt::seq([fits, in_range, call(runner, all)]);
    function(&format!("{name}_steps"), FuncKind::Mixed, params, body, Map::default())
}

/// Bytes that a state has for this much temporary memory: it may lie at any address.
pub fn state_bytes(arena: usize) -> usize {
    arena + ALIGNMENT
}
