//! The `ffi.*` global functions, types and type attributes that the embedded implementation offers, so that hosts in any language
//! find them under the stock names.
//!
//! Every artifact that can serve itself brings what loading needs: modules, listing functions. The rest comes with the Cargo
//! feature `builtins`, for programs and libraries that are a host to others (`libtvm_ffi.so` is one).

#[cfg_attr(not(feature = "builtins"), allow(dead_code, reason = "the other builtins use the rest of it"))]
mod builtin;
mod functions;
mod functor;
mod modules;
#[cfg_attr(not(feature = "builtins"), allow(dead_code, reason = "the other builtins use the rest of it"))]
mod signature;

#[cfg(feature = "builtins")]
mod access_path;
#[cfg(feature = "builtins")]
mod address_map;
#[cfg(feature = "builtins")]
mod big_int;
#[cfg(feature = "builtins")]
mod children;
#[cfg(feature = "builtins")]
mod containers;
#[cfg(feature = "builtins")]
mod convert;
#[cfg(feature = "builtins")]
mod cycle;
#[cfg(feature = "builtins")]
mod dataclass;
#[cfg(feature = "builtins")]
mod deep_copy;
#[cfg(feature = "builtins")]
mod field_value;
#[cfg(feature = "builtins")]
mod json;
#[cfg(feature = "builtins")]
mod json_graph;
#[cfg(feature = "builtins")]
mod kept;
#[cfg(feature = "builtins")]
mod maps;
#[cfg(feature = "builtins")]
mod module_type;
#[cfg(feature = "builtins")]
mod recursive;
#[cfg(feature = "builtins")]
mod reentry;
#[cfg(feature = "builtins")]
mod repr;
#[cfg(feature = "builtins")]
mod stack_space;
#[cfg(feature = "builtins")]
mod structural;
#[cfg(all(test, feature = "builtins"))]
mod test_graphs;
#[cfg(feature = "builtins")]
mod type_def;
#[cfg(feature = "builtins")]
mod types;
#[cfg(feature = "builtins")]
mod values;
#[cfg(feature = "builtins")]
mod visit;

use crate::Result;
use builtin::Builtin;

/// All global functions, file by file.
static FUNCTIONS: &[&[Builtin]] = &[
    functions::BUILTINS,
    modules::BUILTINS,
    #[cfg(feature = "builtins")]
    containers::BUILTINS,
    #[cfg(feature = "builtins")]
    maps::BUILTINS,
    #[cfg(feature = "builtins")]
    values::BUILTINS,
    #[cfg(feature = "builtins")]
    json::BUILTINS,
    #[cfg(feature = "builtins")]
    json_graph::BUILTINS,
    #[cfg(feature = "builtins")]
    structural::BUILTINS,
    #[cfg(feature = "builtins")]
    recursive::BUILTINS,
    #[cfg(feature = "builtins")]
    visit::BUILTINS,
    #[cfg(feature = "builtins")]
    dataclass::BUILTINS,
    #[cfg(feature = "builtins")]
    repr::BUILTINS,
    #[cfg(feature = "builtins")]
    deep_copy::BUILTINS,
];

/// Registers all of them; done once, when this artifact serves itself.
pub(crate) fn register() -> Result<()> {
    #[cfg(feature = "builtins")]
    types::register()?;
    FUNCTIONS.iter().copied().flatten().try_for_each(Builtin::register)
}
