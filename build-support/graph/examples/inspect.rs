//! What becomes of a model: `inspect MODEL.onnx [--no-fusion] [NAME=EXTENT..]` prints its inputs, outputs, kernels, memory, and how long importing, lowering and compiling took.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use kernpack_compiler::codegen::Target;
use kernpack_compiler::{PassContext, PassOptions, TargetDescription};
use kernpack_graph::{LowerOptions, ModelOptions, import, lower};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("inspect MODEL.onnx [--no-fusion] [NAME=EXTENT..]")?;
    let mut options = ModelOptions::default();
    let mut lowering = LowerOptions::default();
    for argument in arguments {
        match argument.split_once('=') {
            Some((name, extent)) => _ = options.dims.insert(name.to_owned(), extent.parse()?),
            None if argument == "--no-fusion" => lowering.fuse = false,
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
    let context = PassContext::new(PassOptions::default());
    let lowered = lower(&graph, "model", &TargetDescription::of(&target), &context, lowering)?;
    println!(
        "lowered in {:.2?}: {} bytes of temporary memory, {} bytes of weights",
        start.elapsed(),
        lowered.arena,
        lowered.weights
    );
    for kernel in &lowered.kernels {
        println!("{}: {}", kernel.function, kernel.operators.join(" + "));
    }
    let start = Instant::now();
    kernpack_compiler::build(&lowered.module, &target)?;
    println!("compiled in {:.2?}", start.elapsed());
    Ok(())
}
