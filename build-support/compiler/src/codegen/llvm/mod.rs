//! Machine code generation for lowered functions, with LLVM.
//!
//! [`CodeGenLLVM`] emits functions into an LLVM module; [`compile`] compiles a module of lowered
//! functions to optimized object code.

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
mod loop_work;
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

/// The prefix of the symbols of packed functions in a library.
pub const PREFIX: &str = "__tvm_ffi_";

/// The version of the code generator, for the keys of a cache of objects. It changes with every
/// change of the sources that determine the code.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " ", env!("KERNPACK_CODEGEN_DIGEST"));

/// A generator that emits functions into an LLVM module, one after the other.
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
    /// The functions that can be called by name, with their calling convention.
    functions: HashMap<String, function::Declared<'ctx>>,
    /// The packed functions and other symbols that a system library registers.
    registered: Vec<(String, FunctionValue<'ctx>)>,
    prefix: String,
    strings: HashMap<String, GlobalValue<'ctx>>,
    raisers: HashMap<usize, FunctionValue<'ctx>>,
    handles: HashMap<String, (GlobalValue<'ctx>, FunctionValue<'ctx>)>,
    /// Constant data of functions, by name.
    constants: HashMap<String, GlobalValue<'ctx>>,
    /// True if the current function is so large that LLVM is prevented from enlarging it.
    is_large: bool,
    /// The LLVM text that programs imported.
    imported: HashSet<String>,
    count: usize,
    debug: Option<debug::DebugInfo<'ctx>>,
}

impl<'ctx, 'm> CodeGenLLVM<'ctx, 'm> {
    /// Creates a generator for a module that is empty, or contains code of other origin.
    ///
    /// # Errors
    /// Returns an error for a target that is not a CPU supported by LLVM.
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

    /// Records the target in the module.
    fn init(&self) {
        let description = self.context.metadata_string(&self.target.description());
        let node = self.context.metadata_node(&[description.into()]);
        if self.module.get_flag("tvm_target").is_none() {
            self.module.add_metadata_flag("tvm_target", FlagBehavior::Warning, node);
        }
    }

    /// Sets the prefix of a system library, which follows `__tvm_ffi_` in its symbols.
    pub fn set_system_lib_prefix(&mut self, prefix: &str) {
        prefix.clone_into(&mut self.prefix);
    }

    /// Declares functions, so that they can call each other in any order.
    ///
    /// # Errors
    /// Returns an error for parameters of an unsupported type, or for two functions of one name.
    pub fn declare(&mut self, functions: &[LoweredFunc]) -> Result<()> {
        functions.iter().try_for_each(|function| self.declare_function(function))
    }

    /// Emits a function, and declares it if necessary.
    ///
    /// # Errors
    /// Returns an error for a program that is not lowered, or that uses unsupported operations.
    pub fn add_function(&mut self, function: &LoweredFunc) -> Result<()> {
        if function.kind == FuncKind::Device {
            fail!(Target, "`{}` is a kernel of a device; LLVM code is made of host functions", function.name.as_str());
        }
        if !self.functions.contains_key(function.name.as_str()) {
            self.declare_function(function)?;
        }
        self.define_function(function)
    }

    /// Selects the packed function that `__tvm_ffi_main` calls.
    ///
    /// # Errors
    /// Returns an error if the function does not exist.
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

    /// Emits the shared parts of all functions, and verifies the module with LLVM.
    ///
    /// # Errors
    /// Returns the errors of LLVM's verifier: a bug in the code generator, or an LLVM intrinsic
    /// with invalid arguments.
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

    /// Returns an unused number.
    fn unique(&mut self) -> usize {
        self.count += 1;
        self.count
    }
}

/// Emits the functions of a completely lowered module into an LLVM module, which is verified, but
/// not optimized.
///
/// If the target has `debug`, the code has line tables, and the text to which they refer is
/// returned: the caller has to store it in the file that the module's attribute [`DEBUG_FILE`]
/// names.
///
/// # Errors
/// Returns an error for a program that cannot be lowered for the target, and the errors of
/// [`CodeGenLLVM`].
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
