//! Object file formats: the only module that depends on the layout of a read-only blob in ELF and
//! Mach-O.

use std::env::consts;

use super::{ExportError, Result};

/// The object file format of a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectFormat {
    /// Linux, Android, the BSDs.
    Elf,
    /// macOS, iOS and their relatives.
    MachO,
}

/// The target that a library is built for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    triple: Option<String>,
    arch: String,
    format: ObjectFormat,
}

/// A section of an object file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// Name of the segment; only in Mach-O files.
    pub segment: &'static str,
    /// Name of the section.
    pub name: &'static str,
    /// True if the blob may be out of reach of 32-bit offsets (`SHF_X86_64_LARGE`).
    pub is_large: bool,
}

/// The alignment of a blob in bytes, the same for every packer.
pub const BLOB_ALIGNMENT: u64 = 16;

/// The largest blob, in bytes, that stays in the ordinary read-only section of x86-64.
pub const LARGE_BLOB: u64 = 1 << 30;

impl Target {
    /// The target of the running process.
    ///
    /// # Errors
    /// Returns a RuntimeError on systems whose object files are neither ELF nor Mach-O.
    #[inline]
    pub fn host() -> Result<Self> {
        Self::new(None, consts::ARCH, consts::OS)
    }

    /// Returns the target of a triple, such as `aarch64-unknown-linux-gnu`.
    ///
    /// # Errors
    /// Returns a RuntimeError for systems whose object files are neither ELF nor Mach-O.
    #[inline]
    pub fn of_triple(triple: &str) -> Result<Self> {
        let arch = triple.split('-').next().unwrap_or_default();
        Self::new(Some(triple.to_owned()), if arch == "arm64" { "aarch64" } else { arch }, triple)
    }

    /// Returns the target with this architecture and operating system, given as in Cargo's
    /// `CARGO_CFG_TARGET_ARCH` and `CARGO_CFG_TARGET_OS`.
    ///
    /// # Errors
    /// Returns a RuntimeError for systems whose object files are neither ELF nor Mach-O.
    #[inline]
    pub fn of_parts(arch: &str, os: &str) -> Result<Self> {
        Self::new(None, arch, os)
    }

    #[inline]
    fn new(triple: Option<String>, arch: &str, system: &str) -> Result<Self> {
        let is = |names: &[&str]| names.iter().any(|name| system.contains(name));
        let format = if is(&["windows", "uefi", "wasm", "emscripten"]) {
            return Err(ExportError::new(
                "RuntimeError",
                format!("libraries can be written as ELF and Mach-O files, not for {system}"),
            ));
        } else if is(&["macos", "darwin", "ios", "tvos", "watchos", "visionos"]) {
            ObjectFormat::MachO
        } else {
            ObjectFormat::Elf
        };
        Ok(Self { triple, arch: arch.to_owned(), format })
    }

    /// The triple that the target was created from, if any.
    #[inline]
    pub fn triple(&self) -> Option<&str> {
        self.triple.as_deref()
    }

    /// Rust's name of the architecture: `x86_64`, `aarch64`, ...
    #[inline]
    pub fn arch(&self) -> &str {
        &self.arch
    }

    /// The object file format of the target.
    #[inline]
    pub fn format(&self) -> ObjectFormat {
        self.format
    }

    /// Returns the name of the C symbol `symbol` in an object file.
    #[inline]
    pub fn symbol_name(&self, symbol: &str) -> String {
        match self.format {
            ObjectFormat::Elf => symbol.to_owned(),
            ObjectFormat::MachO => format!("_{symbol}"),
        }
    }

    /// The section for a blob of `size` bytes.
    #[inline]
    pub fn blob_section(&self, size: u64) -> Section {
        match self.format {
            ObjectFormat::MachO => Section { segment: "__TEXT", name: "__const", is_large: false },
            ObjectFormat::Elf if self.arch == "x86_64" && size > LARGE_BLOB => {
                Section { segment: "", name: ".lrodata", is_large: true }
            }
            ObjectFormat::Elf => Section { segment: "", name: ".rodata", is_large: false },
        }
    }

    /// Compiler options for linking a shared library.
    #[doc(hidden)]
    #[inline]
    pub fn shared_flags(&self) -> &'static [&'static str] {
        match self.format {
            ObjectFormat::Elf => &["-shared", "-fPIC"],
            ObjectFormat::MachO => &["-dynamiclib", "-fPIC", "-undefined", "dynamic_lookup"],
        }
    }

    /// Options that make the linker include a whole archive.
    #[doc(hidden)]
    #[inline]
    pub fn whole_archive(&self, archive: &str) -> Vec<String> {
        match self.format {
            ObjectFormat::Elf => vec!["-Wl,--whole-archive".into(), archive.into(), "-Wl,--no-whole-archive".into()],
            ObjectFormat::MachO => vec![format!("-Wl,-force_load,{archive}")],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections() {
        let rows = [
            ("x86_64-unknown-linux-gnu", 1, ".rodata", false),
            ("x86_64-unknown-linux-gnu", LARGE_BLOB, ".rodata", false),
            ("x86_64-unknown-linux-gnu", LARGE_BLOB + 1, ".lrodata", true),
            ("aarch64-unknown-linux-gnu", LARGE_BLOB + 1, ".rodata", false),
            ("arm64-apple-darwin", 1, "__const", false),
            ("x86_64-apple-darwin", LARGE_BLOB + 1, "__const", false),
        ];
        for (triple, size, name, is_large) in rows {
            let section = Target::of_triple(triple).unwrap().blob_section(size);
            assert_eq!((section.name, section.is_large), (name, is_large), "{triple}");
        }
        assert_eq!(Target::of_triple("aarch64-apple-ios").unwrap().symbol_name("x"), "_x");
        assert_eq!(
            Target::of_triple("x86_64-pc-windows-msvc").unwrap_err().to_string(),
            "RuntimeError: libraries can be written as ELF and Mach-O files, not for x86_64-pc-windows-msvc"
        );
    }
}
