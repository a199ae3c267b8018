use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::stream::{put_bytes, put_u64};

/// The output of `apache-tvm` 0.27 for a library with one OpenCL kernel.
const ADDONE_OPENCL: &[u8] = include_bytes!("../../../testdata/addone_opencl.library_bin");

/// Builds a blob from its parts: row pointers, imports, and kinds with payloads.
fn blob(rows: &[u64], children: &[u64], modules: &[(&str, Option<&[u8]>)]) -> Vec<u8> {
    let mut body = Vec::new();
    for vector in [rows, children] {
        put_u64(&mut body, vector.len() as u64);
        vector.iter().for_each(|&value| put_u64(&mut body, value));
    }
    for (kind, payload) in modules {
        put_bytes(&mut body, kind.as_bytes());
        if let Some(payload) = payload {
            put_bytes(&mut body, payload);
        }
    }
    let mut blob = (body.len() as u64).to_le_bytes().to_vec();
    blob.extend(body);
    blob
}

/// Sets the size field to the number of bytes after it.
fn resized(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(following) = bytes.len().checked_sub(8) {
        bytes[..8].copy_from_slice(&(following as u64).to_le_bytes());
    }
    bytes
}

const LIB: (&str, Option<&[u8]>) = ("_lib", None);
const CUDA: (&str, Option<&[u8]>) = ("cuda", Some(b"image"));

#[test]
fn reads_what_tvm_writes() {
    let tree = LibraryBin::parse(ADDONE_OPENCL).unwrap();
    assert_eq!(ADDONE_OPENCL.len(), 724);
    assert_eq!(LibraryBin::total_size(ADDONE_OPENCL[..8].try_into().unwrap()), Ok(724));
    assert_eq!(tree.modules().iter().map(|m| m.kind()).collect::<Vec<_>>(), ["_lib", "opencl"]);
    assert_eq!(tree.imports(0).collect::<Vec<_>>(), [1]);
    assert_eq!(tree.imports(1).count(), 0);
    assert_eq!(tree.imports(2).count(), 0);
    assert_eq!(tree.library(), Some(0));
    let payload = tree.modules()[1].payload().unwrap();
    assert_eq!(payload.len(), 634);
    assert!(ADDONE_OPENCL.as_ptr_range().contains(&payload.as_ptr()), "the payload is borrowed");
}

#[test]
fn writes_what_tvm_writes() {
    let tree = LibraryBin::parse(ADDONE_OPENCL).unwrap();
    let mut writer = LibraryBinWriter::new();
    let library = writer.add_library().unwrap();
    let image = writer.add_module("opencl", tree.modules()[1].payload().unwrap()).unwrap();
    writer.import(library, image).unwrap();
    assert_eq!(writer.size(), 724);
    assert!(writer.to_vec() == ADDONE_OPENCL);
}

#[test]
fn the_root_need_not_be_the_library() {
    let bytes = blob(&[0, 1, 1], &[1], &[("relax.VMExecutable", Some(b"x")), LIB]);
    assert_eq!(LibraryBin::parse(&bytes).unwrap().library(), Some(1));
}

#[test]
fn bad_blobs_are_named() {
    #[rustfmt::skip]
    let rows: &[(Vec<u8>, &str)] = &[
        (vec![], "library_bin: size at byte 0x0: needs 8 bytes, but only 0 are left; the data is cut off"),
        (vec![9, 0, 0, 0, 0, 0, 0, 0], "library_bin: size at byte 0x0: says that 9 bytes follow, but 0 do"),
        ([blob(&[0, 0], &[], &[LIB]), vec![0]].concat(), "library_bin: size at byte 0x0: says that 44 bytes follow, but 45 do"),
        (resized([blob(&[0, 0], &[], &[LIB]), vec![0]].concat()), "library_bin: modules at byte 0x34: 1 unexpected bytes after the end"),
        (blob(&[], &[], &[]), "library_bin: row pointers at byte 0x10: no module, so no root"),
        (blob(&[0], &[], &[]), "library_bin: row pointers at byte 0x10: no module, so no root"),
        (blob(&[1, 1], &[1], &[LIB]), "library_bin: row pointers at byte 0x10: must ascend from 0 to 1, the length of the import list"),
        (blob(&[0, 2, 1], &[1], &[LIB, CUDA]), "library_bin: row pointers at byte 0x10: must ascend from 0 to 1, the length of the import list"),
        (blob(&[0, 1, 1], &[2], &[LIB, CUDA]), "library_bin: import list at byte 0x30: module 0 imports module 2, but there are only 2 modules"),
        (blob(&[0, 1, 2], &[1, 0], &[LIB, CUDA]), "library_bin: import list at byte 0x38: module 1 imports module 0: a cycle; imports must come later"),
        (blob(&[0, 1], &[0], &[LIB]), "library_bin: import list at byte 0x28: module 0 imports module 0: a cycle; imports must come later"),
        (blob(&[0, 2, 2], &[1, 1], &[LIB, CUDA]), "library_bin: import list at byte 0x38: module 0 imports module 1 twice"),
        (blob(&[0, 0, 0], &[], &[LIB, LIB]), "library_bin: kind of module 1 at byte 0x3c: is \"_lib\", as module 0 is already; one library has one place"),
        (blob(&[0, 0], &[], &[("", None)]), "library_bin: kind of module 0 at byte 0x28: is empty"),
        (blob(&[0, 0], &[], &[("cuda", Some(b""))]), "library_bin: payload of module 0 (kind \"cuda\") at byte 0x34: is empty, which no loader accepts"),
        (blob(&[0, 0], &[], &[("cuda", None)]), "library_bin: payload of module 0 (kind \"cuda\") at byte 0x34: needs 8 bytes, but only 0 are left; the data is cut off"),
        (blob(&[0, 0, 0], &[], &[LIB]), "library_bin: modules at byte 0x30: 2 modules do not fit into the 12 bytes left"),
    ];
    for (bytes, expected) in rows {
        assert_eq!(LibraryBin::parse(bytes).unwrap_err().to_string(), *expected);
    }
    let mut huge = blob(&[0, 0], &[], &[LIB]);
    huge[8..16].fill(0xff);
    let error = LibraryBin::parse(&huge).unwrap_err();
    assert_eq!(
        error.to_string(),
        "library_bin: row pointers at byte 0x8: claims 18446744073709551615 items of 8 bytes or more, but only 36 bytes follow"
    );
    assert_eq!((error.offset(), error.structure()), (8, "row pointers"));
    let mut not_text = blob(&[0, 0], &[], &[("cuda", Some(b"x"))]);
    not_text[0x30] = 0xff;
    assert_eq!(
        LibraryBin::parse(&not_text).unwrap_err().to_string(),
        "library_bin: kind of module 0 at byte 0x28: is not UTF-8"
    );
    let error = LibraryBin::total_size([0xff; 8]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "library_bin: size at byte 0x0: claims 18446744073709551615 bytes, more than an address space"
    );
}

#[test]
fn bad_trees_are_not_written() {
    let mut writer = LibraryBinWriter::new();
    assert_eq!(writer.add_library(), Ok(0));
    assert_eq!(writer.add_library(), Err(WriteError::SecondLibrary));
    assert_eq!(writer.add_module("_lib", b"x"), Err(WriteError::InvalidKind("_lib".to_owned())));
    assert_eq!(writer.add_module("", b"x"), Err(WriteError::InvalidKind(String::new())));
    assert_eq!(writer.add_module("cuda", b""), Err(WriteError::EmptyPayload { kind: "cuda".to_owned() }));
    assert_eq!(writer.add_module("cuda", b"x"), Ok(1));
    assert_eq!(writer.import(0, 2), Err(WriteError::UnknownModule { index: 2, modules: 2 }));
    assert_eq!(writer.import(1, 1), Err(WriteError::NotForward { parent: 1, child: 1 }));
    assert_eq!(writer.import(1, 0), Err(WriteError::NotForward { parent: 1, child: 0 }));
    assert_eq!(writer.import(0, 1), Ok(()));
    assert_eq!(writer.import(0, 1), Ok(()), "twice is once");
    assert_eq!(LibraryBin::parse(&writer.to_vec()).unwrap().imports(0).collect::<Vec<_>>(), [1]);
}

#[test]
fn every_truncation_is_an_error() {
    for len in 0..ADDONE_OPENCL.len() {
        let cut = &ADDONE_OPENCL[..len];
        assert!(LibraryBin::parse(cut).is_err(), "cut to {len} bytes");
        assert!(LibraryBin::parse(&resized(cut.to_vec())).is_err(), "cut to {len} bytes with the size field mended");
    }
}

#[test]
fn bit_flips_never_panic() {
    let mut bytes = ADDONE_OPENCL.to_vec();
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        let _ = LibraryBin::parse(&bytes);
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

proptest! {
    #[test]
    fn any_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        let _ = LibraryBin::parse(&bytes);
        let _ = LibraryBin::parse(&resized(bytes));
    }

    /// Small numbers in the right places get further into the parser than random bytes.
    #[test]
    fn any_tree_never_panics(rows in proptest::collection::vec(0u64..5, 0..6), children in proptest::collection::vec(0u64..5, 0..6)) {
        let _ = LibraryBin::parse(&blob(&rows, &children, &[LIB, CUDA, CUDA]));
    }

    #[test]
    fn round_trip(
        library in any::<Option<prop::sample::Index>>(),
        modules in proptest::collection::vec(("[a-z.]{1,12}", proptest::collection::vec(any::<u8>(), 1..64)), 1..8),
        edges in proptest::collection::vec((0usize..8, 0usize..8), 0..20),
    ) {
        let library = library.map(|index| index.index(modules.len()));
        let mut writer = LibraryBinWriter::new();
        for (index, (kind, payload)) in modules.iter().enumerate() {
            let added = if library == Some(index) { writer.add_library() } else { writer.add_module(kind, payload) };
            prop_assert_eq!(added, Ok(index));
        }
        let mut expected = vec![BTreeSet::new(); modules.len()];
        for (parent, child) in edges {
            if writer.import(parent, child).is_ok() {
                expected[parent].insert(child);
            }
        }
        let blob = writer.to_vec();
        prop_assert_eq!(blob.len(), writer.size());
        let tree = LibraryBin::parse(&blob).unwrap();
        prop_assert_eq!(tree.library(), library);
        for (index, (kind, payload)) in modules.iter().enumerate() {
            let entry = tree.modules()[index];
            if library != Some(index) {
                prop_assert_eq!((entry.kind(), entry.payload()), (kind.as_str(), Some(payload.as_slice())));
            }
            prop_assert_eq!(tree.imports(index).collect::<BTreeSet<_>>(), expected[index].clone());
        }
    }
}
