//! The import tree that a library carries.

use kernpack::module::OWN_KIND_PREFIX;
use kernpack::module::device_image::DeviceImage;
use kernpack::module::library_bin::{LIBRARY_BIN_SYMBOL, LibraryBin};

use crate::{Result, architecture};

/// The modules; the first is the root.
pub(crate) struct Tree<'a> {
    pub(crate) size: usize,
    pub(crate) modules: Vec<Module<'a>>,
}

pub(crate) struct Module<'a> {
    pub(crate) kind: &'a str,
    /// `None` for the library itself.
    pub(crate) payload: Option<&'a [u8]>,
    /// Always greater than this module's own number.
    pub(crate) imports: Vec<usize>,
    pub(crate) image: Option<DeviceImage<'a>>,
    pub(crate) architectures: Vec<String>,
    /// Why an image can not be read.
    pub(crate) problem: Option<String>,
}

impl<'a> Tree<'a> {
    /// `bytes` start with the blob.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self> {
        let corrupt = |problem: String| format!("its {LIBRARY_BIN_SYMBOL} is corrupt: {problem}");
        let header = bytes.first_chunk::<8>().ok_or_else(|| corrupt("it ends before its size".to_owned()))?;
        let size = LibraryBin::total_size(*header).map_err(|error| corrupt(error.to_string()))?;
        let blob = bytes.get(..size).ok_or_else(|| {
            corrupt(format!("it says that it has {size} bytes, but the file holds {} from there", bytes.len()))
        })?;
        let tree = LibraryBin::parse(blob).map_err(|error| corrupt(error.to_string()))?;
        let modules = tree.modules().iter().enumerate();
        let modules = modules.map(|(index, entry)| {
            let imports = tree.imports(index).collect();
            Module::new(entry.kind(), entry.payload(), imports)
        });
        Ok(Self { size, modules: modules.collect() })
    }

    /// By number, or by a kind that only one module has.
    pub(crate) fn find(&self, wanted: &str) -> Result<&Module<'a>> {
        let images = self.modules.iter().enumerate().filter(|(_, module)| module.payload.is_some());
        let found: Vec<_> = match wanted.parse::<usize>() {
            Ok(number) => images.clone().filter(|(index, _)| *index == number).collect(),
            Err(_) => images.clone().filter(|(_, module)| module.kind == wanted).collect(),
        };
        if let [(_, module)] = found[..] {
            return Ok(module);
        }
        let shown: Vec<String> =
            images.take(20).map(|(index, module)| format!("{index} ({})", module.kind.escape_debug())).collect();
        let problem = if found.is_empty() { "no module" } else { "more than one module" };
        Err(format!("{problem} is \"{}\"; there are: {}", wanted.escape_debug(), shown.join(", ")))
    }
}

impl<'a> Module<'a> {
    fn new(kind: &'a str, payload: Option<&'a [u8]>, imports: Vec<usize>) -> Self {
        let device = kind.strip_prefix(OWN_KIND_PREFIX).unwrap_or(kind);
        let has_image = matches!(device, "cuda" | "hip" | "rocm" | "opencl" | "vulkan" | "metal" | "webgpu");
        let (image, problem) = match payload.filter(|_| has_image).map(|bytes| DeviceImage::parse_as(kind, bytes)) {
            None => (None, None),
            Some(Ok(image)) => (Some(image), None),
            Some(Err(error)) => (None, Some(error.to_string())),
        };
        let architectures =
            image.as_ref().map(|image| architecture::of(image.format(), image.code())).unwrap_or_default();
        Self { kind, payload, imports, image, architectures, problem }
    }

    /// The code of a device image, the whole payload of another module and of an image with code for each kernel.
    pub(crate) fn code(&self) -> &'a [u8] {
        let whole = self.image.as_ref().filter(|image| image.codes().is_empty());
        whole.map(DeviceImage::code).or(self.payload).unwrap_or_default()
    }
}
