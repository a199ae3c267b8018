//! Memory with the bytes of a file of weights, aligned for kernels.

use std::alloc::{Layout, alloc, dealloc};
use std::path::Path;
use std::ptr::NonNull;

use kernpack_formats::weights_file::ALIGNMENT;

use crate::{Error, Result, WithPath};

/// Read-only memory that is released when it is dropped, unless it is kept.
pub(super) struct Memory {
    start: NonNull<u8>,
    size: usize,
    origin: Origin,
}

enum Origin {
    /// Bytes of the program.
    Program,
    /// Allocated with this layout.
    Allocated(Layout),
    /// Mapped from a file.
    #[cfg(unix)]
    Mapped,
}

impl Memory {
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the memory has this size, is initialized, and lives as long as this value. See
        // `of_file` for files that change.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.size) }
    }

    /// Keeps the memory until the process ends.
    #[inline]
    pub(super) fn keep(self) -> &'static [u8] {
        let (start, size) = (self.start, self.size);
        core::mem::forget(self);
        // SAFETY: as for `bytes`, and nothing releases the memory.
        unsafe { core::slice::from_raw_parts(start.as_ptr(), size) }
    }

    /// Returns bytes of the program: in place, or a copy if they are not aligned.
    #[inline]
    pub(super) fn of_program(bytes: &'static [u8]) -> Result<Self> {
        if !bytes.as_ptr().addr().is_multiple_of(ALIGNMENT) {
            return Self::copy_of(bytes);
        }
        Ok(Self { start: NonNull::from(bytes).cast(), size: bytes.len(), origin: Origin::Program })
    }

    /// Copies bytes into aligned memory.
    #[inline]
    pub(super) fn copy_of(bytes: &[u8]) -> Result<Self> {
        let memory = Self::allocated(bytes.len())?;
        // SAFETY: the new memory has room for the bytes.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.start.as_ptr(), bytes.len()) };
        Ok(memory)
    }

    /// Allocates aligned memory, which is not initialized.
    #[inline]
    fn allocated(size: usize) -> Result<Self> {
        let none = || Error::new("MemoryError", format!("{size} bytes for weights"));
        // Also for no bytes, because an allocation cannot be empty.
        let layout = Layout::from_size_align(size.max(1), ALIGNMENT).map_err(|_| none())?;
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc(layout) }).ok_or_else(none)?;
        Ok(Self { start, size, origin: Origin::Allocated(layout) })
    }

    /// Maps a file, so that all processes share its memory.
    ///
    /// Nobody may write to the file or shorten it afterwards: the documentation of
    /// `.weights_file()` says so. A rename over its path is safe.
    #[cfg(unix)]
    #[inline]
    pub(super) fn of_file(path: &Path) -> Result<Self> {
        use std::os::fd::AsRawFd as _;

        let file = std::fs::File::open(path).with_path(path)?;
        let metadata = file.metadata().with_path(path)?;
        if metadata.is_dir() {
            return Err(std::io::Error::from(std::io::ErrorKind::IsADirectory)).with_path(path);
        }
        let size = usize::try_from(metadata.len())
            .map_err(|_| Error::new("MemoryError", format!("{} bytes for weights", metadata.len())))?;
        if size == 0 {
            // A mapping cannot be empty.
            return Self::copy_of(&[]);
        }
        // SAFETY: a new read-only mapping, at an address that the system chooses.
        let start =
            unsafe { libc::mmap(core::ptr::null_mut(), size, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error()).with_path(path);
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| Error::runtime_error("a mapping at address 0"))?;
        Ok(Self { start, size, origin: Origin::Mapped })
    }

    /// Reads a file.
    #[cfg(not(unix))]
    #[inline]
    pub(super) fn of_file(path: &Path) -> Result<Self> {
        Self::copy_of(&std::fs::read(path).with_path(path)?)
    }
}

impl Drop for Memory {
    #[inline]
    fn drop(&mut self) {
        match self.origin {
            Origin::Program => {}
            // SAFETY: allocated with this layout, and nothing else refers to it.
            Origin::Allocated(layout) => unsafe { dealloc(self.start.as_ptr(), layout) },
            #[cfg(unix)]
            // SAFETY: mapped with this size, and nothing else refers to it.
            Origin::Mapped => _ = unsafe { libc::munmap(self.start.as_ptr().cast(), self.size) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static PROGRAM: [u8; 200] = [7; 200];

    #[test]
    fn all_origins_are_aligned_and_have_the_bytes() {
        let path = std::env::temp_dir().join(format!("kernpack-weights-memory-{}", std::process::id()));
        std::fs::write(&path, PROGRAM).unwrap();
        for offset in 0..3 {
            for memory in [Memory::of_program(&PROGRAM[offset..]), Memory::copy_of(&PROGRAM[offset..])] {
                let memory = memory.unwrap();
                assert_eq!(memory.bytes(), &PROGRAM[offset..]);
                assert!(memory.bytes().as_ptr().addr().is_multiple_of(ALIGNMENT));
            }
        }
        let memory = Memory::of_file(&path).unwrap();
        // The mapped file stays when another takes its place, and when it is removed.
        let other = path.with_extension("other");
        std::fs::write(&other, [1; 300]).unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert_eq!(memory.bytes(), PROGRAM);
        assert!(memory.bytes().as_ptr().addr().is_multiple_of(ALIGNMENT));
        std::fs::write(&path, []).unwrap();
        assert_eq!(Memory::of_file(&path).unwrap().bytes(), []);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(memory.keep(), PROGRAM);
        assert_eq!(Memory::of_file(&path).map(drop).unwrap_err().kind(), "FileNotFoundError");
    }
}
