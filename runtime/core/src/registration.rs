//! The definitions of this artifact and their registration with the provider: types, functions,
//! kernels.
//!
//! `#[packed_func]`, `#[derive(Object)]` and build scripts add elements to distributed slices;
//! there is no other list. The slices belong to the crate `kernpack`, whose constructor passes them
//! here. This way this crate, which is most of the code, compiles in parallel with the attributes
//! and their dependencies, not after them.

use core::ffi::c_void;
use core::fmt;

use crate::abi::{TVMFFIAny, type_index};
#[cfg(any(feature = "cuda", feature = "opencl"))]
use crate::device;
use crate::device::DeviceKindInfo;
use crate::embedded::notice::notice;
use crate::embedded::set_once::SetOnce;
use crate::function::ExceptionInfo;
use crate::function::{Function, FunctionInfo, install_hook};
use crate::kernel::KernelInfo;
use crate::module::CarriedKind;
use crate::object::{EnumDef, MethodsDef, TypeDef};
use crate::provider::{self, Origin};
#[cfg(any(feature = "cuda", feature = "opencl"))]
use crate::tensor;
use crate::value::{Schema, array_elements};
use crate::{Error, Result, artifact, embedded, multiversion, object};

/// The entries that the crates of this artifact added to the distributed slices of the crate
/// `kernpack`, which owns them.
pub struct Collected {
    /// Registers the built-in functions and types of an artifact that uses its own implementation.
    pub builtins: fn() -> Result<()>,
    /// Packed functions.
    pub functions: &'static [FunctionInfo],
    /// Kernels that build scripts compiled.
    pub kernels: &'static [KernelInfo],
    /// Object types.
    pub types: &'static [TypeDef],
    /// Enums without data.
    pub enums: &'static [EnumDef],
    /// Methods of object types.
    pub methods: &'static [MethodsDef],
    /// Kinds of the modules in this artifact's import tree.
    pub carried: &'static [CarriedKind],
    /// Kinds of devices that this artifact provides.
    pub devices: &'static [DeviceKindInfo],
    /// Error kinds that this artifact declares.
    pub exceptions: &'static [ExceptionInfo],
    /// Crates that called `library!()`.
    pub libraries: &'static [LibraryInfo],
}

static COLLECTED: SetOnce<Collected> = SetOnce::new();

impl Collected {
    /// No definitions.
    pub const NOTHING: Self = Self {
        builtins: || Ok(()),
        functions: &[],
        kernels: &[],
        types: &[],
        enums: &[],
        methods: &[],
        carried: &[],
        devices: &[],
        exceptions: &[],
        libraries: &[],
    };
}

/// Returns the definitions of this artifact; empty before its constructor ran.
fn collected() -> &'static Collected {
    COLLECTED.get().unwrap_or(const { &Collected::NOTHING })
}

/// Runs when the artifact is loaded, in the constructor of the crate `kernpack`: takes the
/// artifact's definitions, and registers them immediately if libtvm_ffi is present. Without it, a
/// Rust program's handshake or the first use does so. If that has already happened, because another
/// constructor of the artifact used it first, the definitions are registered immediately, too.
pub fn on_load(collected: fn() -> Collected) {
    // A panic must not unwind into the dynamic linker.
    let _ = std::panic::catch_unwind(|| {
        artifact::stay_loaded();
        let collected = collected();
        object::bring(collected.types, collected.methods);
        if let Some(carried) = collected.carried.first() {
            artifact::show_carried_tree((carried.shown)());
        }
        if COLLECTED.set(Box::leak(Box::new(collected))) {
            provider::at_bind(register);
        }
        provider::bind_if_process_has_one();
    });
}

/// A crate that called `library!()`. Each crate has one, and it stands for everything that the
/// crate registers: rustc links a dependency as a whole or not at all.
pub struct LibraryInfo {
    /// Crate name.
    pub crate_name: &'static str,
    /// Version in its manifest.
    pub version: &'static str,
    /// Source file of the `library!()` call.
    pub file: &'static str,
    /// Line of the `library!()` call in `file`.
    pub line: u32,
    /// The crates of `library!(with = [...])`.
    pub with: &'static [&'static LibraryInfo],
    /// The other dependencies that call `library!()`, as far as the compiler's command line shows
    /// them.
    pub dependencies: &'static [DependencyInfo],
}

impl LibraryInfo {
    /// The file of this artifact; empty if the dynamic linker does not know it.
    fn loaded_from(&self) -> String {
        artifact::file_of((&raw const *self).cast()).unwrap_or_default()
    }
}

/// A dependency that calls `library!()`.
pub struct DependencyInfo {
    /// The name that the depending crate uses for it.
    pub name: &'static str,
    /// Crate name.
    pub crate_name: &'static str,
}

/// Returns the name of the version of a crate's kernels that runs, which is the same for all of
/// them.
pub fn cpu_level(crate_name: &str) -> &'static str {
    let mut kernels = collected().kernels.iter().filter(|kernel| kernel.crate_name == crate_name);
    kernels.next().map_or(multiversion::BASELINE, |kernel| multiversion::level_of(kernel.name, kernel.call))
}

/// All problems during the registration of this artifact's types and functions, one sentence each.
pub fn problems() -> Vec<String> {
    provider::load_problems()
}

/// Registers everything with the provider that was just bound.
fn register(origin: Origin) -> Vec<String> {
    let mut problems = Vec::new();
    install_hook();
    register_into(collected(), origin, &mut problems);
    #[cfg(any(feature = "cuda", feature = "opencl"))]
    note(&mut problems, tensor::register_device_functions());
    if !problems.is_empty() {
        tell(&problems);
    }
    problems
}

/// Lets a loader in another language query the problems, because the stock library's loader does
/// not: registers the global function `kernpack.load_problems.<file>`.
#[cold]
fn tell(problems: &[String]) {
    let file = artifact::file_of((&raw const COLLECTED).cast()).unwrap_or_default();
    // Joined by hand: the standard library's `join` takes a kilobyte.
    let mut text = String::new();
    for problem in problems {
        text.push_str(problem);
        text.push('\n');
    }
    unsafe extern "C" fn call(this: *mut c_void, _: *const TVMFFIAny, _: i32, result: *mut TVMFFIAny) -> i32 {
        // SAFETY: the handle is the function created below; the result is writable and takes
        // ownership of the new string.
        unsafe { result.write(embedded::new_string(embedded::closure_of::<String>(this).as_bytes())) };
        0
    }
    // By hand, too: a packed function that is never called would be equally large.
    // SAFETY: a new function object; the handle takes ownership of its one reference.
    let function = unsafe { Function::from_raw(embedded::new_function(call, text)) };
    // The registrations record the problems themselves.
    let _ = Function::register_global_override(&format!("kernpack.load_problems.{file}"), &function);
}

#[inline]
fn note(problems: &mut Vec<String>, result: Result<()>) {
    if let Err(error) = result {
        add(problems, error);
    }
}

#[cold]
#[inline(never)]
fn add(problems: &mut Vec<String>, error: Error) {
    problems.push(error.message().to_owned());
}

fn register_into(collected: &'static Collected, origin: Origin, problems: &mut Vec<String>) {
    duplicates(collected, problems);
    left_out(collected.libraries, problems);
    let mut note = |result| note(problems, result);
    if origin == Origin::Embedded {
        note((collected.builtins)());
        #[cfg(all(feature = "embedded", not(feature = "builtins")))]
        note(crate::function::register_listing());
        note(register_host_functions());
    }
    // Before the types, whose fields may have a variant as their default.
    for def in collected.enums {
        note(def.register());
    }
    for def in collected.types {
        // A parent first, so that its problems are recorded here.
        for depth in (0..def.lineage().count()).rev() {
            note(def.lineage().nth(depth).map_or(Ok(()), TypeDef::register));
        }
    }
    let again = loaded_before(collected.libraries, &mut note);
    for info in collected.functions.iter().filter(|info| !again.contains(&info.crate_name)) {
        note(info.register_global().map_err(|error| with_advice(error, collected.libraries, info.crate_name)));
    }
    for info in collected.kernels.iter().filter(|info| !again.contains(&info.crate_name)) {
        note((info.register)(info));
    }
    #[cfg(any(feature = "cuda", feature = "opencl"))]
    note(device::register_own());
    for kind in collected.devices {
        note(kind.offer());
    }
    for info in collected.exceptions {
        note((info.register)(info));
    }
    for carried in collected.carried {
        note((carried.register)(carried));
    }
}

/// Registers the functions that a program offers to libraries in other languages, if its build
/// script called `kernpack_build::export_abi()`: that refers to this symbol, which the linker
/// otherwise omits.
fn register_host_functions() -> Result<()> {
    let Some(register) = artifact::own_symbol("__kernpack_exported_functions_v1") else { return Ok(()) };
    // SAFETY: the name, which ends with its version, is reserved for a function of this type.
    Error::check(unsafe { core::mem::transmute::<*const u8, extern "C" fn() -> i32>(register)() })
}

/// Returns the crates of this artifact that another artifact of this process has already registered
/// in the same version: two libraries with a common dependency, a program that links its own
/// library's crate and also loads the library, or a copy under another path. Their global functions
/// already exist; each artifact keeps its own functions. A different version is an error, which
/// contains both versions.
fn loaded_before(libraries: &'static [LibraryInfo], note: &mut impl FnMut(Result<()>)) -> Vec<&'static str> {
    let mut again = Vec::new();
    for (at, library) in libraries.iter().enumerate() {
        let LibraryInfo { crate_name, version, .. } = library;
        let is_same = |other: &LibraryInfo| other.crate_name == *crate_name && other.version == *version;
        if libraries[..at].iter().any(is_same) {
            continue;
        }
        let name = format!("kernpack.library.{crate_name}");
        match Function::find_global(&name).ok().flatten() {
            None => note(register_library(&name, library)),
            Some(theirs) => {
                let theirs = theirs.call(()).unwrap_or_default();
                let theirs = array_elements(theirs.as_view());
                let text = |at: usize| theirs.get(at).and_then(|text| text.get::<&str>().ok()).unwrap_or_default();
                let (their_version, their_file) = (text(0), text(1));
                if their_version != *version {
                    let file = library.loaded_from();
                    note(Err(crate::error!(
                        RuntimeError,
                        "crate {crate_name} {their_version} is in this process already (from {their_file}), so {version} (from \
                         {file}) cannot be loaded beside it; build both with the same version of {crate_name}"
                    )));
                } else if !is_dependency(libraries, crate_name) {
                    notice(format_args!(
                        "kernpack: crate {crate_name} {version} is in this process already; its global functions stay those of \
                         the first copy"
                    ));
                }
                again.push(*crate_name);
            }
        }
    }
    again
}

/// Registers the function that returns the version of a crate, and the file that contains it, to
/// other artifacts.
fn register_library(name: &str, library: &'static LibraryInfo) -> Result<()> {
    unsafe extern "C" fn call(this: *mut c_void, _: *const TVMFFIAny, _: i32, result: *mut TVMFFIAny) -> i32 {
        // SAFETY: the handle is the function created below; the result is writable. The array owns
        // the strings, and the result owns the array.
        unsafe {
            let library = embedded::closure_of::<&LibraryInfo>(this);
            let texts = [library.version, &library.loaded_from()].map(|text| embedded::new_string(text.as_bytes()));
            let array = embedded::seq::new_array_of_moved(&texts);
            result.write(TVMFFIAny::pointer(type_index::ARRAY, array.cast()));
        }
        0
    }
    // SAFETY: a new function object; the handle takes ownership of its one reference.
    let function = unsafe { Function::from_raw(embedded::new_function(call, library)) };
    function.register_with_schema(name, "", &[], &<Vec<String> as Schema>::TYPE)
}

/// Adds advice to an error: only a crate that calls `library!()` is recognized when a second
/// library contains it.
fn with_advice(error: Error, libraries: &[LibraryInfo], crate_name: &str) -> Error {
    if libraries.iter().any(|library| library.crate_name == crate_name) {
        return error;
    }
    let message = format!(
        "{}; if it is one crate that two libraries have in common, call kernpack::library!() in the root of {crate_name}",
        error.message()
    );
    Error::new(error.kind(), message)
}

/// Returns whether another crate of this artifact depends on it: two libraries may well share such
/// a crate.
fn is_dependency(libraries: &[LibraryInfo], crate_name: &str) -> bool {
    libraries.iter().any(|library| {
        library.with.iter().any(|with| with.crate_name == crate_name)
            || library.dependencies.iter().any(|dependency| dependency.crate_name == crate_name)
    })
}

/// Adds one sentence for each crate that belongs to these libraries but is not among them. rustc
/// does not link a dependency that no code refers to, and then none of its code is present to
/// report it.
fn left_out(libraries: &[LibraryInfo], found: &mut Vec<String>) {
    for LibraryInfo { crate_name, file, line, with, dependencies, .. } in libraries {
        for DependencyInfo { name, crate_name: missing } in *dependencies {
            if !libraries.iter().any(|library| library.crate_name == *missing) {
                found.push(format!(
                    "crate {missing} is a dependency of crate {crate_name} ({file}:{line}), but its functions and types are not in \
                     this library: no code refers to it, so it was not linked; write kernpack::library!(with = [{name}]) there, or \
                     kernpack::library!(without = [{name}]) if they are meant to stay out"
                ));
            }
        }
        for missing in *with {
            if !libraries.iter().any(|library| core::ptr::eq(library, *missing)) {
                found.push(format!(
                    "crate {} belongs to crate {crate_name} ({file}:{line}), but the linker left out its functions and types; link \
                     static libraries of Rust with -Wl,--whole-archive",
                    missing.crate_name
                ));
            }
        }
    }
}

/// Adds one sentence for each exported name that two functions of this artifact share. The linker
/// does not reliably reject them: with two crates, one definition may silently win.
fn duplicates(collected: &'static Collected, found: &mut Vec<String>) {
    let count = collected.functions.len() + collected.kernels.len();
    // A hash table with linear probing: a slot holds an index plus 1; at least half are free.
    let mut slots = vec![0; (2 * count).next_power_of_two()];
    for index in 0..count {
        let later = Exported::at(collected, index);
        let hash =
            later.name().bytes().fold(0, |hash: usize, byte| (hash ^ usize::from(byte)).wrapping_mul(0x0100_0193));
        let mut slot = hash & (slots.len() - 1);
        let earlier = loop {
            if slots[slot] == 0 {
                break None;
            }
            let earlier = Exported::at(collected, slots[slot] - 1);
            if earlier.name() == later.name() {
                break Some(earlier);
            }
            slot = (slot + 1) & (slots.len() - 1);
        };
        match earlier {
            None => slots[slot] = index + 1,
            Some(earlier) => found.push(format!(
                "two functions are exported as '{}': {earlier} and {later}; give one another name with \
                 #[packed_func(name = \"...\")]",
                later.name()
            )),
        }
    }
}

/// An item that this artifact exports under a name; displayed as the place of its definition.
enum Exported {
    Function(&'static FunctionInfo),
    Kernel(&'static KernelInfo),
}

impl Exported {
    /// Functions come first, then kernels.
    #[inline(never)]
    fn at(collected: &'static Collected, index: usize) -> Self {
        match collected.functions.get(index) {
            Some(function) => Self::Function(function),
            None => Self::Kernel(&collected.kernels[index - collected.functions.len()]),
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    const fn library(
        crate_name: &'static str,
        with: &'static [&'static LibraryInfo],
        dependencies: &'static [DependencyInfo],
    ) -> LibraryInfo {
        LibraryInfo { crate_name, version: "1.0.0", file: "src/lib.rs", line: 3, with, dependencies }
    }

    unsafe extern "C" fn never(_: *mut c_void, _: *const TVMFFIAny, _: i32, _: *mut TVMFFIAny) -> i32 {
        unreachable!("only names are read")
    }

    const fn kernel(name: &'static str, source: &'static str) -> KernelInfo {
        KernelInfo { name, call: never, source, doc: "", types: None, crate_name: "top", register: |_| Ok(()) }
    }

    #[test]
    fn names_that_are_exported_twice() {
        static COLLECTED: Collected = Collected {
            kernels: &[
                kernel("add", "a.c"),
                kernel("sub", "b.c"),
                kernel("", "c.c"),
                kernel("add", "d.c"),
                kernel("bus", "e.c"),
                kernel("add", "f.c"),
            ],
            ..Collected::NOTHING
        };
        let mut found = Vec::new();
        duplicates(&Collected::NOTHING, &mut found);
        assert!(found.is_empty());
        duplicates(&COLLECTED, &mut found);
        let wanted = |later| {
            format!(
                "two functions are exported as 'add': kernel a.c (crate top) and kernel {later} (crate top); give one another name \
                 with #[packed_func(name = \"...\")]"
            )
        };
        assert_eq!(found, [wanted("d.c"), wanted("f.c")]);
    }

    #[test]
    fn crates_that_were_left_out() {
        const SHAPES: &[DependencyInfo] = &[DependencyInfo { name: "renamed", crate_name: "shapes" }];
        static BOTH: [LibraryInfo; 2] = [library("shapes", &[], &[]), library("top", &[&BOTH[0]], SHAPES)];
        static DROPPED: LibraryInfo = library("dropped", &[], &[]);
        static TOP: [LibraryInfo; 1] = [library("top", &[&DROPPED], SHAPES)];
        let found = |libraries| {
            let mut found = Vec::new();
            left_out(libraries, &mut found);
            found
        };
        assert!(found(&BOTH).is_empty());
        assert_eq!(
            found(&TOP),
            [
                "crate shapes is a dependency of crate top (src/lib.rs:3), but its functions and types are not in this library: no \
                 code refers to it, so it was not linked; write kernpack::library!(with = [renamed]) there, or \
                 kernpack::library!(without = [renamed]) if they are meant to stay out",
                "crate dropped belongs to crate top (src/lib.rs:3), but the linker left out its functions and types; link static \
                 libraries of Rust with -Wl,--whole-archive",
            ]
        );
    }
}
