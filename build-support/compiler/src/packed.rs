//! Code generation for other languages: `kernpack.build(program, target)` and one function `kernpack.target.build.<kind>` for each kind of target.
//!
//! A target is a text, as [`Target::parse`] reads it. A kind of target from elsewhere is a global function of that name: `kernpack.build` finds it.

use kernpack::module::ExportOptions;
use kernpack::{Any, Array, Function, Module, ObjRef, Result, error, packed_func};

use crate::TargetDescription;
use crate::codegen::Target;
use crate::ir::{IrModule, LoweredFunc};

/// What the functions of targets are called: this, then the kind.
const PREFIX: &str = "kernpack.target.build.";

/// A module, a function, or an array of functions, as a module.
///
/// # Errors
/// Anything else.
pub(crate) fn module_of(program: &Any, who: &str) -> Result<IrModule> {
    if let Ok(module) = program.to::<IrModule>() {
        return Ok(module);
    }
    if let Ok(function) = program.to::<LoweredFunc>() {
        return Ok(IrModule::new([function]));
    }
    match program.to::<Array<LoweredFunc>>() {
        Ok(functions) => Ok(IrModule::new(functions.iter())),
        Err(_) => Err(error!(
            TypeError,
            "{who} takes a kernpack.ir.LoweredFunc, an array of them or a kernpack.ir.IrModule, got {}",
            program.type_name()
        )),
    }
}

/// Builds functions for a target, by the function that its kind has.
#[packed_func(name = "kernpack.build")]
fn build(program: Any, target: &str) -> Result<Module> {
    let kind = Target::parse(target)?.kind;
    match Function::find_global(&format!("{PREFIX}{kind}"))? {
        Some(build) => build.call_as((program, target)),
        None => Err(error!(ValueError, "no target of kind `{kind}`: there is no global function {PREFIX}{kind}")),
    }
}

/// Machine code by LLVM: a module of kind `llvm`. It can be called if it is for this machine, written and exported.
#[cfg(feature = "llvm")]
#[packed_func(name = "kernpack.target.build.llvm")]
fn build_llvm(program: Any, target: &str) -> Result<Module> {
    let module = module_of(&program, "kernpack.target.build.llvm")?;
    Ok(crate::build(module, &Target::parse(target)?)?)
}

/// C source: a module of kind `c`, whose functions reach the runtime through variables that their loader sets.
#[packed_func(name = "kernpack.target.build.c")]
fn build_c(program: Any, target: &str) -> Result<Module> {
    let module = module_of(&program, "kernpack.target.build.c")?;
    Ok(crate::codegen::c::build_module(&module, &Target::parse(target)?)?)
}

/// This machine, as a text that names CPU and features.
#[packed_func(name = "kernpack.target.host")]
fn host() -> String {
    Target::host().description()
}

/// What rules know of a target.
#[packed_func(name = "kernpack.target.describe")]
fn describe(target: &str) -> Result<ObjRef<TargetDescription>> {
    Ok(TargetDescription::of(&Target::parse(target)?).object())
}

/// Writes a module with all that it imports into one shared library, by the C compiler: `CC`, else `cc`. `flags` are added to its command.
#[packed_func(name = "kernpack.module.export_library")]
fn export_library(module: Module, path: &str, flags: Vec<String>) -> Result<()> {
    let options = flags.into_iter().fold(ExportOptions::new(), ExportOptions::flag);
    module.export_library(path, &options)
}
