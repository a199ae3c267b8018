use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use object::{Object as _, ObjectSymbol as _, SymbolScope};

use crate::{Error, Result};

/// The prefix of the symbols of packed functions.
pub(crate) const PREFIX: &str = "__tvm_ffi_";

/// A compiled input.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    /// The input as the user named it, such as `kernels/blur.c`.
    pub(crate) source: String,
    pub(crate) object: PathBuf,
}

/// A kernel that an object defines as a packed function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostKernel {
    pub(crate) name: String,
    pub(crate) source: String,
    /// True if the object defines the metadata of the function, and its documentation.
    pub(crate) has_metadata: bool,
    pub(crate) has_doc: bool,
}

/// The symbols of one object.
#[derive(Clone, Debug, Default)]
struct Symbols {
    source: String,
    /// Symbols that are visible outside the library. The flag is true if another definition may
    /// replace the symbol.
    exported: BTreeMap<String, bool>,
    /// Symbols that are defined, but not visible outside the library.
    hidden: BTreeSet<String>,
    undefined: BTreeSet<String>,
}

impl Symbols {
    fn read(compiled: &Compiled) -> Result<Self> {
        let bad = |problem: String| {
            Error::new(format!("{}: its object {}: {problem}", compiled.source, compiled.object.display()))
        };
        let bytes = fs::read(&compiled.object).map_err(|e| bad(e.to_string()))?;
        let file = object::File::parse(bytes.as_slice()).map_err(|e| {
            bad(format!("{e}; kernels must be compiled to plain objects (is link time optimization in CFLAGS?)"))
        })?;
        let prefixed = file.format() == object::BinaryFormat::MachO;
        let mut symbols = Self { source: compiled.source.clone(), ..Self::default() };
        for symbol in file.symbols() {
            let Ok(name) = symbol.name() else { continue };
            let name = if prefixed { name.strip_prefix('_').unwrap_or(name) } else { name };
            let usual = matches!(
                symbol.kind(),
                object::SymbolKind::Text | object::SymbolKind::Data | object::SymbolKind::Unknown
            );
            if name.is_empty() || !usual {
                continue;
            }
            if symbol.is_undefined() {
                symbols.undefined.insert(name.to_owned());
            } else if symbol.is_definition() && symbol.scope() == SymbolScope::Dynamic {
                symbols.exported.insert(name.to_owned(), symbol.is_weak());
            } else if symbol.is_definition() {
                symbols.hidden.insert(name.to_owned());
            }
        }
        Ok(symbols)
    }

    fn packed_names(&self) -> impl Iterator<Item = &str> {
        self.exported.keys().filter_map(|name| name.strip_prefix(PREFIX))
    }
}

/// Returns the kernels of all objects, in the order of the objects. The error contains every
/// problem.
pub(crate) fn host_kernels(inputs: &[Compiled]) -> Result<Vec<HostKernel>> {
    kernels_of(&Error::collect(inputs.iter().map(Symbols::read))?)
}

/// Returns true if objects call functions that only the process that loads the library provides:
/// those of the TVM FFI.
pub(crate) fn call_the_host(inputs: &[Compiled]) -> bool {
    let objects: Vec<Symbols> = inputs.iter().filter_map(|input| Symbols::read(input).ok()).collect();
    // In C++ the name of the namespace is part of the function's name.
    let is_hosts = |name: &String| name.starts_with("TVM") || name.contains("3tvm");
    objects.iter().any(|object| object.undefined.iter().any(is_hosts))
}

fn kernels_of(objects: &[Symbols]) -> Result<Vec<HostKernel>> {
    let mut results = Vec::new();
    let mut defined: BTreeMap<&str, &str> = BTreeMap::new();
    for object in objects {
        for (name, weak) in &object.exported {
            if *weak {
                continue;
            }
            if let Some(first) = defined.insert(name, &object.source) {
                results.push(Err(defined_twice(name, first, &object.source)));
            }
        }
        results.extend(check_names(object).err().map(Err));
        let is_helper =
            || objects.iter().any(|other| object.exported.keys().any(|name| other.undefined.contains(name)));
        if !object.packed_names().any(|name| !name.starts_with('_')) && !is_helper() {
            results.push(Err(no_kernel(object)));
        }
    }
    let mut seen = BTreeSet::new();
    for object in objects {
        for name in object.packed_names().filter(|name| !name.starts_with('_')) {
            // A weak definition may be in several objects, such as the `main` that TVM generates.
            // The linker keeps one.
            if seen.insert(name) {
                let defines = |what: &str| {
                    let symbol = format!("{PREFIX}{what}{name}");
                    objects.iter().any(|object| object.exported.contains_key(&symbol))
                };
                results.push(Ok(HostKernel {
                    name: name.to_owned(),
                    source: object.source.clone(),
                    has_metadata: defines("_metadata_"),
                    has_doc: defines("_doc_"),
                }));
            }
        }
    }
    Error::collect(results)
}

fn defined_twice(name: &str, first: &str, second: &str) -> Error {
    Error::new(match name.strip_prefix(PREFIX) {
        Some(kernel) => format!("kernel `{kernel}` is defined twice: by {first} and by {second}; rename one of them"),
        None => format!("`{name}` is defined twice: by {first} and by {second}; make it static, or rename one of them"),
    })
}

/// Checks names that start with `__tvm_ffi__`. They belong to the ABI, except for a kernel's own
/// metadata and documentation.
fn check_names(object: &Symbols) -> Result<()> {
    for name in object.packed_names().filter(|name| name.starts_with('_')) {
        let about = name.strip_prefix("_metadata_").or_else(|| name.strip_prefix("_doc_"));
        if about.is_none_or(|kernel| !object.exported.contains_key(&format!("{PREFIX}{kernel}"))) {
            return Err(Error::new(format!(
                "{}: defines `{PREFIX}{name}`; names that start with `{PREFIX}_` are reserved, except \
                 `{PREFIX}_metadata_<kernel>` and `{PREFIX}_doc_<kernel>` beside their kernel",
                object.source
            )));
        }
    }
    Ok(())
}

fn no_kernel(object: &Symbols) -> Error {
    let hint = if let Some(hidden) = object.hidden.iter().find(|name| name.starts_with(PREFIX)) {
        format!("`{hidden}` is there, but static or hidden: give it external linkage and default visibility")
    } else if let Some(name) = object.exported.keys().next() {
        format!("it defines `{name}`; is that the kernel? Then name it `{PREFIX}{name}`")
    } else {
        "it defines no function that is visible outside".to_owned()
    };
    Error::new(format!(
        "{}: defines no kernel. A kernel is a C function `int {PREFIX}<name>(void* self, const TVMFFIAny* args, \
         int32_t num_args, TVMFFIAny* result)` (extern \"C\" in C++); {hint}",
        object.source
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(source: &str, exported: &[&str], hidden: &[&str], undefined: &[&str]) -> Symbols {
        let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<BTreeSet<_>>();
        // "?" marks a weak definition.
        let exported = exported.iter().map(|name| (name.trim_start_matches('?').to_owned(), name.starts_with('?')));
        Symbols {
            source: source.to_owned(),
            exported: exported.collect(),
            hidden: names(hidden),
            undefined: names(undefined),
        }
    }

    fn check(objects: &[Symbols], expected: std::result::Result<&[(&str, &str)], &[&str]>) {
        let found = kernels_of(objects);
        match (&found, expected) {
            (Ok(kernels), Ok(expected)) => {
                let kernels: Vec<_> = kernels.iter().map(|k| (k.name.as_str(), k.source.as_str())).collect();
                assert_eq!(kernels, expected);
            }
            (Err(error), Err(expected)) => assert_eq!(error.problems(), expected),
            _ => panic!("{found:?} is not {expected:?}"),
        }
    }

    #[test]
    fn kernels_are_found() {
        let a = object("a.c", &["__tvm_ffi_blur", "__tvm_ffi__doc_blur", "?__tvm_ffi_main"], &[], &["gauss"]);
        let b = object("b.ll", &["__tvm_ffi_sobel", "?__tvm_ffi_main"], &[], &[]);
        let helper = object("gauss.c", &["gauss"], &[], &["exp"]);
        check(&[a, b, helper], Ok(&[("blur", "a.c"), ("main", "a.c"), ("sobel", "b.ll")]));
        check(&[], Ok(&[]));
    }

    #[test]
    fn mistakes_are_all_named() {
        check(
            &[
                object("a.c", &["__tvm_ffi_blur", "helper"], &[], &[]),
                object("b.c", &["__tvm_ffi_blur", "helper"], &[], &[]),
                object("c.c", &["__tvm_ffi_x", "__tvm_ffi__library_bin"], &[], &[]),
                object("d.c", &["sobel"], &[], &[]),
                object("e.c", &[], &["__tvm_ffi_edge"], &[]),
                object("f.c", &[], &[], &[]),
            ],
            Err(&[
                "kernel `blur` is defined twice: by a.c and by b.c; rename one of them",
                "`helper` is defined twice: by a.c and by b.c; make it static, or rename one of them",
                "c.c: defines `__tvm_ffi__library_bin`; names that start with `__tvm_ffi__` are reserved, except `__tvm_ffi__metadata_<kernel>` and `__tvm_ffi__doc_<kernel>` beside their kernel",
                "d.c: defines no kernel. A kernel is a C function `int __tvm_ffi_<name>(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result)` (extern \"C\" in C++); it defines `sobel`; is that the kernel? Then name it `__tvm_ffi_sobel`",
                "e.c: defines no kernel. A kernel is a C function `int __tvm_ffi_<name>(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result)` (extern \"C\" in C++); `__tvm_ffi_edge` is there, but static or hidden: give it external linkage and default visibility",
                "f.c: defines no kernel. A kernel is a C function `int __tvm_ffi_<name>(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result)` (extern \"C\" in C++); it defines no function that is visible outside",
            ]),
        );
    }
}
