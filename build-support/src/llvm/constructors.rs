//! Lists of constructors and destructors in LLVM objects: converts `.ctors` and `.dtors`, which
//! LLVM's C interface emits, to `.init_array` and `.fini_array`.
//!
//! GNU ld does this itself. lld, which rustc uses by default, does not, and then the functions are
//! not called: the C library only reads the arrays. The old lists are called from the back, and a
//! priority in a name is 65535 minus the priority.

use std::fs;
use std::path::Path;

use object::{LittleEndian as LE, elf};

use crate::multiversion::elf::ElfObject;
use crate::{Error, Result};

/// Changes an object in place. Objects that are not 64-bit ELF are not changed.
pub(crate) fn use_arrays(object: &Path, source: &str) -> Result<()> {
    let failed = |e: std::io::Error| Error::new(format!("{source}: its object {}: {e}", object.display()));
    let bytes = fs::read(object).map_err(failed)?;
    let Ok(mut elf) = ElfObject::parse(bytes) else { return Ok(()) };
    let mut is_changed = false;
    for index in 0..elf.section_count() {
        let name = String::from_utf8_lossy(elf.section_name(index)).into_owned();
        let Some((name, kind)) = array(&name) else { continue };
        elf.rename_section(index, name.as_bytes());
        elf.section_mut(index).sh_type.set(LE, kind);
        elf.reverse_pointers(index);
        is_changed = true;
    }
    if is_changed { fs::write(object, elf.into_bytes()).map_err(failed) } else { Ok(()) }
}

/// Returns the array that a list is converted to.
fn array(name: &str) -> Option<(String, elf::SectionType)> {
    let (list, rest) = name.split_at_checked(6)?;
    let (array, kind) = match list {
        ".ctors" => (".init_array", elf::SHT_INIT_ARRAY),
        ".dtors" => (".fini_array", elf::SHT_FINI_ARRAY),
        _ => return None,
    };
    if rest.is_empty() {
        return Some((array.to_owned(), kind));
    }
    let number: u16 = rest.strip_prefix('.')?.parse().ok()?;
    Some((format!("{array}.{:05}", u16::MAX - number), kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let name = |name: &str| array(name).map(|(name, _)| name);
        for (list, expected) in [
            (".ctors", Some(".init_array")),
            (".ctors.65435", Some(".init_array.00100")),
            (".ctors.00000", Some(".init_array.65535")),
            (".dtors.65435", Some(".fini_array.00100")),
            (".ctors.x", None),
            (".ctors.99999", None),
            (".ctorsx", None),
            (".text", None),
            (".rela.ctors", None),
        ] {
            assert_eq!(name(list).as_deref(), expected, "{list}");
        }
    }
}
