//! Makes loaders that do not check for conflicts refuse a library whose types conflict with others.
//!
//! The stock loader looks for an import tree after the library's constructor has run, and restores
//! the modules in it. So a library with a conflict exposes a tree with one module, of a kind whose
//! loader raises the error.

use core::ffi::c_void;

use crate::abi::TVMFFIAny;
use crate::{Error, Function, artifact, embedded, provider};

/// Makes this artifact expose an import tree that fails to load with the recorded loading problems.
#[cold]
pub(super) fn refuse() {
    unsafe extern "C" fn raise(_: *mut c_void, _: *const TVMFFIAny, _: i32, _: *mut TVMFFIAny) -> i32 {
        let problems = provider::lines(&provider::load_problems());
        Error::with_backtrace("RuntimeError", &format!("cannot load {}: {problems}", own_file()), "").raise();
        -1
    }
    // One kind per library, so that its loader reports the library's own problems.
    let kind = format!("kernpack.conflict.{}", own_file());
    // SAFETY: a new function object; the handle takes ownership of its one reference.
    let loader = unsafe { Function::from_raw(embedded::new_function(raise, ())) };
    // Without the loader, the stock loader reports that it is missing, with the kind: also an
    // error.
    let _ = Function::register_global_override(&format!("ffi.Module.load_from_bytes.{kind}"), &loader);
    artifact::show_tree(tree_of_one(&kind).leak().as_ptr());
}

/// The file of this artifact; empty if the dynamic linker does not know it.
fn own_file() -> String {
    artifact::file_of(refuse as *const c_void).unwrap_or_default()
}

/// Builds an import tree of one module with a payload of one byte, because the stock library does
/// not accept an empty one. Written by hand, because the tree writer is a lot of code.
fn tree_of_one(kind: &str) -> Vec<u8> {
    /// Number of integers after the size.
    const NUMBERS: usize = 6;
    let mut tree = Vec::new();
    // Size; two row pointers; no imports; kind; payload.
    for number in [NUMBERS * 8 + kind.len() + 1, 2, 0, 0, 0, kind.len()] {
        tree.extend_from_slice(&(number as u64).to_le_bytes());
    }
    tree.extend_from_slice(kind.as_bytes());
    tree.extend_from_slice(&1u64.to_le_bytes());
    tree.push(0);
    tree
}

#[cfg(test)]
mod tests {
    use kernpack_formats::library_bin::{LibraryBin, LibraryBinWriter};

    use super::*;

    #[test]
    fn the_tree_is_as_the_writer_writes_it() {
        for kind in ["kernpack.conflict./a.so", "k"] {
            let bytes = tree_of_one(kind);
            let tree = LibraryBin::parse(&bytes).unwrap();
            assert_eq!((tree.modules().len(), tree.imports(0).count()), (1, 0));
            assert_eq!((tree.modules()[0].kind(), tree.modules()[0].payload()), (kind, Some(&[0][..])));
            let mut writer = LibraryBinWriter::new();
            writer.add_module(kind, &[0]).unwrap();
            assert_eq!(bytes, writer.to_vec());
        }
    }
}
