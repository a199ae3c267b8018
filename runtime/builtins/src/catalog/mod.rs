//! The `ffi.*` global functions, types and type attributes that the embedded implementation offers, so that hosts in any language
//! find them under the stock names.
//!
//! Every artifact that can serve itself brings what loading needs: modules, listing functions. The rest comes with the Cargo
//! feature `builtins`, for programs and libraries that are a host to others (`libtvm_ffi.so` is one).
//!
//! All of it is compiled always, because the typed operations of the crate are written on it; the linker drops what nobody uses.

mod types;

use crate::Result;
use crate::dataclass;
use crate::definition::function::Builtin;
#[cfg(feature = "all")]
use crate::engines::{deep_copy, json_graph, recursive, repr, structural, visit};
#[cfg(feature = "all")]
use crate::functions::{containers, json, maps};
use crate::functions::{global_functions, modules, values};

/// All global functions, file by file. The files' lists are constants: of a static, code would be generated also where it is left out.
static FUNCTIONS: &[&[Builtin]] = &[
    global_functions::BUILTINS,
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
    FUNCTIONS.iter().copied().flatten().try_for_each(Builtin::register)?;
    crate::module::note_own_loaders()
}
