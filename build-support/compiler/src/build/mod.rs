//! Modules of functions that are compiled at run time.

mod device;

pub use device::{DeviceVersion, build_device, device_version};

use core::any::Any;
use std::sync::{Arc, OnceLock};

use kernpack::module::{LlvmCode, LlvmModule, code_symbols, connect_code, function_of_code};
use kernpack::sys::abi::SafeCall;
use kernpack::{Function, Module};

use crate::codegen::Target;
use crate::codegen::llvm::{Compiled, PREFIX, assembly, compile, jit::Jit, text};
use crate::error::{CompileError, ErrorKind, Result, fail};
use crate::ir::{IrModule, LoweredFunc};

/// The argument of [`build`]: a module, or functions.
pub trait IntoIrModule {
    /// Converts to a module.
    fn into_ir_module(self) -> IrModule;
}

impl IntoIrModule for IrModule {
    fn into_ir_module(self) -> IrModule {
        self
    }
}

impl IntoIrModule for &IrModule {
    fn into_ir_module(self) -> IrModule {
        self.clone()
    }
}

impl IntoIrModule for &[LoweredFunc] {
    fn into_ir_module(self) -> IrModule {
        IrModule::new(self.iter().cloned())
    }
}

impl<const N: usize> IntoIrModule for [LoweredFunc; N] {
    fn into_ir_module(self) -> IrModule {
        IrModule::new(self)
    }
}

impl IntoIrModule for &LoweredFunc {
    fn into_ir_module(self) -> IrModule {
        IrModule::new([self.clone()])
    }
}

/// Compiles functions to a module of kind `llvm`, whose packed functions can be called immediately
/// if the target is this machine.
///
/// The module can be inspected as `ll`, `asm` and `bc` (in hexadecimal), written as `o`, `s`, `ll`
/// and `bc` (and `kir`, if the target has `debug`), and is linked into the library to which it is
/// exported. The code is freed when the module and all of its functions are dropped, unless it
/// calls packed functions.
///
/// ```
/// use kernpack_compiler::ir::{Buffer, Expr, F32, ForKind, FuncKind, LoweredFunc, LoweredFuncNode, POINTER, Param, ParamNode, Stmt, Var};
/// use kernpack_compiler::{build, codegen::Target};
///
/// let n = Var::size("n", kernpack_compiler::ir::I64);
/// let (a, i) = (Buffer::new("a", F32, [n.expr().clone()], "global"), Var::index("i"));
/// let double = Stmt::store(a.clone(), &i, Expr::load(&a, &i) * 2.0);
/// let function = LoweredFunc::from_node(LoweredFuncNode {
///     name: "double_all".into(),
///     params: [Param::from_node(ParamNode { var: Var::new("a", POINTER), buffer: Some(a), output: true })].into_iter().collect(),
///     ret: POINTER,
///     kind: FuncKind::Mixed,
///     thread_axes: Default::default(),
///     body: Stmt::for_loop(i, 0, &n, ForKind::Serial, double),
///     attrs: Default::default(),
/// });
/// # let function = kernpack_compiler::ir::LoweredFunc::from_node(LoweredFuncNode { ret: kernpack_compiler::codegen::c::nothing(), ..function.to_node() });
/// let module = build(&function, &Target::host())?;
/// let tensor = kernpack::Tensor::from_slice(&[1.0f32, 2.5], &[2])?;
/// module.function("double_all")?.call((&tensor,))?;
/// assert_eq!(tensor.view::<f32>()?.to_vec(), [2.0, 5.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns an error for a program that cannot be lowered for the target, and the errors of LLVM.
pub fn build(functions: impl IntoIrModule, target: &Target) -> Result<Module> {
    let functions = functions.into_ir_module();
    if target.kind != "llvm" {
        fail!(Target, "modules that can be called are made for targets of kind `llvm`, not `{}`", target.kind);
    }
    let prefix = functions.attrs.get("system_lib_prefix").and_then(|prefix| prefix.to::<kernpack::Str>().ok());
    let compiled = compile(&functions, target)?;
    let is_here = target.arch() == std::env::consts::ARCH && target.triple.contains(std::env::consts::OS);
    let jit = if is_here { Some(Arc::new(Jit::link(&compiled.object, target, &code_symbols())?)) } else { None };
    let system_prefix = prefix.map(|prefix| prefix.as_str().to_owned());
    let code = Code { compiled, target: target.clone(), jit: jit.clone(), system_prefix, assembly: OnceLock::new() };
    let module = Module::new(LlvmModule(code));
    if let Some(jit) = jit {
        // Symbols that the code does not define are not an error: the code defines the variables
        // that it reads.
        let symbol = |name: &str| jit.symbol(name).unwrap_or(core::ptr::null_mut());
        connect_code(&module, symbol)?;
        // For a system library: registers its symbols with the runtime.
        if let Ok(startup) = jit.symbol("__tvm_module_startup")
            && !startup.is_null()
        {
            // SAFETY: the generator's own function of this type, whose module is kept for it.
            unsafe { core::mem::transmute::<*mut core::ffi::c_void, extern "C" fn()>(startup)() };
            core::mem::forget(module.clone());
        }
    }
    Ok(module)
}

/// Compiled functions, with their target.
struct Code {
    compiled: Compiled,
    target: Target,
    /// The code in memory, if the target is this machine.
    jit: Option<Arc<Jit>>,
    system_prefix: Option<String>,
    assembly: OnceLock<String>,
}

fn runtime(error: CompileError) -> kernpack::Error {
    kernpack::Error::runtime_error(error.to_string())
}

impl Code {
    fn packed(&self, name: &str) -> Result<Function> {
        let Some(jit) = &self.jit else {
            return Err(CompileError::new(
                ErrorKind::Target,
                format!("the module is for {}; export it and load the library there", self.target.triple),
            ));
        };
        let address = jit.symbol(&format!("{PREFIX}{name}"))?;
        let owner: Arc<dyn Any + Send + Sync> = Arc::clone(jit) as _;
        // SAFETY: the generator emits functions with this prefix with this type; the code lives as
        // long as the owner.
        Ok(unsafe { function_of_code(core::mem::transmute::<*mut core::ffi::c_void, SafeCall>(address), owner) })
    }
}

impl LlvmCode for Code {
    fn triple(&self) -> &str {
        &self.target.triple
    }

    fn functions(&self) -> &[String] {
        &self.compiled.functions
    }

    fn function(&self, name: &str) -> kernpack::Result<Function> {
        self.packed(name).map_err(runtime)
    }

    fn object(&self) -> kernpack::Result<Vec<u8>> {
        Ok(self.compiled.object.clone())
    }

    fn assembly(&self) -> kernpack::Result<String> {
        if let Some(known) = self.assembly.get() {
            return Ok(known.clone());
        }
        let made = assembly(&self.compiled.bitcode, &self.target).map_err(runtime)?;
        Ok(self.assembly.get_or_init(|| made).clone())
    }

    fn text(&self) -> kernpack::Result<String> {
        text(&self.compiled.bitcode, &self.target).map_err(runtime)
    }

    fn bitcode(&self) -> &[u8] {
        &self.compiled.bitcode
    }

    /// The text to which the line tables of a target with `debug` refer.
    fn listing(&self) -> Option<&str> {
        self.compiled.listing.as_deref()
    }

    fn system_prefix(&self) -> Option<&str> {
        self.system_prefix.as_deref()
    }
}
