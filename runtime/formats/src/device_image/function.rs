use core::fmt;

use super::{ArgType, DYNAMIC_SHARED_MEMORY, GRID_AND_BLOCK};
use crate::stream::{StreamError, StreamReader, put_bytes, put_u64};

/// The signature and launch parameters of a kernel (`FunctionInfo` in TVM).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFunction<'a> {
    /// Name of the kernel in the code and of the function in the module.
    pub name: &'a str,
    /// The kernel's own arguments.
    pub arg_types: Vec<ArgType>,
    /// The arguments that a call passes after the kernel's own arguments: extents in this order,
    /// such as those of [`GRID_AND_BLOCK`] and [`CLUSTER`](super::CLUSTER), then the number of
    /// bytes of [`DYNAMIC_SHARED_MEMORY`]. [`COOPERATIVE_LAUNCH`](super::COOPERATIVE_LAUNCH) and
    /// [`PROGRAMMATIC_LAUNCH`](super::PROGRAMMATIC_LAUNCH) are flags without an argument.
    pub launch_params: Vec<&'a str>,
    /// Per argument: 0 for a plain argument, 1 for a tensor map. Empty if all are plain.
    pub extra_tags: Vec<i32>,
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
    /// Minimum size of an entry: the lengths of two strings and three counts.
    pub(super) const LEAST_SIZE: usize = 40;

    /// A kernel that is launched with a grid and a block, and with dynamic shared memory if
    /// `dynamic_shared_memory` is true.
    pub fn new(name: &'a str, arg_types: Vec<ArgType>, dynamic_shared_memory: bool) -> Self {
        let mut launch_params = GRID_AND_BLOCK.to_vec();
        launch_params.extend(dynamic_shared_memory.then_some(DYNAMIC_SHARED_MEMORY));
        let extra_tags = vec![0; arg_types.len()];
        Self { name, arg_types, launch_params, extra_tags }
    }

    /// Parses the entry with number `index`; it begins with its key, which the name repeats.
    #[doc(hidden)]
    pub fn parse(reader: &mut StreamReader<'a>, index: usize) -> Result<Self, StreamError> {
        let key_at = reader.offset();
        let key = reader.string(&format_args!("name of kernel {index}"))?;
        if key.is_empty() {
            return Err(reader.error_at(key_at, &format_args!("name of kernel {index}"), format_args!("is empty")));
        }
        let structure = |what| Part { what, index, key };
        let name_at = reader.offset();
        let name = reader.string(&structure("function name"))?;
        if name != key {
            return Err(reader.error_at(
                name_at,
                &structure("function name"),
                format_args!("is \"{name}\", but the table calls it \"{key}\""),
            ));
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
            return Err(reader.error_at(
                tags_at,
                &what,
                format_args!("{} tags for {} arguments", extra_tags.len(), arg_types.len()),
            ));
        }
        Ok(Self { name, arg_types, launch_params, extra_tags })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
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
