use std::sync::OnceLock;

use super::guard_nameless;
use super::handle::{invoke, invoke_as};
use super::info::register_entry_point;
use super::packed::views;
use super::{Args, Function, ParamInfo, write_function_metadata, write_json_string};
use crate::abi::{SafeCall, TVMFFIAny};
use crate::module::device_image::ArgType;
use crate::module::launch::{Extents, LaunchConfig, Signature, launch, metadata, name_arguments};
use crate::value::{Any, FromAny, IntoAny, TypeSchema};
use crate::{Result, exports, module};

/// A host kernel (C, C++, LLVM IR) as `kernpack-build` describes it.
pub struct KernelInfo {
    /// Exported name: the symbol is `__tvm_ffi_<name>`.
    pub name: &'static str,
    /// Entry point.
    pub call: SafeCall,
    /// Source file, relative to the crate.
    pub source: &'static str,
    /// What the comment in front of it says.
    pub doc: &'static str,
    /// Its parameters and its result, where they are declared.
    pub types: Option<HostKernelTypes>,
    /// Crate whose build script compiled it.
    pub crate_name: &'static str,
}

/// What a host kernel is declared to take and to give.
pub struct HostKernelTypes {
    /// Names of the parameters.
    pub names: &'static [&'static str],
    /// Keys of their types.
    pub keys: &'static [&'static str],
    /// Element types of tensors, such as `float32`, for each parameter; empty where every one is taken.
    pub elements: &'static [&'static str],
    /// Key of the result's type.
    pub result: &'static str,
}

impl KernelInfo {
    pub(crate) fn register_global(&'static self) -> Result<()> {
        let name = match self.name.contains('.') {
            true => self.name.to_owned(),
            false => format!("{}.{}", self.crate_name, self.name),
        };
        let compiled = format!("Kernel compiled from {}.", self.source);
        let doc = if self.doc.is_empty() { &compiled } else { self.doc };
        let call = exports::own_entry_point(self.name, self.call);
        register_entry_point(&name, doc, &self.metadata(), call, || {
            format!("{} (crate {})", self.source, self.crate_name)
        })
    }

    /// The stock metadata, with the names of the arguments (`arg_names`) where they are declared.
    fn metadata(&self) -> String {
        match &self.types {
            Some(types) => {
                let names = arg_names(types.names.iter().copied());
                write_function_metadata(&types.params(), &TypeSchema::new(types.result), &names)
            }
            None => r#"{"type_schema":"{\"type\":\"ffi.Function\"}"}"#.to_owned(),
        }
    }

    /// `blur(src: Tensor, radius: int)`.
    pub(super) fn shown(&self) -> String {
        let params = self.types.as_ref().map_or(Vec::new(), HostKernelTypes::params);
        super::info::Signature::new(self.name, &params).to_string()
    }
}

impl HostKernelTypes {
    fn params(&self) -> Vec<ParamInfo> {
        self.names.iter().zip(self.keys).map(|(name, key)| ParamInfo { name, ty: TypeSchema::new(key) }).collect()
    }
}

/// A kernel that a build script compiled into this library; called like a [`Function`], without a lookup.
///
/// The generated module `kernels` has one static for each kernel of `build.rs`. A kernel whose arguments are declared is also a
/// function in `kernels::typed`, whose parameters have names and types.
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

    pub(super) const fn info(&self) -> &'static KernelInfo {
        self.info
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

/// A kernel of a device image, as `kernpack-build` describes it.
pub struct DeviceKernelInfo {
    /// Name in the image.
    pub name: &'static str,
    /// Kind of the image's module.
    pub kind: &'static str,
    /// Whether there is an image.
    pub status: ImageStatus,
    /// What the comment in front of it says, and what its arguments are.
    pub doc: &'static str,
    /// Names of the kernel's own arguments; empty when nothing tells them.
    pub arg_names: &'static [&'static str],
    /// Types of the kernel's own arguments.
    pub arg_types: &'static [ArgType],
    /// Element types of tensors, such as `float32`, for each argument; empty where every one is taken, or nothing tells them.
    pub elements: &'static [&'static str],
    /// Launch parameter tags.
    pub launch_params: &'static [&'static str],
}

/// A kernel in a device image that the library carries. Looked up in the library's imports at the first call.
///
/// The generated module `kernels` has one static for each: `kernels::scale.launch(grid, block, (&out, &input, 2.0, n))`. In
/// `kernels::typed` it is a function whose parameters have names and types.
pub struct DeviceKernel {
    info: &'static DeviceKernelInfo,
    function: OnceLock<Function>,
    signature: OnceLock<Signature>,
}

impl DeviceKernel {
    /// The kernel that `info` describes.
    #[doc(hidden)]
    pub const fn new(info: &'static DeviceKernelInfo) -> Self {
        Self { info, function: OnceLock::new(), signature: OnceLock::new() }
    }

    /// Name in the image.
    pub const fn name(&self) -> &'static str {
        self.info.name
    }

    /// Whether the image was built.
    pub const fn status(&self) -> ImageStatus {
        self.info.status
    }

    pub(super) const fn info(&self) -> &'static DeviceKernelInfo {
        self.info
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
        let DeviceKernelInfo { kind, name, arg_types, arg_names, launch_params, .. } = self.info;
        let signature = Signature::of_parts(kind, name, arg_types, &[], launch_params)?;
        signature.name_arguments(arg_names);
        Ok(self.signature.get_or_init(|| signature))
    }

    /// JSON metadata: the type schema, and the kernel's entry in the function table.
    fn metadata(&self) -> String {
        let DeviceKernelInfo { kind, arg_types, arg_names, launch_params, .. } = self.info;
        metadata::write(kind, arg_types, arg_names, launch_params, &[])
    }

    /// The kernel as a packed function: buffers and scalars in the kernel's order, then the launch extents
    /// blockIdx.x, .y, .z, threadIdx.x, .y, .z, then the dynamic shared memory in bytes if the kernel uses any.
    ///
    /// # Errors
    /// RuntimeError when the image was not built, or the library was not loaded as a module, or the image lacks the kernel.
    pub fn function(&self) -> Result<&Function> {
        let DeviceKernelInfo { kind, name, arg_names, .. } = self.info;
        if let ImageStatus::NotBuilt(why) = self.info.status {
            return Err(crate::error!(RuntimeError, "{kind} kernel '{name}' is not in this library: {why}"));
        }
        if let Some(function) = self.function.get() {
            return Ok(function);
        }
        let function = module::lookup_in_imports(name)?;
        name_arguments(&function, arg_names);
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

/// Body of a kernel's documentation symbol.
///
/// # Safety
/// `result` is writable and holds nothing that would have to be released.
pub unsafe fn kernel_doc(doc: &'static str, result: *mut TVMFFIAny) -> i32 {
    guard_nameless(|| {
        // SAFETY: promised by the caller.
        unsafe { result.write(doc.into_any().into_raw()) };
        Ok(())
    })
}

/// Body of a host kernel's metadata symbol.
///
/// # Safety
/// `result` is writable and holds nothing that would have to be released.
pub unsafe fn host_kernel_metadata(kernel: &KernelInfo, result: *mut TVMFFIAny) -> i32 {
    guard_nameless(|| {
        // SAFETY: promised by the caller.
        unsafe { result.write(kernel.metadata().into_any().into_raw()) };
        Ok(())
    })
}

/// The member `arg_names` of metadata: the names of the arguments, in order.
pub(crate) fn arg_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut out = String::from(",\"arg_names\":[");
    for (index, name) in names.enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_json_string(&mut out, name);
    }
    out.push(']');
    out
}
