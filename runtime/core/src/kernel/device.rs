//! Kernels of the device images in this library.

use std::sync::OnceLock;

use crate::abi::TVMFFIAny;
use crate::function::{Args, Function, guard_nameless, views};
use crate::module::device_image::ArgType;
use crate::module::launch::{Extents, LaunchConfig, Signature, launch, metadata, name_arguments};
use crate::value::{Any, IntoAny};
use crate::{Result, module};

/// Build status of the device image that contains a kernel.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ImageStatus {
    /// The image is in the library.
    Built,
    /// The image was not built; the text gives the reason and the remedy.
    NotBuilt(&'static str),
}

/// A kernel of a device image, as described by `kernpack-build`.
pub struct DeviceKernelInfo {
    /// Name in the image.
    pub name: &'static str,
    /// Kind of the image's module.
    pub kind: &'static str,
    /// Build status of the image.
    pub status: ImageStatus,
    /// Text of the comment before the kernel, with a description of its arguments.
    pub doc: &'static str,
    /// Names of the kernel's own arguments; empty if unknown.
    pub arg_names: &'static [&'static str],
    /// Types of the kernel's own arguments.
    pub arg_types: &'static [ArgType],
    /// Element types of tensors, such as `float32`, for each argument; empty for an argument that
    /// accepts any, or if unknown.
    pub elements: &'static [&'static str],
    /// Launch parameter tags.
    pub launch_params: &'static [&'static str],
}

/// A kernel in a device image of this library. It is looked up in the library's imports at the
/// first call.
///
/// The generated module `kernels` has one static for each kernel:
/// `kernels::scale.launch(grid, block, (&out, &input, 2.0, n))`. In `kernels::typed`, the kernel is
/// a function with named and typed parameters.
pub struct DeviceKernel {
    info: &'static DeviceKernelInfo,
    function: OnceLock<Function>,
    signature: OnceLock<Signature>,
}

impl core::fmt::Debug for DeviceKernel {
    #[inline]
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "DeviceKernel({}, {:?})", self.name(), self.status())
    }
}

impl DeviceKernel {
    /// Creates the kernel that `info` describes.
    #[doc(hidden)]
    #[inline]
    pub const fn new(info: &'static DeviceKernelInfo) -> Self {
        Self { info, function: OnceLock::new(), signature: OnceLock::new() }
    }

    /// Name in the image.
    #[inline]
    pub const fn name(&self) -> &'static str {
        self.info.name
    }

    /// The build status of the image.
    #[inline]
    pub const fn status(&self) -> ImageStatus {
        self.info.status
    }

    #[inline]
    pub(super) const fn info(&self) -> &'static DeviceKernelInfo {
        self.info
    }

    /// Launches the kernel with a grid of blocks and blocks of threads; `args` are the kernel's own
    /// arguments: a tensor for a pointer, a number for a scalar. The launch is enqueued in the
    /// environment's current stream; this function does not wait for it.
    ///
    /// # Errors
    /// As for [`DeviceKernel::function`]. Returns a TypeError or ValueError that contains the
    /// kernel, the argument and the expected value, and the device's error with the kernel, the
    /// device and the configuration of the launch.
    #[inline]
    pub fn launch(&self, grid: impl Into<Extents>, block: impl Into<Extents>, args: impl Args) -> Result<()> {
        self.launch_with(&LaunchConfig::new(grid, block), args)
    }

    /// Launches the kernel with a full configuration: dynamic shared memory, clusters, a
    /// cooperative launch, ...
    ///
    /// # Errors
    /// As for [`DeviceKernel::launch`].
    #[inline]
    pub fn launch_with(&self, config: &LaunchConfig, args: impl Args) -> Result<()> {
        let function = self.function()?;
        args.with_raw(|raw| launch(function, || self.signature().map(Some), config, raw))
    }

    /// The signature, for a provider that launches kernels itself.
    #[cold]
    #[inline]
    fn signature(&self) -> Result<&Signature> {
        if let Some(signature) = self.signature.get() {
            return Ok(signature);
        }
        let DeviceKernelInfo { kind, name, arg_types, arg_names, launch_params, .. } = self.info;
        let signature = Signature::of_parts(kind, name, arg_types, &[], launch_params)?;
        signature.name_arguments(arg_names);
        Ok(self.signature.get_or_init(|| signature))
    }

    /// JSON metadata: the type schema, names and types of the arguments, and the launch parameters;
    /// the same as [`Module::metadata`](crate::Module::metadata) of a loaded library.
    #[inline]
    pub fn metadata(&self) -> String {
        let DeviceKernelInfo { kind, arg_types, arg_names, launch_params, .. } = self.info;
        metadata::write(kind, arg_types, arg_names, launch_params, &[])
    }

    /// Returns the kernel as a packed function. Its arguments are buffers and scalars in the
    /// kernel's order, then the launch extents blockIdx.x, .y, .z, threadIdx.x, .y, .z, then the
    /// dynamic shared memory in bytes if the kernel uses any.
    ///
    /// # Errors
    /// Returns a RuntimeError if the image was not built, or does not contain the kernel.
    #[inline]
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

    /// Launches the kernel with a tuple of arguments; see [`DeviceKernel::function`] for their
    /// order.
    ///
    /// # Errors
    /// As for [`DeviceKernel::function`], and the launch's error.
    #[inline]
    pub fn call(&self, args: impl Args) -> Result<Any> {
        self.function()?.call(args)
    }
}

/// The body of a device kernel's symbol in the library: looks up the kernel and launches it.
///
/// # Safety
/// `args` points to `num_args` valid views that live for the call, and `result` is writable and
/// holds nothing that must be released: the ABI's calling convention.
#[inline]
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

/// The body of a device kernel's metadata symbol.
///
/// # Safety
/// `result` is writable and holds nothing that must be released.
#[inline]
pub unsafe fn device_kernel_metadata(kernel: &DeviceKernel, result: *mut TVMFFIAny) -> i32 {
    guard_nameless(|| {
        // SAFETY: promised by the caller.
        unsafe { result.write(kernel.metadata().into_any().into_raw()) };
        Ok(())
    })
}
