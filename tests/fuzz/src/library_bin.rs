//! The import tree in a library.

use kernpack::module::library_bin::{LibraryBin, LibraryBinWriter};

use crate::device_image;

/// Checks the input as a tree, both as it is and with a correct size before it, which random inputs
/// rarely have.
pub fn check(input: &[u8]) {
    check_tree(input);
    check_tree(&[&(input.len() as u64).to_le_bytes(), input].concat());
}

/// A tree that can be read can be written, and has the same contents.
fn check_tree(bytes: &[u8]) {
    if let Some(header) = bytes.first_chunk() {
        match LibraryBin::total_size(*header) {
            Ok(size) => assert_eq!(size as u64 - 8, u64::from_le_bytes(*header)),
            Err(error) => assert!(error.to_string().starts_with("library_bin: size at byte 0x0: "), "{error}"),
        }
    }
    let tree = match LibraryBin::parse(bytes) {
        Ok(tree) => tree,
        Err(error) => {
            assert!(error.offset() <= bytes.len() && error.to_string().starts_with("library_bin: "), "{error}");
            return;
        }
    };
    let mut writer = LibraryBinWriter::new();
    for module in tree.modules() {
        match module.payload() {
            None => writer.add_library(),
            Some(payload) => {
                device_image::check(payload);
                writer.add_module(module.kind(), payload)
            }
        }
        .expect("a module that was read");
    }
    for parent in 0..tree.modules().len() {
        tree.imports(parent).for_each(|child| writer.import(parent, child).expect("an import that was read"));
    }
    let written = writer.to_vec();
    assert_eq!(written.len(), bytes.len());
    let again = LibraryBin::parse(&written).expect("a tree that was written");
    assert_eq!(again.modules(), tree.modules());
    for parent in 0..tree.modules().len() {
        let mut imports: Vec<usize> = tree.imports(parent).collect();
        // The writer sorts them.
        imports.sort_unstable();
        assert_eq!(again.imports(parent).collect::<Vec<_>>(), imports);
    }
}
