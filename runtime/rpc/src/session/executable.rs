//! Reads from a program's file what it needs to run, for messages that are clearer than the
//! system's.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The largest size of program headers that is read, in bytes.
const HEADERS: u64 = 64 << 10;

/// A 64-bit ELF program.
pub(super) struct Executable {
    machine: u16,
    /// The program that loads it, a part of the C library; `None` for a static program.
    loader: Option<PathBuf>,
}

impl Executable {
    /// Reads a file's headers; `None` for any file that is not a 64-bit little-endian ELF file.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let mut file = File::open(path).ok()?;
        let mut head = [0; 64];
        file.read_exact(&mut head).ok()?;
        // Magic number, 64 bits, little-endian.
        if head[..6] != *b"\x7fELF\x02\x01" {
            return None;
        }
        Some(Self { machine: u16::from_le_bytes([head[18], head[19]]), loader: loader(&mut file, &head) })
    }

    /// The reason why it cannot run in a process like this one.
    pub(super) fn obstacle(&self) -> Option<String> {
        let own = own_machine();
        if own != 0 && self.machine != own {
            return Some(format!(
                "it is for {}, this server is {}; build it with `--target` for this machine",
                machine_name(self.machine),
                machine_name(own)
            ));
        }
        None
    }

    /// The requested loader, if the system does not have it.
    pub(super) fn missing_loader(&self) -> Option<&Path> {
        self.loader.as_deref().filter(|loader| !loader.exists())
    }
}

/// The content of the segment PT_INTERP.
fn loader(file: &mut File, head: &[u8; 64]) -> Option<PathBuf> {
    const INTERP: u32 = 3;
    let start = u64::from_le_bytes(head[32..40].try_into().ok()?);
    let [size, count] = [54, 56].map(|at| u64::from(u16::from_le_bytes([head[at], head[at + 1]])));
    if size < 56 {
        return None;
    }
    for header in read_at(file, start, (size * count).min(HEADERS))?.chunks_exact(usize::try_from(size).ok()?) {
        let number = |at: usize| Some(u64::from_le_bytes(header.get(at..at + 8)?.try_into().ok()?));
        if u32::from_le_bytes(header.get(..4)?.try_into().ok()?) == INTERP {
            let text = read_at(file, number(8)?, number(32)?.min(4096))?;
            let text = text.split(|byte| *byte == 0).next()?;
            return Some(String::from_utf8_lossy(text).into_owned().into());
        }
    }
    None
}

fn read_at(file: &mut File, start: u64, size: u64) -> Option<Vec<u8>> {
    file.seek(SeekFrom::Start(start)).ok()?;
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    file.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

/// The ELF machine number of this process; 0 if it is not known here.
const fn own_machine() -> u16 {
    if cfg!(target_arch = "x86_64") {
        62
    } else if cfg!(target_arch = "aarch64") {
        183
    } else {
        0
    }
}

fn machine_name(machine: u16) -> String {
    match machine {
        62 => "x86-64".to_owned(),
        183 => "AArch64".to_owned(),
        243 => "RISC-V".to_owned(),
        258 => "LoongArch".to_owned(),
        21 => "PowerPC64".to_owned(),
        other => format!("machine {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_runs_here() {
        let own = Executable::read(&std::env::current_exe().unwrap()).unwrap();
        assert!(own.obstacle().is_none() && own.missing_loader().is_none());
        assert!(own.loader.is_some());
    }

    #[test]
    fn others_do_not() {
        let path = std::env::temp_dir().join(format!("kernpack-rpc-executable-{}", std::process::id()));
        let mut bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        bytes.truncate(64 << 10);
        let machine = if own_machine() == 183 { 62u16 } else { 183 };
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        std::fs::write(&path, &bytes).unwrap();
        let obstacle = Executable::read(&path).unwrap().obstacle().unwrap();
        for name in ["it is for ", "this server is ", "AArch64", "x86-64"] {
            assert!(obstacle.contains(name), "{obstacle}");
        }
        // Invalid header offsets are ignored.
        bytes[32..40].fill(0xff);
        std::fs::write(&path, &bytes).unwrap();
        assert!(Executable::read(&path).unwrap().loader.is_none());
        std::fs::write(&path, b"#!/bin/sh\n").unwrap();
        assert!(Executable::read(&path).is_none());
        std::fs::remove_file(path).unwrap();
    }
}
