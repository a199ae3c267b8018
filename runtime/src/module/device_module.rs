//! The module of a device image: keeps the payload, knows its kernels.

use std::sync::Arc;

use super::KindInfo;
use super::Module;
use super::cuda::{self, CudaImage};
use super::device_image::DeviceImage;
use super::implementation::{ModuleImpl, ModuleProperties, new_module};
use crate::function::{Function, did_you_mean};
use crate::value::Bytes;
use crate::{Error, Result};

/// A restored image. The payload stays as it came, so saving it gives the same bytes.
struct DeviceModule {
    kind: &'static str,
    payload: Bytes,
    cuda: Arc<CudaImage>,
}

#[linkme::distributed_slice(crate::registration::KERNPACK_KINDS_V1)]
static CUDA: KindInfo = KindInfo { kind: "cuda", loader: || loader("cuda") };

/// The function that restores modules of `kind` from their bytes.
fn loader(kind: &'static str) -> Function {
    Function::from_fn(move |payload: Bytes| -> Result<Module> {
        DeviceImage::parse(&payload)
            .map_err(|error| crate::error!(RuntimeError, "corrupt {} module: {error}", kind))?;
        Ok(new_module(DeviceModule { kind, cuda: cuda::image(&payload), payload }))
    })
}

impl DeviceModule {
    fn image(&self) -> Result<DeviceImage<'_>> {
        DeviceImage::parse(&self.payload).map_err(|error| Error::runtime_error(error.to_string()))
    }
}

impl ModuleImpl for DeviceModule {
    fn kind(&self) -> &str {
        self.kind
    }

    fn properties(&self) -> ModuleProperties {
        ModuleProperties::BINARY_SERIALIZABLE | ModuleProperties::RUNNABLE
    }

    fn get_function(&self, name: &str) -> Result<Option<Function>> {
        let image = self.image()?;
        let Some(kernel) = image.kernels().iter().find(|kernel| kernel.name == name) else { return Ok(None) };
        cuda::kernel(&self.cuda, kernel).map(Some)
    }

    fn function_names(&self) -> Vec<String> {
        let Ok(image) = self.image() else { return Vec::new() };
        image.kernels().iter().map(|kernel| kernel.name.to_owned()).collect()
    }

    fn save_to_bytes(&self) -> Result<Bytes> {
        Ok(self.payload.clone())
    }

    fn write_formats(&self) -> Vec<String> {
        self.image().map(|image| vec![image.format().to_owned()]).unwrap_or_default()
    }

    fn write_to_file(&self, path: &str, format: &str) -> Result<()> {
        let image = self.image()?;
        if format != image.format() {
            let hint = did_you_mean(format, &mut [image.format()].into_iter());
            return Err(crate::error!(ValueError, "the image is in format '{}', not '{format}'{hint}", image.format()));
        }
        Ok(std::fs::write(path, image.code())?)
    }

    fn inspect_source(&self, _format: &str) -> Result<String> {
        let image = self.image()?;
        Ok(match image.format() {
            "ptx" | "cuda" => String::from_utf8_lossy(image.code()).into_owned(),
            _ => String::new(),
        })
    }
}
