//! The `ffi.*` global functions, types and type attributes that the embedded implementation offers, so that hosts in any language
//! find them under the stock names.
//!
//! An artifact that serves itself brings what it uses: the list of global functions; what modules need, if it carries any or is a
//! program that offers its functions to libraries of other languages; what constructors need, if it has types. The rest comes with the
//! Cargo feature `builtins`, for programs and libraries that are a host to others (`libtvm_ffi.so` is one).
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

use crate::abi::TVMFFIObject;
use crate::function::guard_nameless;
use crate::host::{self, Origin};
use crate::reflect::TypeInfo;
use crate::{Function, Result};
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

/// The rows of one file.
type Rows = &'static [Builtin];

/// What artifacts offer that serve themselves. The files' lists are constants: of a static, code would be generated also where it is
/// left out.
const LISTING: &[Rows] = &[functions::BUILTINS];

/// What libraries in other languages need beyond that.
static HOST: &[Rows] = &[modules::BUILTINS, values::MARKERS, dataclass::CONSTRUCTORS];

/// What the constructors of types need that are made of the fields.
static CONSTRUCTORS: &[Rows] = &[values::MARKERS, dataclass::CONSTRUCTORS];

/// The rest of what the stock library has.
#[cfg(feature = "all")]
const REST: &[Rows] = &[
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

/// Registers what every artifact offers that serves itself; with the feature `builtins`, all.
pub fn register() -> Result<()> {
    #[cfg(feature = "all")]
    types::register()?;
    register_rows(LISTING)?;
    #[cfg(feature = "all")]
    [HOST, REST].into_iter().try_for_each(register_rows)?;
    Ok(())
}

/// Registers what libraries in other languages need of the artifact that serves them.
fn register_host_functions() -> Result<()> {
    register_missing(HOST)
}

/// Makes and registers the constructor of a type, in a process whose host does not.
pub fn register_init(type_index: i32) -> Result<()> {
    register_missing(CONSTRUCTORS)?;
    Function::global("ffi._RegisterFFIInit")?.call((type_index,)).map(drop)
}

/// Registers the loader of a kind of modules that this artifact carries; and, where it serves itself, what such modules are used
/// with.
pub fn register_carried(kind: &'static str) -> Result<()> {
    if cfg!(feature = "embedded") && host::origin_while_binding() == Origin::Embedded {
        register_host_functions()?;
    }
    kernpack_core::impl_::register_carried_loader(kind)
}

fn register_rows(files: &[Rows]) -> Result<()> {
    files.iter().copied().flatten().try_for_each(Builtin::register)
}

/// Registers the functions that the process does not have.
fn register_missing(files: &[Rows]) -> Result<()> {
    files.iter().copied().flatten().try_for_each(|row| match Function::get_global(row.name)? {
        Some(_) => Ok(()),
        None => row.register(),
    })
}

/// For programs whose build script calls `kernpack_build::host()`: see `registration` of kernpack-core.
extern "C" fn exported_functions() -> i32 {
    guard_nameless(if cfg!(feature = "embedded") { register_host_functions } else { || Ok(()) })
}
kernpack_core::__linker_symbol!("__kernpack_host_functions", exported_functions);
