//! Memory that a test passes to a function and reads back.

use std::cell::RefCell;
use std::rc::Rc;

use super::number;
use crate::error::{Result, fail, require};
use crate::ir::{BF16, DataType, DataTypeExt, F16, F32, F64, I64};

/// A tensor in the machine's memory: elements, their type and shape. A clone shares the memory.
#[derive(Clone, Debug)]
pub struct Block(pub(super) Rc<RefCell<Content>>);

#[derive(Debug)]
pub(super) struct Content {
    pub(super) dtype: DataType,
    pub(super) shape: Vec<i64>,
    /// The strides in elements; `None` for compact row-major memory.
    pub(super) strides: Option<Vec<i64>>,
    /// The number of elements before the first one.
    pub(super) offset: i64,
    /// The offset of the address from a multiple of 64, in bytes.
    pub(super) misalignment: usize,
    pub(super) bytes: Vec<u8>,
    /// For each byte, true if it has a value.
    pub(super) known: Vec<bool>,
}

fn element_bytes(dtype: DataType) -> usize {
    dtype.lane_bytes() * usize::from(dtype.lanes())
}

fn count(shape: &[i64]) -> usize {
    shape.iter().map(|extent| usize::try_from(*extent).unwrap_or(0)).product()
}

impl Block {
    /// Creates elements without values, for an output. Reading one before it is written is an
    /// error.
    pub fn uninit(dtype: DataType, shape: &[i64]) -> Self {
        let bytes = count(shape) * element_bytes(dtype);
        Self(Rc::new(RefCell::new(Content {
            dtype,
            shape: shape.to_vec(),
            strides: None,
            offset: 0,
            misalignment: 0,
            bytes: vec![0; bytes],
            known: vec![false; bytes],
        })))
    }

    /// Creates elements from values, rounded to the type; integers are exact up to 2^53.
    ///
    /// # Panics
    /// Panics if the number of values differs from that of the shape.
    pub fn from_f64(dtype: DataType, shape: &[i64], values: &[f64]) -> Self {
        let lanes: Vec<u64> = values.iter().map(|value| number::cast(F64, dtype.element(), value.to_bits())).collect();
        Self::from_lanes(dtype, shape, &lanes)
    }

    /// Creates elements from values, truncated to the type.
    ///
    /// # Panics
    /// Panics if the number of values differs from that of the shape.
    pub fn from_i64(dtype: DataType, shape: &[i64], values: &[i64]) -> Self {
        let lanes: Vec<u64> = values.iter().map(|value| number::cast(I64, dtype.element(), *value as u64)).collect();
        Self::from_lanes(dtype, shape, &lanes)
    }

    /// Creates a one-dimensional block of single precision floats.
    pub fn from_f32(values: &[f32]) -> Self {
        let lanes: Vec<u64> = values.iter().map(|value| u64::from(value.to_bits())).collect();
        Self::from_lanes(F32, &[values.len() as i64], &lanes)
    }

    /// Creates a block from the bits of each lane, in the low part of a word.
    ///
    /// # Panics
    /// Panics if the number of lanes differs from that of the shape.
    pub fn from_lanes(dtype: DataType, shape: &[i64], lanes: &[u64]) -> Self {
        let block = Self::uninit(dtype, shape);
        let expected = count(shape) * usize::from(dtype.lanes());
        assert_eq!(lanes.len(), expected, "values for shape {shape:?} of {}", dtype.short_name());
        {
            let mut content = block.0.borrow_mut();
            let size = dtype.lane_bytes();
            for (place, bits) in content.bytes.chunks_exact_mut(size).zip(lanes) {
                place.copy_from_slice(&bits.to_le_bytes()[..size]);
            }
            content.known.fill(true);
        }
        block
    }

    /// Returns the same elements with another shape.
    ///
    /// # Panics
    /// Panics if the number of elements differs.
    #[must_use]
    pub fn reshaped(self, shape: &[i64]) -> Self {
        {
            let mut content = self.0.borrow_mut();
            assert_eq!(count(&content.shape), count(shape), "elements of {:?} and {shape:?}", content.shape);
            content.shape = shape.to_vec();
        }
        self
    }

    /// Returns a view of the elements with strides and a first element, in elements; the shape may
    /// have fewer elements than the memory.
    #[must_use]
    pub fn strided(self, shape: &[i64], strides: &[i64], offset: i64) -> Self {
        {
            let mut content = self.0.borrow_mut();
            content.shape = shape.to_vec();
            content.strides = Some(strides.to_vec());
            content.offset = offset;
        }
        self
    }

    /// Returns the same elements at an address that is this number of bytes off a multiple of 64.
    #[must_use]
    pub fn misaligned(self, bytes: usize) -> Self {
        self.0.borrow_mut().misalignment = bytes % 64;
        self
    }

    /// The type of an element.
    pub fn dtype(&self) -> DataType {
        self.0.borrow().dtype
    }

    /// The extents of the dimensions, in elements.
    pub fn shape(&self) -> Vec<i64> {
        self.0.borrow().shape.clone()
    }

    /// Returns the bits of each lane in the memory, which is compact unless the block is
    /// [`strided`](Self::strided).
    ///
    /// # Errors
    /// Returns an error for an element without a value.
    pub fn to_lanes(&self) -> Result<Vec<u64>> {
        let content = self.0.borrow();
        if let Some(byte) = content.known.iter().position(|known| !known) {
            fail!(Run, "element {} has no value: it was not written", byte / element_bytes(content.dtype).max(1));
        }
        Ok(content.lanes().collect())
    }

    /// Returns the elements, `None` for those without a value.
    pub fn known_lanes(&self) -> Vec<Option<u64>> {
        let content = self.0.borrow();
        let size = content.dtype.lane_bytes();
        content
            .lanes()
            .zip(content.known.chunks_exact(size))
            .map(|(bits, known)| known.iter().all(|known| *known).then_some(bits))
            .collect()
    }

    /// Returns the elements as doubles.
    ///
    /// # Errors
    /// Returns an error for an element without a value.
    pub fn to_f64(&self) -> Result<Vec<f64>> {
        let dtype = self.dtype().element();
        Ok(self.to_lanes()?.into_iter().map(|bits| f64::from_bits(number::cast(dtype, F64, bits))).collect())
    }

    /// Returns the elements of a block of single precision, half precision or bfloat16.
    ///
    /// # Errors
    /// Returns an error for an element without a value, or another type.
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        let dtype = self.dtype().element();
        require!([F32, F16, BF16].contains(&dtype), Run, "elements are {}, not f32", dtype.short_name());
        Ok(self.to_lanes()?.into_iter().map(|bits| number::float_of_bits(dtype, bits) as f32).collect())
    }

    /// Returns the elements of a block of integers or truth values.
    ///
    /// # Errors
    /// Returns an error for an element without a value, or for floats.
    pub fn to_i64(&self) -> Result<Vec<i64>> {
        let dtype = self.dtype();
        require!(!dtype.is_float(), Run, "elements are {}, not integers", dtype.short_name());
        Ok(self.to_lanes()?.into_iter().map(|bits| bits as i64).collect())
    }
}

impl Content {
    fn lanes(&self) -> impl Iterator<Item = u64> {
        let dtype = self.dtype.element();
        self.bytes.chunks_exact(dtype.lane_bytes()).map(move |bytes| read_lane(dtype, bytes))
    }

    /// The strides in elements; they are computed if the block is compact.
    pub(super) fn full_strides(&self) -> Vec<i64> {
        if let Some(strides) = &self.strides {
            return strides.clone();
        }
        let mut strides = vec![1i64; self.shape.len()];
        for axis in (0..self.shape.len().saturating_sub(1)).rev() {
            strides[axis] = strides[axis + 1] * self.shape[axis + 1];
        }
        strides
    }
}

/// Decodes a lane from its bytes in memory.
pub(super) fn read_lane(dtype: DataType, bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    let bits = u64::from_le_bytes(word);
    if dtype.is_int() && dtype.bits() < 64 {
        let shift = 64 - u32::from(dtype.bits());
        return ((bits << shift) as i64 >> shift) as u64;
    }
    bits
}

/// An argument of a function.
#[derive(Clone, Debug)]
pub enum Arg {
    /// An integer or truth value.
    Int(i64),
    /// A float.
    Float(f64),
    /// A tensor.
    Block(Block),
}

impl From<i64> for Arg {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Arg {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<&Block> for Arg {
    fn from(block: &Block) -> Self {
        Self::Block(block.clone())
    }
}

impl From<Block> for Arg {
    fn from(block: Block) -> Self {
        Self::Block(block)
    }
}
