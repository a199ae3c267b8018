use super::arguments::Reach;
use super::metadata;
use super::signature::Signature;
use super::{Extents, ImageKernel, LaunchConfig};
use crate::Result;
use crate::abi::{TVMFFIAny, device_type};
use crate::function::{Args, Function, did_you_mean};
use crate::module::device_image::DeviceImage;
use crate::module::{Module, ModuleProperties, operations};
use crate::value::{AnyView, Device};

/// A kernel of a module with its function table entry, to launch it with a grid and a block.
/// Returned by [`Module::kernel`].
pub struct KernelLauncher {
    name: String,
    function: Function,
    /// For kernels that run through another artifact or another language; kernels of this artifact
    /// have their own signature.
    signature: Option<Signature>,
}

impl KernelLauncher {
    /// Name of the kernel.
    #[inline]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the kernel as a packed function: its own arguments, then launch parameters in the
    /// order of the function table.
    #[inline]
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// Launches the kernel with a grid of blocks and blocks of threads; `args` are the kernel's own
    /// arguments. The launch is enqueued in the environment's current stream; this function does
    /// not wait for it.
    ///
    /// # Errors
    /// Returns a TypeError or ValueError that contains the kernel, the argument and the expected
    /// value, or the device's error with the kernel, the device and the configuration of the
    /// launch.
    #[inline]
    pub fn launch(&self, grid: impl Into<Extents>, block: impl Into<Extents>, args: impl Args) -> Result<()> {
        self.launch_with(&LaunchConfig::new(grid, block), args)
    }

    /// Launches the kernel with a full configuration: dynamic shared memory, clusters, a
    /// cooperative launch, ...
    ///
    /// # Errors
    /// As for [`KernelLauncher::launch`], and a ValueError if the configuration has a part that
    /// cannot be passed to the kernel's module.
    #[inline]
    pub fn launch_with(&self, config: &LaunchConfig, args: impl Args) -> Result<()> {
        args.with_raw(|raw| launch(&self.function, || Ok(self.signature.as_ref()), config, raw))
    }
}

impl core::fmt::Debug for KernelLauncher {
    #[inline]
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "KernelLauncher({})", self.name)
    }
}

/// Sets the argument names of a kernel of this artifact, for messages; has no effect on other
/// functions.
#[inline]
pub(crate) fn name_arguments<S: AsRef<str>>(function: &Function, names: &[S]) {
    if let Some(kernel) = ImageKernel::of(function) {
        kernel.name_arguments(names);
    }
}

/// Launches a kernel: one of this artifact directly, any other through a packed call, for which
/// `signature` is called.
#[inline]
pub(crate) fn launch<'s>(
    function: &Function,
    signature: impl FnOnce() -> Result<Option<&'s Signature>>,
    config: &LaunchConfig,
    args: &[TVMFFIAny],
) -> Result<()> {
    // SAFETY: a view is transparent over the raw struct, and arguments are valid views.
    let views = unsafe { core::slice::from_raw_parts(args.as_ptr().cast::<AnyView<'_>>(), args.len()) };
    match ImageKernel::of(function) {
        Some(kernel) => kernel.launch(config, views),
        None => launch_elsewhere(function, signature()?, config, args, views),
    }
}

#[inline]
fn launch_elsewhere(
    function: &Function,
    signature: Option<&Signature>,
    config: &LaunchConfig,
    args: &[TVMFFIAny],
    views: &[AnyView<'_>],
) -> Result<()> {
    let Some(signature) = signature else {
        return Err(crate::error!(RuntimeError, "the launch parameters of the kernel are not known"));
    };
    if let Some(kind) = device_type_of(&signature.kind) {
        let beyond = |device: Device| {
            kind == device_type::CUDA
                && matches!(device.device_type(), device_type::CUDA_MANAGED | device_type::CUDA_HOST)
        };
        let reach = Reach { device_type: kind, beyond: &beyond };
        signature.with_args(views, &reach, || 0, |_, _| Ok(()))?;
    }
    let config = signature.tags.complete(config).map_err(|tag| signature.wrong_extent(tag, 1, "0"))?;
    let values = signature.tags.values(&config).map_err(|tag| {
        crate::error!(
            ValueError,
            "{}: it is called through another library, and its launch parameters have no {tag}; leave that out",
            signature.shown()
        )
    })?;
    let mut all = args.to_vec();
    all.extend(values.map(|value| TVMFFIAny::int(i64::from(value))));
    function.call_raw(&all).map(drop)
}

/// Returns the kind of the devices that modules of a kind run on.
#[inline]
fn device_type_of(kind: &str) -> Option<i32> {
    Some(match kind {
        "cuda" => device_type::CUDA,
        "opencl" => device_type::OPENCL,
        "hip" | "rocm" => device_type::ROCM,
        "vulkan" => device_type::VULKAN,
        "metal" => device_type::METAL,
        "webgpu" => device_type::WEBGPU,
        _ => return None,
    })
}

impl Module {
    /// Returns the kernel of this name, to launch with a grid and a block; the imports are
    /// searched, too. The module may be written in any language, as long as its metadata
    /// (`device_kernel`) or its function table contains the launch parameters.
    ///
    /// ```no_run
    /// use kernpack::{Device, Module, Tensor};
    /// # fn vector() -> Tensor { unimplemented!() }
    /// let (input, output) = (vector(), vector());
    /// let scale = Module::load("libimagekit.so")?.kernel("scale")?;
    /// scale.launch(4, 256, (&output, &input, 2.0, 1000))?;
    /// # Ok::<(), kernpack::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns a KeyError with the nearest names if it does not exist, and a RuntimeError if the
    /// function is not a kernel, or its module cannot be read.
    #[inline]
    pub fn kernel(&self, name: &str) -> Result<KernelLauncher> {
        let launcher = |function, signature| Ok(KernelLauncher { name: name.to_owned(), function, signature });
        let mut other: Option<(Function, Option<Signature>)> = None;
        for module in self.tree() {
            let Some(function) = module.find_function(name)? else { continue };
            if let Some(kernel) = ImageKernel::of(&function) {
                // The library that contains the image may know the names of the arguments.
                if let Some((_, Some(signature))) = &other {
                    kernel.name_arguments(signature.arg_names());
                }
                return launcher(function, None);
            }
            if !module.properties().contains(ModuleProperties::RUNNABLE) {
                // The error says what would run it.
                function.call(())?;
            }
            let known = other.as_ref().is_some_and(|(_, signature)| signature.is_some());
            if !known && let Some(signature) = signature_in(&module, name)? {
                other = Some((function, Some(signature)));
            } else if other.is_none() {
                other = Some((function, None));
            }
        }
        match other {
            Some((function, Some(signature))) => launcher(function, Some(signature)),
            Some(_) => Err(crate::error!(
                RuntimeError,
                "'{name}' is not a kernel: neither its metadata nor the function table of its module tells launch parameters; call it \
                 as a function"
            )),
            None => {
                let names: Vec<String> = self.tree().iter().flat_map(Module::function_names).collect();
                let hint = did_you_mean(name, &mut names.iter().map(String::as_str));
                let kind = self.kind();
                Err(crate::error!(KeyError, "module of kind '{kind}' and its imports have no kernel '{name}'{hint}"))
            }
        }
    }

    /// Returns the module and all of its imports, each once, depth first.
    #[inline]
    fn tree(&self) -> Vec<Module> {
        let mut seen = Vec::new();
        let _ = operations::visit(self, true, &mut |module| {
            seen.push(module.clone());
            Ok(None::<()>)
        });
        seen
    }
}

/// Returns the signature of a module's own function: from its metadata, else from the module's
/// bytes.
#[inline]
fn signature_in(module: &Module, name: &str) -> Result<Option<Signature>> {
    if let Some(metadata) = module.metadata(name)?
        && let Some(signature) = metadata::read(name, &metadata)?
    {
        return Ok(Some(signature));
    }
    let kind = module.kind();
    if device_type_of(&kind).is_none() {
        return Ok(None);
    }
    let payload = module.save_to_bytes()?;
    let image = DeviceImage::parse_as(&kind, &payload)
        .map_err(|error| crate::error!(RuntimeError, "the {kind} module of '{name}' cannot be read: {error}"))?;
    image.kernel(name).map(|kernel| Signature::new(&kind, kernel)).transpose()
}
