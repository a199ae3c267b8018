//! The metadata of a kernel: the packed function's `type_schema` in the stock format, and a member
//! `device_kernel` with its entry of the function table.
//!
//! ```text
//! {
//!   "type_schema": "{\"type\":\"ffi.Function\",...}",
//!   "device_kernel": {
//!     "kind": "cuda",
//!     "arg_types": ["handle", "float32", "int32"],
//!     "launch_params": ["blockIdx.x", ..., "tirx.use_dyn_shared_memory"],
//!     "extra_tags": [0, 0, 0]
//!   }
//! }
//! ```
//!
//! `arg_types` are names of data types, `handle` for a pointer; `extra_tags` is only present if one
//! of them is not 0.

use core::fmt::Write as _;

use super::param::Param;
use super::signature::Signature;
use super::tags::LaunchTags;
use crate::Result;
use crate::container::Map;
use crate::function::{ParamInfo, write_function_metadata, write_json_string};
use crate::module::device_image::ArgType;
use crate::value::{Access, Any, DataType, Str, TypeSchema};

const MEMBER: &str = "device_kernel";

/// Writes the metadata of a kernel in a module of `kind`.
///
/// `names` are those of the kernel's own arguments, if known.
#[inline]
pub(crate) fn write(
    kind: &str,
    arg_types: &[ArgType],
    names: &[&str],
    launch_params: &[&str],
    extra_tags: &[i32],
) -> String {
    let param = |key| ParamInfo { name: "", ty: TypeSchema::new(key), access: Access::Keeps };
    let extra_tag = |index: usize| extra_tags.get(index).copied().unwrap_or(0);
    let own = arg_types.iter().enumerate().map(|(index, ty)| match Param::new(*ty, extra_tag(index)) {
        Param::Pointer => param("ffi.Tensor"),
        Param::TensorMap => param("void*"),
        Param::Signed(_) | Param::Unsigned(_) => param("int"),
        Param::Bool => param("bool"),
        Param::Float64 | Param::Float32 | Param::Narrow(_) => param("float"),
        Param::Unsupported(_) => param("Any"),
    });
    let launch = LaunchTags::new(launch_params.iter().copied()).map_or(0, |tags| tags.len());
    let params: Vec<_> = own.chain((0..launch).map(|_| param("int"))).collect();

    let mut more = String::new();
    if names.len() == arg_types.len() && !names.is_empty() {
        let launch = LaunchTags::new(launch_params.iter().copied());
        let mut all = names.to_vec();
        for tag in launch.iter().flat_map(LaunchTags::names) {
            all.push(readable(tag));
        }
        more.push_str(",\"arg_names\":");
        write_list(&mut more, &all, |out, name| write_json_string(out, name));
    }
    let _ = write!(more, ",\"{MEMBER}\":{{\"kind\":");
    write_json_string(&mut more, kind);
    more.push_str(",\"arg_types\":");
    write_list(&mut more, arg_types, |out, ty| write_json_string(out, &type_name(*ty)));
    more.push_str(",\"launch_params\":");
    write_list(&mut more, launch_params, |out, tag| write_json_string(out, tag));
    if extra_tags.iter().any(|tag| *tag != 0) {
        more.push_str(",\"extra_tags\":");
        // Writing to a `String` does not fail.
        write_list(&mut more, extra_tags, |out, tag| {
            let _ = write!(out, "{tag}");
        });
    }
    more.push('}');
    write_function_metadata(&params, &TypeSchema::new("None"), &more)
}

/// The name of a launch parameter as an identifier.
#[inline]
fn readable(tag: &str) -> &str {
    match tag {
        "blockIdx.x" => "grid_x",
        "blockIdx.y" => "grid_y",
        "blockIdx.z" => "grid_z",
        "threadIdx.x" => "block_x",
        "threadIdx.y" => "block_y",
        "threadIdx.z" => "block_z",
        "clusterCtaIdx.x" => "cluster_x",
        "clusterCtaIdx.y" => "cluster_y",
        "clusterCtaIdx.z" => "cluster_z",
        "tirx.use_dyn_shared_memory" => "dynamic_shared_memory",
        tag => tag,
    }
}

#[inline]
fn write_list<T>(out: &mut String, items: &[T], mut write: impl FnMut(&mut String, &T)) {
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(out, item);
    }
    out.push(']');
}

#[inline]
fn type_name(ty: ArgType) -> String {
    if ty == ArgType::POINTER {
        return "handle".to_owned();
    }
    DataType::from_raw(crate::abi::DLDataType { code: ty.code, bits: ty.bits, lanes: ty.lanes }).to_string()
}

/// Reads the signature from the metadata of a function; `None` if the function is not a kernel.
///
/// # Errors
/// Returns a RuntimeError if the function is a kernel and its metadata cannot be parsed.
#[inline]
pub(super) fn read(name: &str, metadata: &str) -> Result<Option<Signature>> {
    if !metadata.contains(MEMBER) {
        return Ok(None);
    }
    let wrong = |error: crate::Error| {
        crate::error!(RuntimeError, "the metadata of '{name}' is not what a kernel has: {}", error.message())
    };
    parse(name, metadata).map_err(wrong)
}

#[inline]
fn parse(name: &str, metadata: &str) -> Result<Option<Signature>> {
    let all: Map<Str, Any> = crate::json::parse(metadata.as_bytes())?.to()?;
    let Some(kernel) = all.get(&Str::new(MEMBER)) else { return Ok(None) };
    let kernel: Map<Str, Any> = kernel.to()?;
    let member = |name: &str| {
        kernel.get(&Str::new(name)).ok_or_else(|| crate::error!(ValueError, "it lacks the member '{name}'"))
    };
    let kind: String = member("kind")?.to()?;
    let arg_types: Vec<String> = member("arg_types")?.to()?;
    let arg_types = arg_types.iter().map(|text| match text.as_str() {
        "handle" => Ok(ArgType::POINTER),
        text => text.parse::<DataType>().map(ArgType::from),
    });
    let arg_types = arg_types.collect::<Result<Vec<_>>>()?;
    let launch_params: Vec<String> = member("launch_params")?.to()?;
    // The names of the launch parameters follow those of the arguments.
    let names = all.get(&Str::new("arg_names")).map_or(Ok(Vec::new()), |names| names.to::<Vec<String>>())?;
    let extra_tags: Vec<i32> = kernel.get(&Str::new("extra_tags")).map_or(Ok(Vec::new()), |tags| tags.to())?;
    let launch_params: Vec<_> = launch_params.iter().map(String::as_str).collect();
    let signature = Signature::of_parts(&kind, name, &arg_types, &extra_tags, &launch_params)?;
    signature.name_arguments(names.get(..arg_types.len()).unwrap_or_default());
    Ok(Some(signature))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let types = [ArgType::POINTER, ArgType::FLOAT32, ArgType::INT64, ArgType { code: 6, bits: 8, lanes: 1 }];
        let text = write("cuda", &types, &[], &["blockIdx.x", "tirx.use_cooperative_launch"], &[0; 4]);
        assert_eq!(
            text,
            r#"{"type_schema":"{\"type\":\"ffi.Function\",\"named_args\":{\"return\":[{\"type\":\"None\"}],\"params\":[{\"type\":\"ffi.Tensor\"},{\"type\":\"float\"},{\"type\":\"int\"},{\"type\":\"bool\"},{\"type\":\"int\"}]}}","device_kernel":{"kind":"cuda","arg_types":["handle","float32","int64","bool"],"launch_params":["blockIdx.x","tirx.use_cooperative_launch"]}}"#
        );
        let signature = read("f", &text).unwrap().unwrap();
        assert_eq!((&*signature.kind, &*signature.name, signature.arity()), ("cuda", "f", 5));
        let expected = types.map(|ty| Param::new(ty, 0));
        assert_eq!(*signature.params, expected);
        let named = write("cuda", &types[..2], &["out", "by"], &["blockIdx.x"], &[]);
        assert!(named.contains(r#"}","arg_names":["out","by","grid_x"],"device_kernel":{"#), "{named}");
        assert_eq!(read("f", &named).unwrap().unwrap().arg_names(), ["out".into(), "by".into()]);
        let tensor_map = write("cuda", &[ArgType::POINTER], &[], &[], &[1]);
        assert!(tensor_map.ends_with(r#""launch_params":[],"extra_tags":[1]}}"#), "{tensor_map}");
        assert_eq!(*read("f", &tensor_map).unwrap().unwrap().params, [Param::TensorMap]);
    }

    #[test]
    fn what_is_no_kernel() {
        assert!(read("f", "{}").unwrap().is_none());
        assert!(read("f", r#"{"doc":"a device_kernel"}"#).unwrap().is_none());
        #[rustfmt::skip]
        let rows = [
            (r#"{"device_kernel":{}}"#, "it lacks the member 'kind'"),
            (r#"{"device_kernel":{"kind":"cuda","arg_types":["handle"]}}"#, "it lacks the member 'launch_params'"),
            (r#"{"device_kernel":{"kind":"cuda","arg_types":[1],"launch_params":[]}}"#, "expected Array[str], got Array"),
        ];
        for (text, why) in rows {
            let error = read("f", text).map(drop).unwrap_err();
            let message = error.message();
            assert!(message.starts_with("the metadata of 'f' is not what a kernel has: "), "{message}");
            assert!(message.contains(why.split(',').next().unwrap()), "{message}");
        }
    }
}
