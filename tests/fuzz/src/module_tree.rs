//! A whole import tree: every module is restored by the loader of its kind, queried, and serialized
//! again.

use std::collections::HashSet;

use kernpack::module::ModuleProperties;
use kernpack::module::library_bin::LibraryBinWriter;
use kernpack::{Error, Module};

use crate::call::check_error;

/// The kinds that have a loader here.
const KINDS: [&str; 10] =
    ["cuda", "opencl", "hip", "rocm", "metal", "vulkan", "webgpu", "c", "static_library", "kernpack.zstd"];

/// Checks the input as a tree with a correct size before it, and as the payload of a module of the
/// kind that the first byte selects, because random inputs rarely are a tree with a valid payload.
pub fn check(input: &[u8]) {
    check_tree(&[&(input.len() as u64).to_le_bytes(), input].concat());
    let Some((kind, payload)) = input.split_first() else { return };
    let mut writer = LibraryBinWriter::new();
    // Two modules, so that there are imports.
    for _ in 0..2 {
        if writer.add_module(KINDS[usize::from(*kind) % KINDS.len()], payload).is_err() {
            return;
        }
    }
    writer.import(0, 1).expect("the second module comes later");
    check_tree(&writer.to_vec());
}

/// A restored module can be called, and is serialized to the same bytes once more.
fn check_tree(bytes: &[u8]) {
    let root = match Module::deserialize(bytes) {
        Ok(root) => root,
        Err(error) => return check_error("deserialize", &error),
    };
    let mut pending = vec![root.clone()];
    let mut seen = HashSet::new();
    while let Some(module) = pending.pop() {
        check_module(&module);
        let imports = module.imports();
        // Modules are shared: a lattice of them has more paths than can be walked.
        if seen.len() < 1000
            && seen.insert(format!("{module:?} {:?}", module.save_to_bytes().map(|bytes| bytes.to_vec()).ok()))
        {
            pending.extend(imports);
        }
    }
    let Ok(written) = root.serialize_without_library() else { return };
    let again = Module::deserialize(&written).expect("a tree that was written");
    assert_eq!(again.serialize_without_library().expect("a tree that was read"), written);
}

/// Queries all properties of a module; nothing is compiled or run.
fn check_module(module: &Module) {
    let check = |what: &str, error: Option<Error>| error.iter().for_each(|error| check_error(what, error));
    assert!(!module.kind().is_empty());
    for name in module.function_names().iter().take(100).map(String::as_str).chain(["nothing"]) {
        check("implements_function", module.implements_function(name).err());
        check("metadata", module.metadata(name).err());
        check("doc", module.doc(name).err());
    }
    check("inspect_source", module.inspect_source("").err());
    check("write_formats", module.write_formats().err());
    check("get_function", module.find_function_in_tree("nothing").err());
    let bytes = module.save_to_bytes();
    if module.properties().contains(ModuleProperties::BINARY_SERIALIZABLE) {
        bytes.expect("a module that was restored from bytes");
    } else {
        check("save_to_bytes", bytes.err());
    }
}
