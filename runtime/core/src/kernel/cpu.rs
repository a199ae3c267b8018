//! CPU kernels that a build script compiled into this library.

use crate::abi::{SafeCall, TVMFFIAny};
use crate::function::{
    Args, Function, ParamInfo, Signature, TypedFunction, guard_nameless, invoke, invoke_as, register_entry_point,
    write_function_metadata,
};
use crate::value::{Access, Any, FromAny, IntoAny, TypeSchema};
use crate::{Result, artifact, module};

/// A CPU kernel (C, C++, LLVM IR), as described by `kernpack-build`.
pub struct KernelInfo {
    /// Exported name: the symbol is `__tvm_ffi_<name>`.
    pub name: &'static str,
    /// Entry point.
    pub call: SafeCall,
    /// Source file, relative to the crate.
    pub source: &'static str,
    /// Text of the comment before the kernel.
    pub doc: &'static str,
    /// Types of its parameters and its result, if they are declared.
    pub types: Option<HostKernelTypes>,
    /// Crate whose build script compiled the kernel.
    pub crate_name: &'static str,
    /// Registers the kernel. A field, so that only artifacts with kernels link that code.
    pub register: fn(&'static KernelInfo) -> Result<()>,
}

/// The declared parameter and result types of a CPU kernel.
pub struct HostKernelTypes {
    /// Names of the parameters.
    pub names: &'static [&'static str],
    /// Type keys of the parameters.
    pub keys: &'static [&'static str],
    /// Element types of tensors, such as `float32`, for each parameter; empty for a parameter that
    /// accepts any.
    pub elements: &'static [&'static str],
    /// Type key of the result.
    pub result: &'static str,
}

/// Registers a kernel as a global function, and the functions that compiled kernels call.
///
/// # Errors
/// Returns a RuntimeError if the name is taken.
pub fn register_kernel(info: &'static KernelInfo) -> Result<()> {
    module::offer_context_symbols()?;
    let KernelInfo { name, source, crate_name, .. } = info;
    let global_name = match name.contains('.') {
        true => (*name).to_owned(),
        false => format!("{crate_name}.{name}"),
    };
    let compiled = format!("Kernel compiled from {source}.");
    let doc = if info.doc.is_empty() { &compiled } else { info.doc };
    let call = artifact::own_entry_point(name, info.call);
    register_entry_point(&global_name, doc, &info.metadata(), call, || format!("{source} (crate {crate_name})"))
}

impl KernelInfo {
    /// The metadata, with types and names of the arguments if they are declared.
    fn metadata(&self) -> String {
        match &self.types {
            Some(types) => write_function_metadata(&types.params(), &TypeSchema::new(types.result), ""),
            None => r#"{"type_schema":"{\"type\":\"ffi.Function\"}"}"#.to_owned(),
        }
    }

    /// The signature as text: `blur(src: Tensor, radius: int)`.
    pub(super) fn shown(&self) -> String {
        let params = self.types.as_ref().map_or(Vec::new(), HostKernelTypes::params);
        Signature::new(self.name, &params).to_string()
    }
}

impl HostKernelTypes {
    fn params(&self) -> Vec<ParamInfo> {
        self.names
            .iter()
            .zip(self.keys)
            .map(|(name, key)| ParamInfo { name, ty: TypeSchema::new(key), access: Access::Keeps })
            .collect()
    }
}

/// A kernel that a build script compiled into this library; called like a [`Function`], but without
/// a lookup.
///
/// The generated module `kernels` has one static for each kernel of `build.rs`. A kernel with
/// declared arguments is also a function in `kernels::typed`, with named and typed parameters.
#[derive(Clone, Copy)]
pub struct Kernel {
    info: &'static KernelInfo,
}

impl core::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Kernel({})", self.name())
    }
}

impl Kernel {
    /// Creates the kernel that `info` describes.
    ///
    /// # Safety
    /// `info.call` follows the ABI's calling convention.
    #[doc(hidden)]
    pub const unsafe fn new(info: &'static KernelInfo) -> Self {
        Self { info }
    }

    /// Exported name.
    pub const fn name(&self) -> &'static str {
        self.info.name
    }

    /// The version of the kernel that runs on this machine: a level such as `x86-64-v3` if build.rs
    /// compiled several (`.multiversion(..)`), else `baseline`.
    pub fn cpu_level(&self) -> &'static str {
        crate::multiversion::level_of(self.info.name, self.info.call)
    }

    pub(super) const fn info(&self) -> &'static KernelInfo {
        self.info
    }

    /// Calls the kernel with a tuple of arguments.
    ///
    /// # Errors
    /// Returns the kernel's error.
    #[inline]
    pub fn call(&self, args: impl Args) -> Result<Any> {
        // SAFETY: the build script found the symbol under the name that the packed calling
        // convention reserves; packed functions of a library get NULL as their handle.
        args.with_raw(|raw| unsafe { invoke(self.info.call, core::ptr::null_mut(), raw) })
    }

    /// Calls the kernel and converts the result.
    ///
    /// # Errors
    /// Returns the kernel's error, or a TypeError if its result has another type.
    #[inline]
    pub fn call_as<R: for<'a> FromAny<'a>>(&self, args: impl Args) -> Result<R> {
        // SAFETY: as in `call`.
        args.with_raw(|raw| unsafe { invoke_as(self.info.call, core::ptr::null_mut(), raw) })
    }

    /// Returns the kernel with its argument tuple and result type fixed.
    pub fn typed<A: Args, R: for<'a> FromAny<'a>>(&self) -> TypedFunction<A, R> {
        self.function().typed()
    }

    /// Returns the kernel as a function object.
    pub fn function(&self) -> Function {
        // SAFETY: as in `call`; the kernel is part of this artifact, which is never unloaded.
        unsafe { Function::from_safe_call(self.info.call) }
    }
}

/// The body of a kernel's documentation symbol.
///
/// # Safety
/// `result` is writable and holds nothing that must be released.
pub unsafe fn kernel_doc(doc: &'static str, result: *mut TVMFFIAny) -> i32 {
    guard_nameless(|| {
        // SAFETY: promised by the caller.
        unsafe { result.write(doc.into_any().into_raw()) };
        Ok(())
    })
}

/// The body of a CPU kernel's metadata symbol.
///
/// # Safety
/// `result` is writable and holds nothing that must be released.
pub unsafe fn host_kernel_metadata(kernel: &KernelInfo, result: *mut TVMFFIAny) -> i32 {
    guard_nameless(|| {
        // SAFETY: promised by the caller.
        unsafe { result.write(kernel.metadata().into_any().into_raw()) };
        Ok(())
    })
}
