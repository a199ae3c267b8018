//! Modules of kind `llvm`: code that is created at run time and compiled by LLVM.

use std::sync::OnceLock;

use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module as LlvmIr;
use inkwell::targets::{FileType, TargetMachine};
use kernpack::module::{LlvmCode, LlvmModule};
use kernpack::{Function, Module};

use crate::cargo::target::Target;
use crate::describe::symbols::PREFIX;
use crate::llvm::{Diagnostics, PASSES, in_context, machine, optimize, prepare};
use crate::{Error, Result, tool};

/// The name of the code in messages.
const SOURCE: &str = "the LLVM module";

/// Code as optimized bitcode. Every use has its own LLVM context, so threads do not share one.
struct Code {
    bitcode: Vec<u8>,
    target: Target,
    functions: Vec<String>,
    /// The code, compiled for this process at the first call of a function.
    compiled: OnceLock<kernpack::Result<Module>>,
}

/// Creates a module of kind `llvm` from LLVM IR, text or bitcode, for this machine. LLVM verifies
/// and optimizes it immediately.
///
/// Its packed functions (`__tvm_ffi_<name>`) can be called. The first call compiles the module,
/// which needs a C compiler to link. The module can be inspected as `ll`, `asm` and `bc` (in
/// hexadecimal), written as `o`, `s`, `ll` and `bc`, and exported as part of a library.
///
/// ```
/// let module = kernpack_build::llvm_module(
///     "define i32 @__tvm_ffi_answer(ptr %this, ptr %args, i32 %num_args, ptr %result) {
///        store i64 1, ptr %result
///        %value = getelementptr i64, ptr %result, i64 1
///        store i64 42, ptr %value
///        ret i32 0
///      }",
/// )?;
/// assert_eq!(module.function("answer")?.call_as::<i64>(())?, 42);
/// assert!(module.inspect_source("ll")?.contains("@__tvm_ffi_answer"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns an error if LLVM reports a problem in the code, if a function with the name of a packed
/// function has another type, or if the code is for another architecture.
pub fn llvm_module(ir: impl AsRef<[u8]>) -> Result<Module> {
    from_ir(ir.as_ref(), Target::of_triple(None))
}

/// Creates an [`llvm_module`] for another machine, by its triple. Its functions cannot be called on
/// this machine.
///
/// # Errors
/// As for [`llvm_module`]. Also an error for a target that LLVM does not support.
pub fn llvm_module_for(ir: impl AsRef<[u8]>, triple: &str) -> Result<Module> {
    from_ir(ir.as_ref(), Target::of_triple(Some(triple)))
}

/// Creates an [`llvm_module`] with a closure.
///
/// # Errors
/// As for [`llvm_module`]. Also returns errors of the closure.
pub fn llvm_module_with<F>(build: F) -> Result<Module>
where
    F: for<'ctx> FnOnce(&'ctx Context, &LlvmIr<'ctx>) -> Result<()>,
{
    let target = Target::of_triple(None);
    let machine = machine(&target)?;
    let (bitcode, functions) = in_context(|context, _| {
        let module = context.create_module(SOURCE);
        prepare(&module, &machine, &target.triple, SOURCE)?;
        build(context, &module)?;
        finished(&module, &machine)
    })?;
    Ok(Code::module(bitcode, functions, target))
}

fn from_ir(ir: &[u8], target: Target) -> Result<Module> {
    let machine = machine(&target)?;
    let (bitcode, functions) = in_context(|context, _| {
        let module = parsed(context, ir)?;
        prepare(&module, &machine, &target.triple, SOURCE)?;
        finished(&module, &machine)
    })?;
    Ok(Code::module(bitcode, functions, target))
}

fn parsed<'ctx>(context: &'ctx Context, ir: &[u8]) -> Result<LlvmIr<'ctx>> {
    let buffer = MemoryBuffer::create_from_memory_range_copy(ir, SOURCE);
    context
        .create_module_from_ir(buffer)
        .map_err(|e| Error::new(format!("{SOURCE}: LLVM cannot read it\n{}", tool::indented(&e.to_string()))))
}

/// Optimizes, and returns the bitcode and the names of the packed functions.
fn finished(module: &LlvmIr<'_>, machine: &TargetMachine) -> Result<(Vec<u8>, Vec<String>)> {
    optimize(PASSES, module, machine, SOURCE)?;
    let defined = module.get_functions().filter(|function| function.count_basic_blocks() > 0);
    let functions = defined
        .filter_map(|function| function.get_name().to_str().ok()?.strip_prefix(PREFIX).map(str::to_owned))
        .filter(|name| !name.starts_with('_'))
        .collect();
    Ok((module.write_bitcode_to_memory().as_slice().to_vec(), functions))
}

impl Code {
    fn module(bitcode: Vec<u8>, functions: Vec<String>, target: Target) -> Module {
        Module::new(LlvmModule(Self { bitcode, target, functions, compiled: OnceLock::new() }))
    }

    /// Calls a function with the code in a new context.
    fn with<R>(
        &self,
        work: impl FnOnce(&LlvmIr<'_>, &TargetMachine, &Diagnostics) -> Result<R>,
    ) -> kernpack::Result<R> {
        let done = || {
            let machine = machine(&self.target)?;
            in_context(|context, diagnostics| work(&parsed(context, &self.bitcode)?, &machine, diagnostics))
        };
        done().map_err(|error| kernpack::Error::runtime_error(error.to_string()))
    }

    /// Compiles to object code or assembly.
    fn compile(&self, what: FileType) -> kernpack::Result<Vec<u8>> {
        self.with(|module, machine, diagnostics| {
            let buffer = machine.write_to_memory_buffer(module, what).map_err(|e| {
                Error::new(format!("{SOURCE}: LLVM cannot compile it\n{}", tool::indented(&e.to_string())))
            })?;
            diagnostics.check(SOURCE)?;
            Ok(buffer.as_slice().to_vec())
        })
    }

    /// Loads the code as a library of this process.
    fn library(&self) -> kernpack::Result<Module> {
        let compiled = self.compiled.get_or_init(|| {
            if self.target.triple != self.target.host {
                return Err(kernpack::Error::runtime_error(format!(
                    "the module is for {}, this machine is {}; export it and load the library there",
                    self.target.triple, self.target.host
                )));
            }
            let names: Vec<&str> = self.functions.iter().map(String::as_str).collect();
            Module::static_library(self.object()?, &names).compile()
        });
        compiled.clone()
    }
}

impl LlvmCode for Code {
    fn triple(&self) -> &str {
        &self.target.triple
    }

    fn functions(&self) -> &[String] {
        &self.functions
    }

    fn function(&self, name: &str) -> kernpack::Result<Function> {
        self.library()?.function(name)
    }

    fn object(&self) -> kernpack::Result<Vec<u8>> {
        self.compile(FileType::Object)
    }

    fn assembly(&self) -> kernpack::Result<String> {
        let assembly = self.compile(FileType::Assembly)?;
        Ok(String::from_utf8_lossy(&assembly).trim_end_matches('\0').to_owned())
    }

    fn text(&self) -> kernpack::Result<String> {
        self.with(|module, _, _| Ok(module.print_to_string().to_string()))
    }

    fn bitcode(&self) -> &[u8] {
        &self.bitcode
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "define i32 @__tvm_ffi_answer(ptr %this, ptr %args, i32 %n, ptr %result) {\n\
                          store i64 1, ptr %result\n %value = getelementptr i64, ptr %result, i64 1\n\
                          store i64 42, ptr %value\n ret i32 0\n}\n";

    #[test]
    fn formats() {
        let module = llvm_module(ANSWER).unwrap();
        let folder = std::env::temp_dir().join(format!("kernpack-llvm-module-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let starts: [(&str, &[u8]); 4] =
            [("o", b"\x7fELF"), ("bc", b"BC\xc0\xde"), ("ll", b"; ModuleID"), ("s", b"\t.")];
        for (format, start) in starts {
            let path = folder.join(format!("m.{format}"));
            module.write_to_file(&path, format).unwrap();
            assert!(std::fs::read(path).unwrap().starts_with(start), "{format}");
        }
        // The bitcode gives the same module again.
        let again = llvm_module(std::fs::read(folder.join("m.bc")).unwrap()).unwrap();
        assert_eq!(again.function_names(), ["answer"]);
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(module.inspect_source("asm").unwrap().contains("__tvm_ffi_answer:"));
        assert!(module.inspect_source("bc").unwrap().starts_with("4243c0de"));
        assert_eq!(
            module.write_to_file("/tmp/x", "exe").unwrap_err().to_string(),
            "RuntimeError: a module of kind 'llvm' cannot be written as 'exe', only as o, obj, s, asm, ll, bc"
        );
    }

    #[test]
    fn mistakes() {
        let error = llvm_module("define nonsense").unwrap_err().to_string();
        assert!(error.starts_with("the LLVM module: LLVM cannot read it\n"), "{error}");
        let error = llvm_module("define void @__tvm_ffi_f() {\n ret void\n}").unwrap_err().to_string();
        assert!(error.starts_with("the LLVM module: kernel `f` has the type `void ()`; "), "{error}");
        let error = llvm_module_for(ANSWER, "s390x-unknown-linux-gnu").unwrap_err().to_string();
        assert!(error.contains("not for s390x"), "{error}");
        let other = llvm_module_for(ANSWER, "aarch64-unknown-linux-gnu").unwrap();
        let error = other.function("answer").unwrap_err().to_string();
        let expected = "RuntimeError: the module is for aarch64-unknown-linux-gnu, this machine is ";
        assert!(error.starts_with(expected) || cfg!(target_arch = "aarch64"), "{error}");
    }
}
