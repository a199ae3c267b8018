//! Prints the steps of a model.
//!
//! `inspect MODEL.onnx [--no-fusion] [--times] [--calls] [--notes] [--text] [--f16|--bf16]
//! [--parallel-work=N] [NAME=EXTENT..]` prints its inputs, outputs, kernels and memory, and the
//! times of importing, lowering and compiling; with `--times` also the time of each kernel on
//! zeros, with `--calls` the time of a call with each use of threads, and with `--notes` the notes
//! of the rules on the stages. `TVM_NUM_THREADS` sets the number of threads. The shape of an input
//! with several unknown dimensions is set with `x=1,3,224,224`.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use kernpack::{Any, Device, Function, Tensor};
use kernpack_compiler::codegen::Target;
use kernpack_compiler::ir::{BF16, F16, FuncKind, IrModule, LoweredFunc, LoweredFuncNode};
use kernpack_compiler::{PassContext, PassOptions, TargetDescription};
use kernpack_graph::{
    Graph, LowerOptions, Lowered, ModelOptions, Threads, element_bytes, import, lower, num_elements, stored,
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or(
        "inspect MODEL.onnx [--no-fusion] [--times] [--calls] [--notes] [--text] [--f16|--bf16] [--parallel-work=N] [NAME=EXTENT..]",
    )?;
    let mut options = ModelOptions::default();
    let mut lowering = LowerOptions::default();
    let (mut times, mut notes, mut calls, mut text) = (false, false, false, false);
    let mut work = None;
    for argument in arguments {
        match argument.split_once('=') {
            Some(("--parallel-work", number)) => work = Some(number.parse()?),
            Some((name, shape)) if shape.contains(',') => {
                let shape = shape.split(',').map(str::parse).collect::<Result<Vec<i64>, _>>()?;
                options.inputs.insert(name.to_owned(), shape);
            }
            Some((name, extent)) => _ = options.dims.insert(name.to_owned(), extent.parse()?),
            None if argument == "--no-fusion" => lowering.fuse = false,
            None if argument == "--times" => times = true,
            None if argument == "--calls" => calls = true,
            None if argument == "--text" => text = true,
            None if argument == "--notes" => notes = true,
            None if argument == "--f16" => options.weights = Some(F16),
            None if argument == "--bf16" => options.weights = Some(BF16),
            None => return Err(format!("unknown argument '{argument}'").into()),
        }
    }
    let start = Instant::now();
    let bytes = std::fs::read(&path)?;
    let imported = import(&bytes, Path::new(&path).parent(), &options)?;
    let graph = imported.graph;
    println!("imported in {:.2?}: {} nodes", start.elapsed(), graph.nodes.len());
    for id in &graph.inputs {
        println!("input {}: {} {:?}", graph.values[*id].name, graph.values[*id].dtype, graph.values[*id].shape);
    }
    for (name, id) in &graph.outputs {
        println!("output {name}: {} {:?}", graph.values[*id].dtype, graph.values[*id].shape);
    }
    let start = Instant::now();
    let target = Target::host();
    let mut description = TargetDescription::of(&target);
    description.parallel_work = work.unwrap_or(description.parallel_work);
    let context = PassContext::new(PassOptions { verify: false, ..PassOptions::default() });
    let lowered = lower(&graph, "model", &description, &context, lowering)?;
    println!(
        "lowered in {:.2?}: {} bytes of temporary memory, {} bytes of weights",
        start.elapsed(),
        lowered.arena,
        lowered.weights
    );
    for kernel in &lowered.kernels {
        println!("{}: {}", kernel.function, kernel.operators.join(" + "));
    }
    if text {
        for function in lowered.module.functions.iter() {
            println!("{}", kernpack_compiler::text::print(&function));
        }
    }
    let start = Instant::now();
    let module = kernpack_compiler::build(&lowered.module, &target)?;
    println!("compiled in {:.2?}", start.elapsed());
    if notes {
        for note in &context.take_notes() {
            println!("{note}");
        }
    }
    if calls {
        for threads in [Threads::Single, Threads::Kernels, Threads::Region] {
            print_call(&graph, LowerOptions { threads, ..lowering }, &target, &description)?;
        }
    }
    if times {
        let outputs = graph.outputs.iter().map(|(_, id)| id);
        let arguments = graph.inputs.iter().chain(outputs).map(|id| {
            let value = &graph.values[*id];
            Ok(Any::from(Tensor::empty(stored(value.dtype), &value.shape, Device::CPU)?))
        });
        let arguments: Vec<Any> = arguments.collect::<kernpack::Result<_>>()?;
        println!("the whole model: {:.1?}", shortest_call(&module.function("model")?, &arguments, 500)?);
        let by_itself = LowerOptions { threads: Threads::Kernels, ..lowering };
        let lowered = lower(&graph, "model", &description, &context, by_itself)?;
        print_times(&lowered, &target)?;
    }
    Ok(())
}

/// Prints the time of a call on zeros: the shortest of those in a second, and the median.
fn print_call(
    graph: &Graph,
    options: LowerOptions,
    target: &Target,
    description: &TargetDescription,
) -> Result<(), Box<dyn Error>> {
    let context = PassContext::new(PassOptions { verify: false, ..PassOptions::default() });
    let lowered = lower(graph, "model", description, &context, options)?;
    let call = kernpack_compiler::build(&lowered.module, target)?.function("model")?;
    let mut arguments = Vec::new();
    for id in graph.inputs.iter().chain(graph.outputs.iter().map(|(_, id)| id)) {
        let value = &graph.values[*id];
        let bytes = num_elements(&value.shape)? * element_bytes(value.dtype);
        let zeros = Tensor::zeros::<u8>(&[i64::try_from(bytes)?])?;
        arguments.push(Any::from(zeros.view_as(&value.shape, stored(value.dtype), 0)?));
    }
    let (mut taken, begin) = (Vec::new(), Instant::now());
    while begin.elapsed() < Duration::from_secs(1) || taken.len() < 5 {
        let start = Instant::now();
        call.call(&arguments[..])?;
        taken.push(start.elapsed());
    }
    taken.sort();
    let parallel = lowered.kernels.iter().filter(|kernel| kernel.is_parallel).count();
    println!(
        "{:?}: {:.1?}, median {:.1?}, {parallel} of {} kernels on several threads{}",
        options.threads,
        taken[0],
        taken[taken.len() / 2],
        lowered.kernels.len(),
        if lowered.is_region { ", in one region" } else { "" }
    );
    Ok(())
}

/// Returns the time of the shortest call among those that fit into this number of milliseconds.
fn shortest_call(function: &Function, arguments: &[Any], milliseconds: u64) -> Result<Duration, Box<dyn Error>> {
    let (mut shortest, begin) = (Duration::MAX, Instant::now());
    while begin.elapsed() < Duration::from_millis(milliseconds) {
        let start = Instant::now();
        function.call(arguments)?;
        shortest = shortest.min(start.elapsed());
    }
    Ok(shortest)
}

/// Prints the times of each kernel as a packed function on zeros: the shortest of the calls in 50
/// ms, and the sum.
fn print_times(lowered: &Lowered, target: &Target) -> Result<(), Box<dyn Error>> {
    // Separately: each kernel starts the threads if it needs them.
    let kernels: Vec<LoweredFunc> = lowered
        .module
        .functions
        .iter()
        .filter(|function| lowered.kernels.iter().any(|kernel| kernel.function == *function.name))
        .map(|function| LoweredFunc::from_node(LoweredFuncNode { kind: FuncKind::Mixed, ..function.to_node() }))
        .collect();
    let module = kernpack_compiler::build(IrModule::new(kernels.clone()), target)?;
    let mut rows = Vec::new();
    for function in kernels {
        let mut arguments = Vec::new();
        let mut bytes = 0;
        for buffer in function.params.iter().filter_map(|param| param.buffer.clone()) {
            let shape: Vec<i64> = buffer.shape.iter().filter_map(|extent| extent.as_int()).collect();
            let tensor = Tensor::empty(buffer.dtype, &shape, Device::CPU)?;
            bytes += tensor.size_in_bytes();
            arguments.push(Any::from(tensor));
        }
        let call = module.function(&function.name)?;
        let shortest = shortest_call(&call, &arguments, 50)?;
        let uses = lowered.kernels.iter().filter(|kernel| kernel.function == *function.name).count();
        let operators = lowered.kernels.iter().find(|kernel| kernel.function == *function.name);
        rows.push((
            shortest * u32::try_from(uses)?,
            shortest,
            uses,
            bytes,
            operators.map(|one| one.operators.join(" + ")),
            function,
        ));
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.0));
    println!("all kernels: {:.1?}", rows.iter().map(|row| row.0).sum::<Duration>());
    for (whole, one, uses, bytes, operators, function) in rows {
        println!(
            "{whole:>10.1?} = {uses} x {one:.1?}, {bytes} bytes: {} {}",
            function.name,
            operators.unwrap_or_default()
        );
    }
    Ok(())
}
