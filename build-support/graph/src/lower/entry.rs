//! The public functions of a model, and the memory layout of its values.

use std::collections::HashMap;

use kernpack::__private_v0_1::{CANCEL_BYTES, CANCEL_MARK};
use kernpack::{Any, Bytes, Map, Str};
use kernpack_compiler::ir::builtin::{
    ADDRESS_OF, CONSTANT_DATA, HANDLE_ADD_BYTE_OFFSET, ISNULLPTR, LINKED_POINTER, REINTERPRET, RELAXED_LOAD,
};
use kernpack_compiler::ir::dtype::NOTHING;
use kernpack_compiler::ir::{
    BOOLEAN, Buffer, BufferNode, CallKind, Expr, FuncKind, I64, LoweredFunc, LoweredFuncNode, POINTER, Param,
    ParamNode, Stmt, U8, Var,
};

use super::checks::CheckCall;
use super::offsets::{Bound, Offsets};
use super::open::Open;
use super::ranged;
use super::region::{barrier, by_one};
use super::weights::Weights;
use super::{CONSTANTS, Step, argument_names};
use crate::constant::{Constant, element_bytes, num_elements, stored};
use crate::error::{Result, fail};
use crate::graph::{Graph, ValueId};
use crate::op::extents;
use crate::plan::{self, ALIGNMENT, Need};

/// The place of a value in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// An argument of the entry: its index, inputs first.
    Argument(usize),
    /// At an offset of the temporary memory.
    Arena(usize),
    /// At an offset of the weights.
    Weights(usize),
}

/// The place of the weights.
pub(super) enum Data {
    /// There are no weights.
    None,
    /// In the object of the code.
    Inside(Bytes),
    /// At a symbol that another object defines.
    Symbol(String),
    /// In a file: the symbol of the variable that has their address once they are loaded.
    File(String),
}

/// The places of all values that kernels read or write.
pub(super) struct Layout {
    pub(super) places: HashMap<ValueId, Place>,
    /// Offsets of the private memory of each step.
    pub(super) scratch: Vec<Vec<usize>>,
    /// Offsets of the memory of the checks of each step.
    pub(super) check_scratch: Vec<Vec<Vec<usize>>>,
    /// Offsets of the private weights of each step.
    pub(super) known: Vec<Vec<usize>>,
    /// The first and the last step for which each value of the temporary memory is kept.
    pub(super) lives: HashMap<ValueId, (usize, usize)>,
    /// Bytes of temporary memory.
    pub(super) arena: usize,
    /// The places of values in temporary memory in a call, of a graph with ranges.
    pub(super) offsets: Option<Offsets>,
}

/// Known values of one or several graphs, without duplicates.
pub(super) struct Known {
    pub(super) weights: Weights,
    shared: Shared,
    /// The size from which on equal tensors share memory.
    shared_from: usize,
}

/// The size from which on equal tensors of a file share memory. The layout of a file must not
/// depend on the content, and small tensors are often equal by chance: biases of zeros. Large ones
/// are equal because several graphs of a model use them.
const SHARED_IN_FILES: usize = 4096;

impl Known {
    /// `is_file`: the weights are in a file that may be replaced.
    pub(super) fn new(is_file: bool) -> Self {
        let shared_from = if is_file { SHARED_IN_FILES } else { 0 };
        Self { weights: Weights::default(), shared: Shared::default(), shared_from }
    }

    fn offset(&mut self, constant: &Constant) -> usize {
        if constant.bytes().len() < self.shared_from {
            let number = self.weights.add(constant);
            return self.weights.offset(number);
        }
        self.shared.offset(&mut self.weights, constant)
    }
}

/// A graph that is lowered for one extent of the dimension with several extents, and one size of
/// its parts.
pub(super) struct Block<'a> {
    /// The extent of the dimension with several extents, or 0.
    pub(super) variant: i64,
    /// The extent of the dimension that the model is split along, or 0 if it is not split.
    pub(super) size: i64,
    pub(super) graph: &'a Graph,
    pub(super) steps: Vec<Step>,
    pub(super) layout: Layout,
}

pub(super) fn bytes_of(graph: &Graph, id: ValueId) -> Result<usize> {
    let value = &graph.values[id];
    Ok(num_elements(&value.shape)?.saturating_mul(element_bytes(value.dtype)))
}

/// Returns the largest number of bytes of a value, for all extents of dimensions with ranges.
pub(super) fn most_bytes(graph: &Graph, id: ValueId) -> Result<usize> {
    let Some(ranges) = &graph.ranges else { return bytes_of(graph, id) };
    let value = &graph.values[id];
    let bounds = graph.formulas(ranges, id)?.iter().map(|formula| ranges.bound(formula)).collect::<Option<Vec<_>>>();
    let Some(shape) = bounds else { fail!("value '{}' is too large for the largest extents", value.name) };
    Ok(num_elements(&shape)?.saturating_mul(element_bytes(value.dtype)))
}

/// Indices of weights by their length and some of their bytes: hashing all bytes takes long in a
/// build script, which is compiled without optimization.
#[derive(Default)]
struct Shared(HashMap<(usize, Vec<u8>), Vec<usize>>);

impl Shared {
    /// Returns the offset of weights. Weights with the same bytes share it.
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

/// Assigns a place to each value that kernels read or write.
pub(super) fn layout(graph: &Graph, steps: &[Step], all: &mut Known) -> Result<Layout> {
    let mut places: HashMap<ValueId, Place> = HashMap::new();
    let arguments = graph.inputs.iter().chain(graph.outputs.iter().map(|(_, id)| id));
    for (number, id) in arguments.enumerate() {
        places.insert(*id, Place::Argument(number));
    }
    let mut known = Vec::new();
    let mut values: Vec<ValueId> = Vec::new();
    let mut place_of: HashMap<ValueId, usize> = HashMap::new();
    let mut needs: Vec<Need> = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        for id in &step.outputs {
            if !places.contains_key(id) {
                place_of.insert(*id, needs.len());
                values.push(*id);
                needs.push(Need { bytes: most_bytes(graph, *id)?, first: number, last: number });
            }
        }
        let checked = step.checks.iter().flat_map(|check| &check.inputs);
        for id in step.inputs.iter().chain(checked) {
            let memory = graph.memory_of(*id);
            if let Some(place) = place_of.get(&memory) {
                needs[*place].last = number;
            } else if let Some(constant) = &graph.values[memory].known
                && !places.contains_key(&memory)
            {
                places.insert(memory, Place::Weights(all.offset(constant)));
            }
        }
        known.push(step.known.iter().map(|constant| all.offset(constant)).collect());
    }
    let lives = values.iter().zip(&needs).map(|(id, need)| (*id, (need.first, need.last))).collect();
    // Values of a graph with ranges have places of their own, behind the memory of checks.
    let ranged = match &graph.ranges {
        Some(ranges) => Some((&**ranges, core::mem::take(&mut needs), core::mem::take(&mut values))),
        None => None,
    };
    for (number, step) in steps.iter().enumerate() {
        needs.extend(step.scratch.iter().map(|bytes| Need { bytes: *bytes, first: number, last: number }));
    }
    // Tasks of a region read the results of checks while others continue. Another graph of the
    // model may turn them into a region.
    for (number, step) in steps.iter().enumerate() {
        let last = steps.len() - 1;
        let all = step.checks.iter().flat_map(|check| &check.scratch);
        needs.extend(all.map(|bytes| Need { bytes: *bytes, first: number, last }));
    }
    let (offsets, mut arena) = plan::plan(&needs);
    places.extend(values.iter().zip(&offsets).map(|(id, offset)| (*id, Place::Arena(*offset))));
    let ranged =
        ranged.map(|(ranges, needs, values)| Offsets::new((graph, ranges), &values, &needs, arena)).transpose()?;
    if let Some(ranged) = &ranged {
        places.extend(ranged.largest().map(|(id, offset)| (id, Place::Arena(offset))));
        arena = ranged.arena;
    }
    let mut rest = offsets[values.len()..].iter().copied();
    let scratch = steps.iter().map(|step| rest.by_ref().take(step.scratch.len()).collect()).collect();
    let mut own = |check: &CheckCall| rest.by_ref().take(check.scratch.len()).collect();
    let check_scratch = steps.iter().map(|step| step.checks.iter().map(&mut own).collect()).collect();
    Ok(Layout { places, scratch, check_scratch, known, lives, arena, offsets: ranged })
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

/// Returns the functions of a model except its kernels: the one that runs the kernels, and the
/// public ones. The first block is that of the graph itself.
pub(super) fn functions(graph: &Graph, name: &str, blocks: &[Block], data: Data) -> Vec<LoweredFunc> {
    let arena = blocks.iter().map(|block| block.layout.arena).max().unwrap_or(0);
    let linked = Linked::of(name, &data);
    let run = run(graph, name, blocks, data);
    let runner = run.name.to_string();
    let steps = blocks.first().map_or(0, |block| block.steps.len());
    if graph.parts.is_none() && graph.sizes.is_none() && graph.ranges.is_none() {
        let entry = entry(graph, name, &runner, arena, steps, &linked);
        return vec![run, entry, part(graph, name, &runner, arena, steps, &linked)];
    }
    let offsets = blocks.first().and_then(|block| block.layout.offsets.as_ref());
    let open = Open::new(graph, name, &runner, (arena, offsets), steps, linked);
    vec![run, open.entry(), open.part()]
}

/// The address of weights in a file, which public functions read once for each call and pass on.
#[derive(Default)]
pub(super) struct Linked {
    /// Reads the address, and checks that the weights are loaded.
    pub(super) statements: Vec<Stmt>,
    /// The address. `None` if the weights are in the library.
    pub(super) address: Option<Expr>,
}

impl Linked {
    fn of(name: &str, data: &Data) -> Self {
        let Data::File(symbol) = data else { return Self::default() };
        let weights = Var::new("weights", POINTER);
        let read = Expr::builtin(LINKED_POINTER, POINTER, [Expr::text(symbol)]);
        let is_missing = Expr::builtin(ISNULLPTR, BOOLEAN, [weights.expr().clone()]);
        let text =
            format!("{name}: its weights are not loaded; call {name}_weights with the file {name}.weights first");
        let check = Stmt::assert(is_missing.negated(), "RuntimeError", [text.as_str().into()]);
        let address = Some(weights.expr().clone());
        Self { statements: vec![Stmt::bind(weights, read), check], address }
    }
}

/// Builds the function that runs the kernels from `first` up to `end`, in the memory at `arena`,
/// for an extent of the dimension with several extents and for parts of some size, if there are
/// several of either. Callers have checked the arguments.
fn run(graph: &Graph, name: &str, blocks: &[Block], data: Data) -> LoweredFunc {
    let (memory, first, end) = (Var::new("arena", POINTER), Var::new("first", I64), Var::new("end", I64));
    let (variant, size) = (Var::new("variant", I64), Var::new("size", I64));
    let differ = |of: fn(&Block) -> i64| blocks.iter().any(|block| of(block) != of(&blocks[0]));
    let by_variant = differ(|block| block.variant);
    let by_size = differ(|block| block.size);
    let arguments: Vec<Var> = argument_names(graph).iter().map(|name| Var::new(name, POINTER)).collect();
    let weights_name = format!("{name}.weights");
    let extents = graph.ranges.as_ref().map_or_else(Vec::new, |ranges| ranged::variables(ranges));
    let linked = matches!(data, Data::File(_)).then(|| Var::new("weights", POINTER));
    let weights = match &linked {
        Some(address) => address.expr().clone(),
        None => Expr::builtin(CONSTANT_DATA, POINTER, [Expr::text(&weights_name)]),
    };
    let in_region = blocks.iter().flat_map(|block| &block.steps).any(Step::has_task);
    let run = Run {
        name,
        memory: &memory,
        extents: &extents,
        first: &first,
        end: &end,
        arguments: &arguments,
        weights: &weights,
        in_region,
    };
    let mut body = None;
    for block in blocks.iter().rev() {
        let steps = run.steps(block);
        body = Some(match body {
            None => steps,
            Some(others) => {
                let is_size = if by_size { size.equals(block.size) } else { Expr::bool(true) };
                let is_block = if by_variant { variant.equals(block.variant).and(is_size) } else { is_size };
                Stmt::if_then(is_block, steps, Some(others))
            }
        });
    }
    let mut body = body.unwrap_or_else(|| Stmt::seq([]));
    if in_region {
        body = Stmt::attr("pragma_parallel_launch_point", Any::from(name), 1, body);
    }
    let key = || Str::from(weights_name.as_str());
    let data: Option<Any> = match data {
        Data::None | Data::File(_) => None,
        Data::Inside(bytes) => Some([(key(), bytes)].into_iter().collect::<Map<Str, Bytes>>().into()),
        Data::Symbol(symbol) => Some([(key(), Str::from(symbol))].into_iter().collect::<Map<Str, Str>>().into()),
    };
    let attrs = data.into_iter().map(|data| (Str::from(CONSTANTS), data)).collect();
    let which = by_variant.then_some(variant).into_iter().chain(by_size.then_some(size)).chain(extents.iter().cloned());
    let own = [memory.clone(), first.clone(), end.clone()].into_iter().chain(linked).chain(which);
    let params = own.chain(arguments.iter().cloned()).map(plain).collect();
    function(&format!("{name}.run"), FuncKind::Internal, params, body, attrs)
}

/// Ends a run that another thread has cancelled. The mark is in front of the temporary memory.
fn not_cancelled(name: &str, memory: &Expr) -> Stmt {
    let word = behind(memory.clone(), Expr::int(0) - int(CANCEL_BYTES));
    let mark = Expr::builtin(RELAXED_LOAD, I64, [word]);
    let text = format!("{name}: the run was cancelled");
    Stmt::assert(mark.differs(CANCEL_MARK), "CancelledError", [text.as_str().into()])
}

/// Returns the statements that allocate the temporary memory of a call that no state keeps, and its
/// address behind the mark, which is zero.
pub(super) fn workspace(bytes: Expr) -> (Vec<Stmt>, Expr) {
    let memory = Buffer::new("arena", U8, [bytes + int(CANCEL_BYTES)], "global");
    let address = Expr::builtin(ADDRESS_OF, POINTER, [Expr::load(&memory, int(CANCEL_BYTES))]);
    let zeros = (0..8).map(|byte| Stmt::store(memory.clone(), int(byte), Expr::constant(U8, 0)));
    let zeros: Vec<Stmt> = zeros.collect();
    ([Stmt::alloc(memory)].into_iter().chain(zeros).collect(), address)
}

/// The variables that calls of kernels use.
struct Run<'a> {
    name: &'a str,
    memory: &'a Var,
    /// The extents of dimensions with ranges, which are the last arguments of each kernel.
    extents: &'a [Var],
    first: &'a Var,
    end: &'a Var,
    arguments: &'a [Var],
    /// The address of the weights.
    weights: &'a Expr,
    in_region: bool,
}

impl Run<'_> {
    /// Returns the kernels of a block in order.
    fn steps(&self, block: &Block) -> Stmt {
        let Self { name, memory, extents, first, end, arguments, weights, in_region } = *self;
        let Block { graph, steps, layout: Layout { places, scratch, check_scratch, known, offsets, .. }, .. } = block;
        let weights = |offset: usize| behind(weights.clone(), int(offset));
        let Bound { stmts: mut body, offsets, .. } = match offsets {
            Some(offsets) => offsets.bind(extents),
            None => Bound { stmts: Vec::new(), offsets: HashMap::new(), arena: int(0) },
        };
        let pointer = |id: &ValueId| match places.get(&graph.memory_of(*id)) {
            Some(Place::Argument(number)) => arguments[*number].expr().clone(),
            Some(Place::Arena(_)) if offsets.contains_key(&graph.memory_of(*id)) => {
                behind(memory, offsets[&graph.memory_of(*id)].expr().clone())
            }
            Some(Place::Arena(offset)) => behind(memory, int(*offset)),
            Some(Place::Weights(offset)) => weights(*offset),
            // A value without elements is never read.
            None => memory.expr().clone(),
        };
        for (number, step) in steps.iter().enumerate() {
            let own = scratch[number].iter().map(|offset| behind(memory, int(*offset)));
            let known = known[number].iter().map(|offset| weights(*offset));
            let extents = || extents.iter().map(|extent| extent.expr().clone());
            let arguments =
                step.inputs.iter().chain(&step.outputs).map(&pointer).chain(own).chain(known).chain(extents());
            let call = Stmt::evaluate(Expr::call(CallKind::Function, &step.function, NOTHING, arguments));
            let mut run = Vec::new();
            // Tasks of a region that see the mark at different times would wait for each other.
            run.extend((!in_region).then(|| not_cancelled(name, memory.expr())));
            for (check, own) in step.checks.iter().zip(&check_scratch[number]) {
                let own = || own.iter().map(|offset| behind(memory, int(*offset)));
                let call = check.call(check.inputs.iter().map(&pointer), own().chain(extents()));
                run.push(if in_region && !check.is_task { by_one(call) } else { call });
                // All tasks see the same result, so either all of them end here, or none.
                run.extend(in_region.then(barrier));
                run.extend(own().next().map(|result| check.outcome(result, self.extents)));
            }
            run.push(if in_region && !step.is_task { by_one(call) } else { call });
            let following = steps.get(number + 1);
            // Between two pieces of work of the first task no barrier is needed.
            if in_region && following.is_some_and(|following| step.is_task || following.begins_as_task()) {
                run.push(barrier());
            }
            let is_wanted = first.less_equal(int(number)).and(end.greater(int(number)));
            body.push(Stmt::if_then(is_wanted, Stmt::seq(run), None));
        }
        Stmt::seq(body)
    }
}

/// Returns the parameters for the inputs and outputs of a model, and their addresses. `shape`
/// returns the extents of an argument from its index and its shape in the graph.
pub(super) fn arguments(graph: &Graph, shape: impl Fn(usize, &[i64]) -> Vec<Expr>) -> (Vec<Param>, Vec<Expr>) {
    let inputs = graph.inputs.iter().map(|id| (*id, false));
    let outputs = graph.outputs.iter().map(|(_, id)| (*id, true));
    let (mut params, mut addresses) = (Vec::new(), Vec::new());
    for (number, ((id, output), name)) in inputs.chain(outputs).zip(argument_names(graph)).enumerate() {
        let value = &graph.values[id];
        let node = Buffer::new(&name, stored(value.dtype), shape(number, &value.shape), "global").to_node();
        let alignment = i64::try_from(element_bytes(value.dtype)).unwrap_or(1);
        let buffer = Buffer::from_node(BufferNode { data_alignment: alignment, ..node });
        addresses.push(Expr::builtin(ADDRESS_OF, POINTER, [Expr::load(&buffer, Expr::int(0))]));
        params.push(Param::from_node(ParamNode { var: buffer.data.clone(), buffer: Some(buffer), output }));
    }
    (params, addresses)
}

pub(super) fn call(runner: &str, arguments: impl IntoIterator<Item = Expr>) -> Stmt {
    Stmt::evaluate(Expr::call(CallKind::Function, runner, NOTHING, arguments))
}

/// Builds the public function: inputs, then outputs. Its temporary memory is the thread's
/// workspace.
fn entry(graph: &Graph, name: &str, runner: &str, arena: usize, steps: usize, linked: &Linked) -> LoweredFunc {
    let (params, addresses) = arguments(graph, |_, shape| extents(shape));
    let (memory, address) = workspace(int(arena));
    let all = [address, Expr::int(0), int(steps)].into_iter().chain(linked.address.clone()).chain(addresses);
    let mut body = linked.statements.clone();
    body.extend(memory);
    body.push(call(runner, all));
    let body = Stmt::seq(body);
    function(name, FuncKind::Mixed, params, body, Map::default())
}

/// Builds `NAME_steps(state, first, end, inputs.., outputs..)`: the kernels from `first` up to
/// `end`, with temporary memory of the caller.
fn part(graph: &Graph, name: &str, runner: &str, arena: usize, steps: usize, linked: &Linked) -> LoweredFunc {
    let (params, addresses) = arguments(graph, |_, shape| extents(shape));
    let own = Own::of(name, arena, steps);
    let range = [own.address.clone(), own.first.expr().clone(), own.end.expr().clone()];
    let all = range.into_iter().chain(linked.address.clone()).chain(addresses);
    let mut run = linked.statements.clone();
    run.push(call(runner, all));
    let run = Stmt::seq(run);
    own.function(name, params, run)
}

/// The first parameters of `NAME_steps`: memory of the caller, and the range of kernels.
pub(super) struct Own {
    params: Vec<Param>,
    checks: Vec<Stmt>,
    /// The start of the temporary memory.
    pub(super) address: Expr,
    pub(super) first: Var,
    pub(super) end: Var,
}

impl Own {
    pub(super) fn of(name: &str, arena: usize, steps: usize) -> Self {
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
        // The caller's memory may be unaligned, and has space for the alignment.
        let number = Expr::builtin(REINTERPRET, I64, [state.data.expr().clone()]);
        let mask = i64::try_from(ALIGNMENT - 1).unwrap_or(0);
        let address = behind(&state.data, ((Expr::int(0) - number) & mask) + int(CANCEL_BYTES));
        let own = Param::from_node(ParamNode { var: state.data.clone(), buffer: Some(state), output: true });
        let params = vec![own, plain(first.clone()), plain(end.clone())];
        let checks = vec![fits, in_range, not_cancelled(name, &address)];
        Self { params, checks, address, first, end }
    }

    /// Builds the function, which checks these parameters and then runs.
    pub(super) fn function(self, name: &str, params: Vec<Param>, run: Stmt) -> LoweredFunc {
        let params = self.params.into_iter().chain(params).collect();
        let body = Stmt::seq(self.checks.into_iter().chain([run]).collect::<Vec<_>>());
        function(&format!("{name}_steps"), FuncKind::Mixed, params, body, Map::default())
    }
}

/// Returns the place of the temporary memory in a state at an address.
pub fn arena_place(address: usize) -> usize {
    address.next_multiple_of(ALIGNMENT) - address + CANCEL_BYTES
}

/// Returns the number of bytes of a state for this amount of temporary memory, at any address.
pub fn state_bytes(arena: usize) -> usize {
    arena + ALIGNMENT + CANCEL_BYTES
}
