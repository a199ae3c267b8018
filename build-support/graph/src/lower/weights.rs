//! The weights of a model as one block of memory, without copying them.

use core::iter;

use crate::constant::Constant;
use crate::plan::{self, ALIGNMENT};

/// Known tensors in sequence, each at a multiple of 64 bytes.
#[derive(Clone, Default)]
pub struct Weights {
    tensors: Vec<(usize, Constant)>,
    bytes: usize,
}

/// The bytes between two tensors.
const GAP: [u8; ALIGNMENT] = [0; ALIGNMENT];

impl Weights {
    /// Appends a tensor, and returns its index.
    pub(super) fn add(&mut self, tensor: &Constant) -> usize {
        let offset = plan::aligned(self.bytes);
        self.bytes = offset + tensor.bytes().len();
        self.tensors.push((offset, tensor.clone()));
        self.tensors.len() - 1
    }

    /// Returns the bytes of a tensor by its index.
    pub(super) fn tensor(&self, number: usize) -> &[u8] {
        self.tensors[number].1.bytes()
    }

    /// Returns the offset of a tensor.
    pub(super) fn offset(&self, number: usize) -> usize {
        self.tensors[number].0
    }

    /// Returns the tensors with their offsets.
    pub(super) fn tensors(&self) -> impl Iterator<Item = (usize, &Constant)> {
        self.tensors.iter().map(|(offset, tensor)| (*offset, tensor))
    }

    /// The number of bytes.
    pub fn size(&self) -> usize {
        self.bytes
    }

    /// Returns true if the bytes are the same.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let equal = |((offset, tensor), (other_offset, other)): (&(usize, Constant), &(usize, Constant))| {
            offset == other_offset && tensor.bytes() == other.bytes()
        };
        self.bytes == other.bytes
            && self.tensors.len() == other.tensors.len()
            && self.tensors.iter().zip(&other.tensors).all(equal)
    }

    /// Returns the bytes in order, in pieces: tensors and the gaps between them.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let mut end = 0;
        self.tensors.iter().flat_map(move |(offset, tensor)| {
            let gap = &GAP[..offset - end];
            end = offset + tensor.bytes().len();
            iter::once(gap).chain(iter::once(tensor.bytes()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_begin_at_multiples_of_64_bytes() {
        let mut weights = Weights::default();
        for count in [20, 0, 16, 1] {
            weights.add(&Constant::of_floats(&vec![1.0; count]));
        }
        let all: Vec<u8> = weights.pieces().flatten().copied().collect();
        assert_eq!((all.len(), weights.size()), (196, 196));
        for (number, offset) in [(0, 0), (1, 128), (2, 128), (3, 192)] {
            assert_eq!(weights.offset(number), offset);
            assert_eq!(all[offset..offset + weights.tensor(number).len()], *weights.tensor(number));
        }
        assert_eq!(all[80..128], [0; 48]);
    }
}
