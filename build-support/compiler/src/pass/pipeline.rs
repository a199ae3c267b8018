//! Pipelines: sequences of passes.
//!
//! A pass is a packed function `(program, PassContext) -> program`, where a program is a lowered
//! function or a module of them, and the result is of the same kind. A pipeline is a list of names
//! and functions: `Simplify` means the global function `kernpack.pass.Simplify`; another name is
//! looked up unchanged.

use kernpack::{Any, Array, Function};

use super::PassContext;
use crate::error::{CompileError, ErrorKind, Result, with_reported};
use crate::ir::share::bind_shared;
use crate::ir::verify::{Stage, verify_module};
use crate::ir::{IrModule, IrModuleNode, LoweredFunc};
use crate::text;

/// The prefix of the names of built-in passes.
pub const PREFIX: &str = "kernpack.pass.";

/// The usual pipeline, from flat storage to the code generators.
pub const USUAL: &[&str] = &[
    "Simplify",
    "LoopPartition",
    "Simplify",
    "VectorizeLoop",
    "InjectVirtualThread",
    "InjectDoubleBuffer",
    "StorageRewrite",
    "UnrollLoop",
    "Simplify",
    "HoistIf",
    "RemoveNoOp",
    "RewriteUnsafeSelect",
    "InstrumentBoundCheckers",
];

/// The pipeline for a device with threads, where the host launches kernels. Kernels are of kind
/// `Device`.
pub const DEVICE: &[&str] = &[
    "Simplify",
    "LoopPartition",
    "Simplify",
    "VectorizeLoop",
    "InjectVirtualThread",
    "InjectDoubleBuffer",
    "StorageRewrite",
    "UnrollLoop",
    "Simplify",
    "HoistIf",
    "RemoveNoOp",
    "RewriteUnsafeSelect",
    "ThreadSync",
    "LowerThreadAllreduce",
    "SplitHostDevice",
    "NarrowIndex",
    "LowerWarpMemory",
];

/// The pipeline of a context: its own, or the usual one.
pub fn of(context: &PassContext) -> Array<Any> {
    let own = context.pipeline.get();
    if own.is_empty() { USUAL.iter().map(|name| Any::from(*name)).collect() } else { own }
}

/// Applies a pass on functions to a program: to a lowered function, or to each function of a
/// module.
///
/// # Errors
/// Returns the errors of the pass, and an error for a program that is neither.
pub fn on_functions(
    program: &Any,
    context: &PassContext,
    pass: impl Fn(&LoweredFunc, &PassContext) -> Result<LoweredFunc>,
) -> kernpack::Result<Any> {
    if let Ok(function) = program.to::<LoweredFunc>() {
        return Ok(pass(&function, context)?.into());
    }
    let module: IrModule = program.to().map_err(|_| {
        kernpack::error!(
            TypeError,
            "a pass takes a kernpack.ir.LoweredFunc or kernpack.ir.IrModule, got {}",
            program.type_name()
        )
    })?;
    let functions: Result<Vec<_>> = module.functions.iter().map(|function| pass(&function, context)).collect();
    Ok(IrModule::from_node(IrModuleNode { functions: functions?.into(), attrs: module.attrs.clone() }).into())
}

/// Returns the function of a pass.
///
/// # Errors
/// Returns an error if there is no pass of that name.
pub fn find(name: &str) -> Result<Function> {
    for global in [&format!("{PREFIX}{name}"), name] {
        if let Some(function) = Function::find_global(global)? {
            return Ok(function);
        }
    }
    Err(CompileError::new(ErrorKind::Lower, format!("unknown pass `{name}`"))
        .note(format!("a pass is a global function of that name, or of `{PREFIX}{name}`")))
}

/// Runs passes in order: names, or functions.
///
/// # Errors
/// Returns the errors of the passes, with the name of the pass.
pub fn run(program: impl Into<Any>, passes: &Array<Any>, context: &PassContext) -> Result<Any> {
    // Passes and code generators traverse expressions as trees.
    let mut program =
        on_functions(&program.into(), context, |function, _| Ok(function.with_body(bind_shared(&function.body)?)))?;
    let mut stage = Stage::Flat;
    leave("Flat", &program, stage, context)?;
    for pass in passes.iter() {
        let (name, after) = run_one(&program, &pass, context)?;
        program = after;
        stage = match name.strip_prefix(PREFIX).unwrap_or(&name) {
            "LoopPartition" => Stage::Partitioned,
            "VectorizeLoop" => Stage::Vectorized,
            _ => stage,
        };
        leave(&name, &program, stage, context)?;
    }
    Ok(program)
}

/// Dumps and verifies a program after a pass, depending on the options.
fn leave(pass: &str, program: &Any, stage: Stage, context: &PassContext) -> Result<()> {
    let options = &context.options;
    if !options.dump && !options.verify {
        return Ok(());
    }
    let module = match program.to::<LoweredFunc>() {
        Ok(function) => IrModule::new([function]),
        Err(_) => program.to::<IrModule>()?,
    };
    if options.dump {
        context.keep_dump(pass, text::print(&module));
    }
    if options.verify {
        verify_module(&module, stage).map_err(|error| error.note(format!("after pass {pass}")))?;
    }
    Ok(())
}

fn run_one(program: &Any, pass: &Any, context: &PassContext) -> Result<(String, Any)> {
    let (name, function) = match pass.to::<Function>() {
        Ok(function) => ("function".to_owned(), function),
        Err(_) => {
            let name: String = pass.to().map_err(|_| {
                CompileError::new(
                    ErrorKind::Lower,
                    format!("a pipeline is a list of names and functions, got {}", pass.type_name()),
                )
            })?;
            let function = find(&name)?;
            (name, function)
        }
    };
    let after = with_reported(|| Ok(function.call((program, context))?))
        .map_err(|error| error.note(format!("in pass {name}")))?;
    if after.to::<LoweredFunc>().is_err() && after.to::<IrModule>().is_err() {
        return Err(CompileError::new(
            ErrorKind::Lower,
            format!("pass {name} gave {}; a pass gives the program back", after.type_name()),
        ));
    }
    Ok((name, after))
}
