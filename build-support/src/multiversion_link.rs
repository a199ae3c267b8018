//! Makes each version of the host kernels a closed set, and joins the sets by dispatchers.
//!
//! The linker would keep one of the functions of a name, whichever comes first: that of an inline function or a template may
//! then be one with AVX-512, and the baseline would call it. So every name that a version defines gets the version's suffix,
//! in all objects of that version, and is hidden; the names of groups (COMDAT) too. What a version does not define, such as
//! functions of libc, `kernpack_raise` and what Rust defines, keeps its name.
//!
//! The baseline keeps its names, so that Rust code may refer to them; only its kernels get a suffix, because the dispatchers
//! have their names.
//!
//! Code that runs when the library is loaded must not be code of a version that the CPU lacks. So the constructors of a
//! version are taken out of the linker's list, and the runtime runs those of the version that it picks. What can not be held
//! back in this way is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use object::{LittleEndian as LE, elf};

use crate::multiversion::Version;
use crate::multiversion_dispatch::{Constructors, Dispatch};
use crate::multiversion_elf::{ElfObject, Symbol};
use crate::session::Session;
use crate::symbols::{Compiled, HostKernel, PREFIX};
use crate::{Error, Result};

/// The section of a version's constructors: pointers that the dynamic linker fills in.
const CONSTRUCTORS: &[u8] = b".data.rel.ro.kernpack_constructors";

/// Variables that whoever loads a library sets, by this prefix: there is one of each, whatever the version.
const CONTEXT: &[u8] = b"__TVM";

/// The objects to put into the library. `sets` has the objects by version, the baseline first.
pub(crate) fn link(
    session: &Session,
    versions: &[Version],
    sets: Vec<Vec<Compiled>>,
    kernels: &[HostKernel],
) -> Result<Vec<PathBuf>> {
    if versions.len() == 1 || kernels.is_empty() {
        return Ok(sets.into_iter().flatten().map(|compiled| compiled.object).collect());
    }
    let sets = sets.into_iter().map(|set| Error::collect(set.into_iter().map(VersionObject::read)));
    let sets = Error::collect(sets)?;
    let symbols: Vec<Vec<u8>> = kernels.iter().map(|kernel| format!("{PREFIX}{}", kernel.name).into_bytes()).collect();
    let mut objects = Vec::new();
    let mut dispatch = Dispatch::new(versions, kernels);
    let mut problems = Vec::new();
    for (index, (version, mut set)) in versions.iter().zip(sets).enumerate() {
        let suffix = version.suffix().into_bytes();
        if version.level.is_none() {
            set.iter_mut().for_each(|object| object.rename_kernels(&symbols, &suffix));
        } else {
            problems.extend(set.iter().flat_map(|object| object.refusals(*version)).map(Err::<(), _>));
            problems.extend(other_kernels(&set, kernels, *version).into_iter().map(Err));
            let defined: BTreeSet<Vec<u8>> = set.iter().flat_map(VersionObject::defined).collect();
            let mut lists = Vec::new();
            for (number, object) in set.iter_mut().enumerate() {
                lists.extend(object.take_constructors(&suffix, number));
                object.close(&defined, &suffix);
            }
            dispatch.add_constructors(index, lists);
        }
        for object in set {
            objects.push(object.write(&suffix)?);
        }
    }
    Error::collect(problems)?;
    let path = session.work_dir.join("dispatch.o");
    let written = dispatch.object().map_err(|e| e.to_string());
    let written = written.and_then(|bytes| fs::write(&path, bytes).map_err(|e| e.to_string()));
    written.map_err(|e| Error::new(format!("{}: can not be written: {e}", path.display())))?;
    objects.push(path);
    Ok(objects)
}

/// An object of one version.
struct VersionObject {
    source: String,
    path: PathBuf,
    elf: ElfObject,
}

impl VersionObject {
    fn read(compiled: Compiled) -> Result<Self> {
        let Compiled { source, object: path } = compiled;
        let elf = fs::read(&path).map_err(|e| e.to_string()).and_then(ElfObject::parse);
        let elf = elf.map_err(|e| Error::new(format!("{source}: its object {}: {e}", path.display())))?;
        Ok(Self { source, path, elf })
    }

    /// Beside the object that the compiler wrote.
    fn write(self, suffix: &[u8]) -> Result<PathBuf> {
        let path = self.path.with_extension(format!("{}.o", String::from_utf8_lossy(&suffix[1..])));
        fs::write(&path, self.elf.into_bytes())
            .map_err(|e| Error::new(format!("{}: can not be written: {e}", path.display())))?;
        Ok(path)
    }

    fn symbols(&self) -> impl Iterator<Item = (&Symbol, &[u8])> {
        (0..self.elf.symbol_count()).map(|index| (self.elf.symbol(index), self.elf.symbol_name(index)))
    }

    /// Names that the object defines for other objects.
    fn defined(&self) -> Vec<Vec<u8>> {
        let names = self.symbols().filter(|(symbol, name)| {
            !is_local(symbol) && is_defined(symbol) && !name.is_empty() && !is_context(symbol, name)
        });
        names.map(|(_, name)| name.to_vec()).collect()
    }

    /// Gives the baseline's kernels the suffix, where they are defined and where they are used.
    fn rename_kernels(&mut self, kernels: &[Vec<u8>], suffix: &[u8]) {
        for index in 0..self.elf.symbol_count() {
            if !is_local(self.elf.symbol(index)) && kernels.iter().any(|name| name == self.elf.symbol_name(index)) {
                self.add_suffix(index, suffix);
            }
        }
    }

    /// Gives every name of the version the suffix.
    fn close(&mut self, defined: &BTreeSet<Vec<u8>>, suffix: &[u8]) {
        let signatures: BTreeSet<usize> = self.elf.groups().iter().map(|group| group.signature).collect();
        for index in 0..self.elf.symbol_count() {
            let symbol = self.elf.symbol(index);
            let name = self.elf.symbol_name(index);
            if is_context(symbol, name) {
                // The one of the baseline serves.
                let symbol = self.elf.symbol_mut(index);
                symbol.st_shndx.set(LE, elf::SHN_UNDEF);
                symbol.st_value.set(LE, 0);
                symbol.set_st_info(elf::STB_GLOBAL, elf::STT_NOTYPE);
                continue;
            }
            // Functions of the file alone get it for the readers of profiles and backtraces.
            let is_own_function = is_local(symbol) && symbol.st_type() == elf::STT_FUNC;
            let is_shared = !is_local(symbol) && defined.contains(name);
            if (is_own_function || is_shared || signatures.contains(&index)) && !name.is_empty() {
                self.add_suffix(index, suffix);
            }
        }
    }

    /// Renames a symbol; nobody outside the library sees it any more.
    fn add_suffix(&mut self, index: usize, suffix: &[u8]) {
        let name = [self.elf.symbol_name(index), suffix].concat();
        self.elf.rename_symbol(index, &name);
        let symbol = self.elf.symbol_mut(index);
        if !is_local(symbol) && is_defined(symbol) {
            symbol.st_other = symbol.st_other.with_visibility(elf::STV_HIDDEN);
            if symbol.st_bind() == elf::STB_GNU_UNIQUE {
                // One for the process is what it can not be any more.
                let kind = symbol.st_type();
                symbol.set_st_info(elf::STB_WEAK, kind);
            }
        }
    }

    /// Takes the constructors out of the linker's list; the result names the new lists.
    fn take_constructors(&mut self, suffix: &[u8], number: usize) -> Vec<Constructors> {
        let groups = self.elf.groups();
        let group_of = |section| groups.iter().find(|group| group.members.contains(&section));
        let mut lists = Vec::new();
        for index in 0..self.elf.section_count() {
            let section = *self.elf.section(index);
            if section.sh_type.get(LE) != elf::SHT_INIT_ARRAY || section.sh_size.get(LE) == 0 {
                continue;
            }
            let priority = String::from_utf8_lossy(self.elf.section_name(index)).into_owned();
            let priority = priority.strip_prefix(".init_array.").and_then(|number| number.parse().ok());
            // Of a group that several objects have, the linker keeps one; it has the same name in all of them.
            let (of_what, bind) = match group_of(index) {
                Some(group) => (self.elf.symbol_name(group.signature).to_vec(), elf::STB_WEAK),
                None => (format!("{number}.{index}").into_bytes(), elf::STB_GLOBAL),
            };
            let name = [b"__kernpack_constructors.", of_what.as_slice(), suffix].concat();
            self.elf.rename_section(index, CONSTRUCTORS);
            self.elf.section_mut(index).sh_type.set(LE, elf::SHT_PROGBITS);
            let mut symbol: Symbol = *self.elf.symbol(0);
            symbol.set_st_info(bind, elf::STT_OBJECT);
            symbol.st_other = elf::STV_HIDDEN.into();
            // `parse` refuses objects with so many sections that the number does not fit.
            symbol.st_shndx.set(LE, elf::SymbolSection(index as u16));
            symbol.st_size.set(LE, section.sh_size.get(LE));
            self.elf.add_symbol(symbol, &name);
            lists.push(Constructors { symbol: name, count: section.sh_size.get(LE) / 8, priority });
        }
        lists
    }

    /// What a version can not have.
    fn refusals(&self, version: Version) -> Vec<Error> {
        let source = version.source(&self.source);
        let mut problems = BTreeMap::new();
        for index in 0..self.elf.section_count() {
            let section = self.elf.section(index);
            let name = String::from_utf8_lossy(self.elf.section_name(index)).into_owned();
            let is = |start: &str| name == start || name.strip_prefix(start).is_some_and(|rest| rest.starts_with('.'));
            if name.starts_with(".gnu.lto_") || name.starts_with(".llvm.lto") {
                problems.insert(
                    "lto",
                    format!(
                        "{source}: its object is for link time optimization, where names of one version would meet those of \
                         another; with .multiversion(..) take -flto out of the flags"
                    ),
                );
            } else if section.sh_size.get(LE) > 0 && [".fini_array", ".dtors", ".fini"].into_iter().any(is) {
                problems.insert(
                    "fini",
                    format!(
                        "{source}: has a function that runs when the process ends (__attribute__((destructor))); with \
                         .multiversion(..) those of all versions would run, on CPUs that lack their instructions, too. Register \
                         it with atexit(..) from a constructor"
                    ),
                );
            } else if section.sh_size.get(LE) > 0 && [".preinit_array", ".ctors", ".init"].into_iter().any(is) {
                problems.insert(
                    "init",
                    format!(
                        "{source}: has a function in the section {name}, which runs when the library is loaded; with \
                         .multiversion(..) those of all versions would run, on CPUs that lack their instructions, too. Use \
                         __attribute__((constructor)), or a C++ variable"
                    ),
                );
            } else if name.starts_with(".gnu.linkonce.") {
                problems.insert(
                    "linkonce",
                    format!(
                        "{source}: has the section {name}, of which the linker would keep that of any version; with \
                         .multiversion(..) use a compiler that makes COMDAT groups"
                    ),
                );
            }
        }
        for (symbol, name) in self.symbols() {
            if symbol.st_type() == elf::STT_GNU_IFUNC && is_defined(symbol) {
                let name = String::from_utf8_lossy(name).into_owned();
                problems.insert(
                    "ifunc",
                    format!(
                        "{source}: `{name}` is chosen when the library is loaded (target_clones, or ifunc); with \
                         .multiversion(..) the choice of each version would be made with that version's instructions. Leave \
                         one of the two out"
                    ),
                );
            } else if !is_local(symbol) && is_defined(symbol) && name.contains(&b'@') {
                let name = String::from_utf8_lossy(name).into_owned();
                problems.insert(
                    "symver",
                    format!(
                        "{source}: `{name}` has a symbol version (.symver), which .multiversion(..) can not give to several \
                         versions of it"
                    ),
                );
            }
        }
        problems.into_values().map(Error::new).collect()
    }

    /// Names of the kernels that it defines.
    fn kernels(&self) -> impl Iterator<Item = String> {
        let names = self.defined().into_iter().filter_map(|name| String::from_utf8(name).ok());
        let names = names.filter_map(|name| name.strip_prefix(PREFIX).map(str::to_owned));
        names.filter(|name| !name.starts_with('_'))
    }
}

/// Every version has the same kernels; whatever the preprocessor does, the others would not be called, or not be there.
fn other_kernels(set: &[VersionObject], kernels: &[HostKernel], version: Version) -> Vec<Error> {
    let here: BTreeMap<String, &str> =
        set.iter().flat_map(|object| object.kernels().map(|name| (name, object.source.as_str()))).collect();
    let missing = kernels.iter().filter(|kernel| !here.contains_key(&kernel.name));
    let missing = missing.map(|kernel| {
        let (source, name) = (&kernel.source, &kernel.name);
        format!("{source}: the version for {version} does not define the kernel `{name}`; every version must")
    });
    let extra = here.iter().filter(|(name, _)| kernels.iter().all(|kernel| kernel.name != **name));
    let extra = extra.map(|(name, source)| {
        format!("{source}: only the version for {version} defines the kernel `{name}`, not the baseline; every version must")
    });
    missing.chain(extra).map(Error::new).collect()
}

fn is_local(symbol: &Symbol) -> bool {
    symbol.st_bind() == elf::STB_LOCAL
}

/// A common symbol, which has no section, is a definition, too.
fn is_defined(symbol: &Symbol) -> bool {
    symbol.st_shndx.get(LE) != elf::SHN_UNDEF
}

fn is_context(symbol: &Symbol, name: &[u8]) -> bool {
    let is_visible = symbol.st_visibility() == elf::STV_DEFAULT;
    name.starts_with(CONTEXT) && is_defined(symbol) && is_visible && symbol.st_type() == elf::STT_OBJECT
}
