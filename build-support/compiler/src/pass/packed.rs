//! Pipelines for other languages.

use kernpack::{Any, Result, packed_func};

use super::{PassContext, pipeline};
use crate::ir::LoweredFunc;
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

/// Lowers the loops of a schedule to a function after all passes: the input of `kernpack.build`.
#[packed_func(name = "kernpack.pipeline.lower")]
fn lower(schedule: SharedSchedule, args: Vec<Any>, name: &str, context: PassContext) -> Result<LoweredFunc> {
    let function = crate::schedule::function_of(&schedule, &args, name, &context)?;
    pipeline::run(function, &pipeline::of(&context), &context)?.to()
}
