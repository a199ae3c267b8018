//! Compiles LLVM IR to device code with LLVM's own code generator, without a CUDA toolkit. If ptxas
//! is installed, it checks the PTX and compiles it to machine code.

use std::path::{Path, PathBuf};

use inkwell::OptimizationLevel;
use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::{Linkage, Module};
use inkwell::targets::{
    CodeModel, FileType, InitializationConfig, RelocMode, Target as LlvmTarget, TargetMachine, TargetTriple,
};
use inkwell::values::FunctionValue;

use crate::cache::Input;
use crate::cache::step::{Ran, Step};
use crate::cuda::architecture::{Architecture, Architectures};
use crate::cuda::toolkit::Toolkit;
use crate::session::Session;
use crate::{Error, Result, llvm, tool};

const TRIPLE: &str = "nvptx64-nvidia-cuda";

/// LLVM's number of the calling convention of kernels, `ptx_kernel`.
const PTX_KERNEL: u32 = 71;

/// The architectures that LLVM 22 supports (NVPTX.td). It does not reject others, but writes PTX
/// that cannot be used.
const KNOWN: [&str; 34] = [
    "50", "52", "53", "60", "61", "62", "70", "72", "75", "80", "86", "87", "88", "89", "90", "90a", "100", "100a",
    "100f", "101", "101a", "101f", "103", "103a", "103f", "110", "110a", "110f", "120", "120a", "120f", "121", "121a",
    "121f",
];

/// The library of device functions, `__nv_expf` and so on, with its paths in toolkits.
const LIBDEVICE: [&str; 3] = [
    "nvvm/libdevice/libdevice.10.bc",
    "libdevice/libdevice.10.bc",
    "lib/nvidia-cuda-toolkit/libdevice/libdevice.10.bc",
];

/// LLVM for GPUs.
pub(crate) struct Nvptx {
    libdevice: Option<PathBuf>,
    /// The places that were searched.
    looked: String,
}

impl Nvptx {
    pub(crate) fn new(session: &Session, toolkit: &Toolkit) -> Self {
        LlvmTarget::initialize_nvptx(&InitializationConfig::default());
        let libdevice = toolkit.file(session, &LIBDEVICE);
        if let Some(libdevice) = &libdevice {
            session.tracker.file(libdevice);
        }
        let homes: Vec<String> = toolkit.homes().iter().map(|home| home.display().to_string()).collect();
        let looked = if homes.is_empty() {
            "CUDA_HOME and CUDA_PATH are not set, and no nvcc is in PATH".to_owned()
        } else {
            format!("there is no {} in {}", LIBDEVICE[0], homes.join(" or "))
        };
        Self { libdevice, looked }
    }

    /// Checks that LLVM supports every architecture.
    pub(crate) fn check(architectures: &Architectures, source: &str) -> Result<()> {
        let all = architectures.machine.iter().chain([&architectures.floor]);
        let unknown = all.filter(|arch| !KNOWN.contains(&arch.to_string().as_str()));
        match unknown.min() {
            None => Ok(()),
            Some(unknown) => Err(Error::new(format!(
                "{source}: LLVM does not know the GPU architecture {unknown}; it knows {}",
                KNOWN.join(", ")
            ))),
        }
    }

    /// Compiles to PTX for one architecture.
    pub(crate) fn ptx(
        &self,
        session: &Session,
        index: usize,
        path: &Path,
        architecture: &Architecture,
    ) -> Result<PathBuf> {
        let source = session.name_of(path);
        let ptx = session.product("cuda", index, path, &format!("sm_{architecture}.ptx"));
        let mut recipe = session.recipe("nvptx", &[]);
        recipe.field(llvm::version()).field(&source).field(architecture.to_string());
        recipe.list(self.libdevice.as_ref().map(|path| path.as_os_str().as_encoded_bytes()));
        let tool = format!("LLVM for sm_{architecture}");
        let products = [ptx.clone()];
        let step = Step { recipe: recipe.finish(), source: &source, tool: &tool, products: &products };
        step.make(session, || {
            let mut inputs = vec![Input { path: path.to_owned(), exists: true }];
            llvm::in_context(|context, diagnostics| {
                let module = read(context, session, path, &source)?;
                let machine = machine(architecture)?;
                llvm::prepare(&module, &machine, TRIPLE, &source)?;
                module.verify().map_err(|e| llvm::rejected(&source, &e.to_string()))?;
                kernels(&module, &source)?;
                if self.link(context, &module, &source)? {
                    inputs.extend(self.libdevice.clone().map(|path| Input { path, exists: true }));
                }
                llvm::run_passes(&module, &machine, &source)?;
                llvm::write(&module, &machine, FileType::Assembly, diagnostics, &source, &ptx)
            })?;
            Ok(Ran { printed: String::new(), inputs })
        })?;
        Ok(ptx)
    }

    /// Links the parts of libdevice that the module uses. Returns true if it uses any.
    fn link<'ctx>(&self, context: &'ctx Context, module: &Module<'ctx>, source: &str) -> Result<bool> {
        let needed: Vec<String> = undefined(module).filter(|name| name.starts_with("__nv_")).collect();
        let Some(first) = needed.first() else { return Ok(false) };
        let Some(path) = &self.libdevice else {
            return Err(Error::new(format!(
                "{source}: calls `{first}`, a function of libdevice, which was not found: {}. Install the CUDA toolkit or the \
                 Python package nvidia-nvvm, and set CUDA_HOME to its folder",
                self.looked
            )));
        };
        let bad = |message: String| Error::new(format!("{source}: {}: {message}", path.display()));
        let buffer = MemoryBuffer::create_from_file(path).map_err(|e| bad(e.to_string()))?;
        let libdevice = context.create_module_from_ir(buffer).map_err(|e| bad(e.to_string()))?;
        for name in &needed {
            if libdevice.get_function(name).is_none_or(|function| function.count_basic_blocks() == 0) {
                return Err(bad(format!("it does not define `{name}`")));
            }
        }
        let theirs: Vec<String> = defined(&libdevice).map(|function| name_of(&function)).collect();
        libdevice.set_triple(&module.get_triple());
        libdevice.set_data_layout(&module.get_data_layout());
        module.link_in_module(libdevice).map_err(|e| bad(e.to_string()))?;
        // Unused functions are removed.
        for function in theirs.iter().filter_map(|name| module.get_function(name)) {
            if function.count_basic_blocks() > 0 {
                function.set_linkage(Linkage::Internal);
            }
        }
        // libdevice calls `__nvvm_reflect("__CUDA_FTZ")`, which LLVM replaces by this flag:
        // subnormal numbers are kept.
        let value = context.i32_type().const_zero();
        module.add_basic_value_flag("nvvm-reflect-ftz", inkwell::module::FlagBehavior::Override, value);
        Ok(true)
    }
}

/// Returns the names of the kernels of a file, for machines where it is not compiled.
pub(crate) fn kernel_names(session: &Session, path: &Path) -> Result<Vec<String>> {
    let source = session.name_of(path);
    llvm::in_context(|context, _| {
        let module = read(context, session, path, &source)?;
        kernels(&module, &source)
    })
}

fn read<'ctx>(context: &'ctx Context, session: &Session, path: &Path, source: &str) -> Result<Module<'ctx>> {
    let bytes = std::fs::read(session.package_dir.join(path))
        .map_err(|e| Error::new(format!("{source}: cannot be read: {e}")))?;
    let buffer = MemoryBuffer::create_from_memory_range_copy(&bytes, source);
    context
        .create_module_from_ir(buffer)
        .map_err(|e| Error::new(format!("{source}: LLVM cannot read it\n{}", tool::indented(&e.to_string()))))
}

fn machine(architecture: &Architecture) -> Result<TargetMachine> {
    let triple = TargetTriple::create(TRIPLE);
    let target = LlvmTarget::from_triple(&triple)
        .map_err(|e| Error::new(format!("this LLVM has no code generator for GPUs ({TRIPLE}): {e}")))?;
    let cpu = format!("sm_{architecture}");
    let (level, reloc, model) = (OptimizationLevel::Aggressive, RelocMode::Default, CodeModel::Default);
    target
        .create_target_machine(&triple, &cpu, "", level, reloc, model)
        .ok_or_else(|| Error::new(format!("this LLVM has no code generator for GPUs ({TRIPLE})")))
}

fn name_of(function: &FunctionValue<'_>) -> String {
    function.get_name().to_string_lossy().into_owned()
}

fn defined<'ctx>(module: &Module<'ctx>) -> impl Iterator<Item = FunctionValue<'ctx>> {
    module.get_functions().filter(|function| function.count_basic_blocks() > 0)
}

fn undefined(module: &Module<'_>) -> impl Iterator<Item = String> {
    let functions = module.get_functions().filter(|function| function.count_basic_blocks() == 0);
    functions.map(|function| name_of(&function)).filter(|name| !name.starts_with("llvm."))
}

/// Returns the names of the kernels. Functions that are only marked as kernels in
/// `!nvvm.annotations`, as nvcc and older compilers do, got the calling convention when LLVM read
/// them.
fn kernels(module: &Module<'_>, source: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut others = Vec::new();
    for function in defined(module) {
        if function.get_call_conventions() == PTX_KERNEL {
            // As text, because inkwell does not support kinds of types that LLVM 22 does not have.
            let ty = function.get_type().print_to_string().to_string();
            if !ty.starts_with("void (") {
                return Err(Error::new(format!(
                    "{source}: the kernel `{}` returns a value; a kernel returns void",
                    name_of(&function)
                )));
            }
            names.push(name_of(&function));
        } else if function.get_linkage() == Linkage::External {
            others.push(name_of(&function));
        }
    }
    if !names.is_empty() {
        return Ok(names);
    }
    let hint = match others.first() {
        Some(name) => format!("; it defines `{name}`: is that the kernel?"),
        None => String::new(),
    };
    Err(Error::new(format!(
        "{source}: defines no kernel; a kernel is a function `define ptx_kernel void @<name>(..)`{hint}"
    )))
}
