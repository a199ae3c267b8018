//! Lowers a graph to functions: a kernel for each group, and the function that runs them in one
//! arena.

mod checks;
mod choice;
mod describe;
mod entry;
mod inside;
mod kernel;
mod native_loop;
mod offsets;
mod open;
mod ranged;
mod region;
mod symbolic;
mod weights;
pub mod weights_file;
mod work;

use std::collections::HashMap;

use kernpack::{Any, Bytes};
use kernpack_compiler::ir::{IrModule, LoweredFunc, LoweredFuncNode, NODES};
use kernpack_compiler::{PassContext, TargetDescription, text};

pub use entry::{Place, arena_place, state_bytes};
pub use weights::Weights;

use self::checks::CheckCall;
use self::choice::BranchSteps;
use self::entry::{Block, Data, Known};
use self::inside::Made;
use self::kernel::{is_empty, kernel, kernels_of, places};
use crate::constant::Constant;
use crate::error::Result;
use crate::fuse::Group;
use crate::graph::{Body, Choice, Graph, NativeLoop, Node, ValueId};
pub use crate::names::{argument_names, identifier};

/// The attribute of a function with the data of `constant_data`: names, and bytes.
pub const CONSTANTS: &str = "constants";

/// A kernel of a model.
#[derive(Clone, Debug)]
pub struct KernelInfo {
    /// The function that computes it. Equal kernels share one.
    pub function: String,
    /// The operators in it.
    pub operators: Vec<String>,
    /// The names of its nodes.
    pub nodes: Vec<String>,
    /// The number of operations on elements: sums, products, mathematical functions.
    pub operations: u64,
    /// True if its work is split among threads.
    pub is_parallel: bool,
    /// The values that it reads.
    pub inputs: Vec<ValueId>,
    /// The values that it writes.
    pub outputs: Vec<ValueId>,
}

/// A value in memory.
#[derive(Clone, Debug)]
pub struct ValueInfo {
    /// The value.
    pub id: ValueId,
    /// The place of its elements.
    pub place: Place,
    /// The number of bytes.
    pub bytes: usize,
    /// In temporary memory: the indices of the kernel that writes it, and of the last one that
    /// reads it.
    pub life: Option<(usize, usize)>,
}

/// A lowered model.
pub struct Lowered {
    /// The kernels, the function that runs them, and the public functions: `NAME`, and `NAME_steps`
    /// with temporary memory of the caller.
    pub module: IrModule,
    /// The kernels in the order in which they run.
    pub kernels: Vec<KernelInfo>,
    /// The values that kernels read and write, without those that have no elements, and without
    /// other names of the same memory.
    pub values: Vec<ValueInfo>,
    /// True if all kernels run in one parallel region.
    pub is_region: bool,
    /// The number of bytes of temporary memory for a call.
    pub arena: usize,
    /// The number of bytes of weights.
    pub weights: usize,
}

/// The use of threads by a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Threads {
    /// Each kernel starts the threads itself and runs on those that are available. A thread that
    /// the system suspends does not block the others.
    #[default]
    Kernels,
    /// The threads are started once for a call, and all of them synchronize between kernels. For
    /// machines that have a free CPU for each thread.
    Region,
    /// The thread of the caller does all work.
    Single,
}

/// The options of lowering.
#[derive(Clone, Copy, Debug)]
pub struct LowerOptions {
    /// True if operators are fused.
    pub fuse: bool,
    /// True if rules create schedules. Without them, each tensor is computed by plain loops, in
    /// separate memory.
    pub schedule: bool,
    /// The use of threads.
    pub threads: Threads,
}

impl Default for LowerOptions {
    fn default() -> Self {
        Self { fuse: true, schedule: true, threads: Threads::default() }
    }
}

impl LowerOptions {
    /// Returns the options of a level: 0 has plain loops on one thread, 1 schedules of rules, and
    /// from 2 on operators are fused.
    pub fn of_level(level: u8) -> Self {
        let threads = if level == 0 { Threads::Single } else { Threads::default() };
        Self { fuse: level >= 2, schedule: level >= 1, threads }
    }
}

/// A call of a kernel.
struct Step {
    function: String,
    inputs: Vec<ValueId>,
    outputs: Vec<ValueId>,
    /// The sizes of its private memory, in bytes.
    scratch: Vec<usize>,
    /// Its private known values.
    known: Vec<Constant>,
    /// The checks before it.
    checks: Vec<CheckCall>,
    /// True if all tasks of the region run it.
    is_task: bool,
}

impl Step {
    /// Returns true if all tasks of the region run a part of it.
    fn has_task(&self) -> bool {
        self.is_task || self.checks.iter().any(|check| check.is_task)
    }

    /// Returns true if all tasks of the region run its beginning.
    fn begins_as_task(&self) -> bool {
        self.checks.first().map_or(self.is_task, |check| check.is_task)
    }
}

/// Lowers a graph for a target. The entry is a packed function of the model's inputs and then its
/// outputs. The weights are a part of the module.
///
/// # Errors
/// Returns the error of the compiler for a kernel, with its nodes.
pub fn lower(
    graph: &Graph,
    name: &str,
    target: &TargetDescription,
    context: &PassContext,
    options: LowerOptions,
) -> Result<Lowered> {
    let inside = |weights: &Weights| {
        let mut bytes = Vec::with_capacity(weights.size());
        weights.pieces().for_each(|piece| bytes.extend_from_slice(piece));
        Data::Inside(Bytes::from(bytes))
    };
    lower_with(graph, name, target, context, options, inside).map(|(lowered, _)| lowered)
}

/// Like [`lower()`], but the weights are not part of the module. Its code refers to them by the
/// symbol that `symbol` returns for them. An object for the linker must define it, hidden and
/// aligned to 64 bytes. One object serves all machines and models with the same weights.
///
/// # Errors
/// As for [`lower()`].
pub fn lower_apart(
    graph: &Graph,
    name: &str,
    target: &TargetDescription,
    context: &PassContext,
    options: LowerOptions,
    symbol: impl FnOnce(&Weights) -> String,
) -> Result<(Lowered, Weights)> {
    lower_with(graph, name, target, context, options, |weights| Data::Symbol(symbol(weights)))
}

/// Like [`lower()`], but the weights are in a file that is loaded at run time and may be replaced
/// by the weights of another model with the same graph. The code reads their address from the
/// pointer variable `symbol`, which other code of the library defines; as long as it is null, a
/// call is an error.
///
/// # Errors
/// As for [`lower()`].
pub fn lower_for_file(
    graph: &Graph,
    name: &str,
    target: &TargetDescription,
    context: &PassContext,
    options: LowerOptions,
    symbol: &str,
) -> Result<(Lowered, Weights)> {
    let data = |_: &Weights| Data::File(symbol.to_owned());
    lower_in(graph, name, target, context, options, true, data)
}

fn lower_with(
    graph: &Graph,
    name: &str,
    target: &TargetDescription,
    context: &PassContext,
    options: LowerOptions,
    data: impl FnOnce(&Weights) -> Data,
) -> Result<(Lowered, Weights)> {
    lower_in(graph, name, target, context, options, false, data)
}

fn lower_in(
    graph: &Graph,
    name: &str,
    target: &TargetDescription,
    context: &PassContext,
    options: LowerOptions,
    is_file: bool,
    data: impl FnOnce(&Weights) -> Data,
) -> Result<(Lowered, Weights)> {
    let mut kernels = Kernels { name, target, context, options, is_file, functions: Vec::new(), known: HashMap::new() };
    let mut graphs = Vec::new();
    for (variant, graph) in graph.variants() {
        let smaller = graph.parts.iter().flat_map(|parts| parts.smaller.iter().map(|(size, graph)| (*size, graph)));
        let size = graph.parts.as_ref().map_or(0, |parts| parts.size);
        for (size, graph) in core::iter::once((size, graph)).chain(smaller) {
            graphs.push((variant, size, graph, kernels.of(graph)?));
        }
    }
    let functions = kernels.functions;
    // The tasks of a region run kernels together, and a loop is not a kernel: with a loop, each
    // kernel starts the threads itself.
    let has_loops = graphs.iter().any(|(.., graph, _)| graph.nodes.iter().any(|node| node.body.is_some()));
    // Tasks share memory of constant sizes.
    let is_alone = has_loops || graph.ranges.is_some();
    let threads = if is_alone && options.threads == Threads::Region { Threads::Kernels } else { options.threads };
    let (functions, scratch) = with_threads(functions, threads)?;
    let (mut blocks, mut known, mut kernels) = (Vec::new(), Known::new(is_file), Vec::new());
    for (number, (variant, size, graph, calls)) in graphs.into_iter().enumerate() {
        let mut steps = Vec::new();
        for call in &calls {
            let mut step = call.step();
            if let Some(bytes) = &scratch[call.number] {
                step.scratch.clone_from(bytes);
                step.is_task = true;
            }
            for check in &mut step.checks {
                if let Some(bytes) = &scratch[check.number] {
                    check.scratch.extend(bytes);
                    check.is_task = true;
                }
            }
            steps.push(step);
        }
        let layout = entry::layout(graph, &steps, &mut known)?;
        blocks.push(Block { variant, size, graph, steps, layout });
        if number == 0 {
            kernels.extend(calls.into_iter().map(|call| call.info));
        }
    }
    // The description is that of the largest extent and part.
    let layout = &blocks[0].layout;
    let mut values = Vec::new();
    for (id, place) in &layout.places {
        let life = layout.lives.get(id).copied();
        values.push(ValueInfo { id: *id, place: *place, bytes: entry::most_bytes(graph, *id)?, life });
    }
    values.sort_by_key(|value| value.id);
    let arena = blocks.iter().map(|block| block.layout.arena).max().unwrap_or(0);
    let weights = known.weights.size();
    let is_region = blocks.iter().flat_map(|block| &block.steps).any(Step::has_task);
    let data = if weights == 0 { Data::None } else { data(&known.weights) };
    let functions = functions.into_iter().chain(entry::functions(graph, name, &blocks, data));
    let lowered = Lowered { module: IrModule::new(functions), kernels, values, is_region, arena, weights };
    Ok((lowered, known.weights))
}

/// Kernels of a model, without duplicates.
struct Kernels<'a> {
    name: &'a str,
    target: &'a TargetDescription,
    context: &'a PassContext,
    options: LowerOptions,
    /// True if the weights are in a file.
    is_file: bool,
    functions: Vec<LoweredFunc>,
    /// The indices of functions by their text.
    known: HashMap<String, usize>,
}

/// A call of a kernel.
struct KernelCall {
    info: KernelInfo,
    /// The index of its function.
    number: usize,
    /// The sizes of its private memory, in bytes.
    scratch: Vec<usize>,
    /// Its private known values.
    known: Vec<Constant>,
    /// The checks before it.
    checks: Vec<CheckCall>,
}

impl KernelCall {
    fn step(&self) -> Step {
        Step {
            function: self.info.function.clone(),
            inputs: self.info.inputs.clone(),
            outputs: self.info.outputs.clone(),
            scratch: self.scratch.clone(),
            known: self.known.clone(),
            checks: self.checks.clone(),
            is_task: false,
        }
    }
}

impl Kernels<'_> {
    /// Returns the kernels of a graph in order.
    fn of(&mut self, graph: &Graph) -> Result<Vec<KernelCall>> {
        let mut calls = Vec::new();
        for group in graph.groups(self.options.fuse) {
            if is_empty(graph, &group) {
                continue;
            }
            if let [node] = group.nodes[..]
                && let Some(body) = &graph.nodes[node].body
            {
                let node = &graph.nodes[node];
                calls.push(match &**body {
                    Body::Loop(native) => self.loop_of(graph, node, native)?,
                    Body::Choice(choice) => self.choice_of(graph, node, choice)?,
                });
                continue;
            }
            let mut checks = self.checks(graph, &group)?;
            for outputs in kernels_of(graph, &group)? {
                let call = self.call(graph, &group, outputs)?;
                calls.push(KernelCall { checks: core::mem::take(&mut checks), ..call });
            }
        }
        Ok(calls)
    }

    fn call(&mut self, graph: &Graph, group: &Group, outputs: Vec<ValueId>) -> Result<KernelCall> {
        let own = format!("{}.kernel{}", self.name, self.functions.len());
        let (function, inputs) = kernel(graph, group, &outputs, |_, results| Ok(results), &own, self)?;
        let number = self.add(function, &own, &places(graph, group));
        let nodes = group.nodes.iter().map(|node| &graph.nodes[*node]);
        let function = &self.functions[number];
        let info = KernelInfo {
            function: function.name.to_string(),
            operators: nodes.clone().map(|node| node.op.name().to_owned()).collect(),
            nodes: nodes.map(|node| node.name.clone()).collect(),
            operations: work::operations(function),
            is_parallel: region::is_parallel(&function.body) && self.options.threads != Threads::Single,
            inputs,
            outputs,
        };
        Ok(KernelCall { info, number, scratch: Vec::new(), known: Vec::new(), checks: Vec::new() })
    }

    /// Returns the index of a function. Equal programs are compiled once.
    fn add(&mut self, function: LoweredFunc, own: &str, nodes: &str) -> usize {
        let program = text::print(&function).replacen(own, "", 1);
        let number = *self.known.entry(program).or_insert(self.functions.len());
        if number == self.functions.len() {
            let attrs = function.attrs.iter().chain([(NODES.into(), Any::from(nodes))]).collect();
            self.functions.push(LoweredFunc::from_node(LoweredFuncNode { attrs, ..function.to_node() }));
        }
        number
    }

    /// Lowers a loop whose body is compiled once. If its number of iterations is unknown, the
    /// operations of one iteration are reported.
    fn loop_of(&mut self, graph: &Graph, node: &Node, native: &NativeLoop) -> Result<KernelCall> {
        let calls = self.of(&native.body)?;
        let steps: Vec<Step> = calls.iter().map(KernelCall::step).collect();
        let mut known = Known::new(self.is_file);
        let layout = entry::layout(&native.body, &steps, &mut known)?;
        let name = format!("{}.loop{}", self.name, self.functions.len());
        let made = native_loop::loop_function(&name, graph, node, native, &steps, &layout, &known.weights)?;
        let is_known = native.count.is_none() && !native.has_condition();
        let rounds = if is_known { u64::try_from(native.most).unwrap_or(1) } else { 1 };
        let operations = operations_of(&calls).saturating_mul(rounds);
        Ok(self.made(node, made, operations, calls.iter().any(|call| call.info.is_parallel)))
    }

    /// Lowers a conditional. Its operations are those of the branch with more operations.
    fn choice_of(&mut self, graph: &Graph, node: &Node, choice: &Choice) -> Result<KernelCall> {
        let (mut branches, mut operations, mut is_parallel) = (Vec::new(), 0, false);
        for branch in &choice.branches {
            let calls = self.of(&branch.body)?;
            operations = operations_of(&calls).max(operations);
            is_parallel |= calls.iter().any(|call| call.info.is_parallel);
            let steps: Vec<Step> = calls.iter().map(KernelCall::step).collect();
            let mut known = Known::new(self.is_file);
            let layout = entry::layout(&branch.body, &steps, &mut known)?;
            branches.push(BranchSteps { steps, layout, weights: known.weights });
        }
        let name = format!("{}.choice{}", self.name, self.functions.len());
        let made = choice::choice_function(&name, graph, node, choice, &branches);
        Ok(self.made(node, made, operations, is_parallel))
    }

    /// Returns the call of a node with graphs inside.
    fn made(&mut self, node: &Node, made: Made, operations: u64, is_parallel: bool) -> KernelCall {
        let info = KernelInfo {
            function: made.function.name.to_string(),
            operators: vec![node.op.name().to_owned()],
            nodes: vec![node.name.clone()],
            operations,
            is_parallel,
            inputs: node.inputs.iter().flatten().copied().collect(),
            outputs: made.outputs,
        };
        self.functions.extend(made.round);
        self.functions.push(made.function);
        let number = self.functions.len() - 1;
        KernelCall { info, number, scratch: made.scratch, known: made.known, checks: Vec::new() }
    }
}

fn operations_of(calls: &[KernelCall]) -> u64 {
    calls.iter().fold(0, |sum: u64, call| sum.saturating_add(call.info.operations))
}

/// Kernels, and for each that all tasks of a region call, the sizes of the memory that they share.
type Threaded = (Vec<LoweredFunc>, Vec<Option<Vec<usize>>>);

/// Converts the kernels for this use of threads.
fn with_threads(functions: Vec<LoweredFunc>, threads: Threads) -> Result<Threaded> {
    let none = vec![None; functions.len()];
    match threads {
        Threads::Single => {
            let functions = functions.iter().map(region::serial).collect::<Result<_, _>>()?;
            return Ok((functions, none));
        }
        Threads::Kernels => return Ok((functions, none)),
        Threads::Region => {}
    }
    let (mut made, mut scratch) = (Vec::new(), Vec::new());
    for function in &functions {
        if !region::is_parallel(&function.body) {
            made.push(function.clone());
            scratch.push(None);
            continue;
        }
        // If one kernel cannot be split, each starts the threads itself.
        let Some(task) = region::for_tasks(function) else { return Ok((functions, none)) };
        made.push(task.function);
        scratch.push(Some(task.scratch));
    }
    Ok((made, scratch))
}
