//! Device images: the payload of `cuda`, `hip`, `rocm`, `opencl`, `vulkan`, `metal` and `webgpu`
//! modules. They contain the format of the code, the parameters of its kernels, and the code, in
//! the encoding of Apache TVM 0.27.
//!
//! ```text
//! cuda, hip, rocm, opencl:
//!     format: string ("fatbin", "cubin", "ptx", "cuda"; "hsaco"; "cl", "xclbin", "awsxclbin", "aocx")
//!     kernels
//!     code: bytes
//! vulkan, metal:
//!     format: string ("vulkan"; "metal", "metallib")
//!     kernels
//!     u64 n, then n times: name (string), code (bytes)
//! webgpu:
//!     kernels
//!     u64 n, then n times: name (string), WGSL (string)
//!
//! kernels: u64 n, then n times: name (string), function information
//! function information: name (string)
//!     u64 n, n argument types (u8 code, u8 bits, u16 lanes)
//!     u64 n, n launch parameter tags (strings)
//!     u64 n, n extra tags of the arguments (i32)
//! ```
//!
//! ```
//! use kernpack_formats::device_image::{ArgType, DeviceFunction, DeviceImage};
//!
//! let kernel = DeviceFunction::new("scale", vec![ArgType::POINTER, ArgType::FLOAT32, ArgType::INT32], false);
//! let image = DeviceImage::new("fatbin", vec![kernel], b"code");
//! let payload = image.to_vec();
//! assert_eq!(DeviceImage::parse(&payload)?, image);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arg_type;
mod function;
mod layout;
mod opencl_options;

use std::collections::HashSet;

use layout::{Layout, WGSL};

use crate::stream::{StreamError, StreamReader, put_bytes, put_u64};
pub use arg_type::ArgType;
pub use function::DeviceFunction;
pub use opencl_options::{opencl_options, with_opencl_options};

#[doc(hidden)]
pub const FORMAT: &str = "device image";

/// Tags of the six launch extents, in the order in which a call passes them after the kernel's own
/// arguments.
pub const GRID_AND_BLOCK: [&str; 6] =
    ["blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z"];

/// Tags of the extents of a cluster of blocks.
pub const CLUSTER: [&str; 3] = ["clusterCtaIdx.x", "clusterCtaIdx.y", "clusterCtaIdx.z"];

/// Tag of the number of bytes of dynamic shared memory, which a call passes last.
pub const DYNAMIC_SHARED_MEMORY: &str = "tirx.use_dyn_shared_memory";

/// Flag: all blocks of the kernel run at the same time.
pub const COOPERATIVE_LAUNCH: &str = "tirx.use_cooperative_launch";

/// Flag: the kernel may begin before the previous kernel is done. The misspelling is TVM 0.27's.
pub const PROGRAMMATIC_LAUNCH: &str = "tirx.use_programtic_dependent_launch";

/// A device module: code and the parameters of its kernels. Everything is borrowed from the
/// payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceImage<'a> {
    format: &'a str,
    kernels: Vec<DeviceFunction<'a>>,
    code: Code<'a>,
}

/// The code of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Code<'a> {
    /// All kernels in one piece of code.
    Whole(&'a [u8]),
    /// One piece of code per kernel, with the kernel's name.
    Each(Vec<(&'a str, &'a [u8])>),
}

impl<'a> DeviceImage<'a> {
    /// Creates an image whose kernels are all in one piece of code (cuda, hip, rocm, opencl);
    /// `format` is the format of `code`.
    pub fn new(format: &'a str, kernels: Vec<DeviceFunction<'a>>, code: &'a [u8]) -> Self {
        Self { format, kernels, code: Code::Whole(code) }
    }

    /// Creates an image that has code for each kernel by name (vulkan, metal, webgpu); `format` is
    /// the format of the pieces, `wgsl` for webgpu.
    pub fn with_codes(format: &'a str, kernels: Vec<DeviceFunction<'a>>, codes: Vec<(&'a str, &'a [u8])>) -> Self {
        Self { format, kernels, code: Code::Each(codes) }
    }

    /// Parses the payload of a module of kind `cuda`, `hip`, `rocm` or `opencl`.
    ///
    /// # Errors
    /// Describes the problem and its byte offset.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, StreamError> {
        Self::parse_layout(Layout::Whole, bytes)
    }

    /// Returns whether modules of `kind` are device images.
    #[must_use]
    pub fn is_kind(kind: &str) -> bool {
        Layout::of(kind).is_some()
    }

    /// Parses the payload of a module of `kind`.
    ///
    /// # Errors
    /// Describes the problem and its byte offset; also fails if modules of the kind are not device
    /// images.
    pub fn parse_as(kind: &str, bytes: &'a [u8]) -> Result<Self, StreamError> {
        let Some(layout) = Layout::of(kind) else {
            return Err(StreamError::new(
                FORMAT,
                &"kind",
                0,
                format_args!("modules of kind '{kind}' are not device images"),
            ));
        };
        Self::parse_layout(layout, bytes)
    }

    fn parse_layout(layout: Layout, bytes: &'a [u8]) -> Result<Self, StreamError> {
        let mut reader = StreamReader::new(FORMAT, bytes);
        let format = match layout {
            Layout::EachWgsl => WGSL,
            Layout::Whole | Layout::Each => reader.string(&"format")?,
        };
        if format.is_empty() {
            return Err(reader.error_at(0, &"format", format_args!("is empty")));
        }
        if layout == Layout::Each && format == WGSL {
            return Err(reader.error_at(0, &"format", format_args!("is \"{WGSL}\", which only webgpu modules have")));
        }
        let mut kernels: Vec<DeviceFunction<'a>> = Vec::new();
        let mut names = HashSet::new();
        for index in 0..reader.count(DeviceFunction::LEAST_SIZE, &"kernel table")? {
            let start = reader.offset();
            let kernel = DeviceFunction::parse(&mut reader, index)?;
            if !names.insert(kernel.name) {
                return Err(reader.error_at(
                    start,
                    &"kernel table",
                    format_args!("\"{}\" is in it twice", kernel.name),
                ));
            }
            kernels.push(kernel);
        }
        let code = match layout {
            Layout::Whole => Code::Whole(reader.bytes(&"code")?),
            Layout::Each | Layout::EachWgsl => Code::Each(Self::parse_codes(&mut reader)?),
        };
        reader.finish(&"code")?;
        Ok(Self { format, kernels, code })
    }

    fn parse_codes(reader: &mut StreamReader<'a>) -> Result<Vec<(&'a str, &'a [u8])>, StreamError> {
        let mut codes = Vec::new();
        let mut names = HashSet::new();
        // A piece takes at least two lengths.
        for index in 0..reader.count(16, &"code table")? {
            let start = reader.offset();
            let name = reader.string(&format_args!("name of code {index}"))?;
            if !names.insert(name) {
                return Err(reader.error_at(start, &"code table", format_args!("\"{name}\" is in it twice")));
            }
            codes.push((name, reader.bytes(&format_args!("code of \"{name}\""))?));
        }
        Ok(codes)
    }

    /// The format of the code: `fatbin`, `cubin`, `ptx`, `cuda` (source), `cl` (source), `hsaco`,
    /// `vulkan` (SPIR-V), `metal` (source), `metallib`, `wgsl`.
    pub fn format(&self) -> &'a str {
        self.format
    }

    /// The kernels, in the order of the table.
    pub fn kernels(&self) -> &[DeviceFunction<'a>] {
        &self.kernels
    }

    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Option<&DeviceFunction<'a>> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }

    /// The code; empty if each kernel has its own.
    pub fn code(&self) -> &'a [u8] {
        match self.code {
            Code::Whole(code) => code,
            Code::Each(_) => &[],
        }
    }

    /// Returns whether all kernels share one piece of code.
    pub fn is_whole(&self) -> bool {
        matches!(self.code, Code::Whole(_))
    }

    /// The pieces of code by name, if each kernel has its own.
    pub fn codes(&self) -> &[(&'a str, &'a [u8])] {
        match &self.code {
            Code::Whole(_) => &[],
            Code::Each(codes) => codes,
        }
    }

    /// Checks that modules of `kind` have the same layout as this image; the error is the end of a
    /// sentence about such modules.
    #[doc(hidden)]
    pub fn check_kind(&self, kind: &str) -> Result<(), &'static str> {
        match (Layout::of(kind), &self.code) {
            (None, _) => Err("are not device images"),
            (Some(Layout::Whole), Code::Each(_)) => Err("have one piece of code; make the image with DeviceImage::new"),
            (Some(Layout::Each | Layout::EachWgsl), Code::Whole(_)) => {
                Err("have code for each kernel; make the image with DeviceImage::with_codes")
            }
            (Some(Layout::EachWgsl), Code::Each(_)) if self.format != WGSL => Err("have the format 'wgsl'"),
            (Some(Layout::Each), Code::Each(_)) if self.format == WGSL => Err("do not have the format 'wgsl'"),
            _ => Ok(()),
        }
    }

    /// The payload.
    pub fn to_vec(&self) -> Vec<u8> {
        let pieces: usize = self.codes().iter().map(|(name, code)| name.len() + code.len() + 16).sum();
        let mut out = Vec::with_capacity(self.code().len() + pieces + 256 * (self.kernels.len() + 1));
        let is_wgsl = matches!(self.code, Code::Each(_)) && self.format == WGSL;
        if !is_wgsl {
            put_bytes(&mut out, self.format.as_bytes());
        }
        put_u64(&mut out, self.kernels.len() as u64);
        for kernel in &self.kernels {
            kernel.write(&mut out);
        }
        match &self.code {
            Code::Whole(code) => put_bytes(&mut out, code),
            Code::Each(codes) => {
                put_u64(&mut out, codes.len() as u64);
                for (name, code) in codes {
                    put_bytes(&mut out, name.as_bytes());
                    put_bytes(&mut out, code);
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests;
