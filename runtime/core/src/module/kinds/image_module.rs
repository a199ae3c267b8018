//! The module of a device image, for all kinds.

use std::sync::Arc;

use super::own_loader;
use crate::function::{Function, did_you_mean};
use crate::module::Module;
use crate::module::device_image::{DeviceImage, OwnedImage};
use crate::module::implementation::{ModuleImpl, ModuleProperties};
use crate::module::launch::{DeviceCode, ImageKernel, metadata, set_current_device};
use crate::module::object::new_module;
use crate::value::{Bytes, Device, Str};
use crate::{Error, Result};

/// A restored image. The payload is kept unchanged, so saving it gives the same bytes.
struct ImageModule {
    kind: &'static str,
    image: OwnedImage,
    runner: Runner,
}

/// The implementation that runs the kernels.
enum Runner {
    #[cfg_attr(
        not(any(feature = "cuda", feature = "opencl")),
        allow(dead_code, reason = "what runs code comes with features")
    )]
    Code(Arc<dyn DeviceCode>),
    /// Code that does not run here; the text says what would run it.
    Elsewhere(&'static str),
}

/// Creates the module of an image: it implements functions, metadata, `save_to_bytes` (the original
/// bytes), `write_to_file` and `inspect_source`; `code` does the rest.
///
/// # Errors
/// Returns a RuntimeError if the payload is not an image of the kind, or the error of `code`.
#[cfg_attr(
    not(any(feature = "cuda", feature = "opencl")),
    allow(dead_code, reason = "what runs code comes with features")
)]
#[inline]
pub(crate) fn image_module(
    kind: &'static str,
    payload: Bytes,
    code: impl FnOnce(&OwnedImage) -> Result<Arc<dyn DeviceCode>>,
) -> Result<Module> {
    let image = parse(kind, payload)?;
    let runner = Runner::Code(code(&image)?);
    Ok(new_module(ImageModule { kind, image, runner }))
}

/// Creates the module of an image that is stored but does not run here; `why` says what would run
/// it.
#[inline]
pub(in crate::module) fn stored_image_module(kind: &'static str, payload: Bytes, why: &'static str) -> Result<Module> {
    let image = parse(kind, payload)?;
    Ok(new_module(ImageModule { kind, image, runner: Runner::Elsewhere(why) }))
}

#[inline]
fn parse(kind: &'static str, payload: Bytes) -> Result<OwnedImage> {
    OwnedImage::parse(kind, payload).map_err(|error| crate::error!(RuntimeError, "corrupt {kind} module: {error}"))
}

impl Module {
    /// Creates a module from a device image that the program has built: source code, or a
    /// compiler's output. `kind` is `cuda`, `opencl`, ...; the module can be launched, imported and
    /// saved like one that was loaded from a library.
    ///
    /// ```
    /// use kernpack::Module;
    /// use kernpack::module::device_image::{ArgType, DeviceFunction, DeviceImage};
    ///
    /// let fill = DeviceFunction::new("fill", vec![ArgType::POINTER, ArgType::FLOAT32], false);
    /// let source = b"kernel void fill(device float* out [[buffer(0)]], constant float& value [[buffer(1)]]) {}";
    /// let image = DeviceImage::with_codes("metal", vec![fill], vec![("fill", source)]);
    /// let module = Module::from_image("metal", &image)?;
    /// assert_eq!(module.function_names(), ["fill"]);
    /// assert_eq!(*module.save_to_bytes()?, *image.to_vec());
    /// # Ok::<(), kernpack::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns a ValueError if the kind is not one of device images, if the image does not have the
    /// layout of the kind, or if no code in this process makes modules of it: `cuda` and `opencl`
    /// need the Cargo features of the same names. Returns the kind's error.
    #[inline]
    pub fn from_image(kind: &str, image: &DeviceImage<'_>) -> Result<Self> {
        image.check_kind(kind).map_err(|why| crate::error!(ValueError, "modules of kind '{kind}' {why}"))?;
        let loader = match own_loader(kind) {
            Some(loader) => loader,
            None => {
                let name = format!("ffi.Module.load_from_bytes.{kind}");
                Function::find_global(&name)?.ok_or_else(|| {
                    let needed = if matches!(kind, "cuda" | "opencl") { kind } else { "embedded" };
                    crate::error!(
                        ValueError,
                        "nothing in this process makes modules of kind '{kind}'; switch on kernpack's feature '{needed}', or load a \
                         library that registers {name}"
                    )
                })?
            }
        };
        loader.call_as((Bytes::from(image.to_vec()),))
    }
}

/// Function that the host's half of compiled code calls before it launches kernels, with the kind
/// and index of their device, because it passes plain pointers, which do not say where they are.
///
/// Apache TVM's runtime has a global function of this name, and ends the process if the name is
/// taken, so it is not registered here. Compiled code searches its imports first, so it finds the
/// function of the module that launches its kernels, whatever implements the ABI in this process.
const SET_DEVICE: &str = "__tvm_set_device";

#[inline]
fn set_device() -> Function {
    Function::from_fn(|kind: i32, index: i32| set_current_device(Device::new(kind, index)))
}

impl ModuleImpl for ImageModule {
    #[inline]
    fn kind(&self) -> &str {
        self.kind
    }

    #[inline]
    fn properties(&self) -> ModuleProperties {
        match self.runner {
            Runner::Code(_) => ModuleProperties::BINARY_SERIALIZABLE | ModuleProperties::RUNNABLE,
            Runner::Elsewhere(_) => ModuleProperties::BINARY_SERIALIZABLE,
        }
    }

    #[inline]
    fn find_function(&self, name: &str) -> Result<Option<Function>> {
        let Some(kernel) = self.image.kernel(name) else {
            return Ok((name == SET_DEVICE).then(set_device));
        };
        match &self.runner {
            Runner::Code(code) => {
                ImageKernel::new(self.kind, &kernel, Arc::clone(code)).map(|kernel| Some(kernel.into_function()))
            }
            Runner::Elsewhere(why) => {
                let message = format!("{} kernel '{name}' cannot run here: {why}", self.kind);
                Ok(Some(Function::from_packed(move |_| Err(Error::runtime_error(&message)))))
            }
        }
    }

    #[inline]
    fn implements_function(&self, name: &str) -> Result<bool> {
        Ok(self.image.has_kernel(name))
    }

    #[inline]
    fn function_metadata(&self, name: &str) -> Result<Option<Str>> {
        let Some(kernel) = self.image.kernel(name) else { return Ok(None) };
        let metadata = metadata::write(self.kind, &kernel.arg_types, &[], &kernel.launch_params, &kernel.extra_tags);
        Ok(Some(Str::new(&metadata)))
    }

    #[inline]
    fn function_names(&self) -> Vec<String> {
        self.image.names().map(str::to_owned).collect()
    }

    #[inline]
    fn save_to_bytes(&self) -> Result<Bytes> {
        Ok(self.image.payload().clone())
    }

    /// The image's format. Separate pieces of machine code cannot be written as one file.
    #[inline]
    fn write_formats(&self) -> Vec<String> {
        let own = self.image.format();
        let one_file = self.image.is_whole() || is_source(own);
        one_file.then(|| own.to_owned()).into_iter().collect()
    }

    #[inline]
    fn write_to_file(&self, path: &str, format: &str) -> Result<()> {
        let own = self.image.format();
        if self.write_formats().is_empty() {
            return Err(crate::error!(
                RuntimeError,
                "each kernel of this {} module has a piece of {own} code of its own, which do not go into one file; use \
                 save_to_bytes",
                self.kind
            ));
        }
        // Without a format, the file's extension determines it, as in TVM.
        let extension = || std::path::Path::new(path).extension().and_then(|extension| extension.to_str());
        let wanted = if format.is_empty() { extension().unwrap_or_default() } else { format };
        if !is_named(own, wanted) {
            let hint = did_you_mean(wanted, &mut [own].into_iter());
            return Err(crate::error!(ValueError, "the image is in format '{own}', not '{wanted}'{hint}"));
        }
        Ok(std::fs::write(path, self.image.all_code())?)
    }

    #[inline]
    fn inspect_source(&self, format: &str) -> Result<String> {
        let own = self.image.format();
        if !is_source(own) || !(format.is_empty() || is_named(own, format)) {
            return Ok(String::new());
        }
        Ok(String::from_utf8_lossy(&self.image.all_code()).into_owned())
    }
}

/// Returns whether code in a format is human-readable text.
#[inline]
fn is_source(format: &str) -> bool {
    matches!(format, "ptx" | "cuda" | "cl" | "metal" | "wgsl")
}

/// Returns whether a name, or a file's extension, denotes a format.
#[inline]
fn is_named(format: &str, name: &str) -> bool {
    format == name || (format == "cuda" && name == "cu")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::device_image::{ArgType, DeviceFunction};
    use crate::module::library_bin::LibraryBin;

    fn message<T>(result: Result<T>) -> String {
        let error = result.map(drop).unwrap_err();
        format!("{}: {}", error.kind(), error.message())
    }

    /// Restores images that TVM wrote, and saves them again.
    #[test]
    #[cfg(feature = "embedded")]
    fn kept_kinds_keep_every_byte() {
        for (kind, blob, format) in [
            ("metal", &include_bytes!("../../../../testdata/scale_metal.library_bin")[..], "metal"),
            ("webgpu", include_bytes!("../../../../testdata/scale_webgpu.library_bin"), "wgsl"),
        ] {
            let payload = LibraryBin::parse(blob).unwrap().modules()[1].payload().unwrap();
            let load = own_loader(kind).unwrap();
            let module: Module = load.call_as((payload,)).unwrap();
            assert_eq!((module.kind().as_str(), module.properties().bits()), (kind, 1));
            assert_eq!(*module.save_to_bytes().unwrap(), *payload);
            assert_eq!(module.function_names(), ["main_kernel", "other_kernel"]);
            assert!(module.implements_function("main_kernel").unwrap());
            assert!(!module.implements_function("main").unwrap());
            let metadata = module.metadata("other_kernel").unwrap().unwrap();
            assert!(metadata.contains(r#""arg_types":["handle","handle","int32"]"#), "{metadata}");
            let source = module.inspect_source("").unwrap();
            assert!(source.contains("main_kernel") && source.contains("other_kernel"));
            assert_eq!(module.inspect_source(format).unwrap(), source);
            assert_eq!(module.inspect_source("ptx").unwrap(), "");
            let error = message(module.function("other_kernel").unwrap().call(()));
            assert!(
                error.starts_with(&format!("RuntimeError: {kind} kernel 'other_kernel' cannot run here: it needs a")),
                "{error}"
            );
            let wrong = load.call_as::<Module>((&payload[1..],)).map(drop).unwrap_err();
            assert!(wrong.message().starts_with(&format!("corrupt {kind} module: device image: ")), "{wrong}");
        }
    }

    #[test]
    #[cfg(feature = "embedded")]
    fn files_and_sources() {
        let folder = std::env::temp_dir().join(format!("kernpack-image-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        let whole = |format| DeviceImage::new(format, vec![], b"code");
        let module = Module::from_image("hip", &whole("hsaco")).unwrap();
        module.write_to_file(path("a.hsaco"), "hsaco").unwrap();
        module.write_to_file(path("b.hsaco"), "").unwrap();
        assert_eq!(std::fs::read(folder.join("a.hsaco")).unwrap(), b"code");
        assert_eq!(std::fs::read(folder.join("b.hsaco")).unwrap(), b"code");
        assert_eq!(module.inspect_source("").unwrap(), "", "machine code is not source");
        for (name, format, expected) in [
            ("a.hsac", "", "ValueError: the image is in format 'hsaco', not 'hsac'; did you mean 'hsaco'?"),
            ("a", "ptx", "ValueError: the image is in format 'hsaco', not 'ptx'"),
            ("a", "", "ValueError: the image is in format 'hsaco', not ''"),
        ] {
            assert_eq!(message(module.write_to_file(path(name), format)), expected);
        }
        let pieces = DeviceImage::with_codes("metal", vec![], vec![("f", b"kernel f;"), ("g", b"kernel g;")]);
        let module = Module::from_image("metal", &pieces).unwrap();
        module.write_to_file(path("c.metal"), "").unwrap();
        assert_eq!(std::fs::read(folder.join("c.metal")).unwrap(), b"kernel f;kernel g;");
        let spirv = DeviceImage::with_codes("vulkan", vec![], vec![("f", b"\x07\x23")]);
        let module = Module::from_image("vulkan", &spirv).unwrap();
        assert_eq!(
            message(module.write_to_file(path("d.spv"), "vulkan")),
            "RuntimeError: each kernel of this vulkan module has a piece of vulkan code of its own, which do not go into one file; use \
             save_to_bytes"
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn images_that_make_no_module() {
        let kernel = || DeviceFunction::new("f", vec![ArgType::POINTER], false);
        for (kind, image, expected) in [
            (
                "library",
                DeviceImage::new("cl", vec![], b""),
                "ValueError: modules of kind 'library' are not device images",
            ),
            (
                "hip",
                DeviceImage::new("hsaco", vec![kernel(), kernel()], b""),
                "RuntimeError: corrupt hip module: device image: kernel table at byte 0xb6: \"f\" is in it twice",
            ),
        ] {
            assert_eq!(message(Module::from_image(kind, &image)), expected);
        }
    }
}
