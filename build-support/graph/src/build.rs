//! Models that are compiled at run time.

use kernpack::Module;
use kernpack_compiler::codegen::Target;
use kernpack_compiler::{PassContext, PassOptions, TargetDescription};

use crate::error::Result;
use crate::graph::Graph;
use crate::lower::{LowerOptions, Lowered, lower};

/// Compiles a graph: a module whose function `name` takes the inputs and then the outputs.
///
/// # Errors
/// Returns an error if the compiler reports one.
pub fn build(graph: &Graph, name: &str, target: &Target, options: LowerOptions) -> Result<(Module, Lowered)> {
    let context = PassContext::new(PassOptions::default());
    let lowered = lower(graph, name, &TargetDescription::of(target), &context, options)?;
    let module = kernpack_compiler::build(&lowered.module, target)?;
    Ok((module, lowered))
}
