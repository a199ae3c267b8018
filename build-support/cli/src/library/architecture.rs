//! The devices that the code of an image is for.

/// Returns the architectures, or the language of a source, as text.
pub(crate) fn of(format: &str, code: &[u8]) -> Vec<String> {
    match format {
        "ptx" => ptx(code),
        "cubin" => cubin(code).into_iter().collect(),
        "fatbin" => fatbin(code),
        "cuda" => vec!["CUDA C++ source".to_owned()],
        "cl" => vec!["OpenCL C source".to_owned()],
        "hsaco" => vec!["AMD GPU code object".to_owned()],
        "metal" => vec!["Metal source".to_owned()],
        "metallib" => vec!["Metal library".to_owned()],
        "vulkan" => vec!["SPIR-V".to_owned()],
        "wgsl" => vec!["WGSL source".to_owned()],
        _ => Vec::new(),
    }
}

fn number(bytes: &[u8], offset: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(offset..offset.checked_add(size)?)?;
    Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// Reads the first `.target` directive.
fn ptx(code: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(code.get(..code.len().min(1 << 16)).unwrap_or_default());
    let target = text.lines().find_map(|line| line.trim_start().strip_prefix(".target"));
    let targets = target.into_iter().flat_map(|names| names.split("//").next().unwrap_or_default().split(','));
    targets.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).take(16).collect()
}

/// Reads the architecture in the flags of a CUDA ELF file. Version 8 of its ABI (CUDA 13) moved it
/// by eight bits.
fn cubin(code: &[u8]) -> Option<String> {
    const EM_CUDA: u64 = 190;
    if !code.starts_with(b"\x7fELF") || number(code, 18, 2)? != EM_CUDA {
        return None;
    }
    let flags = number(code, 48, 4)?;
    let (sm, accelerated) = if number(code, 8, 1)? >= 8 {
        (flags >> 8 & 0xff, flags & 0x8 != 0)
    } else {
        (flags & 0xff, flags & 0x800 != 0)
    };
    Some(format!("sm_{sm}{}", if accelerated { "a" } else { "" }))
}

/// Reads the parts of a fat binary: a header (magic, version, its own size, size of the rest), then
/// entries (kind, version, size of the entry's header, size of its code, ..., architecture at byte
/// 28, flags at byte 40).
fn fatbin(code: &[u8]) -> Vec<String> {
    const MAGIC: u64 = 0xba55_ed50;
    const COMPRESSED: u64 = 0x8000 | 0x2000;
    let mut found: Vec<String> = Vec::new();
    let mut rest = code;
    // Some fat binaries are several in a row.
    while number(rest, 0, 4) == Some(MAGIC) {
        let (Some(header), Some(size)) = (number(rest, 6, 2), number(rest, 8, 8)) else { break };
        let Some(after) = rest.get(header.max(16) as usize..) else { break };
        let (mut entries, next) = after.split_at(usize::try_from(size).unwrap_or(usize::MAX).min(after.len()));
        while let (Some(kind), Some(header), Some(size)) =
            (number(entries, 0, 2), number(entries, 4, 4), number(entries, 8, 8))
        {
            let Some(architecture) = number(entries, 28, 4) else { break };
            let Some(code) = entries.get(header.max(32) as usize..) else { break };
            let plain = number(entries, 40, 8).unwrap_or(0) & COMPRESSED == 0;
            let name = match kind {
                1 => format!("compute_{architecture} (PTX)"),
                2 => plain.then(|| cubin(code)).flatten().unwrap_or_else(|| format!("sm_{architecture}")),
                other => format!("part of unknown kind {other} for {architecture}"),
            };
            if found.len() < 64 && !found.contains(&name) {
                found.push(name);
            }
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            entries = code.get(size..).unwrap_or_default();
        }
        rest = next;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(abi: u8, flags: u32) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..4].copy_from_slice(b"\x7fELF");
        bytes[8] = abi;
        bytes[18..20].copy_from_slice(&190u16.to_le_bytes());
        bytes[48..52].copy_from_slice(&flags.to_le_bytes());
        bytes
    }

    fn entry(kind: u16, architecture: u32, code: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..2].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&64u32.to_le_bytes());
        bytes[8..16].copy_from_slice(&(code.len() as u64).to_le_bytes());
        bytes[28..32].copy_from_slice(&architecture.to_le_bytes());
        bytes.extend(code);
        bytes
    }

    #[test]
    fn architectures_of_each_format() {
        assert_eq!(of("ptx", b"// x\n.version 8.0\n.target sm_80, debug // c\n"), ["sm_80", "debug"]);
        assert_eq!(of("cubin", &elf(7, 0x0055_0555)), ["sm_85"]);
        assert_eq!(of("cubin", &elf(8, 0x0600_5a08)), ["sm_90a"]);
        assert_eq!(of("cl", b""), ["OpenCL C source"]);
        let parts = [entry(2, 75, &elf(7, 75)), entry(2, 90, &[1, 2]), entry(1, 80, b"ptx")].concat();
        let mut bytes = vec![0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0];
        bytes.extend((parts.len() as u64).to_le_bytes());
        bytes.extend(parts);
        assert_eq!(of("fatbin", &bytes), ["sm_75", "sm_90", "compute_80 (PTX)"]);
        for len in 0..bytes.len() {
            of("fatbin", &bytes[..len]);
        }
        for position in 0..bytes.len() {
            let mut broken = bytes.clone();
            broken[position] = 0xff;
            of("fatbin", &broken);
        }
    }
}
