//! Pass GraphCompile: creates kernels of fused groups, a graph of `tvm_op` nodes that calls them,
//! and a module.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use kernpack::{Any, Array, DataType, Function, Map, Module, ObjRef, Shape, Str};
use kernpack_compiler::codegen::Target;
use kernpack_compiler::ir::{IrModule, LoweredFunc, Tensor};
use kernpack_compiler::te::operation::post_order;
use kernpack_compiler::te::placeholder;
use kernpack_compiler::{Kernel, PassContext, PassOptions, TargetDescription, with_reported};
use kernpack_graph::op::{Operand, extents};
use kernpack_graph::{GraphError, Result, fail, num_elements, require};
use linkme::distributed_slice;

use super::compute::compute;
use super::fuse::FusedEntry;
use crate::symbol::registry::{Cell, OPERATORS, Registrar, shapes_any};
use crate::symbol::{Arity, Graph, GraphRef, IndexedGraph, Kind, Node, Param, Use, Value, attr};

#[distributed_slice(OPERATORS)]
static TVM_OP: fn(&mut Registrar) = |operators| {
    let count = |used: &Use| {
        let count = used.int("num_outputs")?;
        usize::try_from(count).map_err(|_| GraphError::new(format!("attribute `num_outputs` is {count}")))
    };
    let _ = operators
        .add("tvm_op")
        .describe("a call of a function of a module")
        .params(&[
            Param::required("func_name", Kind::Text),
            Param::new("num_inputs", Kind::Int, "1"),
            Param::new("num_outputs", Kind::Int, "1"),
            Param::new("flatten_data", Kind::Bool, "False"),
        ])
        .inputs(Arity::Any)
        .outputs(Arity::Native(count));
};

/// Lowered kernels by their computation, kept for later graphs with the same kernels.
static CACHE: Mutex<BTreeMap<String, (LoweredFunc, i64)>> = Mutex::new(BTreeMap::new());

/// Returns the contents of the cache: a description of each kernel, and its number of requests.
pub fn cached() -> Vec<(String, i64)> {
    let cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    cache.iter().map(|(key, (_, uses))| (key.clone(), *uses)).collect()
}

/// Removes all kernels.
pub fn clear_cache() {
    CACHE.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// The types of entries.
struct Entries {
    shapes: Vec<Vec<i64>>,
    types: Vec<DataType>,
}

fn entries(graph: &Graph, index: &IndexedGraph) -> Result<Entries> {
    let shapes: Vec<Shape> = graph.attr("shape")?;
    let codes: Vec<i64> = graph.attr("dtype")?;
    let count = index.num_entries();
    require!(
        shapes.len() == count && codes.len() == count,
        "the shapes are those of another graph: apply InferShape and InferType again"
    );
    let types = codes.into_iter().map(attr::type_of_code).collect::<Result<Vec<_>>>()?;
    for (number, node) in index.nodes.iter().enumerate() {
        for output in 0..node.num_outputs {
            let id = index.row_ptr[number] + output;
            // A value that is never computed has no shape.
            let known = types[id].is_some() && !shapes[id].is_empty() && !shapes[id].contains(&0)
                || node.node.is_op("__undef__");
            require!(
                known,
                "{}: the shape or the type of output {output} is not known: {:?}",
                node.node.place(),
                &shapes[id][..]
            );
        }
    }
    let types = types.into_iter().map(|dtype| dtype.unwrap_or(DataType::FLOAT32)).collect();
    Ok(Entries { shapes: shapes.iter().map(|shape| shape.to_vec()).collect(), types })
}

/// Pass GraphCompile.
pub(super) fn compile(graph: &GraphRef) -> Result<GraphRef> {
    let index = IndexedGraph::new(graph)?;
    let known = entries(graph, &index)?;
    let fused: Vec<Any> = graph.attr("fused_entry")?;
    require!(fused.len() == index.nodes.len(), "the groups are those of another graph: apply GraphFuse again");
    let target_text: String = graph.optional_attr("target")?.unwrap_or_else(|| "llvm".to_owned());
    let target = Target::parse(&target_text)?;
    let mut made: HashMap<usize, Value> = HashMap::new();
    let mut functions: Vec<LoweredFunc> = Vec::new();
    let mut names: HashMap<String, String> = HashMap::new();
    let mut taken: HashMap<String, usize> = HashMap::new();
    for (number, node) in index.nodes.iter().enumerate() {
        if node.node.is_variable() {
            let plain = Node::new(None, &node.node.name, Map::default(), &[]);
            made.insert(number, Value::of(plain));
            continue;
        }
        let Ok(entry) = fused[number].to::<ObjRef<FusedEntry>>() else { continue };
        let group = Group::new(&entry, &known)?;
        let name = match names.get(&group.key) {
            Some(name) => name.clone(),
            None => {
                let count = taken.entry(group.name.clone()).or_default();
                let name = if *count == 0 { group.name.clone() } else { format!("{}_{count}", group.name) };
                *count += 1;
                functions.push(group.lower(&name, &target, &target_text, &known)?);
                names.insert(group.key.clone(), name.clone());
                name
            }
        };
        let node_of = |id: usize| index.row_ptr.partition_point(|row| *row <= id) - 1;
        let mut inputs = Vec::new();
        for place in &group.reads {
            let id = group.inputs[*place];
            let from = node_of(id);
            let Some(value) = made.get(&from) else {
                fail!("{}: its input {id} is not computed before it", node.node.place())
            };
            inputs.push(value.output(id - index.row_ptr[from]));
        }
        let attrs = [
            ("func_name", name),
            ("flatten_data", i64::from(entry.flatten_data).to_string()),
            ("num_inputs", inputs.len().to_string()),
            ("num_outputs", node.num_outputs.to_string()),
        ];
        let attrs = attrs.iter().map(|(key, value)| (Str::from(*key), Str::from(value.as_str()))).collect();
        // A written variable stays in the graph, even if it is never read, and so does a variable
        // whose shape alone is read: callers may set both.
        let target = node.inputs.first().filter(|_| node.node.is_op("_assign")).map(|entry| entry.node);
        let unread = (0..group.inputs.len()).filter(|place| !group.reads.contains(place));
        let unread =
            unread.map(|place| node_of(group.inputs[place])).filter(|from| index.nodes[*from].node.is_variable());
        let before = node.control_deps.iter().copied().chain(target).chain(unread);
        let control: Array<_> = before.filter_map(|before| Some(made.get(&before)?.node.clone())).collect();
        let call = Node::new(Some("tvm_op"), &node.node.name, attrs, &inputs);
        let call = if control.is_empty() { call } else { call.with_inputs(&inputs, control) };
        made.insert(number, Value::of(call));
    }
    let outputs: Result<Vec<Value>> = index
        .outputs
        .iter()
        .map(|entry| match made.get(&entry.node) {
            Some(value) => Ok(value.output(entry.index)),
            None => fail!("{}: it is an output, and inside of a kernel", index.nodes[entry.node].node.place()),
        })
        .collect();
    let compiled = Graph::new(&outputs?);
    let module = build_module(functions, &target)?;
    describe(&index, &known, &made, &compiled, module)
}

/// Adds the attributes that a graph executor reads, and the module.
fn describe(
    old: &IndexedGraph,
    known: &Entries,
    made: &HashMap<usize, Value>,
    compiled: &GraphRef,
    module: Module,
) -> Result<GraphRef> {
    let index = IndexedGraph::new(compiled)?;
    let mut shapes = vec![Vec::new(); index.num_entries()];
    let mut types = vec![DataType::FLOAT32; index.num_entries()];
    for (number, value) in made {
        let Some(new) = index.number(&value.node) else { continue };
        for output in 0..index.nodes[new].num_outputs {
            shapes[index.row_ptr[new] + output].clone_from(&known.shapes[old.row_ptr[*number] + output]);
            types[index.row_ptr[new] + output] = known.types[old.row_ptr[*number] + output];
        }
    }
    let graph = compiled
        .with_attr("shape", shapes_any(&shapes))
        .with_attr("dtype", types.iter().map(|dtype| attr::type_code(Some(*dtype))).collect::<Array<i64>>());
    // Kernels that write to a variable write into its memory.
    let mut written: HashMap<usize, usize> = HashMap::new();
    for (number, value) in made {
        let node = &old.nodes[*number];
        if node.node.is_op("_assign")
            && let (Some(variable), Some(new)) = (node.inputs.first(), index.number(&value.node))
            && let Some(variable) = made.get(&variable.node).and_then(|variable| index.number(&variable.node))
        {
            written.insert(index.row_ptr[new], index.row_ptr[variable]);
        }
    }
    let planned = super::memory::plan_memory(&graph)?;
    let mut storage: Vec<i64> = planned.attr("storage_id")?;
    for (id, variable) in written {
        storage[id] = storage[variable];
    }
    let names: Array<Str> = types.iter().map(|dtype| Str::from(dtype.to_string())).collect();
    Ok(compiled
        .with_attr("storage_id", storage.into_iter().collect::<Array<i64>>())
        .with_attr("dtype", graph.attr::<Any>("dtype")?)
        .with_attr("dltype", names)
        .with_attr("shape", graph.attr::<Any>("shape")?)
        .with_attr("module", module))
}

/// Compiles functions to a module of a target.
fn build_module(functions: Vec<LoweredFunc>, target: &Target) -> Result<Module> {
    let build = Function::global("kernpack.build")?;
    Ok(build.call_as((IrModule::new(functions), target.description().as_str()))?)
}

/// A fused group with its variables.
struct Group {
    entry: ObjRef<FusedEntry>,
    index: IndexedGraph,
    /// The indices of the entries that it reads.
    inputs: Vec<usize>,
    /// The inputs that its kernel reads.
    reads: Vec<usize>,
    /// The computation as a text: equal groups have equal texts.
    key: String,
    name: String,
}

impl Group {
    fn new(entry: &ObjRef<FusedEntry>, known: &Entries) -> Result<Self> {
        let index = IndexedGraph::new(&entry.subgraph)?;
        let inputs: Vec<usize> = entry.inputs.iter().filter_map(|id| usize::try_from(id).ok()).collect();
        require!(
            inputs.iter().all(|id| *id < known.shapes.len()) && index.variables().count() <= inputs.len(),
            "a fused group reads entries that are not there"
        );
        let mut key = String::new();
        for node in &index.nodes {
            let mut attrs: Vec<String> =
                node.node.attrs.iter().map(|(name, value)| format!("{name}={value}")).collect();
            attrs.sort();
            let own = if node.node.is_variable() { node.node.name.as_str() } else { "" };
            key.push_str(&format!("{}{own}({:?})[{}];", node.node.op_name(), node.inputs, attrs.join(",")));
        }
        for id in &inputs {
            key.push_str(&format!("{}{:?} ", known.types[*id], known.shapes[*id]));
        }
        key.push_str(if entry.flatten_data { "flat" } else { "" });
        let names: Vec<&str> =
            index.nodes.iter().filter(|node| !node.node.is_variable()).map(|node| node.node.op_name()).collect();
        let mut name = format!("fuse_{}", names.join("_"));
        if name.len() > 100 {
            // For long chains: the beginning, and a hash of the rest.
            let hash = name
                .bytes()
                .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
            name.truncate(80);
            name = format!("{name}_{hash:016x}");
        }
        let mut group = Self { entry: entry.clone(), index, inputs, reads: Vec::new(), key, name };
        // Inputs that are not read (only their shape is used) are not arguments: a first pass
        // determines them.
        let stands = (0..group.inputs.len())
            .map(|number| {
                let (shape, dtype) = group.argument(number, known)?;
                let tensor = placeholder(extents(&shape), dtype, "x");
                Ok(Operand { tensor, shape, dtype, element: dtype, value: None })
            })
            .collect::<Result<Vec<Operand>>>()?;
        let results = group.instantiate(&stands).map_err(|error| error.within(&group.places()))?;
        let outputs: Vec<_> = results.iter().map(|tensor| tensor.op.clone()).collect();
        let order = post_order(&outputs);
        group.reads = (0..stands.len()).filter(|number| order.contains(&stands[*number].tensor.op)).collect();
        Ok(group)
    }

    /// Returns the nodes, for messages.
    fn places(&self) -> String {
        let nodes = self.index.nodes.iter().filter(|node| !node.node.is_variable());
        nodes.map(|node| node.node.place()).collect::<Vec<String>>().join(" + ")
    }

    /// Returns the shape and the type that an input is passed with.
    fn argument(&self, number: usize, known: &Entries) -> Result<(Vec<i64>, DataType)> {
        let id = self.inputs[number];
        let shape = &known.shapes[id];
        let flat = || -> Result<Vec<i64>> { Ok(vec![i64::try_from(num_elements(shape)?).unwrap_or(i64::MAX)]) };
        Ok((if self.entry.flatten_data { flat()? } else { shape.clone() }, known.types[id]))
    }

    /// Returns the function of the group, from the cache if it is there.
    fn lower(&self, name: &str, target: &Target, target_text: &str, known: &Entries) -> Result<LoweredFunc> {
        let key = format!("{name} {target_text}: {}", self.key);
        if let Some((function, uses)) = CACHE.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&key) {
            *uses += 1;
            return Ok(function.clone());
        }
        let lowered = with_reported(|| self.lower_now(name, target, target_text, known));
        let function = lowered.map_err(|error| error.within(&self.places()))?;
        CACHE.lock().unwrap_or_else(PoisonError::into_inner).insert(key, (function.clone(), 1));
        Ok(function)
    }

    fn lower_now(&self, name: &str, target: &Target, target_text: &str, known: &Entries) -> Result<LoweredFunc> {
        let context = PassContext::new(PassOptions::default());
        let mut kernel = Kernel::new(name);
        // Operators check their indices themselves.
        kernel.trust_reads();
        let mut arguments: Vec<Operand> = Vec::new();
        for number in 0..self.inputs.len() {
            let (shape, dtype) = self.argument(number, known)?;
            let tensor = if self.reads.contains(&number) {
                kernel.input(&format!("input{number}"), extents(&shape), dtype)
            } else {
                placeholder(extents(&shape), dtype, "unread")
            };
            arguments.push(Operand { tensor, shape, dtype, element: dtype, value: None });
        }
        let results = self.instantiate(&arguments)?;
        for (number, result) in results.iter().enumerate() {
            kernel.output(&format!("output{number}"), result.clone());
        }
        match self.schedule(&results, target_text)? {
            None => {
                let target = TargetDescription::of(target);
                Ok(kernel.lower(&target, &context)?)
            }
            Some(schedule) => {
                let read = self.reads.iter().map(|number| &arguments[*number].tensor);
                let all: Array<Any> = read.chain(&results).map(|tensor| Any::from(tensor.clone())).collect();
                Ok(Function::global("kernpack.pipeline.lower")?.call_as((schedule, all, name, context))?)
            }
        }
    }

    /// Returns the tensors of the results, from those of the inputs.
    fn instantiate(&self, arguments: &[Operand]) -> Result<Vec<Tensor>> {
        let mut values: Vec<Vec<Operand>> = Vec::with_capacity(self.index.nodes.len());
        for node in &self.index.nodes {
            if node.node.is_variable() {
                let number = node.node.name.strip_prefix("input").and_then(|number| number.parse::<usize>().ok());
                let Some(argument) = number.and_then(|number| arguments.get(number)) else {
                    fail!("{} stands for no input", node.node.place())
                };
                values.push(vec![argument.clone()]);
                continue;
            }
            let inputs: Vec<Operand> =
                node.inputs.iter().map(|entry| values[entry.node][entry.index].clone()).collect();
            let used = Use::new(&node.node.operator()?, &node.node);
            let outputs = infer_outputs(&used, &inputs, node.num_outputs)?;
            let made = compute(&used, inputs, &outputs)?;
            let operands = made.into_iter().zip(outputs).map(|(tensor, (shape, dtype))| Operand {
                tensor,
                shape,
                dtype,
                element: dtype,
                value: None,
            });
            values.push(operands.collect());
        }
        Ok(self.index.outputs.iter().map(|entry| values[entry.node][entry.index].tensor.clone()).collect())
    }

    /// Returns the master's own schedule, if a language registered one.
    fn schedule(&self, results: &[Tensor], target: &str) -> Result<Option<Any>> {
        let operators: Vec<&crate::symbol::IndexedNode> =
            self.index.nodes.iter().filter(|node| !node.node.is_variable()).collect();
        let master =
            usize::try_from(self.entry.master).ok().and_then(|number| operators.get(number)).or(operators.last());
        let Some(master) = master else { return Ok(None) };
        let op = master.node.operator()?;
        match op.cell("FTVMSchedule") {
            Some(Cell::Value(value)) => {
                let function: Function = value.to()?;
                let outs: Array<Tensor> = results.iter().cloned().collect();
                Ok(Some(function.call((op.all_attrs(&master.node.attrs)?, outs, target))?))
            }
            _ => Ok(None),
        }
    }
}

/// Infers shapes and types of the outputs of one node, from those of its inputs.
pub(super) fn infer_outputs(used: &Use, inputs: &[Operand], count: usize) -> Result<Vec<(Vec<i64>, DataType)>> {
    let variables: Vec<Value> = (0..inputs.len()).map(|number| Value::variable(&number.to_string())).collect();
    let node = Node::new(Some(&used.op.name), "node", used.attrs.clone(), &variables);
    let first = Value::of(node);
    let outputs: Vec<Value> = (0..count).map(|output| first.output(output)).collect();
    let shapes: Map<Str, Shape> = inputs
        .iter()
        .enumerate()
        .map(|(number, input)| (Str::from(number.to_string()), Shape::new(&input.shape)))
        .collect();
    let types: Map<Str, DataType> =
        inputs.iter().enumerate().map(|(number, input)| (Str::from(number.to_string()), input.dtype)).collect();
    let graph = Graph::new(&outputs).with_attr("shape_inputs", shapes).with_attr("dtype_inputs", types);
    let index = IndexedGraph::new(&graph)?;
    let (shapes, types) = crate::symbol::infer::complete(&graph, &index)?;
    Ok(index
        .outputs
        .iter()
        .map(|entry| (shapes[index.entry_id(*entry)].clone(), types[index.entry_id(*entry)]))
        .collect())
}
