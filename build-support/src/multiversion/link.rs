//! Makes each version of the CPU kernels a closed set, and joins the sets by dispatchers.
//!
//! Without this, the linker would keep one of the functions with the same name, whichever comes
//! first: an inline function or a template instance may then use AVX-512, and the baseline would
//! call it. So every name that a version defines gets the version's suffix, in all objects of that
//! version, and is hidden; the names of groups (COMDAT) too. Names that a version does not define,
//! such as functions of libc, `kernpack_raise` and Rust definitions, are kept.
//!
//! The baseline keeps its names, so that Rust code may refer to them. Only its kernels get a
//! suffix, because the dispatchers have their names.
//!
//! Code that runs when the library is loaded must not be code of a version that the CPU does not
//! support. So the constructors of a version are removed from the linker's list, and the runtime
//! runs those of the selected version. Code that cannot be held back in this way is an error.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use object::{LittleEndian as LE, elf};

use crate::describe::symbols::{Compiled, HostKernel, PREFIX};
use crate::multiversion::Version;
use crate::multiversion::check::check;
use crate::multiversion::dispatch::{Constructors, Dispatch};
use crate::multiversion::elf::{ElfObject, Symbol};
use crate::session::Session;
use crate::{Error, Result};

/// The section of a version's constructors: pointers that the dynamic linker fills in.
const CONSTRUCTORS: &[u8] = b".data.rel.ro.kernpack_constructors";

/// The prefix of variables that a program sets when it loads a library. There is one of each for
/// all versions.
const CONTEXT: &[u8] = b"__TVM";

/// Returns the objects to put into the library. `sets` has the objects by version, the baseline
/// first.
pub(crate) fn link(
    session: &Session,
    versions: &[Version],
    sets: Vec<Vec<Compiled>>,
    kernels: &[HostKernel],
) -> Result<Vec<PathBuf>> {
    if versions.len() == 1 || kernels.is_empty() {
        let baseline = sets.into_iter().take(1).flatten();
        return Ok(baseline.map(|compiled| compiled.object).collect());
    }
    let sets = sets.into_iter().map(|set| Error::collect(set.into_iter().map(VersionObject::read)));
    let sets = Error::collect(sets)?;
    let symbols: Vec<Vec<u8>> = kernels.iter().map(|kernel| format!("{PREFIX}{}", kernel.name).into_bytes()).collect();
    check(versions, &sets, kernels)?;
    let mut objects = Vec::new();
    let mut dispatch = Dispatch::new(versions, kernels);
    for (index, (version, mut set)) in versions.iter().zip(sets).enumerate() {
        let suffix = version.suffix().into_bytes();
        if version.level.is_none() {
            set.iter_mut().for_each(|object| object.rename_kernels(&symbols, &suffix));
        } else {
            let defined: BTreeSet<Vec<u8>> = set.iter().flat_map(VersionObject::defined).collect();
            let mut lists = Vec::new();
            for (number, object) in set.iter_mut().enumerate() {
                lists.extend(object.take_constructors(&suffix, &format!("{}.{number}", session.package_name)));
                object.close(&defined, &suffix);
            }
            dispatch.add_constructors(index, lists);
        }
        for object in set {
            objects.push(object.write(&suffix)?);
        }
    }
    let path = session.work_dir.join("dispatch.o");
    let written = dispatch.object().map_err(|e| e.to_string());
    let written = written.and_then(|bytes| fs::write(&path, bytes).map_err(|e| e.to_string()));
    written.map_err(|e| Error::new(format!("{}: cannot be written: {e}", path.display())))?;
    objects.push(path);
    Ok(objects)
}

/// An object of one version.
pub(crate) struct VersionObject {
    pub(crate) source: String,
    path: PathBuf,
    pub(crate) elf: ElfObject,
}

impl VersionObject {
    fn read(compiled: Compiled) -> Result<Self> {
        let Compiled { source, object: path } = compiled;
        let elf = fs::read(&path).map_err(|e| e.to_string()).and_then(ElfObject::parse);
        let elf = elf.map_err(|e| Error::new(format!("{source}: its object {}: {e}", path.display())))?;
        Ok(Self { source, path, elf })
    }

    /// Writes the object next to the one from the compiler.
    fn write(self, suffix: &[u8]) -> Result<PathBuf> {
        let path = self.path.with_extension(format!("{}.o", String::from_utf8_lossy(&suffix[1..])));
        fs::write(&path, self.elf.into_bytes())
            .map_err(|e| Error::new(format!("{}: cannot be written: {e}", path.display())))?;
        Ok(path)
    }

    pub(crate) fn symbols(&self) -> impl Iterator<Item = (&Symbol, &[u8])> {
        (0..self.elf.symbol_count()).map(|index| (self.elf.symbol(index), self.elf.symbol_name(index)))
    }

    /// Returns the names that the object defines for other objects.
    fn defined(&self) -> Vec<Vec<u8>> {
        let names = self.symbols().filter(|(symbol, name)| {
            !is_local(symbol) && is_defined(symbol) && !name.is_empty() && !is_context(symbol, name)
        });
        names.map(|(_, name)| name.to_vec()).collect()
    }

    /// Adds the suffix to the baseline's kernels, where they are defined and where they are used.
    fn rename_kernels(&mut self, kernels: &[Vec<u8>], suffix: &[u8]) {
        for index in 0..self.elf.symbol_count() {
            if !is_local(self.elf.symbol(index)) && kernels.iter().any(|name| name == self.elf.symbol_name(index)) {
                self.add_suffix(index, suffix);
            }
        }
    }

    /// Adds the suffix to every name of the version.
    fn close(&mut self, defined: &BTreeSet<Vec<u8>>, suffix: &[u8]) {
        let signatures: BTreeSet<usize> = self.elf.groups().iter().map(|group| group.signature).collect();
        for index in 0..self.elf.symbol_count() {
            let symbol = self.elf.symbol(index);
            let name = self.elf.symbol_name(index);
            if is_context(symbol, name) {
                // The one of the baseline is used.
                let symbol = self.elf.symbol_mut(index);
                symbol.st_shndx.set(LE, elf::SHN_UNDEF);
                symbol.st_value.set(LE, 0);
                symbol.set_st_info(elf::STB_GLOBAL, elf::STT_NOTYPE);
                continue;
            }
            // File-local functions get it for the readers of profiles and backtraces.
            let is_own_function = is_local(symbol) && symbol.st_type() == elf::STT_FUNC;
            let is_shared = !is_local(symbol) && defined.contains(name);
            if (is_own_function || is_shared || signatures.contains(&index)) && !name.is_empty() {
                self.add_suffix(index, suffix);
            }
        }
    }

    /// Renames a symbol, and hides it outside the library.
    fn add_suffix(&mut self, index: usize, suffix: &[u8]) {
        let name = [self.elf.symbol_name(index), suffix].concat();
        self.elf.rename_symbol(index, &name);
        let symbol = self.elf.symbol_mut(index);
        if !is_local(symbol) && is_defined(symbol) {
            symbol.st_other = symbol.st_other.with_visibility(elf::STV_HIDDEN);
            if symbol.st_bind() == elf::STB_GNU_UNIQUE {
                // A renamed symbol can no longer be unique in the process.
                let kind = symbol.st_type();
                symbol.set_st_info(elf::STB_WEAK, kind);
            }
        }
    }

    /// Removes the constructors from the linker's list. Returns the new lists. `own` is a name of
    /// the object that no other object has.
    fn take_constructors(&mut self, suffix: &[u8], own: &str) -> Vec<Constructors> {
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
            // The linker keeps one of a group that several objects have. It has the same name in
            // all of them.
            let (of_what, bind) = match group_of(index) {
                Some(group) => (self.elf.symbol_name(group.signature).to_vec(), elf::STB_WEAK),
                None => (format!("{own}.{index}").into_bytes(), elf::STB_GLOBAL),
            };
            let name = [b"__kernpack_constructors.", of_what.as_slice(), suffix].concat();
            self.elf.rename_section(index, CONSTRUCTORS);
            self.elf.section_mut(index).sh_type.set(LE, elf::SHT_PROGBITS);
            let mut symbol: Symbol = *self.elf.symbol(0);
            symbol.set_st_info(bind, elf::STT_OBJECT);
            symbol.st_other = elf::STV_HIDDEN.into();
            // `parse` rejects objects with so many sections that the index does not fit.
            symbol.st_shndx.set(LE, elf::SymbolSection(index as u16));
            symbol.st_size.set(LE, section.sh_size.get(LE));
            self.elf.add_symbol(symbol, &name);
            lists.push(Constructors { symbol: name, count: section.sh_size.get(LE) / 8, priority });
        }
        lists
    }

    /// Returns the names of the kernels that it defines.
    pub(crate) fn kernels(&self) -> impl Iterator<Item = String> {
        let names = self.defined().into_iter().filter_map(|name| String::from_utf8(name).ok());
        let names = names.filter_map(|name| name.strip_prefix(PREFIX).map(str::to_owned));
        names.filter(|name| !name.starts_with('_'))
    }
}

pub(crate) fn is_local(symbol: &Symbol) -> bool {
    symbol.st_bind() == elf::STB_LOCAL
}

/// A common symbol, which has no section, is also a definition.
pub(crate) fn is_defined(symbol: &Symbol) -> bool {
    symbol.st_shndx.get(LE) != elf::SHN_UNDEF
}

fn is_context(symbol: &Symbol, name: &[u8]) -> bool {
    let is_visible = symbol.st_visibility() == elf::STV_DEFAULT;
    name.starts_with(CONTEXT) && is_defined(symbol) && is_visible && symbol.st_type() == elf::STT_OBJECT
}
