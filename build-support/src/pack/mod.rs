//! The import tree of the crate's library: packs the modules of a build script into the object that
//! defines `__tvm_ffi__library_bin`.

#[cfg(feature = "graph")]
pub(crate) mod data_object;
pub(crate) mod module;
pub(crate) mod object_packer;

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;

use kernpack_formats::device_image::{DeviceFunction, DeviceImage};
use kernpack_formats::export::{Blob, Target};
use kernpack_formats::library_bin::{
    FIRST_LIBRARY_BIN_SYMBOL, LIBRARY_BIN_SYMBOL, LibraryBinWriter, SHOWN_LIBRARY_BIN_SYMBOL, has_resolver,
};

use crate::cuda::CudaImage;
use crate::pack::module::Module;
use crate::pack::object_packer::Definition;
use crate::session::Session;
use crate::{Error, Result};

/// The modules of CUDA images.
pub(crate) fn cuda_modules(images: &[CudaImage]) -> Result<Vec<Module>> {
    Error::collect(images.iter().map(|image| {
        let size = std::fs::metadata(&image.code)
            .map_err(|e| Error::new(format!("{}: its image {}: {e}", image.source, image.code.display())))?
            .len();
        let functions = image
            .kernels
            .iter()
            .map(|kernel| DeviceFunction::new(&kernel.name, kernel.arg_types.clone(), kernel.dynamic_shared_memory));
        // The code comes last: its size, then the unchanged bytes of the file.
        let mut head = DeviceImage::new(image.format, functions.collect(), &[]).to_vec();
        head.truncate(head.len() - size_of::<u64>());
        head.extend_from_slice(&size.to_le_bytes());
        Ok(Module::head_and_file("kernpack.cuda", head, image.code.clone()))
    }))
}

/// An import tree that was written.
pub(crate) struct Packed {
    /// The object that defines the blob.
    pub(crate) object: PathBuf,
    /// The kinds in it, each once, in order.
    pub(crate) kinds: Vec<String>,
    /// The symbol by which the crate itself finds it.
    pub(crate) symbol: String,
}

/// Returns the crate's own name for its tree. A program may link several crates with a tree each,
/// but the loader of a library looks up a single name.
fn own_symbol(session: &Session) -> String {
    let version = session.environment.cargo_optional("CARGO_PKG_VERSION").unwrap_or_default();
    let name = format!("{}_{version}", session.package_name);
    let name = name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    format!("__kernpack_library_bin_{name}")
}

/// One serialized module.
struct Entry {
    kind: String,
    size: u64,
    content: Content,
}

enum Content {
    AsItIs(Module),
    #[cfg(feature = "zstd")]
    Compressed(Vec<u8>),
}

/// Writes the tree of a library that imports these modules. Files are read when the object is
/// written.
pub(crate) fn pack(session: &Session, imports: &[Module], compress: bool) -> Result<Packed> {
    if compress && !cfg!(feature = "zstd") {
        return Err(Error::new(".compress(true): kernpack-build was built without its feature `zstd`"));
    }
    let (modules, tree) = tree(imports);
    let order = kernpack_formats::library_bin::order::import_order(&tree);
    // The library, module 0, is always first.
    let entries = order.iter().skip(1).map(|&module| entry(session, &modules[module - 1], compress));
    let entries = Error::collect(entries)?;
    let failed =
        |e: &dyn std::fmt::Display| Error::new(format!("{LIBRARY_BIN_SYMBOL}: the modules cannot be packed: {e}"));

    type Write<'a> = Box<dyn Fn(&mut dyn io::Write) -> io::Result<()> + 'a>;
    let writes: Vec<Write<'_>> = entries
        .iter()
        .map(|entry| -> Write<'_> {
            match &entry.content {
                Content::AsItIs(module) => Box::new(|out| module.write_to(session, out)),
                #[cfg(feature = "zstd")]
                Content::Compressed(bytes) => Box::new(|out| out.write_all(bytes)),
            }
        })
        .collect();
    let mut writer = LibraryBinWriter::new();
    writer.add_library().map_err(|e| failed(&e))?;
    for (entry, write) in entries.iter().zip(&writes) {
        writer.add_stream(&entry.kind, entry.size, write).map_err(|e| failed(&e))?;
    }
    let mut place_of = vec![0; order.len()];
    for (place, &module) in order.iter().enumerate() {
        place_of[module] = place;
    }
    for (module, row) in tree.iter().enumerate() {
        for &import in row {
            writer.import(place_of[module], place_of[import]).map_err(|e| failed(&e))?;
        }
    }
    let target = Target::of_parts(&session.target.arch, &session.target.os).map_err(|e| failed(&e))?;
    let blob = Blob::new(LIBRARY_BIN_SYMBOL, &writer);
    let (object, symbol) = (session.work_dir.join("devc.o"), own_symbol(session));
    let crate::cargo::target::Target { arch, os, env, .. } = &session.target;
    let exported = if has_resolver(arch, os, env) { SHOWN_LIBRARY_BIN_SYMBOL } else { LIBRARY_BIN_SYMBOL };
    // Linkers see the symbols of a library before those of the crates that it links.
    let symbols = [
        Definition::exported(exported).weak(),
        Definition::internal(FIRST_LIBRARY_BIN_SYMBOL).weak(),
        Definition::internal(&symbol),
    ];
    object_packer::write(&blob, &symbols, &target, &object).map_err(|e| failed(&e.message()))?;
    let mut kinds: Vec<String> = entries.iter().map(|entry| entry.kind.clone()).collect();
    kinds.extend(modules.iter().map(|module| module.kind().to_owned()));
    kinds.sort();
    kinds.dedup();
    Ok(Packed { object, kinds, symbol })
}

/// Returns every module once, and the imports of each: row 0 is the library, row `i` is module
/// `i - 1`.
fn tree(imports: &[Module]) -> (Vec<Module>, Vec<Vec<usize>>) {
    let mut modules: Vec<Module> = Vec::new();
    let mut numbers = HashMap::new();
    let mut tree = vec![Vec::new()];
    // Modules whose imports have not been visited. The row of a module exists before it is added
    // here.
    let mut pending = vec![(0, imports.to_vec())];
    while let Some((importer, imports)) = pending.pop() {
        for module in imports {
            let number = *numbers.entry(module.address()).or_insert_with(|| {
                tree.push(Vec::new());
                pending.push((tree.len() - 1, module.imports().to_vec()));
                modules.push(module.clone());
                tree.len() - 1
            });
            tree[importer].push(number);
        }
    }
    (modules, tree)
}

fn entry(session: &Session, module: &Module, compress: bool) -> Result<Entry> {
    let size = module.size(session)?;
    if size == 0 {
        return Err(Error::new(format!(
            "the module of kind `{}` is empty; the stock library cannot load that, so give it at least one byte",
            module.kind()
        )));
    }
    #[cfg(feature = "zstd")]
    if compress {
        use kernpack_formats::zstd;
        let mut bytes = Vec::new();
        module.write_to(session, &mut bytes).map_err(|e| Error::new(e.to_string()))?;
        let compressed = zstd::compress(module.kind(), &bytes);
        if compressed.len() < bytes.len() && module.kind() != zstd::KIND {
            let size = compressed.len() as u64;
            return Ok(Entry { kind: zstd::KIND.to_owned(), size, content: Content::Compressed(compressed) });
        }
    }
    let _ = compress;
    Ok(Entry { kind: module.kind().to_owned(), size, content: Content::AsItIs(module.clone()) })
}

#[cfg(test)]
mod tests {
    use kernpack_formats::library_bin::LibraryBin;
    use object::{Object as _, ObjectSection as _};

    use super::*;
    use crate::cargo::environment::Environment;

    /// Returns the blob of a library that imports these modules, and its kinds. `name` is a folder
    /// for the test.
    fn packed(name: &str, imports: &[Module], compress: bool) -> Result<(Vec<u8>, Vec<String>)> {
        let folder = std::env::temp_dir().join(format!("kernpack-pack-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("data.bin"), b"content of a file").unwrap();
        let dir = folder.to_str().unwrap();
        let session = Session::new(
            Environment::fake(&[
                ("CARGO_MANIFEST_DIR", dir),
                ("OUT_DIR", folder.join("out").to_str().unwrap()),
                ("CARGO_PKG_NAME", name),
                ("TARGET", "x86_64-unknown-linux-gnu"),
                ("HOST", "x86_64-unknown-linux-gnu"),
                ("CARGO_CFG_TARGET_ARCH", "x86_64"),
                ("CARGO_CFG_TARGET_OS", "linux"),
            ]),
            None,
        )?;
        let packed = pack(&session, imports, compress).map(|packed| {
            let bytes = std::fs::read(packed.object).unwrap();
            let file = object::File::parse(bytes.as_slice()).unwrap();
            (file.section_by_name(".rodata").unwrap().data().unwrap().to_vec(), packed.kinds)
        });
        std::fs::remove_dir_all(&folder).unwrap();
        packed
    }

    #[test]
    fn modules_are_nested_and_shared() {
        let shared = Module::from_file("t.data", "data.bin");
        let one = Module::from_bytes("t.one", *b"1").import(&shared);
        let two = Module::from_bytes("t.two", *b"2").import(&shared).import(&one);
        let (blob, kinds) = packed("tree", &[one.clone(), two, one], false).unwrap();
        assert_eq!(kinds, ["t.data", "t.one", "t.two"]);
        let tree = LibraryBin::parse(&blob).unwrap();
        let modules: Vec<(&str, &[u8])> =
            tree.modules().iter().map(|entry| (entry.kind(), entry.payload().unwrap_or_default())).collect();
        assert_eq!(modules, [("_lib", &b""[..]), ("t.two", b"2"), ("t.one", b"1"), ("t.data", b"content of a file")]);
        let imports: Vec<Vec<usize>> = (0..4).map(|module| tree.imports(module).collect()).collect();
        assert_eq!(imports, [vec![1, 2], vec![2, 3], vec![3], vec![]]);
    }

    #[test]
    fn mistakes_are_named() {
        let rows = [
            (
                Module::from_bytes("t.x", Vec::new()),
                "the module of kind `t.x` is empty; the stock library cannot load that, so give it at least one byte",
            ),
            (
                Module::from_bytes("_lib", *b"x"),
                "__tvm_ffi__library_bin: the modules cannot be packed: library_bin: \"_lib\" is not a module kind",
            ),
            (
                Module::from_bytes("", *b"x"),
                "__tvm_ffi__library_bin: the modules cannot be packed: library_bin: \"\" is not a module kind",
            ),
        ];
        for (payload, expected) in rows {
            assert_eq!(packed("mistakes", &[payload], false).unwrap_err().to_string(), expected);
        }
        let error = packed("missing", &[Module::from_file("t.x", "none.bin")], false).unwrap_err().to_string();
        assert!(error.starts_with("none.bin: no such file; paths are relative to the package, "), "{error}");
    }

    #[cfg(feature = "zstd")]
    #[test]
    fn modules_are_compressed() {
        let modules = [Module::from_bytes("t.zeros", vec![0; 10_000]), Module::from_bytes("t.small", *b"x")];
        let (blob, kinds) = packed("compressed", &modules, true).unwrap();
        assert_eq!(kinds, ["kernpack.zstd", "t.small", "t.zeros"]);
        assert!(blob.len() < 500, "{}", blob.len());
        let tree = LibraryBin::parse(&blob).unwrap();
        let compressed = tree.modules().iter().find(|entry| entry.kind() == "kernpack.zstd").unwrap();
        let inside = kernpack_formats::zstd::decompress(compressed.payload().unwrap()).unwrap();
        assert_eq!((inside.kind, inside.payload), ("t.zeros", vec![0; 10_000]));
    }
}
