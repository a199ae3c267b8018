//! A 64-bit ELF object whose symbols and sections can be renamed. Code, data and relocations keep
//! their positions, and no index changes: new names and new symbols are appended to the old ones,
//! and the tables are written again at the end.
//!
//! Sources: System V ABI, chapter 4 "Object Files", and the x86-64 psABI.

use std::collections::BTreeMap;

use object::elf::{self, FileHeader64, SectionHeader64, Sym64};
use object::{LittleEndian, pod};

const LE: LittleEndian = LittleEndian;

pub(crate) type Section = SectionHeader64<LittleEndian>;
pub(crate) type Symbol = Sym64<LittleEndian>;

pub(crate) struct ElfObject {
    bytes: Vec<u8>,
    header: FileHeader64<LittleEndian>,
    sections: Vec<Section>,
    symbols: Vec<Symbol>,
    /// The index of the section with the symbols.
    symbol_table: usize,
    /// The tables with names of symbols and of sections, by section. Often they are one.
    names: BTreeMap<usize, Vec<u8>>,
}

impl ElfObject {
    pub(crate) fn parse(bytes: Vec<u8>) -> Result<Self, String> {
        let header = *pod::from_bytes::<FileHeader64<LittleEndian>>(&bytes).map_err(|()| "it is too short")?.0;
        let is_ours = header.e_ident.magic == elf::ELFMAG
            && header.e_ident.class == elf::ELFCLASS64
            && header.e_ident.data == elf::ELFDATA2LSB
            && header.e_type.get(LE) == elf::ET_REL;
        if !is_ours {
            return Err("it is not a 64-bit ELF object".to_owned());
        }
        let count = header.e_shnum.get(LE);
        if count == 0 || count >= elf::SHN_LORESERVE {
            return Err("it has too many sections".to_owned());
        }
        let sections = table::<Section>(&bytes, header.e_shoff.get(LE), count.into())?.to_vec();
        let symbol_table = sections
            .iter()
            .position(|section| section.sh_type.get(LE) == elf::SHT_SYMTAB)
            .ok_or("it has no symbols: is it stripped?")?;
        let place = &sections[symbol_table];
        let symbols = place.sh_size.get(LE) / size_of::<Symbol>() as u64;
        let symbols = table::<Symbol>(&bytes, place.sh_offset.get(LE), symbols)?.to_vec();
        if symbols.is_empty() {
            return Err("it has no symbols: is it stripped?".to_owned());
        }
        let mut names = BTreeMap::new();
        for index in [usize::from(header.e_shstrndx.get(LE).0), place.sh_link.get(LE) as usize] {
            let section = sections.get(index).ok_or("it has no names")?;
            let text = table::<u8>(&bytes, section.sh_offset.get(LE), section.sh_size.get(LE))?;
            names.insert(index, text.to_vec());
        }
        Ok(Self { header, sections, symbols, symbol_table, names, bytes })
    }

    pub(crate) fn symbol_count(&self) -> usize {
        self.symbols.len()
    }

    pub(crate) fn symbol(&self, index: usize) -> &Symbol {
        &self.symbols[index]
    }

    pub(crate) fn symbol_mut(&mut self, index: usize) -> &mut Symbol {
        &mut self.symbols[index]
    }

    pub(crate) fn symbol_name(&self, index: usize) -> &[u8] {
        self.name(self.symbol_names(), self.symbols[index].st_name.get(LE))
    }

    pub(crate) fn rename_symbol(&mut self, index: usize, name: &[u8]) {
        let offset = self.add_name(self.symbol_names(), name);
        self.symbols[index].st_name.set(LE, offset);
    }

    /// Adds a symbol that is visible outside the object, under a name.
    pub(crate) fn add_symbol(&mut self, mut symbol: Symbol, name: &[u8]) {
        let offset = self.add_name(self.symbol_names(), name);
        symbol.st_name.set(LE, offset);
        self.symbols.push(symbol);
    }

    pub(crate) fn section_count(&self) -> usize {
        self.sections.len()
    }

    pub(crate) fn section(&self, index: usize) -> &Section {
        &self.sections[index]
    }

    pub(crate) fn section_mut(&mut self, index: usize) -> &mut Section {
        &mut self.sections[index]
    }

    pub(crate) fn section_name(&self, index: usize) -> &[u8] {
        self.name(self.section_names(), self.sections[index].sh_name.get(LE))
    }

    pub(crate) fn rename_section(&mut self, index: usize, name: &[u8]) {
        let offset = self.add_name(self.section_names(), name);
        self.sections[index].sh_name.set(LE, offset);
    }

    /// Reverses a section of pointers.
    #[cfg(feature = "llvm")]
    pub(crate) fn reverse_pointers(&mut self, index: usize) {
        let last = self.sections[index].sh_size.get(LE).saturating_sub(8);
        let is_of_section =
            |section: &&Section| section.sh_type.get(LE) == elf::SHT_RELA && section.sh_info.get(LE) as usize == index;
        for section in self.sections.iter().filter(is_of_section) {
            let start = section.sh_offset.get(LE) as usize;
            let table = self.bytes.get_mut(start..).unwrap_or_default();
            let count = section.sh_size.get(LE) as usize / size_of::<elf::Rela64<LittleEndian>>();
            let relocations = pod::slice_from_bytes_mut::<elf::Rela64<LittleEndian>>(table, count);
            for relocation in relocations.map(|(relocations, _)| relocations).unwrap_or_default() {
                relocation.r_offset.set(LE, last.saturating_sub(relocation.r_offset.get(LE)));
            }
        }
    }

    /// Returns the section groups, with the symbol whose name identifies each group: a linker keeps
    /// one group of each name.
    pub(crate) fn groups(&self) -> Vec<Group> {
        let sections = self.sections.iter().filter(|section| section.sh_type.get(LE) == elf::SHT_GROUP);
        let group = |section: &Section| {
            let words = table::<[u8; 4]>(&self.bytes, section.sh_offset.get(LE), section.sh_size.get(LE) / 4);
            // The first word is a flag.
            let members = words.unwrap_or_default().iter().skip(1).map(|word| u32::from_le_bytes(*word) as usize);
            Group { signature: section.sh_info.get(LE) as usize, members: members.collect() }
        };
        sections.map(group).filter(|group| group.signature < self.symbols.len()).collect()
    }

    /// Returns the object with all changes.
    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.bytes);
        let mut append = |section: &mut Section, content: &[u8]| {
            bytes.resize(bytes.len().next_multiple_of(16), 0);
            section.sh_offset.set(LE, bytes.len() as u64);
            section.sh_size.set(LE, content.len() as u64);
            bytes.extend_from_slice(content);
        };
        for (index, names) in &self.names {
            append(&mut self.sections[*index], names);
        }
        append(&mut self.sections[self.symbol_table], pod::bytes_of_slice(&self.symbols));
        bytes.resize(bytes.len().next_multiple_of(16), 0);
        self.header.e_shoff.set(LE, bytes.len() as u64);
        bytes.extend_from_slice(pod::bytes_of_slice(&self.sections));
        bytes[..size_of_val(&self.header)].copy_from_slice(pod::bytes_of(&self.header));
        bytes
    }

    fn symbol_names(&self) -> usize {
        self.sections[self.symbol_table].sh_link.get(LE) as usize
    }

    fn section_names(&self) -> usize {
        usize::from(self.header.e_shstrndx.get(LE).0)
    }

    fn name(&self, table: usize, offset: u32) -> &[u8] {
        let text = self.names[&table].get(offset as usize..).unwrap_or_default();
        text.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    fn add_name(&mut self, table: usize, name: &[u8]) -> u32 {
        let text = self.names.entry(table).or_default();
        // A table of names is far smaller than 4 GiB: the compiler's own offsets into it have 32
        // bits.
        let offset = text.len() as u32;
        text.extend_from_slice(name);
        text.push(0);
        offset
    }
}

/// Sections that a linker keeps or drops together.
pub(crate) struct Group {
    /// The symbol that names it.
    pub(crate) signature: usize,
    pub(crate) members: Vec<usize>,
}

fn table<T: pod::Pod>(bytes: &[u8], offset: u64, count: u64) -> Result<&[T], String> {
    let (Ok(offset), Ok(count)) = (usize::try_from(offset), usize::try_from(count)) else {
        return Err("it is cut off".to_owned());
    };
    let rest = bytes.get(offset..).unwrap_or_default();
    pod::slice_from_bytes::<T>(rest, count).map(|(table, _)| table).map_err(|()| "it is cut off".to_owned())
}
