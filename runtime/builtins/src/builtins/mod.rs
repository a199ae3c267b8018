//! The `ffi.*` global functions, types and type attributes that the embedded implementation offers, so that hosts in any language
//! find them under the stock names.
//!
//! Every artifact that can serve itself brings what loading needs: modules, listing functions. The rest comes with the Cargo
//! feature `builtins`, for programs and libraries that are a host to others (`libtvm_ffi.so` is one).
//!
//! All of it is compiled always, because the typed operations of the crate are written on it; the linker drops what nobody uses.

#![cfg_attr(
    not(feature = "all"),
    allow(dead_code, unused_imports, reason = "only what the crate's own interface uses is called then")
)]

pub(crate) mod access_path;
mod address_map;
mod big_int;
mod builtin;
mod children;
mod containers;
mod convert;
mod cycle;
mod dataclass;
pub(crate) mod deep_copy;
mod field_value;
mod functions;
mod functor;
pub(crate) mod json;
pub(crate) mod json_graph;
mod kept;
mod maps;
mod module_type;
mod modules;
pub(crate) mod recursive;
pub(crate) mod reentry;
pub(crate) mod repr;
mod signature;
mod stack_space;
pub(crate) mod structural;
#[cfg(test)]
mod test_graphs;
mod type_def;
mod type_index;
mod types;
mod values;
pub(crate) mod visit;

use crate::Result;
use crate::abi::TVMFFIObject;
use crate::reflect::TypeInfo;
use builtin::Builtin;
pub use dataclass::enum_registration::register_enum;

/// The name of an instance of an enum of the ABI; `None` for other objects.
///
/// # Safety
/// The object is alive for `'a`, and of this type.
pub(crate) unsafe fn enum_name<'a>(object: *mut TVMFFIObject, info: TypeInfo) -> Option<&'a [u8]> {
    // SAFETY: promised by the caller.
    dataclass::enums::is_enum(info).then(|| unsafe { dataclass::enums::name_of(object) })
}

/// All global functions, file by file. The files' lists are constants: of a static, code would be generated also where it is left out.
static FUNCTIONS: &[&[Builtin]] = &[
    functions::BUILTINS,
    modules::BUILTINS,
    values::MARKERS,
    dataclass::CONSTRUCTORS,
    #[cfg(feature = "all")]
    containers::BUILTINS,
    #[cfg(feature = "all")]
    maps::BUILTINS,
    #[cfg(feature = "all")]
    values::BUILTINS,
    #[cfg(feature = "all")]
    json::BUILTINS,
    #[cfg(feature = "all")]
    json_graph::BUILTINS,
    #[cfg(feature = "all")]
    structural::BUILTINS,
    #[cfg(feature = "all")]
    recursive::BUILTINS,
    #[cfg(feature = "all")]
    visit::BUILTINS,
    #[cfg(feature = "all")]
    dataclass::BUILTINS,
    #[cfg(feature = "all")]
    repr::BUILTINS,
    #[cfg(feature = "all")]
    deep_copy::BUILTINS,
];

/// Registers all of them; done once, when this artifact serves itself.
pub fn register() -> Result<()> {
    #[cfg(feature = "all")]
    types::register()?;
    FUNCTIONS.iter().copied().flatten().try_for_each(Builtin::register)
}
