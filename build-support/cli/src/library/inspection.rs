//! The result of inspecting a library.

use std::collections::BTreeSet;

use kernpack::module::library_bin::{LIBRARY_BIN_SYMBOL, SHOWN_LIBRARY_BIN_SYMBOL};

use crate::Result;
use crate::library::file::LibraryFile;
use crate::library::loaded::Loaded;
use crate::library::tree::Tree;

pub(crate) struct Inspection<'a> {
    pub(crate) size: usize,
    pub(crate) machine: String,
    pub(crate) maker: &'static str,
    pub(crate) needed: Vec<String>,
    /// The functions, in alphabetical order.
    pub(crate) functions: Vec<Function<'a>>,
    /// Variables that the loader sets for compiled code.
    pub(crate) context_symbols: Vec<&'a str>,
    pub(crate) tree: Option<Tree<'a>>,
    /// The description that the library itself returned, with `--load`.
    pub(crate) loaded: Option<Loaded>,
}

/// An exported packed function.
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    pub(crate) has_metadata: bool,
    pub(crate) has_doc: bool,
}

const FUNCTION: &str = "__tvm_ffi_";
const METADATA: &str = "__tvm_ffi__metadata_";
const DOC: &str = "__tvm_ffi__doc_";

impl<'a> Inspection<'a> {
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self> {
        let file = LibraryFile::parse(bytes)?;
        let names: BTreeSet<&str> = file.symbols.iter().map(|(name, _)| *name).collect();
        let described =
            |prefix: &str| -> BTreeSet<&str> { names.iter().filter_map(|name| name.strip_prefix(prefix)).collect() };
        let (metadata, docs) = (described(METADATA), described(DOC));
        // Names with an additional underscore belong to the ABI: metadata, documentation, blob,
        // context.
        let own = |name: &&str| {
            name.starts_with("_metadata_")
                || name.starts_with("_doc_")
                || matches!(*name, "_library_bin" | "_library_ctx")
        };
        let functions: Vec<_> = names
            .iter()
            .filter_map(|name| name.strip_prefix(FUNCTION))
            .filter(|name| !own(name))
            .map(|name| Function { name, has_metadata: metadata.contains(name), has_doc: docs.contains(name) })
            .collect();
        let context = |name: &&&str| name.starts_with("__TVM");
        let context_symbols: Vec<&str> = names.iter().filter(context).copied().collect();
        let tree = file.data_from(SHOWN_LIBRARY_BIN_SYMBOL).or_else(|| file.data_from(LIBRARY_BIN_SYMBOL));
        let tree = tree.transpose()?.map(Tree::read).transpose()?;
        let needed = file.needed();
        let maker = if names.contains("__kernpack_api_v1") {
            "Kernpack"
        } else if names.contains("TVMFFIGetTypeInfo") {
            "an implementation of the TVM FFI itself"
        } else if needed.iter().any(|name| name.starts_with("libtvm_ffi.")) {
            "C++ (linked to libtvm_ffi.so)"
        } else if !context_symbols.is_empty() || tree.is_some() {
            // The two cannot be distinguished: `Module::export_library` writes the same as Apache
            // TVM.
            "Apache TVM, or Module::export_library"
        } else if !functions.is_empty() {
            "a compiler for the TVM FFI"
        } else {
            "unknown (no packed functions)"
        };
        Ok(Self {
            size: bytes.len(),
            machine: file.machine(),
            maker,
            needed,
            functions,
            context_symbols,
            tree,
            loaded: None,
        })
    }
}
