//! Machine code of lowered functions, by LLVM.
//!
//! [`CodeGenLLVM`] writes functions into a module of LLVM; [`compile`] makes optimized object code of a module of lowered functions.

mod alias;
mod arith;
mod call;
mod control;
mod debug;
mod divide;
mod dot;
mod emit;
mod expr;
mod fields;
mod foreign;
mod function;
mod import;
mod intrinsics;
pub(crate) mod jit;
mod loop_cost;
mod machine;
mod many_checks;
mod math;
mod memory;
mod modular;
mod packed;
mod parallel;
mod raise;
mod runtime;
mod stand_in;
mod state;
mod stmt;
mod store;
mod types;
mod watchdog;

use std::collections::{HashMap, HashSet};

pub use debug::DEBUG_FILE;
use inkwell::builder::Builder;
use inkwell::context::Context;
use inkwell::module::{FlagBehavior, Linkage, Module};
use inkwell::values::{FunctionValue, GlobalValue};
pub use machine::{Compiled, compile, optimize, passes, target_machine};
pub(crate) use machine::{assembly, text};

use self::state::State;
use super::Target;
use crate::error::{Result, fail, require};
use crate::ir::{FuncKind, IrModule, LoweredFunc};

/// What packed functions are called in a library: this, then their name.
pub const PREFIX: &str = "__tvm_ffi_";

/// Which code generator this is: a cache of objects has it in its keys. It changes with every change of the sources that code is made by.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " ", env!("KERNPACK_CODEGEN_DIGEST"));

/// Writes functions into a module of LLVM, one after the other.
///
/// ```
/// use inkwell::context::Context;
/// use kernpack_compiler::codegen::{Target, llvm::CodeGenLLVM};
///
/// let context = Context::create();
/// let module = context.create_module("kernels");
/// let generator = CodeGenLLVM::create(&context, &module, &Target::llvm("x86_64-unknown-linux-gnu", "", ""))?;
/// generator.finish()?;
/// assert!(module.print_to_string().to_string().contains("tvm_target"));
/// # Ok::<(), kernpack_compiler::CompileError>(())
/// ```
pub struct CodeGenLLVM<'ctx, 'm> {
    context: &'ctx Context,
    module: &'m Module<'ctx>,
    builder: Builder<'ctx>,
    target: Target,
    state: State<'ctx>,
    /// The functions that can be called by name, with how they say that they failed.
    functions: HashMap<String, function::Declared<'ctx>>,
    /// Packed functions and other symbols that a system library registers.
    registered: Vec<(String, FunctionValue<'ctx>)>,
    prefix: String,
    strings: HashMap<String, GlobalValue<'ctx>>,
    raisers: HashMap<usize, FunctionValue<'ctx>>,
    handles: HashMap<String, (GlobalValue<'ctx>, FunctionValue<'ctx>)>,
    /// Data that functions bring along, by its name.
    constants: HashMap<String, GlobalValue<'ctx>>,
    /// Whether the function that is written is so large that LLVM is kept from making it larger.
    is_large: bool,
    /// Text of LLVM that programs brought along.
    imported: HashSet<String>,
    count: usize,
    debug: Option<debug::DebugInfo<'ctx>>,
}

impl<'ctx, 'm> CodeGenLLVM<'ctx, 'm> {
    /// A generator for a module that is empty, or has code of other origin.
    ///
    /// # Errors
    /// A target that is no CPU of LLVM.
    pub fn create(context: &'ctx Context, module: &'m Module<'ctx>, target: &Target) -> Result<Self> {
        require!(target.kind == "llvm", Target, "the LLVM code generator got a target of kind `{}`", target.kind);
        kernpack_llvm_link::skip_hash_recognition();
        let generator = Self {
            context,
            module,
            builder: context.create_builder(),
            target: target.clone(),
            state: State::default(),
            functions: HashMap::new(),
            registered: Vec::new(),
            prefix: String::new(),
            strings: HashMap::new(),
            raisers: HashMap::new(),
            handles: HashMap::new(),
            constants: HashMap::new(),
            is_large: false,
            imported: HashSet::new(),
            count: 0,
            debug: None,
        };
        generator.init();
        Ok(generator)
    }

    /// Says in the module what it is for.
    fn init(&self) {
        let description = self.context.metadata_string(&self.target.description());
        let node = self.context.metadata_node(&[description.into()]);
        if self.module.get_flag("tvm_target").is_none() {
            self.module.add_metadata_flag("tvm_target", FlagBehavior::Warning, node);
        }
    }

    /// The prefix of a system library, which its symbols have after `__tvm_ffi_`.
    pub fn set_system_lib_prefix(&mut self, prefix: &str) {
        prefix.clone_into(&mut self.prefix);
    }

    /// Declares functions, so that they can call each other whatever their order.
    ///
    /// # Errors
    /// Parameters of a type that LLVM code does not have; two functions of one name.
    pub fn declare(&mut self, functions: &[LoweredFunc]) -> Result<()> {
        functions.iter().try_for_each(|function| self.declare_function(function))
    }

    /// Writes a function; it is declared if that was not done.
    ///
    /// # Errors
    /// A program that is not lowered, or that does what LLVM code cannot.
    pub fn add_function(&mut self, function: &LoweredFunc) -> Result<()> {
        if function.kind == FuncKind::Device {
            fail!(Target, "`{}` is a kernel of a device; LLVM code is made of host functions", function.name.as_str());
        }
        if !self.functions.contains_key(function.name.as_str()) {
            self.declare_function(function)?;
        }
        self.define_function(function)
    }

    /// Makes a packed function the one that `__tvm_ffi_main` calls.
    ///
    /// # Errors
    /// A function that is not there.
    pub fn add_main_function(&mut self, name: &str) -> Result<()> {
        let Some(function::Declared { function: entry, .. }) = self.functions.get(name).copied() else {
            fail!(Target, "the entry function `{name}` is not in the module")
        };
        let symbol = format!("{PREFIX}main");
        if self.module.get_function(&symbol).is_some() {
            return Ok(());
        }
        let main = self.module.add_function(&symbol, entry.get_type(), Some(Linkage::WeakAny));
        self.set_function_attributes(main);
        self.builder.position_at_end(self.context.append_basic_block(main, "entry"));
        self.unmark_line();
        let args: Vec<_> = main.get_params().into_iter().map(Into::into).collect();
        let call = self.builder.build_direct_call(entry, &args, "")?;
        call.set_tail_call(true);
        match call.try_as_basic_value().basic() {
            Some(status) => self.builder.build_return(Some(&status))?,
            None => self.builder.build_return(None)?,
        };
        Ok(())
    }

    /// Writes what all functions share, and has LLVM verify the module.
    ///
    /// # Errors
    /// What LLVM's verifier says: a defect of the code generator, or an intrinsic of LLVM that does not take the arguments it got.
    pub fn finish(mut self) -> Result<()> {
        if self.target.system_lib {
            self.register_symbols()?;
        }
        self.finish_lines();
        match self.module.verify() {
            Ok(()) => Ok(()),
            Err(error) => fail!(Internal, "LLVM's verifier rejects the code: {}", error.to_string().trim_end()),
        }
    }

    /// A number that was not given before.
    fn unique(&mut self) -> usize {
        self.count += 1;
        self.count
    }
}

/// Writes the functions of a module, lowered to the end, into a module of LLVM. It is verified, not optimized.
///
/// If the target says `debug`, the code has line tables, and the text comes back whose lines they are: it is to be kept as the file that the module's
/// attribute [`DEBUG_FILE`] names.
///
/// # Errors
/// A program that cannot be lowered for the target; what [`CodeGenLLVM`] reports.
pub fn emit_into<'ctx>(
    functions: &IrModule,
    target: &Target,
    context: &'ctx Context,
    module: &Module<'ctx>,
) -> Result<Option<String>> {
    let lowered = crate::pass::lower_for_host(functions, target)?;
    let mut generator = CodeGenLLVM::create(context, module, target)?;
    if let Some(prefix) = text_attribute(functions, "system_lib_prefix") {
        generator.set_system_lib_prefix(&prefix);
        generator.target.system_lib = true;
    }
    let listing = target.debug.then(|| crate::text::listing(&lowered));
    if let Some(listing) = &listing {
        generator.set_debug_info(functions, listing);
    }
    let all = lowered.functions.to_vec();
    generator.declare(&all)?;
    for function in &all {
        generator.add_function(function)?;
    }
    if let Some(entry) = all.iter().find(|function| function.attr("is_entry_func").is_some()) {
        generator.add_main_function(entry.name.as_str())?;
    }
    generator.finish()?;
    Ok(listing.map(|listing| listing.text))
}

fn text_attribute(module: &IrModule, name: &str) -> Option<String> {
    module.attrs.get(name)?.to::<kernpack::Str>().ok().map(|text| text.as_str().to_owned())
}
