use core::ops::{Deref, Range};
use std::collections::HashMap;

use kernpack_formats::device_image::FORMAT;
use kernpack_formats::stream::{StreamError, StreamReader};

use super::{DeviceFunction, DeviceImage};
use crate::value::Bytes;

/// A device image with its payload, and a table of the kernels' positions in the payload, so that
/// looking up a kernel does not parse the rest.
pub(crate) struct OwnedImage {
    payload: Bytes,
    format: String,
    /// Positions of the kernels' entries, in the order of the table.
    entries: Vec<Entry>,
    index: HashMap<Box<str>, usize>,
    code: OwnedCode,
}

struct Entry {
    name: Range<usize>,
    start: usize,
}

/// Position of the code.
enum OwnedCode {
    Whole(Range<usize>),
    /// One piece per kernel, in the order of the payload.
    Each(Vec<Range<usize>>),
}

/// A piece of an image's payload, with its own reference to the payload.
#[derive(Clone)]
pub(crate) struct ImageCode {
    payload: Bytes,
    range: Range<usize>,
}

impl Deref for ImageCode {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.payload.as_slice().get(self.range.clone()).unwrap_or_default()
    }
}

impl OwnedImage {
    /// Parses the payload of a module of `kind`.
    ///
    /// # Errors
    /// As for [`DeviceImage::parse_as`].
    #[inline]
    pub(crate) fn parse(kind: &str, payload: Bytes) -> Result<Self, StreamError> {
        let image = DeviceImage::parse_as(kind, &payload)?;
        let range = |part: &[u8]| {
            let start = part.as_ptr().addr().wrapping_sub(payload.as_ptr().addr());
            start..start.wrapping_add(part.len())
        };
        let entry = |kernel: &DeviceFunction<'_>| {
            // The name is the second of two strings, each of which begins with its length.
            let name = range(kernel.name.as_bytes());
            Entry { start: name.start.saturating_sub(name.len() + 16), name }
        };
        let names = image.kernels().iter().enumerate().map(|(number, kernel)| (kernel.name.into(), number));
        let index = names.collect();
        let entries = image.kernels().iter().map(entry).collect();
        let code = if image.is_whole() {
            OwnedCode::Whole(range(image.code()))
        } else {
            OwnedCode::Each(image.codes().iter().map(|(_, code)| range(code)).collect())
        };
        let format = image.format().to_owned();
        Ok(Self { payload, format, entries, index, code })
    }

    /// The original payload.
    #[inline]
    pub(crate) fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// The format of the code: `fatbin`, `ptx`, `cl`, ...
    #[inline]
    pub(crate) fn format(&self) -> &str {
        &self.format
    }

    /// The code; empty if each kernel has its own.
    #[inline]
    pub(crate) fn code(&self) -> ImageCode {
        let range = match &self.code {
            OwnedCode::Whole(range) => range.clone(),
            OwnedCode::Each(_) => 0..0,
        };
        ImageCode { payload: self.payload.clone(), range }
    }

    /// Returns whether all kernels share one piece of code.
    #[inline]
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.code, OwnedCode::Whole(_))
    }

    /// Returns all code: the pieces concatenated in the order of the payload.
    #[inline]
    pub(crate) fn all_code(&self) -> Vec<u8> {
        let bytes = self.payload.as_slice();
        match &self.code {
            OwnedCode::Whole(_) => self.code().to_vec(),
            OwnedCode::Each(pieces) => {
                pieces.iter().flat_map(|range| bytes.get(range.clone()).unwrap_or_default()).copied().collect()
            }
        }
    }

    /// Names of the kernels, in the order of the table.
    #[inline]
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let text = |range: &Range<usize>| str::from_utf8(self.payload.as_slice().get(range.clone())?).ok();
        self.entries.iter().filter_map(move |entry| text(&entry.name))
    }

    /// Returns whether there is a kernel of that name.
    #[inline]
    pub(crate) fn has_kernel(&self, name: &str) -> bool {
        self.index.contains_key(name)
    }

    /// Returns the kernel of that name.
    #[inline]
    pub(crate) fn kernel(&self, name: &str) -> Option<DeviceFunction<'_>> {
        let number = *self.index.get(name)?;
        let bytes = self.payload.as_slice().get(self.entries.get(number)?.start..)?;
        DeviceFunction::parse(&mut StreamReader::new(FORMAT, bytes), number).ok()
    }
}

#[cfg(test)]
mod tests {
    use kernpack_formats::library_bin::LibraryBin;

    use super::*;

    /// The output of `apache-tvm` 0.27 for libraries with Metal, WebGPU and OpenCL kernels.
    const TVM_IMAGES: [(&str, &[u8]); 3] = [
        ("metal", include_bytes!("../../../../testdata/scale_metal.library_bin")),
        ("webgpu", include_bytes!("../../../../testdata/scale_webgpu.library_bin")),
        ("opencl", include_bytes!("../../../../testdata/addone_opencl.library_bin")),
    ];

    #[test]
    fn a_table_of_where_everything_is() {
        for (kind, blob) in TVM_IMAGES {
            let payload = LibraryBin::parse(blob).unwrap().modules()[1].payload().unwrap();
            let image = DeviceImage::parse_as(kind, payload).unwrap();
            for payload in [Bytes::from_static(payload), Bytes::from(payload.to_vec())] {
                let owned = OwnedImage::parse(kind, payload).unwrap();
                let names: Vec<_> = image.kernels().iter().map(|kernel| kernel.name).collect();
                assert_eq!(owned.names().collect::<Vec<_>>(), names);
                for kernel in image.kernels() {
                    assert!(owned.has_kernel(kernel.name));
                    assert_eq!(owned.kernel(kernel.name).as_ref(), Some(kernel));
                }
                assert_eq!(owned.kernel("none"), None);
                assert_eq!((owned.format(), &*owned.code()), (image.format(), image.code()));
                let pieces: Vec<&[u8]> = image.codes().iter().map(|(_, code)| *code).collect();
                assert_eq!(owned.all_code(), if owned.is_whole() { image.code().to_vec() } else { pieces.concat() });
                assert_eq!(**owned.payload(), *image.to_vec());
            }
        }
    }
}
