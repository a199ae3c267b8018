//! Conversion of import trees to the bytes of `__tvm_ffi__library_bin` and back.

mod tree;

use super::library_bin::{LIBRARY_KIND, LibraryBin, LibraryBinWriter, WriteError};
use super::load::loader;
use super::{Module, ModuleProperties};
use crate::value::Bytes;
use crate::{Error, Result};
use kernpack_formats::library_bin::order::order;
pub(super) use tree::ImportTree;

/// The treatment of modules that can become part of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exportable {
    /// The library: they are written as `_lib`, all in one place.
    Library,
    /// No special treatment: they are written through their bytes, like the others.
    Bytes,
}

/// A tree that is ready to be written.
#[derive(Default)]
pub(super) struct Serialized {
    /// Kind and payload of each place; the library does not have a payload.
    entries: Vec<(String, Option<Bytes>)>,
    imports: Vec<Vec<usize>>,
}

impl Serialized {
    /// Serializes each module once.
    ///
    /// # Errors
    /// Returns a RuntimeError that contains the module's path in the tree.
    #[inline]
    pub(super) fn of(tree: &ImportTree, exportable: Exportable, compress: bool) -> Result<Self> {
        let modules = tree.modules();
        let is_exportable = |module: &Module| module.properties().contains(ModuleProperties::COMPILATION_EXPORTABLE);
        let in_library: Vec<bool> =
            modules.iter().map(|module| exportable == Exportable::Library && is_exportable(module)).collect();
        let order = order(tree.imports(), &in_library).map_err(|cycle| {
            crate::error!(
                RuntimeError,
                "the modules that become a part of the library cannot be merged into one, it would import itself: {}; export the \
                 last of them as a library of its own",
                tree.path_through(cycle.from, &cycle.via)
            )
        })?;
        let mut serialized = Self { entries: Vec::with_capacity(order.places.len()), imports: order.imports };
        for (place, members) in order.places.iter().enumerate() {
            serialized.entries.push(match members.first() {
                Some(&module) if Some(place) != order.library => entry(tree, module, compress)?,
                _ => (LIBRARY_KIND.to_owned(), None),
            });
        }
        Ok(serialized)
    }

    /// Returns the writer of the tree.
    #[inline]
    pub(super) fn writer(&self) -> Result<LibraryBinWriter<'_>> {
        let mut writer = LibraryBinWriter::new();
        let failed = |error: WriteError| Error::runtime_error(error.to_string());
        for (kind, payload) in &self.entries {
            match payload {
                Some(payload) => writer.add_module(kind, payload).map_err(failed)?,
                None => writer.add_library().map_err(failed)?,
            };
        }
        for (importer, imports) in self.imports.iter().enumerate() {
            for &import in imports {
                writer.import(importer, import).map_err(failed)?;
            }
        }
        Ok(writer)
    }
}

/// Returns kind and payload of a module that is not the library.
#[inline]
fn entry(tree: &ImportTree, index: usize, compress: bool) -> Result<(String, Option<Bytes>)> {
    let module = &tree.modules()[index];
    let kind = module.kind();
    let problem = |what: &str| crate::error!(RuntimeError, "the module {} {what}", tree.path(index));
    if !module.properties().contains(ModuleProperties::BINARY_SERIALIZABLE) {
        return Err(problem("can be neither serialized nor made a part of a library: its kind offers neither"));
    }
    if kind.is_empty() || kind == LIBRARY_KIND {
        return Err(problem("has no name of a kind, so nothing could restore it"));
    }
    if kind == "library" {
        return Err(problem(
            "was loaded from a library file, and its code cannot be written out again; export the modules that the file was made \
             of, or import the loaded library again where this tree is loaded",
        ));
    }
    let payload = module
        .save_to_bytes()
        .map_err(|error| Error::new(error.kind(), format!("the module {}: {}", tree.path(index), error.message())))?;
    if payload.is_empty() {
        return Err(problem(
            "has an empty payload, which the stock library cannot load; its kind must save at least one byte",
        ));
    }
    #[cfg(feature = "zstd")]
    if compress {
        let (kind, payload) = super::kinds::zstd::compressed(&kind, payload);
        return Ok((kind, Some(payload)));
    }
    #[cfg(not(feature = "zstd"))]
    let _ = compress;
    Ok((kind, Some(payload)))
}

impl Module {
    /// Serializes the import tree to the bytes of `__tvm_ffi__library_bin`, for the library that
    /// this module and its imports are exported to: all modules that become part of the library
    /// (compilation-exportable ones) share the one place `_lib`, the others are written through
    /// their bytes, each once. For trees that Apache TVM 0.27 can write, the bytes are identical.
    ///
    /// [`Module::export_library`] builds the library.
    ///
    /// # Errors
    /// Returns a RuntimeError with the path of a module that can be neither serialized nor
    /// exported, whose payload is empty (the stock library cannot load that), or that was loaded
    /// from a library file; and with the path of a cycle, either of the tree or after merging the
    /// library's parts. Also returns the error of a module's `save_to_bytes`.
    #[inline]
    pub fn serialize(&self) -> Result<Vec<u8>> {
        let serialized = Serialized::of(&ImportTree::of(self)?, Exportable::Library, false)?;
        Ok(serialized.writer()?.to_vec())
    }

    /// Serializes the import tree with every module written through its bytes, so that
    /// [`Module::deserialize`] restores it without a library.
    ///
    /// # Errors
    /// As for [`Module::serialize`]; a module that can only be exported (`llvm`) is an error, too.
    #[inline]
    pub fn serialize_without_library(&self) -> Result<Vec<u8>> {
        let serialized = Serialized::of(&ImportTree::of(self)?, Exportable::Bytes, false)?;
        Ok(serialized.writer()?.to_vec())
    }

    /// Restores an import tree through the loaders of the kinds; returns the root.
    ///
    /// ```
    /// use kernpack::Module;
    ///
    /// let root = Module::c_source("int one(void) { return 1; }", "c", &["one"]);
    /// root.import(&Module::c_source("int two(void) { return 2; }", "c", &["two"]))?;
    /// let copy = Module::deserialize(&root.serialize_without_library()?)?;
    /// assert_eq!(copy.imports()[0].inspect_source("c")?, "int two(void) { return 2; }");
    /// # Ok::<(), kernpack::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns a RuntimeError for bytes that are not an import tree, for a kind without a loader,
    /// and for a tree with `_lib` in it, which belongs to a library and can only be read by
    /// [`Module::load`]. Also returns the error of a loader.
    #[inline]
    pub fn deserialize(bytes: &[u8]) -> Result<Self> {
        let tree = LibraryBin::parse(bytes).map_err(|error| Error::runtime_error(error.to_string()))?;
        if let Some(place) = tree.library() {
            return Err(crate::error!(
                RuntimeError,
                "_lib is not allowed during module serialization: module {place} of the tree is the library that the tree was \
                 exported with; load that library, or serialize the tree with serialize_without_library"
            ));
        }
        let mut loaders = loader::Loaders::default();
        loader::connect(&tree, |kind, payload| match payload {
            Some(payload) => loaders.restore(kind, Bytes::new(payload)),
            // Rejected above.
            None => Err(Error::runtime_error("_lib is not allowed during module serialization")),
        })
    }
}

#[cfg(test)]
mod tests;
