use std::sync::OnceLock;

use super::guard_nameless;
use super::handle::{invoke, invoke_as};
use super::info::register_entry_point;
use super::packed::views;
use super::{Args, Function};
use crate::abi::{SafeCall, TVMFFIAny};
use crate::module::device_image::ArgType;
use crate::module::launch::{Extents, LaunchConfig, Signature, launch, metadata};
use crate::value::{Any, FromAny, IntoAny};
use crate::{Result, exports, module};

/// A host kernel (C, C++, LLVM IR) as `kernpack-build` describes it.
pub struct KernelInfo {
    /// Exported name: the symbol is `__tvm_ffi_<name>`.
    pub name: &'static str,
    /// Name in the global registry, if any.
    pub global_name: Option<&'static str>,
    /// Entry point.
    pub call: SafeCall,
    /// Source file, relative to the crate.
    pub source: &'static str,
    /// Crate whose build script compiled it.
    pub crate_name: &'static str,
}

impl KernelInfo {
    pub(crate) fn register_global(&'static self) -> Result<()> {
        let Some(name) = self.global_name else { return Ok(()) };
        let doc = format!("Kernel compiled from {}.", self.source);
        let call = exports::own_entry_point(self.name, self.call);
        register_entry_point(name, &doc, "{\"type_schema\":\"{\\\"type\\\":\\\"ffi.Function\\\"}\"}", call, || {
            format!("{} (crate {})", self.source, self.crate_name)
        })
    }
}

/// A kernel that a build script compiled into this library; called like a [`Function`], without a lookup.
///
/// The generated module `kernels` has one static for each kernel of `build.rs`.
#[derive(Clone, Copy)]
pub struct Kernel {
    info: &'static KernelInfo,
}

impl Kernel {
    /// The kernel that `info` describes.
    ///
    /// # Safety
    /// `info.call` follows the ABI's calling convention.
    pub const unsafe fn new(info: &'static KernelInfo) -> Self {
        Self { info }
    }

    /// Exported name.
    pub const fn name(&self) -> &'static str {
        self.info.name
    }

    /// Which version of the kernel runs on this machine: a level such as `x86-64-v3` where build.rs made several
    /// (`.multiversion(..)`), else `baseline`.
    pub fn cpu_level(&self) -> &'static str {
        crate::multiversion::level_of(self.info.name, self.info.call)
    }

    /// Calls with a tuple of arguments.
    ///
    /// # Errors
    /// What the kernel raises.
    #[inline]
    pub fn call(&self, args: impl Args) -> Result<Any> {
        // SAFETY: the build script found the symbol under the name that the packed calling convention reserves; packed
        // functions of a library get NULL as their handle.
        args.with_raw(|raw| unsafe { invoke(self.info.call, core::ptr::null_mut(), raw) })
    }

    /// Calls and converts the result.
    ///
    /// # Errors
    /// What the kernel raises, or TypeError when its result has another type.
    #[inline]
    pub fn call_as<R: for<'a> FromAny<'a>>(&self, args: impl Args) -> Result<R> {
        // SAFETY: as in `call`.
        args.with_raw(|raw| unsafe { invoke_as(self.info.call, core::ptr::null_mut(), raw) })
    }

    /// The kernel with its argument tuple and result type fixed.
    pub fn typed<A: Args, R: for<'a> FromAny<'a>>(&self) -> super::TypedFunction<A, R> {
        self.function().typed()
    }

    /// The kernel as a function object, to hand on.
    pub fn function(&self) -> Function {
        // SAFETY: as in `call`; the kernel is part of this artifact, which is never unloaded.
        unsafe { Function::from_safe_call(self.info.call) }
    }
}

/// Whether a build script made the device image that a kernel is in.
#[derive(Clone, Copy, Debug)]
pub enum ImageStatus {
    /// The image is in the library.
    Built,
    /// It is not; the text says why and what to do.
    NotBuilt(&'static str),
}

/// What the function table says of a kernel, as generated code has it.
pub struct KernelTypes {
    /// The kernel's own arguments.
    pub args: &'static [ArgType],
    /// Launch parameter tags.
    pub launch: &'static [&'static str],
}

/// A kernel in a device image that the library carries. Looked up in the library's imports at the first call.
///
/// The generated module `kernels` has one static for each: `kernels::scale.launch(grid, block, (&out, &input, 2.0, n))`.
pub struct DeviceKernel {
    name: &'static str,
    kind: &'static str,
    status: ImageStatus,
    types: KernelTypes,
    function: OnceLock<Function>,
    signature: OnceLock<Signature>,
}

impl DeviceKernel {
    /// The kernel `name` in the image of module kind `kind`.
    #[doc(hidden)]
    pub const fn new(name: &'static str, kind: &'static str, status: ImageStatus, types: KernelTypes) -> Self {
        Self { name, kind, status, types, function: OnceLock::new(), signature: OnceLock::new() }
    }

    /// Name in the image.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Whether the image was built.
    pub const fn status(&self) -> ImageStatus {
        self.status
    }

    /// Launches the kernel with a grid of blocks and blocks of threads; `args` are the kernel's own arguments: a tensor for a pointer, a
    /// number for a scalar. The launch is put into the stream of the environment; this does not wait for it.
    ///
    /// # Errors
    /// As for [`DeviceKernel::function`]; TypeError and ValueError that name the kernel, the argument and what was expected; what the
    /// device reports, with the kernel, the device and the configuration of the launch.
    #[inline]
    pub fn launch(&self, grid: impl Into<Extents>, block: impl Into<Extents>, args: impl Args) -> Result<()> {
        self.launch_with(&LaunchConfig::new(grid, block), args)
    }

    /// Launches the kernel with dynamic shared memory, in clusters, cooperatively, ...
    ///
    /// # Errors
    /// As for [`DeviceKernel::launch`].
    #[inline]
    pub fn launch_with(&self, config: &LaunchConfig, args: impl Args) -> Result<()> {
        let function = self.function()?;
        args.with_raw(|raw| launch(function, || self.signature().map(Some), config, raw))
    }

    /// The signature, for a host that launches kernels in its own way.
    #[cold]
    fn signature(&self) -> Result<&Signature> {
        if let Some(signature) = self.signature.get() {
            return Ok(signature);
        }
        let signature = Signature::of_parts(self.kind, self.name, self.types.args, &[], self.types.launch)?;
        Ok(self.signature.get_or_init(|| signature))
    }

    /// JSON metadata: the type schema, and the kernel's entry in the function table.
    fn metadata(&self) -> String {
        metadata::write(self.kind, self.types.args, self.types.launch, &[])
    }

    /// The kernel as a packed function: buffers and scalars in the kernel's order, then the launch extents
    /// blockIdx.x, .y, .z, threadIdx.x, .y, .z, then the dynamic shared memory in bytes if the kernel uses any.
    ///
    /// # Errors
    /// RuntimeError when the image was not built, or the library was not loaded as a module, or the image lacks the kernel.
    pub fn function(&self) -> Result<&Function> {
        if let ImageStatus::NotBuilt(why) = self.status {
            return Err(crate::error!(
                RuntimeError,
                "{} kernel '{}' is not in this library: {why}",
                self.kind,
                self.name
            ));
        }
        if let Some(function) = self.function.get() {
            return Ok(function);
        }
        let function = module::lookup_in_imports(self.name)?;
        Ok(self.function.get_or_init(|| function))
    }

    /// Launches with a tuple of arguments; see [`DeviceKernel::function`] for their order.
    ///
    /// # Errors
    /// As for [`DeviceKernel::function`], and what the launch reports.
    pub fn call(&self, args: impl Args) -> Result<Any> {
        self.function()?.call(args)
    }
}

/// Body of a device kernel's symbol in the library: looks the kernel up and launches it.
///
/// # Safety
/// `args` points to `num_args` valid views that live for the call, and `result` is writable and holds nothing that would
/// have to be released: the ABI's calling convention.
pub unsafe fn call_device_kernel(
    kernel: &DeviceKernel,
    args: *const TVMFFIAny,
    num_args: i32,
    result: *mut TVMFFIAny,
) -> i32 {
    guard_nameless(|| {
        // SAFETY: promised by the caller.
        unsafe {
            result.write(kernel.call(views(args, num_args))?.into_raw());
        }
        Ok(())
    })
}

/// Body of a device kernel's metadata symbol.
///
/// # Safety
/// `result` is writable and holds nothing that would have to be released.
pub unsafe fn device_kernel_metadata(kernel: &DeviceKernel, result: *mut TVMFFIAny) -> i32 {
    guard_nameless(|| {
        // SAFETY: promised by the caller.
        unsafe { result.write(kernel.metadata().into_any().into_raw()) };
        Ok(())
    })
}
