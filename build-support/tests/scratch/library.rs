//! The contents of a shared library that cargo built.

use std::fs;
use std::path::Path;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

pub(crate) struct BuiltLibrary {
    bytes: Vec<u8>,
}

impl BuiltLibrary {
    pub(crate) fn open(path: &Path) -> Self {
        Self { bytes: fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())) }
    }

    /// Returns true if the file contains these bytes.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    pub(crate) fn contains(&self, bytes: &[u8]) -> bool {
        self.bytes.windows(bytes.len()).any(|window| window == bytes)
    }

    fn file(&self) -> object::File<'_> {
        object::File::parse(self.bytes.as_slice()).expect("an object file")
    }

    /// Returns the architecture of the library.
    pub(crate) fn machine(&self) -> object::Architecture {
        self.file().architecture()
    }

    /// Returns the sorted names of the packed functions that the library exports, without those of
    /// the runtime.
    pub(crate) fn packed_functions(&self) -> Vec<String> {
        let file = self.file();
        let defined = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
        let names = defined.filter_map(|symbol| symbol.name().ok()?.strip_prefix("__tvm_ffi_").map(str::to_owned));
        let mut names: Vec<String> = names.filter(|name| !name.starts_with('_')).collect();
        names.sort();
        names
    }

    /// Returns the sorted names of the exported symbols with this prefix.
    pub(crate) fn exported(&self, prefix: &str) -> Vec<String> {
        let file = self.file();
        let defined = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
        let names = defined.filter_map(|symbol| symbol.name().ok().map(str::to_owned));
        let mut names: Vec<String> = names.filter(|name| name.starts_with(prefix)).collect();
        names.sort();
        names
    }

    /// Returns the name of the library for the dynamic linker (`DT_SONAME`).
    pub(crate) fn shared_object_name(&self) -> Option<String> {
        const DT_SONAME: u64 = 14;
        let position = self.dynamic_entries().into_iter().find(|entry| entry[0] == DT_SONAME)?[1];
        let file = self.file();
        let text = file.section_by_name(".dynstr")?.data().ok()?.get(usize::try_from(position).ok()?..)?;
        let end = text.iter().position(|byte| *byte == 0)?;
        String::from_utf8(text[..end].to_vec()).ok()
    }

    /// Returns the libraries that it requests from the dynamic linker (`DT_NEEDED`): the output of
    /// `ldd` without indirect dependencies.
    pub(crate) fn needed(&self) -> Vec<String> {
        const DT_NEEDED: u64 = 1;
        let file = self.file();
        let names = file.section_by_name(".dynstr").expect("names").data().expect("readable");
        let name = |position: u64| {
            let text = &names[usize::try_from(position).expect("a position")..];
            let end = text.iter().position(|byte| *byte == 0).expect("an end");
            String::from_utf8(text[..end].to_vec()).expect("text")
        };
        let entries = self.dynamic_entries().into_iter().filter(|entry| entry[0] == DT_NEEDED);
        entries.map(|entry| name(entry[1])).collect()
    }

    /// Returns the bytes of an exported variable.
    pub(crate) fn data(&self, name: &str) -> Option<Vec<u8>> {
        let file = self.file();
        let symbol = file.dynamic_symbols().find(|symbol| symbol.is_definition() && symbol.name() == Ok(name))?;
        let section = file.section_by_index(symbol.section_index()?).ok()?;
        let start = usize::try_from(symbol.address() - section.address()).ok()?;
        section.data().ok()?.get(start..)?.get(..usize::try_from(symbol.size()).ok()?).map(<[u8]>::to_vec)
    }

    /// Returns the import tree of the library. Its symbol is the one for systems where the usual
    /// name is that of a function of the runtime.
    pub(crate) fn import_tree(&self) -> Option<Vec<u8>> {
        self.data("__kernpack_library_bin_v1")
    }

    /// Returns true if the loader never unloads the library (`DF_1_NODELETE`).
    pub(crate) fn is_never_unloaded(&self) -> bool {
        const DT_FLAGS_1: u64 = 0x6fff_fffb;
        const DF_1_NODELETE: u64 = 8;
        self.dynamic_entries().into_iter().any(|entry| entry[0] == DT_FLAGS_1 && entry[1] & DF_1_NODELETE != 0)
    }

    /// Returns the tags and values of the dynamic section.
    fn dynamic_entries(&self) -> Vec<[u64; 2]> {
        let file = self.file();
        let dynamic = file.section_by_name(".dynamic").expect("a dynamic section");
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
        let entries = dynamic.data().expect("readable").chunks_exact(16);
        entries.map(|entry| [word(&entry[..8]), word(&entry[8..])]).collect()
    }

    /// Returns the machine code of a packed function.
    pub(crate) fn code(&self, name: &str) -> Vec<u8> {
        let file = self.file();
        let symbol =
            file.symbols().find(|symbol| symbol.name() == Ok(&format!("__tvm_ffi_{name}"))).expect("the symbol");
        let section = file.section_by_index(symbol.section_index().expect("defined")).expect("its section");
        let start = usize::try_from(symbol.address() - section.address()).expect("small");
        let size = usize::try_from(symbol.size()).expect("small");
        section.data().expect("readable")[start..start + size].to_vec()
    }
}
