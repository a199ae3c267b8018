//! Code generation for other languages: `kernpack.build(program, target)` and one function
//! `kernpack.target.build.<kind>` for each kind of target.
//!
//! A target is a string, in the format of [`Target::parse`]. An external target kind is a global
//! function with that name, which `kernpack.build` finds.

use kernpack::module::ExportOptions;
use kernpack::{Any, Array, Function, Module, ObjRef, Result, error, packed_func};

use crate::TargetDescription;
use crate::codegen::Target;
use crate::ir::{IrModule, LoweredFunc};

/// The prefix of the names of the target functions; the kind follows.
const PREFIX: &str = "kernpack.target.build.";

/// Converts a module, a function, or an array of functions to a module.
///
/// # Errors
/// Returns an error for any other value.
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

/// Builds functions for a target with the function of its kind.
#[packed_func(name = "kernpack.build")]
fn build(program: Any, target: &str) -> Result<Module> {
    let kind = Target::parse(target)?.kind;
    match Function::find_global(&format!("{PREFIX}{kind}"))? {
        Some(build) => build.call_as((program, target)),
        None => Err(error!(ValueError, "no target of kind `{kind}`: there is no global function {PREFIX}{kind}")),
    }
}

/// Generates machine code with LLVM: a module of kind `llvm`. It can be called if the target is
/// this machine, and it can be written and exported.
#[cfg(feature = "llvm")]
#[packed_func(name = "kernpack.target.build.llvm")]
fn build_llvm(program: Any, target: &str) -> Result<Module> {
    let module = module_of(&program, "kernpack.target.build.llvm")?;
    Ok(crate::build(module, &Target::parse(target)?)?)
}

/// Generates C source: a module of kind `c`, whose functions access the runtime through variables
/// that their loader sets.
#[packed_func(name = "kernpack.target.build.c")]
fn build_c(program: Any, target: &str) -> Result<Module> {
    let module = module_of(&program, "kernpack.target.build.c")?;
    Ok(crate::codegen::c::build_module(&module, &Target::parse(target)?)?)
}

/// Generates OpenCL C for kernels, and machine code of the host for the functions that launch them:
/// a module of kind `llvm` that imports one of kind `opencl`.
#[cfg(feature = "llvm")]
#[packed_func(name = "kernpack.target.build.opencl")]
fn build_opencl(program: Any, target: &str) -> Result<Module> {
    let module = module_of(&program, "kernpack.target.build.opencl")?;
    Ok(crate::build_device(module, &Target::parse(target)?)?)
}

/// Returns this machine as a target string with the CPU and its features.
#[packed_func(name = "kernpack.target.host")]
fn host() -> String {
    Target::host().description()
}

/// Returns the properties of a target that rules use.
#[packed_func(name = "kernpack.target.describe")]
fn describe(target: &str) -> Result<ObjRef<TargetDescription>> {
    Ok(TargetDescription::of(&Target::parse(target)?).object())
}

/// Writes a module with all modules that it imports to one shared library, with the C compiler
/// `CC`, or `cc` by default. `flags` are added to its command line.
#[packed_func(name = "kernpack.module.export_library")]
fn export_library(module: Module, path: &str, flags: Vec<String>) -> Result<()> {
    let options = flags.into_iter().fold(ExportOptions::new(), ExportOptions::flag);
    module.export_library(path, &options)
}

/// Registers `ffi.Module.load_from_bytes.<kind>`, unless it exists, so that this process loads
/// exported libraries that import modules of the kind through libtvm_ffi.
///
/// Apache TVM's runtime ends the process if the name of its own loader is taken: load it before.
#[packed_func(name = "kernpack.module.enable")]
fn enable(kind: &str) -> Result<()> {
    kernpack::module::enable(kind)
}
