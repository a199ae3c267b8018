//! Pipelines: sequences of passes.
//!
//! A pipeline is a list of names and functions. `Simplify` and `kernpack.pass.Simplify` mean the
//! built-in [`Pass`]; another name is a global function, with or without [`PREFIX`]. Such a
//! function is a pass of the user: `(program, PassContext) -> program`, where a program is a
//! lowered function or a module of them.
//!
//! The name of a built-in pass always means the built-in pass, also if another function was
//! registered under its global name: a library in the same process does not change the code of
//! kernels. To replace a pass, put a function or another name in its place in the pipeline.

use std::any::Any as Payload;
use std::panic::{AssertUnwindSafe, catch_unwind};

use kernpack::{Any, Array, Function};

use super::PassContext;
use super::program::{Pass, Program};
use crate::error::{CompileError, ErrorKind, Result, with_reported};
use crate::ir::LoweredFunc;
use crate::ir::share::bind_shared;
use crate::ir::verify::{Stage, verify_module};
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
    "VerifyMemory",
    "ThreadSync",
    "LowerThreadAllreduce",
    "SplitHostDevice",
    "NarrowIndex",
    "LowerWarpMemory",
];

/// Returns the pipeline [`DEVICE`]. If `rest` is true, statements that the schedule does not bind
/// to threads run in kernels of one thread (`LaunchRest`); otherwise they are errors.
pub fn device(rest: bool) -> Array<Any> {
    let before = |name: &&str| (rest && *name == "VerifyMemory").then_some("LaunchRest");
    DEVICE.iter().flat_map(|name| before(name).into_iter().chain([*name])).map(Any::from).collect()
}

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
    let program = Program::of_argument(program)?;
    Ok(with_reported(|| program.map(|function| pass(function, context)))?.into())
}

/// Returns the global function of a pass: of one of the user, or a built-in one. Pipelines do not
/// call it for built-in passes.
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
    let program = Program::of_argument(&program.into())?;
    // Passes and code generators traverse expressions as trees.
    let mut program = program.map(|function| Ok(function.with_body(bind_shared(&function.body)?)))?;
    let mut stage = Stage::Flat;
    leave("Flat", &program, stage, context)?;
    for pass in passes.iter() {
        let step = Step::of(&pass)?;
        program = with_reported(|| step.run(program, context))
            .map_err(|error| error.note(format!("in pass {}", step.name())))?;
        stage = step.leaves().unwrap_or(stage);
        leave(step.name(), &program, stage, context)?;
    }
    Ok(program.into())
}

/// Dumps and verifies a program after a pass, depending on the options.
fn leave(pass: &str, program: &Program, stage: Stage, context: &PassContext) -> Result<()> {
    let options = &context.options;
    if !options.dump && !options.verify {
        return Ok(());
    }
    let module = program.module();
    if options.dump {
        context.keep_dump(pass, text::print(&module));
    }
    if options.verify {
        verify_module(&module, stage).map_err(|error| error.note(format!("after pass {pass}")))?;
    }
    Ok(())
}

/// An entry of a pipeline.
enum Step {
    BuiltIn { name: String, pass: &'static Pass },
    User { name: String, function: Function },
}

impl Step {
    fn of(entry: &Any) -> Result<Self> {
        if let Ok(function) = entry.to::<Function>() {
            return Ok(Self::User { name: "function".to_owned(), function });
        }
        let name: String = entry.to().map_err(|_| {
            CompileError::new(
                ErrorKind::Lower,
                format!("a pipeline is a list of names and functions, got {}", entry.type_name()),
            )
        })?;
        match Pass::find(&name) {
            Some(pass) => Ok(Self::BuiltIn { name, pass }),
            None => Ok(Self::User { function: find(&name)?, name }),
        }
    }

    /// The name as in the pipeline.
    fn name(&self) -> &str {
        match self {
            Self::BuiltIn { name, .. } | Self::User { name, .. } => name,
        }
    }

    fn leaves(&self) -> Option<Stage> {
        match self {
            Self::BuiltIn { pass, .. } => pass.leaves,
            Self::User { .. } => None,
        }
    }

    fn run(&self, program: Program, context: &PassContext) -> Result<Program> {
        let (name, function) = match self {
            Self::BuiltIn { pass, .. } => {
                // Callers have copies of the program, which is immutable; of the context, locks
                // that are poisoned stay usable.
                let after = catch_unwind(AssertUnwindSafe(|| (pass.run)(&program, context)));
                return after.unwrap_or_else(|payload| Err(panicked(&*payload)));
            }
            Self::User { name, function } => (name, function),
        };
        let after = function.call((Any::from(program), context))?;
        Program::of(&after).ok_or_else(|| {
            let what = format!("pass {name} gave {}; a pass gives the program back", after.type_name());
            CompileError::new(ErrorKind::Lower, what)
        })
    }
}

/// The error for a panic of a built-in pass. A panic of a user's pass is an error already, since it
/// is called as a packed function.
fn panicked(payload: &(dyn Payload + Send)) -> CompileError {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let what = format!("panicked: {}", text.unwrap_or("a value that is not text"));
    CompileError::new(ErrorKind::Internal, what).note("this is a bug in the compiler")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_of_built_in_passes_are_errors() {
        static PANICS: Pass = Pass { name: "Panics", run: |_, _| panic!("out of {}", "luck"), leaves: None };
        let function = text::parse_func("func f(a: mut f32[4]) {\n a[0] = 1.0\n}").unwrap();
        let step = Step::BuiltIn { name: "Panics".to_owned(), pass: &PANICS };
        let error = step.run(Program::Function(function), &PassContext::default()).err().unwrap();
        assert_eq!((error.kind(), error.what()), (ErrorKind::Internal, "panicked: out of luck"));
    }
}
