//! Writes the object that joins the versions: for each kernel, a function that jumps to the
//! selected version, and the table by which the runtime selects a version when the library is
//! loaded (`kernpack::__private_v0_1::versions`).
//!
//! A dispatcher is one instruction, a jump through a variable. The variable points to the baseline
//! from the start, so that a kernel can be called at any time. A constructor of this object lets
//! the runtime set the variable.
//!
//! IFUNC would save outside callers that jump, but is not used. musl does not support it. A
//! resolver runs while the library is being relocated, so it may not call anything that needs
//! relocation, neither libc's `getenv` nor Rust's feature detection. And a kernel would have to be
//! ready before the constructors of its version could run.

use std::collections::BTreeMap;

use object::write::{Object, Relocation, StandardSection, Symbol, SymbolId, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, RelocationFlags, SectionKind, SymbolFlags, SymbolKind, SymbolScope, elf,
};

use crate::describe::symbols::{HostKernel, PREFIX};
use crate::multiversion::Version;

/// The function of the runtime that takes the table and the arguments of constructors.
const PICK: &str = "__kernpack_pick_version_v1";

/// A list of constructors in an object of a version.
pub(crate) struct Constructors {
    pub(crate) symbol: Vec<u8>,
    /// The number of pointers in the list.
    pub(crate) count: u64,
    /// Lower priorities run first. Lists without a priority run last.
    pub(crate) priority: Option<u32>,
}

pub(crate) struct Dispatch<'a> {
    versions: &'a [Version],
    kernels: &'a [HostKernel],
    constructors: Vec<Vec<Constructors>>,
}

impl<'a> Dispatch<'a> {
    pub(crate) fn new(versions: &'a [Version], kernels: &'a [HostKernel]) -> Self {
        Self { versions, kernels, constructors: versions.iter().map(|_| Vec::new()).collect() }
    }

    /// Adds the constructors that run when the version at `index` is selected, in the order of its
    /// objects.
    pub(crate) fn add_constructors(&mut self, index: usize, lists: Vec<Constructors>) {
        let mut once: Vec<Constructors> = Vec::new();
        for list in lists {
            // The library contains one list of a group, from any of the objects.
            if once.iter().all(|other| other.symbol != list.symbol) {
                once.push(list);
            }
        }
        once.sort_by_key(|list| list.priority.unwrap_or(u32::MAX));
        self.constructors[index] = once;
    }

    pub(crate) fn object(&self) -> Result<Vec<u8>, object::write::Error> {
        let mut writer = Writer::new();
        // The runtime's `Library`: the fields that it fills in, then those that it reads.
        let slots: Vec<u64> = (0..self.kernels.len() as u64).map(|index| HEADER_SIZE + 8 * index).collect();
        let mut dispatchers = Vec::new();
        for (kernel, slot) in self.kernels.iter().zip(&slots) {
            dispatchers.push(writer.dispatcher(&format!("{PREFIX}{}", kernel.name), *slot)?);
        }
        let dispatchers = writer.pointers(&dispatchers)?;
        let mut versions = Vec::new();
        for (version, constructors) in self.versions.iter().zip(&self.constructors) {
            let names = self.kernels.iter().map(|kernel| format!("{PREFIX}{}{}", kernel.name, version.suffix()));
            let functions: Vec<Value> = names.map(|name| Value::Symbol(writer.other(name.as_bytes()), 0)).collect();
            if version.level.is_none() {
                for function in &functions {
                    writer.word(Place::Library, *function)?;
                }
            }
            let functions = writer.pointers(&functions)?;
            let mut lists = Vec::new();
            for list in constructors {
                lists.extend([Value::Symbol(writer.other(&list.symbol), 0), Value::Number(list.count)]);
            }
            let lists = writer.pointers(&lists)?;
            let level = version.level.map_or(0, |level| level.number().into());
            versions.extend([Value::Number(level), functions, lists, Value::Number(constructors.len() as u64)]);
        }
        let list = writer.pointers(&versions)?;
        let header = [
            Value::Number(0),
            Value::Number(0),
            Value::Number(self.kernels.len() as u64),
            Value::Number(self.versions.len() as u64),
            dispatchers,
            list,
        ];
        for (index, value) in header.into_iter().enumerate() {
            writer.set_word(index as u64 * 8, value)?;
        }
        writer.constructor()?;
        writer.object.write()
    }
}

/// The size of the runtime's `Library` header, before the variables of the dispatchers.
const HEADER_SIZE: u64 = 48;

/// A word of the table.
#[derive(Clone, Copy)]
enum Value {
    Number(u64),
    /// A symbol's address, and an offset.
    Symbol(SymbolId, u64),
}

#[derive(Clone, Copy)]
enum Place {
    /// The section that the runtime writes to.
    Library,
    /// The section that only the dynamic linker writes to.
    Table,
}

struct Writer {
    object: Object<'static>,
    /// The section of each place, as a symbol, and its size so far.
    library: SymbolId,
    table: SymbolId,
    others: BTreeMap<Vec<u8>, SymbolId>,
}

impl Writer {
    fn new() -> Self {
        let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        let library = object.section_id(StandardSection::Data);
        let table = object.section_id(StandardSection::ReadOnlyDataWithRel);
        object.append_section_data(library, &[0; HEADER_SIZE as usize], 8);
        let (library, table) = (object.section_symbol(library), object.section_symbol(table));
        // Without this note GNU ld makes the whole library's stack executable.
        object.add_section(Vec::new(), b".note.GNU-stack".to_vec(), SectionKind::Other);
        Self { object, library, table, others: BTreeMap::new() }
    }

    /// Adds a symbol that another object defines.
    fn other(&mut self, name: &[u8]) -> SymbolId {
        if let Some(id) = self.others.get(name) {
            return *id;
        }
        let id = self.object.add_symbol(Symbol {
            name: name.to_vec(),
            value: 0,
            size: 0,
            kind: SymbolKind::Unknown,
            scope: SymbolScope::Unknown,
            weak: false,
            section: SymbolSection::Undefined,
            flags: SymbolFlags::None,
        });
        self.others.insert(name.to_vec(), id);
        id
    }

    /// Adds a kernel under its public name. Returns its address in this object.
    fn dispatcher(&mut self, name: &str, slot: u64) -> Result<Value, object::write::Error> {
        let text = self.object.section_id(StandardSection::Text);
        // jmp *slot(%rip)
        let code = [0xff, 0x25, 0, 0, 0, 0];
        let offset = self.object.append_section_data(text, &code, 16);
        // From the end of the instruction.
        self.relocate(text, offset + 2, self.library, elf::R_X86_64_PC32, slot as i64 - 4)?;
        self.object.add_symbol(Symbol {
            name: name.as_bytes().to_vec(),
            value: offset,
            size: code.len() as u64,
            kind: SymbolKind::Text,
            scope: SymbolScope::Dynamic,
            weak: false,
            section: SymbolSection::Section(text),
            flags: SymbolFlags::None,
        });
        Ok(Value::Symbol(self.object.section_symbol(text), offset))
    }

    /// Writes the constructor that runs when the library is loaded. The dynamic linker passes
    /// `argc`, `argv` and `envp`; the table is the fourth argument.
    fn constructor(&mut self) -> Result<(), object::write::Error> {
        let text = self.object.section_id(StandardSection::Text);
        // lea library(%rip), %rcx; jmp pick
        let offset = self.object.append_section_data(text, &[0x48, 0x8d, 0x0d, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0], 16);
        self.relocate(text, offset + 3, self.library, elf::R_X86_64_PC32, -4)?;
        let pick = self.other(PICK.as_bytes());
        self.relocate(text, offset + 8, pick, elf::R_X86_64_PLT32, -4)?;
        // Before constructors without a priority, so that they call the selected version.
        let name = b".init_array.00101".to_vec();
        let list = self.object.add_section(Vec::new(), name, SectionKind::Data);
        let place = self.object.append_section_data(list, &[0; 8], 8);
        *self.object.section_flags_mut(list) =
            object::SectionFlags::Elf { sh_type: elf::SHT_INIT_ARRAY, sh_flags: elf::SHF_ALLOC | elf::SHF_WRITE };
        let text = self.object.section_symbol(text);
        self.relocate(list, place, text, elf::R_X86_64_64, offset as i64)
    }

    /// Writes a row of words and returns its address.
    fn pointers(&mut self, values: &[Value]) -> Result<Value, object::write::Error> {
        let mut start = None;
        for value in values {
            let offset = self.word(Place::Table, *value)?;
            start.get_or_insert(offset);
        }
        // The address of an empty row is not used.
        Ok(start.map_or(Value::Number(0), |offset| Value::Symbol(self.table, offset)))
    }

    fn word(&mut self, place: Place, value: Value) -> Result<u64, object::write::Error> {
        let section = match place {
            Place::Library => StandardSection::Data,
            Place::Table => StandardSection::ReadOnlyDataWithRel,
        };
        let section = self.object.section_id(section);
        match value {
            Value::Number(number) => Ok(self.object.append_section_data(section, &number.to_le_bytes(), 8)),
            Value::Symbol(symbol, addend) => {
                let offset = self.object.append_section_data(section, &[0; 8], 8);
                self.relocate(section, offset, symbol, elf::R_X86_64_64, addend as i64)?;
                Ok(offset)
            }
        }
    }

    /// Writes a word of the runtime's `Library`.
    fn set_word(&mut self, offset: u64, value: Value) -> Result<(), object::write::Error> {
        let section = self.object.section_id(StandardSection::Data);
        match value {
            Value::Number(number) => {
                let data = self.object.section_mut(section).data_mut();
                data[offset as usize..][..8].copy_from_slice(&number.to_le_bytes());
                Ok(())
            }
            Value::Symbol(symbol, addend) => self.relocate(section, offset, symbol, elf::R_X86_64_64, addend as i64),
        }
    }

    fn relocate(
        &mut self,
        section: object::write::SectionId,
        offset: u64,
        symbol: SymbolId,
        r_type: elf::RelocationType,
        addend: i64,
    ) -> Result<(), object::write::Error> {
        let flags = RelocationFlags::Elf { r_type };
        self.object.add_relocation(section, Relocation { offset, symbol, addend, flags })
    }
}
