//! The files of libraries: their bytes, the functions that they export, and the modules that were
//! loaded from them.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::elf;
use crate::abi::TVMFFIObject;

/// Address and path of the modules that `Module::load` got from the libtvm_ffi in the process,
/// which does not report a module's path.
static LOADED_BY_HOST: Mutex<Vec<(usize, String)>> = Mutex::new(Vec::new());

/// Records the file that a module, which is never freed, was loaded from.
#[inline]
pub(in crate::module) fn note_path(module: *mut TVMFFIObject, path: String) {
    LOADED_BY_HOST.lock().unwrap_or_else(PoisonError::into_inner).push((module.addr(), path));
}

/// Returns the file that was recorded for a module.
#[inline]
pub(in crate::module) fn path_of(module: *mut TVMFFIObject) -> Option<String> {
    let loaded = LOADED_BY_HOST.lock().unwrap_or_else(PoisonError::into_inner);
    loaded.iter().find(|(address, _)| *address == module.addr()).map(|(_, path)| path.clone())
}

/// Reads a file.
#[inline]
pub(in crate::module) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    read_at(&file, 0, usize::try_from(size).unwrap_or(usize::MAX))
}

/// Reads up to `len` bytes of a file, fewer at its end.
#[inline]
pub(in crate::module) fn read_at(file: &File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len)?;
    bytes.resize(len, 0);
    let mut filled = 0;
    while filled < len {
        match read_some(file, &mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

#[cfg(unix)]
fn read_some(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_some(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, bytes, offset)
}

/// Names of the functions that a library file exports, for hints; empty if the file cannot be read
/// or parsed.
#[inline]
pub(in crate::module) fn exported_functions(path: &Path) -> Vec<String> {
    let Ok(file) = read(path) else { return Vec::new() };
    let symbols = elf::dynamic_symbols(&file);
    symbols
        .into_iter()
        .filter_map(|symbol| symbol.strip_prefix("__tvm_ffi_"))
        .filter(|name| !name.starts_with('_'))
        .map(str::to_owned)
        .collect()
}
