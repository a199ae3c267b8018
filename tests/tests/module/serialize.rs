//! Import trees as bytes: the same bytes as Apache TVM's, and the way back.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::path::Path;
use std::process::Command;

use kernpack::module::library_bin::{LibraryBin, LibraryBinWriter};
use kernpack::module::{ExportOptions, ModuleImpl, ModuleProperties};
use kernpack::{Bytes, Function, Module, Result, packed_func};
use kernpack_tests::beside::test_again;
use kernpack_tests::stock::apache_tvm;
use proptest::prelude::*;

/// A module that consists only of its bytes.
struct Plain {
    kind: String,
    payload: Bytes,
}

impl ModuleImpl for Plain {
    fn kind(&self) -> &str {
        &self.kind
    }

    fn properties(&self) -> ModuleProperties {
        ModuleProperties::BINARY_SERIALIZABLE
    }

    fn find_function(&self, _name: &str) -> Result<Option<Function>> {
        Ok(None)
    }

    fn save_to_bytes(&self) -> Result<Bytes> {
        Ok(self.payload.clone())
    }
}

fn plain(kind: &str, payload: &[u8]) -> Module {
    Module::new(Plain { kind: kind.to_owned(), payload: Bytes::new(payload) })
}

#[packed_func(name = "ffi.Module.load_from_bytes.test.plain")]
fn load_plain(payload: Bytes) -> Result<Module> {
    Ok(plain("test.plain", &payload))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The payload of TVM's `const_loader` with one symbol.
fn constants(symbol: &str) -> Vec<u8> {
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    [words(&[0, 0, 1, symbol.len() as u64]), symbol.into(), words(&[1, 0])].concat()
}

/// Compares with `data/import_trees.json`, which contains Apache TVM 0.27's results for these trees
/// (`apache-tvm/trees.py`). `make` creates the module of a kind with a number.
fn check_trees(make: impl Fn(&str, usize) -> Module) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/import_trees.json");
    let trees: Vec<serde_json::Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let (mut same, mut only_ours, mut refused) = (0, 0, 0);
    for tree in trees {
        let kinds = tree["kinds"].as_array().unwrap().iter().map(|kind| kind.as_str().unwrap());
        let modules: Vec<Module> = kinds.enumerate().map(|(number, kind)| make(kind, number)).collect();
        for (number, imports) in tree["imports"].as_array().unwrap().iter().enumerate().rev() {
            for import in imports.as_array().unwrap() {
                modules[number].import(&modules[import.as_u64().unwrap() as usize]).unwrap();
            }
        }
        match (modules[0].serialize(), tree["blob"].as_str()) {
            (Ok(blob), Some(expected)) => {
                same += 1;
                assert_eq!(hex(&blob), expected, "{tree}");
            }
            (Ok(blob), None) => {
                // A tree with an order that TVM does not find.
                only_ours += 1;
                LibraryBin::parse(&blob).unwrap();
            }
            (Err(error), None) => {
                refused += 1;
                assert!(error.message().contains("it would import itself: "), "{error}");
            }
            (Err(error), Some(_)) => panic!("TVM writes {tree}: {error}"),
        }
    }
    // The number of generated trees; each outcome occurs.
    assert_eq!(same + only_ours + refused, 120);
    assert!(same > 50 && only_ours > 0 && refused > 0, "{same} {only_ours} {refused}");
}

#[test]
fn bytes_are_those_of_apache_tvm() {
    check_trees(|kind, number| match kind {
        "c" => Module::c_source(&format!("int f{number};"), "c", &[&format!("f{number}")]),
        kind => plain(kind, &constants(&format!("symbol{number}"))),
    });
}

const INSIDE: &str = "KERNPACK_TEST_INSIDE_APACHE_TVM";

/// The same trees of modules as in Apache TVM, made in C++, in this process.
#[test]
fn bytes_of_modules_made_in_cpp() {
    if let Some(folder) = std::env::var_os(INSIDE) {
        return inside_apache_tvm(Path::new(&folder)).unwrap();
    }
    let Some(python) = apache_tvm() else { return };
    let find = "import importlib.util as u; print(*(u.find_spec(n).submodule_search_locations[0] for n in ('tvm', 'tvm_ffi')), sep='\\n')";
    let output = Command::new(python).args(["-c", find]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (tvm, tvm_ffi) = text.trim().split_once('\n').expect("two folders");
    let output = test_again(module_path!(), "bytes_of_modules_made_in_cpp")
        .arg("--nocapture")
        .env("LD_PRELOAD", Path::new(tvm_ffi).join("lib/libtvm_ffi.so"))
        .env(INSIDE, Path::new(tvm).join("lib"))
        .output()
        .unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn inside_apache_tvm(folder: &Path) -> Result<()> {
    for name in ["libtvm_runtime.so", "libtvm_runtime_extra.so", "libtvm_compiler.so"] {
        let path = CString::new(folder.join(name).to_str().unwrap()).unwrap();
        // SAFETY: a C string; the library is never closed.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        assert!(!handle.is_null(), "{name}");
    }
    let make_c = Function::global("runtime.CSourceModuleCreate")?;
    let make_constants = Function::global("ffi.Module.load_from_bytes.const_loader")?;
    let make = |kind: &str, number: usize| -> Result<Module> {
        let name = format!("f{number}");
        match kind {
            "c" => make_c.call_as((format!("int {name};"), "c", vec![name.as_str()], Vec::<&str>::new())),
            _ => make_constants.call_as((Bytes::from(constants(&format!("symbol{number}"))),)),
        }
    };
    check_trees(|kind, number| make(kind, number).unwrap());
    // Their code becomes part of a library, too.
    let root = make("const_loader", 0)?;
    root.import(&make("c", 1)?)?;
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("serialize_cpp.so");
    root.export_library(&path, &ExportOptions::new())?;
    let loaded = Module::load(&path)?;
    assert_eq!((loaded.kind(), loaded.imports()[0].kind()), ("const_loader".to_owned(), "library".to_owned()));
    Ok(())
}

/// A tree as numbers: for each module its payload and, in order, its imports.
fn shape(root: &Module) -> Vec<(String, Vec<u8>, Vec<usize>)> {
    let mut modules = vec![root.clone()];
    let mut shape = Vec::new();
    let mut next = 0;
    while next < modules.len() {
        let module = modules[next].clone();
        let mut imports = Vec::new();
        for import in module.imports() {
            imports.push(modules.iter().position(|known| *known == import).unwrap_or_else(|| {
                modules.push(import.clone());
                modules.len() - 1
            }));
        }
        shape.push((module.kind(), module.save_to_bytes().unwrap().to_vec(), imports));
        next += 1;
    }
    shape
}

proptest! {
    #[test]
    fn trees_come_back(count in 1_usize..12, edges in proptest::collection::vec((0_usize..12, 0_usize..12), 0..40)) {
        let modules: Vec<Module> = (0..count)
            .map(|number| match number % 3 {
                0 => plain("test.plain", &[number as u8]),
                1 => Module::c_source(&format!("{number}"), "cc", &["f"]),
                _ => Module::static_library(vec![number as u8], &["f", "g"]),
            })
            .collect();
        let mut imports: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for module in 1..count {
            imports.entry(module - 1).or_default().push(module);
        }
        for (a, b) in edges {
            if a < b && b < count {
                imports.entry(a).or_default().push(b);
            }
        }
        for (importer, row) in imports.iter().rev() {
            for import in row {
                modules[*importer].import(&modules[*import]).unwrap();
            }
        }
        let bytes = modules[0].serialize_without_library().unwrap();
        let back = Module::deserialize(&bytes).unwrap();
        // The chain orders all modules, so their places are their numbers, and imports are in order
        // and unique.
        let expected: Vec<(String, Vec<u8>, Vec<usize>)> = modules.iter().enumerate().map(|(number, module)| {
            let mut row = imports.get(&number).cloned().unwrap_or_default();
            row.sort_unstable();
            row.dedup();
            (module.kind(), module.save_to_bytes().unwrap().to_vec(), row)
        }).collect();
        let mut found = shape(&back);
        let mut numbers: Vec<usize> = (0..count).collect();
        // `shape` numbers modules breadth first; the payload identifies each module.
        for (place, (kind, payload, _)) in found.iter().enumerate() {
            numbers[place] = expected.iter().position(|(k, p, _)| k == kind && p == payload).unwrap();
        }
        for (_, _, row) in &mut found {
            for import in row.iter_mut() {
                *import = numbers[*import];
            }
        }
        let mut found: Vec<_> = numbers.iter().copied().zip(found).collect();
        found.sort_by_key(|(number, _)| *number);
        prop_assert_eq!(found.into_iter().map(|(_, module)| module).collect::<Vec<_>>(), expected);
        prop_assert_eq!(back.serialize_without_library().unwrap(), bytes);
    }
}

#[test]
fn long_chains_and_wide_stars_come_back() {
    let chain = |count: usize| (0..count - 1).map(|module| (module, module + 1)).collect::<Vec<_>>();
    let star = |count: usize| (1..count).map(|module| (0, module)).collect::<Vec<_>>();
    for (count, imports) in [(1_000, chain(1_000)), (100_000, chain(100_000)), (100_000, star(100_000))] {
        let mut writer = LibraryBinWriter::new();
        for _ in 0..count {
            writer.add_module("test.plain", b"x").unwrap();
        }
        for (importer, import) in imports {
            writer.import(importer, import).unwrap();
        }
        let root = Module::deserialize(&writer.to_vec()).unwrap();
        let bytes = root.serialize().unwrap();
        // The star's modules are equal, so their order is not visible.
        assert!(bytes == writer.to_vec());
    }
}

#[test]
fn what_cannot_be_restored_is_an_error() {
    let tree = |kind: &str| {
        let mut writer = LibraryBinWriter::new();
        let root = writer.add_module("test.plain", b"x").unwrap();
        let child = if kind == "_lib" { writer.add_library() } else { writer.add_module(kind, b"y") };
        writer.import(root, child.unwrap()).unwrap();
        writer.to_vec()
    };
    let rows = [
        (
            tree("_lib"),
            "RuntimeError: _lib is not allowed during module serialization: module 1 of the tree is the library that the tree was exported with; load that library, or serialize the tree with serialize_without_library",
        ),
        (
            tree("test.nobody"),
            "RuntimeError: it carries a module of kind 'test.nobody', but no loader of that kind is registered; load the runtime that registers ffi.Module.load_from_bytes.test.nobody first",
        ),
        (
            Vec::new(),
            "RuntimeError: library_bin: size at byte 0x0: needs 8 bytes, but only 0 are left; the data is cut off",
        ),
    ];
    for (bytes, expected) in rows {
        assert_eq!(Module::deserialize(&bytes).unwrap_err().to_string(), expected);
    }
}
