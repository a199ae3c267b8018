//! The payload of `cuda`, `hip` and `opencl` modules: the format of the code, what its kernels take, the code.
//!
//! ```text
//! format: string ("fatbin", "cubin", "ptx", "cuda"; "cl"; "hsaco")
//! u64 n, then n times: name (string), function information
//! code: bytes
//!
//! function information: name (string)
//!     u64 n, n argument types (u8 code, u8 bits, u16 lanes)
//!     u64 n, n launch parameter tags (strings)
//!     u64 n, n extra tags of the arguments (i32)
//! ```
//!
//! ```
//! use kernpack::module::device_image::{ArgType, DeviceImage, DeviceFunction};
//!
//! let kernel = DeviceFunction::new("scale", vec![ArgType::POINTER, ArgType::FLOAT32, ArgType::INT32], false);
//! let image = DeviceImage::new("fatbin", vec![kernel], b"code");
//! let payload = image.to_vec();
//! assert_eq!(DeviceImage::parse(&payload)?, image);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use core::fmt;

use super::stream::{StreamError, StreamReader, put_bytes, put_u64};

const FORMAT: &str = "device image";

/// Tags of the six launch extents, in the order in which a call passes them after the kernel's own arguments.
pub const GRID_AND_BLOCK: [&str; 6] =
    ["blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z"];

/// Tag of the number of bytes of dynamic shared memory, the last launch parameter.
pub const DYNAMIC_SHARED_MEMORY: &str = "tirx.use_dyn_shared_memory";

/// A device module: code, and what its kernels take. Everything is borrowed from the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceImage<'a> {
    format: &'a str,
    kernels: Vec<DeviceFunction<'a>>,
    code: &'a [u8],
}

/// How a kernel is called (`FunctionInfo` in TVM).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFunction<'a> {
    /// Name of the kernel in the code and of the function in the module.
    pub name: &'a str,
    /// The kernel's own arguments.
    pub arg_types: Vec<ArgType>,
    /// What follows them in a call: extents in this order, such as those of [`GRID_AND_BLOCK`].
    pub launch_params: Vec<&'a str>,
    /// Per argument: 0 plain, 1 tensor map. Empty when all are plain.
    pub extra_tags: Vec<i32>,
}

/// Type of a kernel argument, laid out like `DLDataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArgType {
    /// 0 signed integer, 1 unsigned integer, 2 float, 3 pointer.
    pub code: u8,
    /// Bits of one lane.
    pub bits: u8,
    /// Number of lanes.
    pub lanes: u16,
}

impl ArgType {
    /// Type code of pointers.
    pub const POINTER_CODE: u8 = 3;
    /// A pointer to device memory.
    pub const POINTER: Self = Self { code: 3, bits: 64, lanes: 1 };
    /// `int`.
    pub const INT32: Self = Self { code: 0, bits: 32, lanes: 1 };
    /// `long long`.
    pub const INT64: Self = Self { code: 0, bits: 64, lanes: 1 };
    /// `unsigned`.
    pub const UINT32: Self = Self { code: 1, bits: 32, lanes: 1 };
    /// `unsigned long long`.
    pub const UINT64: Self = Self { code: 1, bits: 64, lanes: 1 };
    /// `float`.
    pub const FLOAT32: Self = Self { code: 2, bits: 32, lanes: 1 };
    /// `double`.
    pub const FLOAT64: Self = Self { code: 2, bits: 64, lanes: 1 };
}

/// A part of a kernel's function information, for messages.
struct Part<'a> {
    what: &'static str,
    index: usize,
    key: &'a str,
}

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of kernel {} (\"{}\")", self.what, self.index, self.key)
    }
}

impl<'a> DeviceFunction<'a> {
    /// A kernel that is launched with grid and block, and with dynamic shared memory if it has any.
    pub fn new(name: &'a str, arg_types: Vec<ArgType>, dynamic_shared_memory: bool) -> Self {
        let mut launch_params = GRID_AND_BLOCK.to_vec();
        launch_params.extend(dynamic_shared_memory.then_some(DYNAMIC_SHARED_MEMORY));
        let extra_tags = vec![0; arg_types.len()];
        Self { name, arg_types, launch_params, extra_tags }
    }

    fn parse(reader: &mut StreamReader<'a>, index: usize) -> Result<Self, StreamError> {
        let key_at = reader.offset();
        let key = reader.string(&format_args!("name of kernel {index}"))?;
        if key.is_empty() {
            return Err(reader.error_at(key_at, &format_args!("name of kernel {index}"), format_args!("is empty")));
        }
        let structure = |what| Part { what, index, key };
        let name_at = reader.offset();
        let name = reader.string(&structure("function name"))?;
        if name != key {
            let problem = format_args!("is \"{name}\", but the table calls it \"{key}\"");
            return Err(reader.error_at(name_at, &structure("function name"), problem));
        }
        let what = structure("argument types");
        let mut arg_types = Vec::new();
        for _ in 0..reader.count(4, &what)? {
            arg_types.push(ArgType { code: reader.u8(&what)?, bits: reader.u8(&what)?, lanes: reader.u16(&what)? });
        }
        let what = structure("launch parameters");
        let mut launch_params = Vec::new();
        for _ in 0..reader.count(8, &what)? {
            launch_params.push(reader.string(&what)?);
        }
        let what = structure("extra tags");
        let tags_at = reader.offset();
        let mut extra_tags = Vec::new();
        for _ in 0..reader.count(4, &what)? {
            extra_tags.push(reader.i32(&what)?);
        }
        if !extra_tags.is_empty() && extra_tags.len() != arg_types.len() {
            let problem = format_args!("{} tags for {} arguments", extra_tags.len(), arg_types.len());
            return Err(reader.error_at(tags_at, &what, problem));
        }
        Ok(Self { name, arg_types, launch_params, extra_tags })
    }

    fn write(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.name.as_bytes());
        put_bytes(out, self.name.as_bytes());
        put_u64(out, self.arg_types.len() as u64);
        for ty in &self.arg_types {
            out.extend_from_slice(&[ty.code, ty.bits]);
            out.extend_from_slice(&ty.lanes.to_le_bytes());
        }
        put_u64(out, self.launch_params.len() as u64);
        for tag in &self.launch_params {
            put_bytes(out, tag.as_bytes());
        }
        put_u64(out, self.extra_tags.len() as u64);
        for tag in &self.extra_tags {
            out.extend_from_slice(&tag.to_le_bytes());
        }
    }
}

impl<'a> DeviceImage<'a> {
    /// An image; `format` says what `code` is.
    pub fn new(format: &'a str, kernels: Vec<DeviceFunction<'a>>, code: &'a [u8]) -> Self {
        Self { format, kernels, code }
    }

    /// Parses a module's payload.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, StreamError> {
        let mut reader = StreamReader::new(FORMAT, bytes);
        let format = reader.string(&"format")?;
        if format.is_empty() {
            return Err(reader.error_at(0, &"format", format_args!("is empty")));
        }
        // A kernel takes 40 bytes at the least: two lengths of strings and three counts.
        let count = reader.count(40, &"kernel table")?;
        let mut kernels: Vec<DeviceFunction<'a>> = Vec::new();
        // In ascending order.
        let mut names: Vec<&str> = Vec::new();
        for index in 0..count {
            let start = reader.offset();
            let kernel = DeviceFunction::parse(&mut reader, index)?;
            match names.binary_search(&kernel.name) {
                Ok(_) => {
                    return Err(reader.error_at(
                        start,
                        &"kernel table",
                        format_args!("\"{}\" is in it twice", kernel.name),
                    ));
                }
                Err(position) => names.insert(position, kernel.name),
            }
            kernels.push(kernel);
        }
        let code = reader.bytes(&"code")?;
        reader.finish(&"code")?;
        Ok(Self { format, kernels, code })
    }

    /// What the code is: `fatbin`, `cubin`, `ptx`, `cuda` (source), `cl` (source), `hsaco`.
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

    /// The code itself.
    pub fn code(&self) -> &'a [u8] {
        self.code
    }

    /// The payload.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.code.len() + 256 * (self.kernels.len() + 1));
        put_bytes(&mut out, self.format.as_bytes());
        put_u64(&mut out, self.kernels.len() as u64);
        for kernel in &self.kernels {
            kernel.write(&mut out);
        }
        put_bytes(&mut out, self.code);
        out
    }
}

#[cfg(test)]
mod tests;
