//! Modules of user-defined kinds inside a library.

use kernpack::module::library_bin::LibraryBin;
use kernpack::{Bytes, Module};

use crate::package::{ALL_FEATURES, Package, c_kernel};

/// A crate that defines a module kind and its loader.
const LIBRARY: &str = r#"//! Scratch.
kernpack::library!();

use kernpack::module::ModuleImpl;
use kernpack::{Bytes, Function, Module, Result, packed_func};

/// Gives its bytes.
struct Table(Bytes);

impl ModuleImpl for Table {
    fn kind(&self) -> &str {
        "scratch.table"
    }

    fn find_function(&self, name: &str) -> Result<Option<Function>> {
        let bytes = self.0.clone();
        Ok((name == "bytes").then(|| Function::from_fn(move || bytes.clone())))
    }
}

/// The loader.
#[packed_func(name = "ffi.Module.load_from_bytes.scratch.table")]
pub fn load_table(bytes: Bytes) -> Module {
    Module::new(Table(bytes))
}
"#;

const CALLS: &str = r#"
        .c(["kernels/one.c"])
        .import(&kernpack_build::Module::from_bytes("scratch.table", *b"top").import(&shared()))
        .import(&shared())
        .import(&kernpack_build::Module::from_bytes("scratch.table", vec![0; 50_000]))
        .compress(true)"#;

const SHARED: &str = r#"
/// The same module whenever it is asked for.
fn shared() -> kernpack_build::Module {
    thread_local! {
        static SHARED: kernpack_build::Module = kernpack_build::Module::from_file("scratch.table", "data/table.bin");
    }
    SHARED.with(Clone::clone)
}
"#;

/// Returns a package whose manifest has `features` in the dependency on the runtime.
fn package(name: &str, features: &str) -> Package {
    let package = Package::new(name, CALLS)
        .file("kernels/one.c", &c_kernel("one", "1"))
        .file("data/table.bin", "from a file")
        .file("src/lib.rs", LIBRARY);
    let read = |path: &str| std::fs::read_to_string(package.dir.join(path)).unwrap();
    let manifest = read("Cargo.toml")
        .replace("/runtime' }", &format!("/runtime'{features} }}"))
        .replace("build-support' }", "build-support', features = [\"zstd\"] }");
    let script = read("build.rs") + SHARED;
    package.file("Cargo.toml", &manifest).file("build.rs", &script)
}

#[test]
fn travel_in_the_library_and_come_back() {
    let package = package("own-modules", ALL_FEATURES);
    let library = package.build();
    let blob = library.import_tree().unwrap();
    let tree = LibraryBin::parse(&blob).unwrap();
    let kinds: Vec<&str> = tree.modules().iter().map(|entry| entry.kind()).collect();
    assert_eq!(kinds, ["_lib", "kernpack.zstd", "scratch.table", "scratch.table"]);
    assert!(blob.len() < 1_000, "{}", blob.len());

    let loaded = Module::load(package.library_path("debug")).unwrap();
    assert_eq!(loaded.function("one").unwrap().call_as::<i64>(()).unwrap(), 1);
    let bytes = |module: &Module| module.function("bytes").unwrap().call_as::<Bytes>(()).unwrap().to_vec();
    let imports = loaded.imports();
    let all: Vec<Vec<u8>> = imports.iter().map(bytes).collect();
    assert_eq!(all, [vec![0; 50_000], b"top".to_vec(), b"from a file".to_vec()]);
    assert_eq!(imports[1].imports(), [imports[2].clone()]);
}

/// The linker needs little more memory than the size of a large blob.
#[test]
#[cfg(target_os = "linux")]
fn a_blob_of_64_mib_links_with_less_than_300_mb() {
    let calls = ".import(&kernpack_build::Module::from_file(\"scratch.large\", \"data/table.bin\"))";
    let library = LIBRARY.replace("scratch.table", "scratch.large");
    let package = Package::new("large-module", calls).file("src/lib.rs", &library).file("data/table.bin", "small");
    package.build();
    let content: Vec<u8> = (0..64_u32 << 20).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
    std::fs::write(package.dir.join("data/table.bin"), &content).unwrap();
    let most = package.build_measured();
    println!("64 MiB: {} MB", most / 1_000_000);
    assert!(most < 300_000_000, "{most}");
    let loaded = Module::load(package.library_path("debug")).unwrap();
    let bytes = loaded.imports()[0].function("bytes").unwrap().call_as::<Bytes>(()).unwrap();
    assert!(*bytes == *content);
}

#[test]
fn compressed_ones_need_the_feature() {
    let built = package("no-feature", "").cargo(&["check", "--lib"], &[]);
    assert!(
        !built.success && built.stderr.contains("needs kernpack's feature `zstd` to restore them"),
        "{}",
        built.stderr
    );
}
