//! The `ffi.*` global functions, types and type attributes of the embedded implementation, so that
//! callers in any language find them under the stock names.
//!
//! An artifact that serves itself registers what it uses: the list of global functions (in
//! kernpack-core); the functions for modules, if it contains any or is a program that offers its
//! functions to libraries of other languages; the functions for constructors, if it has types. The
//! rest is enabled by the Cargo feature `builtins`, for programs and libraries that serve others
//! (such as `libtvm_ffi.so`).
//!
//! All of it is always compiled, because the typed operations of the crate are based on it; the
//! linker drops unused parts.

mod types;

use crate::definition::function::Builtin;
#[cfg(feature = "all")]
use crate::engines::{deep_copy, json_graph, recursive, repr, structural, visit};
use crate::function::guard_nameless;
#[cfg(feature = "all")]
use crate::functions::{containers, global_functions, json, maps};
use crate::functions::{modules, values};
use crate::module;
use crate::provider::{self, Origin};
use crate::{Function, Result, dataclass};
use kernpack_core::generated_code::{CarriedKind, note_carried};

/// The rows of one file.
type Rows = &'static [Builtin];

/// The functions that libraries in other languages need from the artifact that serves them. The
/// lists of the files are constants: for a static, code would be generated even in artifacts
/// without these functions.
static HOST: &[Rows] = &[modules::BUILTINS, values::MARKERS, dataclass::CONSTRUCTORS];

/// The functions that constructors made of a type's fields need.
static CONSTRUCTORS: &[Rows] = &[values::MARKERS, dataclass::CONSTRUCTORS];

/// The other functions of the stock library.
#[cfg(feature = "all")]
static REST: &[Rows] = &[
    global_functions::BUILTINS,
    containers::BUILTINS,
    maps::BUILTINS,
    values::BUILTINS,
    json::BUILTINS,
    json_graph::BUILTINS,
    structural::BUILTINS,
    recursive::BUILTINS,
    visit::BUILTINS,
    dataclass::BUILTINS,
    repr::BUILTINS,
    deep_copy::BUILTINS,
];

/// Registers all of it, in an artifact that serves itself.
#[cfg(feature = "all")]
pub fn register() -> Result<()> {
    types::register()?;
    module::offer_context_symbols()?;
    [HOST, REST].into_iter().flatten().copied().flatten().try_for_each(Builtin::register)?;
    module::note_own_loaders()
}

/// Registers the functions that libraries in other languages need from the artifact that serves
/// them.
fn register_host_functions() -> Result<()> {
    module::offer_context_symbols()?;
    let loaders_are_ours = !module::has_loaders()?;
    register_missing(HOST)?;
    if loaders_are_ours { module::note_own_loaders() } else { Ok(()) }
}

/// Creates and registers the constructor of a type, in a process whose host does not.
pub fn register_init(type_index: i32) -> Result<()> {
    register_missing(CONSTRUCTORS)?;
    Function::global("ffi._RegisterFFIInit")?.call((type_index,)).map(drop)
}

/// Registers the functions that calls with keyword arguments need, in a process whose host does
/// not: Python makes such calls of every function with defaults.
pub fn register_markers() -> Result<()> {
    register_missing(&[values::MARKERS])
}

/// Registers the loader of a kind of modules that this artifact contains; and, if it serves itself,
/// the functions that such modules need.
pub fn register_carried(carried: &'static CarriedKind) -> Result<()> {
    module::offer_context_symbols()?;
    note_carried(carried);
    if cfg!(feature = "embedded") && provider::origin_while_binding() == Origin::Embedded {
        register_host_functions()?;
    }
    kernpack_core::generated_code::register_carried_loader(carried.kind)
}

/// Registers the functions that the process does not have.
fn register_missing(files: &[Rows]) -> Result<()> {
    files.iter().copied().flatten().try_for_each(|row| match Function::find_global(row.name)? {
        Some(_) => Ok(()),
        // Another thread may have been first.
        None => row.register().or_else(|error| match Function::find_global(row.name)? {
            Some(_) => Ok(()),
            None => Err(error),
        }),
    })
}

/// For programs whose build script calls `kernpack_build::export_abi()`: see `registration` of
/// kernpack-core.
extern "C" fn exported_functions() -> i32 {
    guard_nameless(if cfg!(feature = "embedded") { register_host_functions } else { || Ok(()) })
}
kernpack_core::__linker_symbol!("__kernpack_host_functions", exported_functions);
