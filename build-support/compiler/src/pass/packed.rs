//! Pipelines for other languages.

use kernpack::{Any, Result, packed_func};

use super::{PassContext, pipeline};
use crate::schedule::SharedSchedule;

/// Returns the names of the usual passes, in order.
#[packed_func(name = "kernpack.pipeline.usual")]
fn usual() -> Vec<String> {
    pipeline::USUAL.iter().map(|name| (*name).to_owned()).collect()
}

/// Runs the context's pipeline, or the usual one, on a function or a module.
#[packed_func(name = "kernpack.pipeline.run")]
fn run(program: Any, context: PassContext) -> Result<Any> {
    Ok(pipeline::run(program, &pipeline::of(&context), &context)?)
}

/// Returns the names of the passes for a device with threads, in order.
#[packed_func(name = "kernpack.pipeline.device")]
fn device() -> Vec<String> {
    pipeline::DEVICE.iter().map(|name| (*name).to_owned()).collect()
}

/// Lowers the loops of a schedule to a program after all passes, the input of `kernpack.build`: a
/// function, or a module of the host function and its kernels if the pipeline splits them.
#[packed_func(name = "kernpack.pipeline.lower")]
fn lower(schedule: SharedSchedule, args: Vec<Any>, name: &str, context: PassContext) -> Result<Any> {
    let function = crate::schedule::function_of(&schedule, &args, name, &context)?;
    Ok(pipeline::run(function, &pipeline::of(&context), &context)?)
}
