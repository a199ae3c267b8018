//! The graph executor: runs the functions of a module in the order of a graph.
//!
//! A graph as JSON and a module make a module of kind `graph_executor`, whose functions are
//! `set_input(name or number, tensor)`, `set_input_zero_copy`, `get_input(..)`, `get_num_inputs()`,
//! `run()`, `get_output(number[, tensor to copy into])`, `get_num_outputs()`, `load_params(bytes)`,
//! `get_node_names()`, `node_times(repeat)` and `debug_get_output(node, tensor)`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use kernpack::module::{ModuleImpl, ModuleProperties};
use kernpack::{Any, AnyView, Bytes, DataType, Device, Function, Module, Shape, Str, Tensor};
use kernpack_graph::{GraphError, Result, element_bytes, fail, num_elements, require};

use crate::symbol::{Graph, IndexedGraph};

/// An entry: its place in memory, and its type.
struct EntryInfo {
    storage: usize,
    shape: Vec<i64>,
    dtype: DataType,
}

/// A call of a function.
struct Step {
    name: String,
    /// The function, or `None` for a no-op (`__nop`).
    function: Option<Function>,
    /// The entries for the call, inputs and then outputs.
    entries: Vec<usize>,
    /// True if tensors are passed with one axis.
    flatten: bool,
}

/// The immutable parts.
struct Plan {
    entries: Vec<EntryInfo>,
    steps: Vec<Step>,
    /// The names and entries of the variables.
    inputs: Vec<(String, usize)>,
    outputs: Vec<usize>,
    /// The name and the first entry of each node.
    nodes: Vec<(String, usize)>,
}

/// Runs a graph. Clones share it.
#[derive(Clone)]
pub struct GraphExecutor {
    plan: Arc<Plan>,
    /// The tensor of each entry.
    tensors: Arc<Mutex<Vec<Tensor>>>,
}

impl GraphExecutor {
    /// Prepares a graph from GraphCompile, or from JSON.
    ///
    /// # Errors
    /// Returns an error for a graph that is not compiled, for missing functions in the module, and
    /// for storage that does not match.
    pub fn new(graph: &Graph, module: &Module) -> Result<Self> {
        let index = IndexedGraph::new(graph)?;
        let count = index.num_entries();
        let shapes: Vec<Shape> = graph.attr("shape")?;
        let types: Vec<String> = graph.attr("dltype")?;
        let storage: Vec<i64> = graph.attr("storage_id")?;
        require!(
            shapes.len() == count && types.len() == count && storage.len() == count,
            "the graph has {count} entries, {} shapes, {} types and {} storage ids",
            shapes.len(),
            types.len(),
            storage.len()
        );
        let mut entries = Vec::new();
        let mut blocks: Vec<Option<usize>> = Vec::new();
        for (id, shape) in shapes.iter().enumerate() {
            let dtype = crate::symbol::attr::data_type(&types[id])?;
            let Ok(block) = usize::try_from(storage[id]) else { fail!("entry {id} has storage id {}", storage[id]) };
            require!(block < count, "entry {id} has storage id {block}, and there are {count} entries");
            let bytes = num_elements(shape)?.saturating_mul(element_bytes(dtype));
            blocks.resize(blocks.len().max(block + 1), None);
            blocks[block] = Some(blocks[block].unwrap_or(0).max(bytes));
            entries.push(EntryInfo { storage: block, shape: shape.to_vec(), dtype });
        }
        let mut steps = Vec::new();
        for (number, node) in index.nodes.iter().enumerate().filter(|(_, node)| !node.node.is_variable()) {
            let place = node.node.place();
            require!(node.node.is_op("tvm_op"), "{place}: the graph is not compiled: `kernpack.graph.build` does that");
            let attr = |name: &str| node.node.attrs.get(name).unwrap_or_default();
            let function = attr("func_name");
            let function = match function.as_str() {
                "__nop" => None,
                "" => fail!("{place}: attribute `func_name` is missing"),
                name => Some(module.function_in_tree(name).map_err(|error| GraphError::from(error).within(&place))?),
            };
            let inputs = node.inputs.iter().map(|entry| index.entry_id(*entry));
            let outputs = (0..node.num_outputs).map(|output| index.row_ptr[number] + output);
            steps.push(Step {
                name: node.node.name.as_str().to_owned(),
                function,
                entries: inputs.chain(outputs).collect(),
                flatten: attr("flatten_data") == "1" || attr("flatten_data") == "True",
            });
        }
        let memory = blocks.iter().map(|bytes| block(bytes.unwrap_or(0))).collect::<Result<Vec<Tensor>>>()?;
        let tensors = entries
            .iter()
            .map(|entry| part(&memory[entry.storage], &entry.shape, entry.dtype))
            .collect::<Result<Vec<_>>>()?;
        let variables =
            index.variables().map(|number| (index.nodes[number].node.name.as_str().to_owned(), index.row_ptr[number]));
        let plan = Plan {
            inputs: variables.collect(),
            outputs: index.outputs.iter().map(|entry| index.entry_id(*entry)).collect(),
            nodes: index
                .nodes
                .iter()
                .zip(&index.row_ptr)
                .map(|(node, row)| (node.node.name.as_str().to_owned(), *row))
                .collect(),
            entries,
            steps,
        };
        Ok(Self { plan: Arc::new(plan), tensors: Arc::new(Mutex::new(tensors)) })
    }

    fn tensors(&self) -> MutexGuard<'_, Vec<Tensor>> {
        self.tensors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the names of the inputs, including parameters.
    pub fn input_names(&self) -> Vec<String> {
        self.plan.inputs.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Returns the index of an input.
    ///
    /// # Errors
    /// Returns an error if no input has this name.
    pub fn input_number(&self, name: &str) -> Result<usize> {
        match self.plan.inputs.iter().position(|(own, _)| own == name) {
            Some(number) => Ok(number),
            None => fail!("there is no input '{name}'; the inputs are {}", self.input_names().join(", ")),
        }
    }

    fn input_entry(&self, number: usize) -> Result<usize> {
        match self.plan.inputs.get(number) {
            Some((_, entry)) => Ok(*entry),
            None => fail!("there is no input {number}: there are {}", self.plan.inputs.len()),
        }
    }

    /// Sets an input to a copy of a tensor, or to the tensor itself.
    ///
    /// # Errors
    /// Returns an error for another shape or type than in the graph.
    pub fn set_input(&self, number: usize, tensor: &Tensor, copy: bool) -> Result<()> {
        let id = self.input_entry(number)?;
        let (entry, name) = (&self.plan.entries[id], &self.plan.inputs[number].0);
        require!(
            tensor.shape() == entry.shape && tensor.dtype() == entry.dtype,
            "input '{name}' is {}{:?}, got {}{:?}",
            entry.dtype,
            entry.shape,
            tensor.dtype(),
            tensor.shape()
        );
        let own = if copy { tensor.to(Device::CPU)? } else { tensor.clone() };
        require!(
            own.is_contiguous() && own.device() == Device::CPU,
            "input '{name}' is not dense in the memory of the CPU"
        );
        let mut tensors = self.tensors();
        // Entries in the same block: the results of writes to this variable.
        for (other, info) in self.plan.entries.iter().enumerate().filter(|(_, info)| info.storage == entry.storage) {
            tensors[other] = part(&own, &info.shape, info.dtype)?;
        }
        Ok(())
    }

    /// Returns an input.
    ///
    /// # Errors
    /// Returns an error if there is no such input.
    pub fn input(&self, number: usize) -> Result<Tensor> {
        let id = self.input_entry(number)?;
        Ok(self.tensors()[id].clone())
    }

    /// Returns an output. Its memory is overwritten by the next run.
    ///
    /// # Errors
    /// Returns an error if there is no such output.
    pub fn output(&self, number: usize) -> Result<Tensor> {
        match self.plan.outputs.get(number) {
            Some(id) => Ok(self.tensors()[*id].clone()),
            None => fail!("there is no output {number}: there are {}", self.plan.outputs.len()),
        }
    }

    /// Runs the graph.
    ///
    /// # Errors
    /// Returns the error of a kernel, with the name of the node.
    pub fn run(&self) -> Result<()> {
        let tensors = self.tensors();
        self.plan.steps.iter().try_for_each(|step| step.call(&tensors, &self.plan.entries))
    }

    /// Runs the graph repeatedly. Returns the name of each called node, and its shortest time in
    /// seconds.
    ///
    /// # Errors
    /// As for [`GraphExecutor::run`].
    pub fn node_times(&self, repeat: usize) -> Result<Vec<(String, f64)>> {
        let tensors = self.tensors();
        let mut times: Vec<(String, f64)> =
            self.plan.steps.iter().map(|step| (step.name.clone(), f64::INFINITY)).collect();
        for _ in 0..repeat.max(1) {
            for (step, (_, least)) in self.plan.steps.iter().zip(&mut times) {
                let begin = Instant::now();
                step.call(&tensors, &self.plan.entries)?;
                *least = least.min(begin.elapsed().as_secs_f64());
            }
        }
        Ok(times)
    }

    /// Sets all inputs that a parameter file contains. Names that the graph does not have are
    /// ignored.
    ///
    /// # Errors
    /// Returns an error for a file in another format, and for a parameter of another shape.
    pub fn load_params(&self, bytes: &[u8]) -> Result<()> {
        for (name, tensor) in super::params::load(bytes)?.iter() {
            if let Ok(number) = self.input_number(&name) {
                self.set_input(number, &tensor, false)?;
            }
        }
        Ok(())
    }
}

impl Step {
    fn call(&self, tensors: &[Tensor], entries: &[EntryInfo]) -> Result<()> {
        let Some(function) = &self.function else { return Ok(()) };
        let argument = |id: &usize| -> Result<Any> {
            if self.flatten && entries[*id].shape.len() != 1 {
                let count = i64::try_from(num_elements(&entries[*id].shape)?).unwrap_or(i64::MAX);
                return Ok(tensors[*id].reshape(&[count])?.into());
            }
            Ok(tensors[*id].clone().into())
        };
        let arguments = self.entries.iter().map(argument).collect::<Result<Vec<Any>>>()?;
        match function.call(&arguments[..]) {
            Ok(_) => Ok(()),
            Err(error) => Err(GraphError::from(error).within(&format!("node '{}'", self.name))),
        }
    }
}

/// Allocates memory for entries.
fn block(bytes: usize) -> Result<Tensor> {
    let size = i64::try_from(bytes.next_multiple_of(64)).unwrap_or(i64::MAX);
    Ok(Tensor::zeros::<u8>(&[size])?)
}

/// Returns a tensor at the beginning of a block.
fn part(block: &Tensor, shape: &[i64], dtype: DataType) -> Result<Tensor> {
    if num_elements(shape)? == 0 {
        return Ok(Tensor::empty(dtype, shape, Device::CPU)?);
    }
    Ok(block.view_as(shape, dtype, 0)?)
}

/// Copies a tensor into one that the caller created for it.
fn copy_into(source: &Tensor, target: &Tensor) -> Result<()> {
    require!(
        source.shape() == target.shape() && source.dtype() == target.dtype(),
        "the output is {}{:?}, and the tensor to copy it into {}{:?}",
        source.dtype(),
        source.shape(),
        target.dtype(),
        target.shape()
    );
    require!(
        target.is_contiguous() && target.device() == Device::CPU && source.is_contiguous(),
        "the tensor to copy an output into has to be dense, and in the memory of the CPU"
    );
    let bytes = source.size_in_bytes();
    if bytes == 0 {
        return Ok(());
    }
    let (from, to) = (source.dl_tensor(), target.dl_tensor());
    require!(!from.data.is_null() && !to.data.is_null(), "a tensor has no memory");
    // SAFETY: both are dense tensors of this many bytes in CPU memory, checked above; `target` is
    // passed to be written to, as the outputs of kernels are. They may be the same memory.
    unsafe {
        let from = from.data.cast::<u8>().add(usize::try_from(from.byte_offset).unwrap_or(0));
        let to = to.data.cast::<u8>().add(usize::try_from(to.byte_offset).unwrap_or(0));
        core::ptr::copy(from, to, bytes);
    }
    Ok(())
}

impl ModuleImpl for GraphExecutor {
    fn kind(&self) -> &str {
        "graph_executor"
    }

    fn properties(&self) -> ModuleProperties {
        ModuleProperties::RUNNABLE
    }

    fn function_names(&self) -> Vec<String> {
        FUNCTIONS.iter().map(|name| (*name).to_owned()).collect()
    }

    fn find_function(&self, name: &str) -> kernpack::Result<Option<Function>> {
        let own = self.clone();
        let number = |own: &Self, which: &Any| -> Result<usize> {
            match which.to::<i64>() {
                Ok(number) => {
                    usize::try_from(number).or_else(|_| fail!("{number} is not a number of an input or output"))
                }
                Err(_) => own.input_number(&which.to::<String>()?),
            }
        };
        Ok(Some(match name {
            "set_input" | "set_input_zero_copy" => {
                let copy = name == "set_input";
                Function::from_fn(move |which: Any, tensor: Tensor| -> kernpack::Result<()> {
                    Ok(own.set_input(number(&own, &which)?, &tensor, copy)?)
                })
            }
            "get_input" => Function::from_fn(move |which: Any| -> kernpack::Result<Tensor> {
                Ok(own.input(number(&own, &which)?)?)
            }),
            "get_num_inputs" => Function::from_fn(move || own.plan.inputs.len()),
            "get_input_names" => Function::from_fn(move || own.input_names()),
            "get_num_outputs" => Function::from_fn(move || own.plan.outputs.len()),
            "run" => Function::from_fn(move || -> kernpack::Result<()> { Ok(own.run()?) }),
            "get_output" => Function::from_packed(move |args: &[AnyView<'_>]| -> kernpack::Result<Any> {
                let which: usize = match args.first() {
                    Some(which) => which.get()?,
                    None => {
                        return Err(GraphError::new(
                            "get_output takes the number of an output, and a tensor to copy it into",
                        )
                        .into());
                    }
                };
                let output = own.output(which)?;
                match args.get(1) {
                    None => Ok(output.into()),
                    Some(target) => {
                        let target: Tensor = target.get()?;
                        copy_into(&output, &target)?;
                        Ok(target.into())
                    }
                }
            }),
            "load_params" => {
                Function::from_fn(move |bytes: Bytes| -> kernpack::Result<()> { Ok(own.load_params(&bytes)?) })
            }
            "get_node_names" => {
                Function::from_fn(move || own.plan.nodes.iter().map(|(name, _)| name.clone()).collect::<Vec<String>>())
            }
            "node_times" => Function::from_fn(move |repeat: usize| -> kernpack::Result<kernpack::Map<Str, f64>> {
                Ok(own.node_times(repeat)?.into_iter().map(|(name, time)| (Str::from(name), time)).collect())
            }),
            "debug_get_output" => Function::from_fn(move |node: Any, target: Tensor| -> kernpack::Result<()> {
                let found = match node.to::<usize>() {
                    Ok(number) => own.plan.nodes.get(number),
                    Err(_) => {
                        let name: String = node.to()?;
                        own.plan.nodes.iter().find(|(own, _)| *own == name)
                    }
                };
                let Some((_, entry)) = found else { return Err(GraphError::new("there is no such node").into()) };
                let tensor = own.tensors()[*entry].clone();
                Ok(copy_into(&tensor, &target)?)
            }),
            _ => return Ok(None),
        }))
    }
}

/// The functions of the module.
const FUNCTIONS: &[&str] = &[
    "set_input",
    "set_input_zero_copy",
    "get_input",
    "get_num_inputs",
    "get_input_names",
    "run",
    "get_output",
    "get_num_outputs",
    "load_params",
    "get_node_names",
    "node_times",
    "debug_get_output",
];
