//! Replaces the relative distance of each call by its absolute target: all calls of a function then
//! have the same bytes, so that the program compresses better.

/// Adds `sign` times the address of each call to its operand: 1 converts distances to targets, -1
/// converts them back. `arch` is the program's processor, as Rust names it.
pub(crate) fn shift(program: &mut [u8], arch: &str, sign: i32) {
    match arch {
        "x86_64" => shift_x86(program, sign),
        "aarch64" => shift_aarch64(program, sign),
        _ => {}
    }
}

/// `call` and `jmp` (E8, E9) with distances of 25 bits. Bytes that only look like a call are
/// changed and restored, too: opcode and last byte stay the same, and the bytes after an opcode are
/// never examined as opcodes, so both directions visit the same places.
fn shift_x86(program: &mut [u8], sign: i32) {
    let mut at = 0;
    while let Some([opcode, distance @ ..]) = program.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<5>) {
        if !matches!(opcode, 0xe8 | 0xe9) {
            at += 1;
            continue;
        }
        at += 5;
        if matches!(distance[3], 0 | 0xff) {
            let sum = i32::from_le_bytes(*distance).wrapping_add(sign.wrapping_mul(at as i32));
            // Sign-extends the 25 bits: the last byte is 0 or 255 again.
            *distance = (sum << 7 >> 7).to_le_bytes();
        }
    }
}

/// `bl` with distances of 26 bits, in units of 4 bytes.
fn shift_aarch64(program: &mut [u8], sign: i32) {
    const BITS: u32 = (1 << 26) - 1;
    for (index, word) in program.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let instruction = u32::from_le_bytes(*word);
        if instruction & !BITS == 0x9400_0000 {
            let sum = instruction.wrapping_add((index as u32).wrapping_mul(sign as u32)) & BITS;
            *word = (instruction & !BITS | sum).to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_go_both_ways() {
        let mut program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        // Edges: distances at both ends of their range, and overflow.
        for distance in [0, 1, -1, (1 << 24) - 1, -(1 << 24)] {
            program.push(0xe8);
            program.extend_from_slice(&i32::to_le_bytes(distance));
        }
        // An opcode whose last byte is the distance of another.
        program.extend([0xe8, 0xe8, 1, 2, 3, 0, 0xe8, 0, 0xe9, 0, 0, 0xff, 0]);
        program.extend([0xe8, 0xe9, 0xe8, 0xff]);
        for arch in ["x86_64", "aarch64", "riscv64"] {
            let mut shifted = program.clone();
            shift(&mut shifted, arch, 1);
            assert!(shifted != program || arch != std::env::consts::ARCH, "{arch}");
            shift(&mut shifted, arch, -1);
            assert!(shifted == program, "{arch}");
        }
        // Two calls of one function are the same bytes.
        let mut calls = [0xe8, 10, 0, 0, 0, 0x90, 0xe8, 4, 0, 0, 0];
        shift(&mut calls, "x86_64", 1);
        assert_eq!(calls[..5], calls[6..]);
        let mut calls: Vec<u8> =
            [0x9400_0009u32, 0xd503_201f, 0x9400_0007].iter().flat_map(|word| word.to_le_bytes()).collect();
        shift(&mut calls, "aarch64", 1);
        assert_eq!(calls[..4], calls[8..]);
    }
}
