//! The module of a device image: one for all kinds.

use std::sync::Arc;

use super::Module;
use super::device_image::OwnedImage;
use super::implementation::{ModuleImpl, ModuleProperties, new_module};
use super::launch::{DeviceCode, ImageKernel};
use crate::Result;
use crate::function::{Function, did_you_mean};
use crate::value::Bytes;

/// A restored image. The payload stays as it came, so saving it gives the same bytes.
struct ImageModule {
    kind: &'static str,
    image: OwnedImage,
    runner: Runner,
}

/// What runs the kernels.
enum Runner {
    Code(Arc<dyn DeviceCode>),
    /// Nothing here; the text says what would.
    Elsewhere(&'static str),
}

/// The module of an image: functions, metadata, `save_to_bytes` (the very bytes), `write_to_file`, `inspect_source`; `code` does the
/// rest.
///
/// # Errors
/// RuntimeError when the payload is no image of the kind; what `code` reports.
pub(crate) fn image_module(
    kind: &'static str,
    payload: Bytes,
    code: impl FnOnce(&OwnedImage) -> Result<Arc<dyn DeviceCode>>,
) -> Result<Module> {
    let image = parse(kind, payload)?;
    let runner = Runner::Code(code(&image)?);
    Ok(new_module(ImageModule { kind, image, runner }))
}

/// The module of an image that is kept, and does not run here; `why` says what would run it.
pub(super) fn kept_image_module(kind: &'static str, payload: Bytes, why: &'static str) -> Result<Module> {
    let image = parse(kind, payload)?;
    Ok(new_module(ImageModule { kind, image, runner: Runner::Elsewhere(why) }))
}

fn parse(kind: &'static str, payload: Bytes) -> Result<OwnedImage> {
    OwnedImage::parse(kind, payload).map_err(|error| crate::error!(RuntimeError, "corrupt {kind} module: {error}"))
}

impl ModuleImpl for ImageModule {
    fn kind(&self) -> &str {
        self.kind
    }

    fn properties(&self) -> ModuleProperties {
        ModuleProperties::BINARY_SERIALIZABLE | ModuleProperties::RUNNABLE
    }

    fn get_function(&self, name: &str) -> Result<Option<Function>> {
        let Some(kernel) = self.image.kernel(name) else { return Ok(None) };
        match &self.runner {
            Runner::Code(code) => {
                ImageKernel::new(self.kind, &kernel, Arc::clone(code)).map(|kernel| Some(kernel.into_function()))
            }
            Runner::Elsewhere(why) => {
                let message = format!("{} kernel '{name}' can not run here: {why}", self.kind);
                Ok(Some(Function::from_packed(move |_| Err(crate::Error::runtime_error(&message)))))
            }
        }
    }

    fn implements_function(&self, name: &str) -> Result<bool> {
        Ok(self.image.kernel(name).is_some())
    }

    fn function_names(&self) -> Vec<String> {
        self.image.names().map(str::to_owned).collect()
    }

    fn save_to_bytes(&self) -> Result<Bytes> {
        Ok(self.image.payload().clone())
    }

    fn write_formats(&self) -> Vec<String> {
        vec![self.image.format().to_owned()]
    }

    fn write_to_file(&self, path: &str, format: &str) -> Result<()> {
        let own = self.image.format();
        if format != own {
            let hint = did_you_mean(format, &mut [own].into_iter());
            return Err(crate::error!(ValueError, "the image is in format '{own}', not '{format}'{hint}"));
        }
        Ok(std::fs::write(path, &*self.image.code())?)
    }

    fn inspect_source(&self, _format: &str) -> Result<String> {
        Ok(match self.image.format() {
            "ptx" | "cuda" | "cl" => String::from_utf8_lossy(&self.image.code()).into_owned(),
            _ => String::new(),
        })
    }
}
