//! Compilation of LLVM modules to object code.

use std::sync::Once;

use inkwell::OptimizationLevel;
use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{
    CodeModel, FileType, InitializationConfig, RelocMode, Target as LlvmTarget, TargetMachine, TargetTriple,
};

use super::watchdog::Watchdog;
use super::{PREFIX, emit_into};
use crate::codegen::Target;
use crate::error::{CompileError, ErrorKind, Result, fail};
use crate::ir::visit::for_each_stmt;
use crate::ir::{IrModule, LoweredFunc, StmtNode};

/// The number of statements with vectors above which a function counts as explicitly scheduled.
const WRITTEN_OUT: usize = 250;

/// Returns LLVM's optimization pipeline for a module. Code with many vectors, such as tiles of a
/// product and transforms, is already in the form that a rule chose: level 1 makes it as fast as
/// level 3, in half of the compile time. Loops over single elements, and short ones, need level 3
/// to be vectorized and kept in registers.
pub fn passes(module: &IrModule) -> &'static str {
    let is_written_out = |function: LoweredFunc| {
        let mut vectors = 0;
        for_each_stmt(&function.body, |stmt| {
            vectors += match &**stmt {
                StmtNode::Store { value, .. } | StmtNode::Bind { value, .. } => usize::from(value.lanes() > 1),
                _ => 0,
            };
        });
        vectors >= WRITTEN_OUT
    };
    // Measured with level 3 and level 1: build time of a kernel in ms, then its run time in µs.
    // Winograd's convolution 64@56: 214 and 158, 664.8 and 663.6; 7x7 stem: 247 and 136, 2112 and
    // 2070. Sums of columns take 70 µs instead of 50 µs with level 1.
    if module.functions.iter().all(is_written_out) { "default<O1>" } else { "default<O3>" }
}

/// Optimized code of a module.
pub struct Compiled {
    /// The module as bitcode of LLVM.
    pub bitcode: Vec<u8>,
    /// The object file.
    pub object: Vec<u8>,
    /// The names of the packed functions.
    pub functions: Vec<String>,
    /// The text to which the code's line tables refer: see [`emit_into`].
    pub listing: Option<String>,
}

/// Returns LLVM's target machine for a target.
///
/// # Errors
/// Returns an error for a target without a code generator in this build of LLVM.
pub fn target_machine(target: &Target) -> Result<TargetMachine> {
    static INITIALIZED: Once = Once::new();
    INITIALIZED.call_once(|| {
        LlvmTarget::initialize_x86(&InitializationConfig::default());
        LlvmTarget::initialize_aarch64(&InitializationConfig::default());
    });
    let triple = TargetTriple::create(&target.triple);
    let known = LlvmTarget::from_triple(&triple).map_err(|error| {
        CompileError::new(ErrorKind::Target, format!("LLVM does not know the target `{}`: {error}", target.triple))
            .note("machine code is made for x86, x86_64 and aarch64; the target `c` makes C source for all others")
    })?;
    let level = OptimizationLevel::Aggressive;
    known
        .create_target_machine(&triple, &target.cpu, &target.features, level, RelocMode::PIC, CodeModel::Default)
        .ok_or_else(|| CompileError::new(ErrorKind::Target, format!("LLVM makes no code for `{}`", target.triple)))
}

/// Sets the module's triple and data layout for the machine, before code is generated into it.
pub(crate) fn prepare(module: &Module<'_>, machine: &TargetMachine) {
    module.set_triple(&machine.get_triple());
    module.set_data_layout(&machine.get_target_data().get_data_layout());
}

/// Optimizes an LLVM module with a pipeline, such as that of [`passes`].
///
/// # Errors
/// Returns the errors of LLVM.
pub fn optimize(module: &Module<'_>, machine: &TargetMachine, passes: &str) -> Result<()> {
    let options = PassBuilderOptions::create();
    options.set_loop_vectorization(true);
    options.set_loop_slp_vectorization(true);
    options.set_loop_interleaving(true);
    options.set_loop_unrolling(true);
    match module.run_passes(passes, machine, options) {
        Ok(()) => Ok(()),
        Err(error) => fail!(Target, "LLVM cannot optimize the code: {error}"),
    }
}

/// Compiles a module of functions to optimized machine code.
///
/// # Errors
/// Returns an error for a program that cannot be lowered for the target, and the errors of LLVM.
pub fn compile(functions: &IrModule, target: &Target) -> Result<Compiled> {
    let machine = target_machine(target)?;
    let _watchdog = Watchdog::of(functions);
    let context = Context::create();
    let module = context.create_module("kernels");
    prepare(&module, &machine);
    let listing = emit_into(functions, target, &context, &module)?;
    optimize(&module, &machine, passes(functions))?;
    let functions = module
        .get_functions()
        .filter(|function| function.count_basic_blocks() > 0)
        .filter_map(|function| function.get_name().to_str().ok()?.strip_prefix(PREFIX).map(str::to_owned))
        // Symbols for loaders and tools have an additional underscore in their names.
        .filter(|name| !["_metadata_", "_doc_", "_library_"].iter().any(|kind| name.starts_with(kind)))
        .collect();
    let bitcode = module.write_bitcode_to_memory().as_slice().to_vec();
    let object = write(&module, &machine, FileType::Object)?;
    Ok(Compiled { bitcode, object, functions, listing })
}

/// Object code or assembly of a module.
pub(crate) fn write(module: &Module<'_>, machine: &TargetMachine, kind: FileType) -> Result<Vec<u8>> {
    match machine.write_to_memory_buffer(module, kind) {
        Ok(buffer) => Ok(buffer.as_slice().to_vec()),
        Err(error) => fail!(Target, "LLVM cannot compile the code: {error}"),
    }
}

/// Compiles a module of optimized bitcode to assembly.
pub(crate) fn assembly(bitcode: &[u8], target: &Target) -> Result<String> {
    let bytes = with_bitcode(bitcode, target, |module, machine| write(module, machine, FileType::Assembly))?;
    Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned())
}

/// Prints a module of optimized bitcode as text.
pub(crate) fn text(bitcode: &[u8], target: &Target) -> Result<String> {
    with_bitcode(bitcode, target, |module, _| Ok(module.print_to_string().to_string()))
}

/// Runs work on optimized bitcode, in a separate context.
fn with_bitcode<R>(
    bitcode: &[u8],
    target: &Target,
    work: impl FnOnce(&Module<'_>, &TargetMachine) -> Result<R>,
) -> Result<R> {
    let machine = target_machine(target)?;
    let context = Context::create();
    let buffer = MemoryBuffer::create_from_memory_range_copy(bitcode, "kernels");
    match context.create_module_from_ir(buffer) {
        Ok(module) => work(&module, &machine),
        Err(error) => fail!(Internal, "LLVM cannot read its own code: {error}"),
    }
}
