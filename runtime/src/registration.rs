//! What this artifact brings, and its registration with the host: types, functions, kernels.
//!
//! `#[packed_func]`, `#[derive(Object)]` and build scripts add elements to distributed slices; nothing else lists them.

use core::fmt;
use std::sync::{Mutex, PoisonError};

use linkme::distributed_slice;

#[cfg(feature = "embedded")]
use crate::builtins;
use crate::function::{Function, FunctionInfo, KernelInfo};
use crate::host::Origin;
use crate::module::LoaderInfo;
use crate::notice::notice;
use crate::object::TypeDef;
use crate::{Error, Result, module, object};

/// Packed functions of this artifact.
#[distributed_slice]
pub static KERNPACK_FUNCTIONS_V1: [FunctionInfo];

/// Kernels that build scripts compiled into this artifact.
#[distributed_slice]
pub static KERNPACK_KERNELS_V1: [KernelInfo];

/// Object types of this artifact.
#[distributed_slice]
pub static KERNPACK_TYPES_V1: [TypeDef];

/// Loaders of the kinds of device images that this artifact carries.
#[distributed_slice]
pub static KERNPACK_LOADERS_V1: [LoaderInfo];

/// Crates of this artifact that called `library!()`.
#[distributed_slice]
pub static KERNPACK_LIBRARIES_V1: [LibraryInfo];

/// A crate that called `library!()`.
pub struct LibraryInfo {
    /// Crate name.
    pub crate_name: &'static str,
    /// Version from its manifest.
    pub version: &'static str,
    /// Where `library!()` stands.
    pub file: &'static str,
    /// Where `library!()` stands.
    pub line: u32,
}

/// What went wrong while this artifact registered; kept because a constructor has nobody to tell.
static PROBLEMS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Everything that went wrong while this artifact registered its types and functions, one sentence each.
pub fn problems() -> Vec<String> {
    PROBLEMS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Registers everything with the host that was just bound.
pub(crate) fn register_all(origin: Origin) -> Result<()> {
    let mut problems = duplicates();
    let mut note = |result: Result<()>| {
        if let Err(error) = result {
            problems.push(error.message().to_owned());
        }
    };
    #[cfg(feature = "embedded")]
    if origin == Origin::Embedded {
        note(builtins::register());
    }
    #[cfg(not(feature = "embedded"))]
    let _ = origin;
    note(module::register_context_symbols());
    for def in KERNPACK_TYPES_V1 {
        note(object::register_type(def));
    }
    let again = loaded_before(&mut note);
    for info in KERNPACK_FUNCTIONS_V1.iter().filter(|info| !again.contains(&info.crate_name)) {
        note(info.register_global());
    }
    for info in KERNPACK_KERNELS_V1.iter().filter(|info| !again.contains(&info.crate_name)) {
        note(info.register_global());
    }
    note(module::register_loaders());
    if problems.is_empty() {
        return Ok(());
    }
    let message = problems.join("\n");
    *PROBLEMS.lock().unwrap_or_else(PoisonError::into_inner) = problems;
    Err(Error::runtime_error(message))
}

/// The crates of this artifact that another artifact of this process has brought already, in the same version: a program that
/// links its own library's crate and loads the library as well, or a copy under another path. Their global functions are
/// there; the functions of each artifact stay its own. Another version is an error, which names both.
fn loaded_before(note: &mut impl FnMut(Result<()>)) -> Vec<&'static str> {
    let mut again = Vec::new();
    for LibraryInfo { crate_name, version, .. } in KERNPACK_LIBRARIES_V1 {
        let name = format!("kernpack.library.{crate_name}");
        match Function::get_global(&name).ok().flatten() {
            None => {
                let ours = Function::from_fn(move || *version);
                note(Function::register_global(&name, &ours));
            }
            Some(theirs) => match theirs.call_as::<String>(()) {
                Ok(theirs) if theirs == *version => {
                    notice(format_args!(
                        "kernpack: crate {crate_name} {version} is in this process already; its global functions stay those of \
                         the first copy"
                    ));
                    again.push(*crate_name);
                }
                theirs => note(Err(crate::error!(
                    RuntimeError,
                    "crate {crate_name} {} is in this process already, so {version} can not be loaded beside it",
                    theirs.unwrap_or_default()
                ))),
            },
        }
    }
    again
}

/// One sentence for each exported name that two functions of this artifact share. The linker can not be relied on to
/// refuse them: with two crates one definition may win silently.
fn duplicates() -> Vec<String> {
    let functions = KERNPACK_FUNCTIONS_V1.iter().map(Exported::Function);
    let exported: Vec<_> = functions.chain(KERNPACK_KERNELS_V1.iter().map(Exported::Kernel)).collect();
    let mut found = Vec::new();
    for (index, later) in exported.iter().enumerate() {
        if let Some(earlier) = exported[..index].iter().find(|earlier| earlier.name() == later.name()) {
            found.push(format!(
                "two functions are exported as '{}': {earlier} and {later}; give one another name with \
                 #[packed_func(name = \"...\")]",
                later.name()
            ));
        }
    }
    found
}

/// Something that this artifact exports under a name; written as the place where it is made.
enum Exported {
    Function(&'static FunctionInfo),
    Kernel(&'static KernelInfo),
}

impl Exported {
    fn name(&self) -> &'static str {
        match self {
            Self::Function(info) => info.name,
            Self::Kernel(info) => info.name,
        }
    }
}

impl fmt::Display for Exported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Function(info) => write!(f, "{}:{} (crate {})", info.file, info.line, info.crate_name),
            Self::Kernel(info) => write!(f, "kernel {} (crate {})", info.source, info.crate_name),
        }
    }
}
