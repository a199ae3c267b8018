//! The import tree of a library.

use kernpack::module::device_image::DeviceImage;
use kernpack::module::library_bin::{LIBRARY_BIN_SYMBOL, LibraryBin};
use kernpack::module::zstd;

use crate::Result;
use crate::library::architecture;

/// The modules. The first is the root.
pub(crate) struct Tree<'a> {
    pub(crate) size: usize,
    pub(crate) modules: Vec<Module<'a>>,
}

pub(crate) struct Module<'a> {
    pub(crate) kind: &'a str,
    /// `None` for the library itself.
    pub(crate) payload: Option<&'a [u8]>,
    /// Indices, always greater than that of this module.
    pub(crate) imports: Vec<usize>,
    pub(crate) image: Option<DeviceImage<'a>>,
    pub(crate) architectures: Vec<String>,
    /// For a compressed module: the kind and size of its contents.
    pub(crate) inside: Option<(&'a str, u64)>,
    /// The reason why an image cannot be read.
    pub(crate) problem: Option<String>,
}

impl<'a> Tree<'a> {
    /// Reads the blob at the start of `bytes`.
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

    /// Finds a module by index, or by a kind that only one module has.
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
        let bytes = payload.filter(|_| DeviceImage::is_kind(kind));
        let (image, problem) = match bytes.map(|bytes| DeviceImage::parse_as(kind, bytes)) {
            None => (None, None),
            Some(Ok(image)) => (Some(image), None),
            Some(Err(error)) => (None, Some(error.to_string())),
        };
        let architectures =
            image.as_ref().map(|image| architecture::of(image.format(), image.code())).unwrap_or_default();
        let inside = payload.filter(|_| kind == zstd::KIND).and_then(inside);
        Self { kind, payload, imports, image, architectures, inside, problem }
    }

    /// Returns the code of a device image, or the whole payload of other modules and of images with
    /// separate code for each kernel.
    pub(crate) fn code(&self) -> &'a [u8] {
        let whole = self.image.as_ref().filter(|image| image.codes().is_empty());
        whole.map(DeviceImage::code).or(self.payload).unwrap_or_default()
    }
}

/// Reads the kind and size at the start of a compressed module (see [`zstd`]) without decompressing
/// it.
fn inside(payload: &[u8]) -> Option<(&str, u64)> {
    let (length, rest) = payload.split_first_chunk()?;
    let (kind, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    Some((std::str::from_utf8(kind).ok()?, u64::from_le_bytes(*rest.first_chunk()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_of_a_compressed_module() {
        let payload = zstd::compress("my.image", &[7; 5000]);
        assert_eq!(inside(&payload), Some(("my.image", 5000)));
        for end in 0..8 + "my.image".len() + 8 {
            assert_eq!(inside(&payload[..end]), None, "{end} bytes");
        }
        assert_eq!(inside(&[0xff; 40]), None);
        let module = Module::new(zstd::KIND, Some(&payload), Vec::new());
        assert!(crate::inspect::report::summary(&module).ends_with(" bytes: my.image of 4.9 KiB, compressed"));
    }
}
