//! Digests of 128 bits that detect accidental changes: of a program, and of weights. They are not
//! proof against forgery.
//!
//! Eight lanes of 64 bits take a word each: `lane = mixed((lane ^ word) * odd)`. Each step is a
//! bijection of the lane and of the word, and so are the steps that join the lanes: two inputs of
//! one length that differ in one word never have the same digest.

use core::fmt;

/// The number of bytes that the lanes take at once.
const BLOCK: usize = 64;
/// Odd numbers with irregular bits: fractional parts of square roots.
const FACTORS: [u64; 2] = [0x6a09_e667_f3bc_c909, 0xbb67_ae85_84ca_a73b];
/// The first values of the lanes: fractional parts of square roots, too.
const START: [u64; 8] = [
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
    0xcbbb_9d5d_c105_9ed8,
    0x629a_292a_367c_d507,
];

/// A digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest(u128);

impl Digest {
    /// Creates a digest from its bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }

    /// Creates a digest from the number that it shows in hexadecimal.
    pub const fn from_number(number: u128) -> Self {
        Self(number)
    }

    /// Returns the bytes.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }
}

/// 32 hexadecimal digits.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Computes the digest of bytes that arrive in pieces. The borders of pieces do not matter.
#[derive(Clone)]
pub struct Digester {
    lanes: [u64; 8],
    /// The bytes that do not fill a block yet.
    rest: [u8; BLOCK],
    /// The number of bytes so far.
    bytes: u64,
}

impl Default for Digester {
    fn default() -> Self {
        Self { lanes: START, rest: [0; BLOCK], bytes: 0 }
    }
}

impl Digester {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        #[expect(clippy::cast_possible_truncation, reason = "less than a block")]
        let filled = (self.bytes % BLOCK as u64) as usize;
        self.bytes = self.bytes.wrapping_add(bytes.len() as u64);
        let mut bytes = bytes;
        if filled > 0 {
            let (first, others) = bytes.split_at(bytes.len().min(BLOCK - filled));
            self.rest[filled..filled + first.len()].copy_from_slice(first);
            if filled + first.len() < BLOCK {
                return;
            }
            let block = self.rest;
            self.block(&block);
            bytes = others;
        }
        let mut blocks = bytes.chunks_exact(BLOCK);
        for block in &mut blocks {
            if let Ok(block) = block.try_into() {
                self.block(block);
            }
        }
        let left = blocks.remainder();
        self.rest[..left.len()].copy_from_slice(left);
    }

    /// Adds bytes with their length, so that lists with other borders have other digests.
    pub fn field(&mut self, bytes: &[u8]) {
        self.update(&(bytes.len() as u64).to_le_bytes());
        self.update(bytes);
    }

    #[inline]
    fn block(&mut self, block: &[u8; BLOCK]) {
        let (words, _) = block.as_chunks::<8>();
        for (lane, word) in self.lanes.iter_mut().zip(words) {
            *lane = mixed((*lane ^ u64::from_le_bytes(*word)).wrapping_mul(FACTORS[0]));
        }
    }

    /// Returns the digest of the bytes so far.
    pub fn finish(&self) -> Digest {
        let mut all = self.clone();
        #[expect(clippy::cast_possible_truncation, reason = "less than a block")]
        let filled = (self.bytes % BLOCK as u64) as usize;
        if filled > 0 {
            all.rest[filled..].fill(0);
            let block = all.rest;
            all.block(&block);
        }
        let joined = |start: u64, factor: u64, lanes: &mut dyn Iterator<Item = &u64>| {
            let step = |sum: u64, lane: &u64| mixed((sum ^ lane).wrapping_mul(factor));
            lanes.fold(step(start, &self.bytes), step)
        };
        let low = joined(START[0], FACTORS[0], &mut all.lanes.iter());
        let high = joined(START[1], FACTORS[1], &mut all.lanes.iter().rev());
        Digest((u128::from(high) << 64) | u128::from(low))
    }
}

/// Carries high bits of a product to the low ones.
#[inline]
fn mixed(product: u64) -> u64 {
    product ^ (product >> 29)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn of(bytes: &[u8]) -> Digest {
        let mut digester = Digester::default();
        digester.update(bytes);
        digester.finish()
    }

    #[test]
    fn pieces_do_not_matter() {
        let bytes: Vec<u8> = (0..300_u32).map(|number| (number * 7 % 251) as u8).collect();
        for first in [0, 1, 63, 64, 65, 128, 200] {
            for second in [first, first + 1, 250, 300] {
                let mut digester = Digester::default();
                for piece in [&bytes[..first], &bytes[first..second], &bytes[second..]] {
                    digester.update(piece);
                }
                assert_eq!(digester.finish(), of(&bytes), "{first} {second}");
            }
        }
    }

    #[test]
    fn bits_and_lengths_matter() {
        let bytes = vec![0_u8; 200];
        let mut seen = HashSet::new();
        for length in 0..bytes.len() {
            assert!(seen.insert(of(&bytes[..length])), "{length}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(seen.insert(of(&changed)), "bit {bit}");
        }
        let (mut one, mut other) = (Digester::default(), Digester::default());
        one.field(b"a");
        one.field(b"bc");
        other.field(b"ab");
        other.field(b"c");
        assert_ne!(one.finish(), other.finish());
    }

    #[test]
    fn the_value_is_part_of_the_format() {
        assert_eq!(of(b"").to_string(), "727223f7dab66399a4b178a1df5c0d22");
        assert_eq!(of(b"kernpack").to_string(), "ff430d84cba014729cafcdd87c8a9c23");
        let digest = of(b"kernpack");
        assert_eq!(Digest::from_bytes(digest.to_bytes()), digest);
    }
}
