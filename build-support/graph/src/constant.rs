//! Tensors whose elements are known at build time: weights, shapes, tables.

use std::sync::Arc;

use kernpack::DataType;
use kernpack_compiler::ir::{BF16, BOOLEAN, DataTypeExt, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
use kernpack_compiler::te::eval::Elements;

use crate::error::{Result, fail, require};

/// The maximum number of elements of a tensor.
pub(crate) const MOST_ELEMENTS: i64 = 1 << 40;

/// A dense tensor in row-major order, little-endian. A bool is a byte.
#[derive(Clone, PartialEq)]
pub struct Constant {
    dtype: DataType,
    shape: Vec<i64>,
    bytes: Arc<[u8]>,
}

/// Returns the number of elements of a shape.
///
/// # Errors
/// Returns an error for a negative extent, and for more than 2^40 elements.
pub fn num_elements(shape: &[i64]) -> Result<usize> {
    let mut count = 1_i64;
    if let Some(extent) = shape.iter().find(|extent| **extent < 0) {
        fail!("the extent {extent} of {shape:?} is negative");
    }
    // Also next to an extent of 0, because products of some of the others are computed.
    for extent in shape.iter().filter(|extent| **extent != 0) {
        count = count.checked_mul(*extent).filter(|count| *count <= MOST_ELEMENTS).unwrap_or(-1);
        require!(count > 0, "{shape:?} has more than 2^40 elements");
    }
    if shape.contains(&0) {
        return Ok(0);
    }
    Ok(usize::try_from(count).expect("at most 2^40 elements"))
}

/// Returns the type of elements in memory: floats of at most 8 bits are bytes with their bits, and
/// integers of 4 and 2 bits are bytes.
pub fn stored(dtype: DataType) -> DataType {
    match (dtype.bits(), dtype.is_int(), dtype.code()) {
        (2 | 4, true, _) => I8,
        (2 | 4 | 6, ..) | (8, false, 7..) => U8,
        _ => dtype,
    }
}

/// Returns the number of bytes of one element.
pub fn element_bytes(dtype: DataType) -> usize {
    usize::from(dtype.bits()).div_ceil(8)
}

impl Constant {
    /// Creates a tensor from bytes.
    ///
    /// # Errors
    /// Returns an error if the shape is invalid, or if the number of bytes does not match the
    /// shape.
    pub fn new(dtype: DataType, shape: &[i64], bytes: impl Into<Arc<[u8]>>) -> Result<Self> {
        let bytes = bytes.into();
        let expected = num_elements(shape)? * element_bytes(dtype);
        require!(bytes.len() == expected, "{} bytes for {dtype}{shape:?}, which has {expected}", bytes.len());
        Ok(Self { dtype, shape: shape.to_vec(), bytes })
    }

    /// Creates a one-dimensional tensor of type `int64`.
    pub fn of_ints(values: &[i64]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        #[expect(clippy::cast_possible_wrap, reason = "a slice has at most isize::MAX elements")]
        let shape = vec![values.len() as i64];
        Self { dtype: I64, shape, bytes: bytes.into() }
    }

    /// Creates a one-dimensional tensor of type `float32`.
    pub fn of_floats(values: &[f32]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        #[expect(clippy::cast_possible_wrap, reason = "a slice has at most isize::MAX elements")]
        let shape = vec![values.len() as i64];
        Self { dtype: F32, shape, bytes: bytes.into() }
    }

    /// Returns the same elements in another shape.
    ///
    /// # Errors
    /// Returns an error for a shape with another number of elements.
    pub fn reshaped(&self, shape: &[i64]) -> Result<Self> {
        Self::new(self.dtype, shape, Arc::clone(&self.bytes))
    }

    /// Returns the elements at the start of each axis, as a tensor with these extents.
    ///
    /// # Errors
    /// Returns an error for extents larger than those of the tensor.
    pub fn corner(&self, extents: &[i64]) -> Result<Self> {
        let fits = extents.len() == self.shape.len() && extents.iter().zip(&self.shape).all(|(own, all)| own <= all);
        require!(fits, "{extents:?} is not a part of {:?}", self.shape);
        let count = num_elements(extents)?;
        let width = element_bytes(self.dtype);
        let mut bytes = Vec::with_capacity(count * width);
        for number in 0..count {
            let (mut rest, mut place, mut stride) = (number, 0, 1);
            for (extent, all) in extents.iter().zip(&self.shape).rev() {
                let (extent, all) = (usize::try_from(*extent).unwrap_or(1), usize::try_from(*all).unwrap_or(0));
                place += rest % extent * stride;
                rest /= extent;
                stride *= all;
            }
            bytes.extend_from_slice(&self.bytes[place * width..(place + 1) * width]);
        }
        Self::new(self.dtype, extents, bytes)
    }

    /// Returns the same bytes as elements of another type with the same storage.
    ///
    /// # Errors
    /// Returns an error for a type with another number of bytes.
    pub fn retyped(&self, dtype: DataType) -> Result<Self> {
        Self::new(dtype, &self.shape, Arc::clone(&self.bytes))
    }

    /// The element type.
    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    /// The extents.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.bytes.len() / element_bytes(self.dtype)
    }

    /// Returns true if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the elements as bytes in memory.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns all elements as integers.
    ///
    /// # Errors
    /// Returns an error for a tensor of floats, and for an unsigned 64-bit integer that does not
    /// fit into a signed one.
    pub fn to_ints(&self) -> Result<Vec<i64>> {
        let ints = self.to_int_bits()?;
        if self.dtype == U64
            && let Some(place) = ints.iter().position(|int| *int < 0)
        {
            let value = ints[place].cast_unsigned();
            fail!("element {place} is {value}: expected an integer of at most {}", i64::MAX);
        }
        Ok(ints)
    }

    /// Returns all elements as integers, with unsigned 64-bit ones by their bits, like the
    /// constants of the compiler.
    ///
    /// # Errors
    /// Returns an error for a tensor of floats.
    pub(crate) fn to_int_bits(&self) -> Result<Vec<i64>> {
        /// Converts the elements of one type.
        macro_rules! each {
            ($($dtype:ident $ty:ty),*) => {
                match if self.dtype.is_integer() { stored(self.dtype) } else { self.dtype } {
                    $(dtype if dtype == $dtype => self
                        .bytes
                        .chunks_exact(size_of::<$ty>())
                        .map(|chunk| i64::from(<$ty>::from_le_bytes(chunk.try_into().expect("a whole element"))))
                        .collect(),)*
                    dtype if dtype == U64 => self.chunks::<8>().map(i64::from_le_bytes).collect(),
                    dtype if dtype == BOOLEAN => self.bytes.iter().map(|byte| i64::from(*byte != 0)).collect(),
                    dtype => fail!("expected integers, got {dtype}"),
                }
            };
        }
        Ok(each!(I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32))
    }

    /// Returns all elements as floats.
    ///
    /// # Errors
    /// Returns an error for an element type that is not a number of up to 64 bits.
    pub fn to_floats(&self) -> Result<Vec<f64>> {
        if self.dtype == F32 {
            return Ok(self.chunks::<4>().map(|bytes| f64::from(f32::from_le_bytes(bytes))).collect());
        }
        if self.dtype == F64 {
            return Ok(self.chunks::<8>().map(f64::from_le_bytes).collect());
        }
        if self.dtype.is_float() {
            return Ok(self.to_elements()?.to_f64());
        }
        let is_unsigned = self.dtype == U64;
        #[expect(clippy::cast_precision_loss, reason = "as a cast of the model would")]
        let float = |bits: i64| if is_unsigned { bits.cast_unsigned() as f64 } else { bits as f64 };
        Ok(self.to_int_bits()?.into_iter().map(float).collect())
    }

    /// Returns the index of the first NaN of float16, bfloat16, float32 or float64.
    pub fn first_nan(&self) -> Option<usize> {
        let is_nan_of_16 = |bits: u16, exponent: u16| bits & exponent == exponent && bits & !exponent & 0x7fff != 0;
        match self.dtype {
            dtype if dtype == F32 => {
                let is_nan = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("four bytes")).is_nan();
                self.words_with(has_largest_exponent).find_map(|word| {
                    let pair = &self.bytes[word * 8..self.bytes.len().min(word * 8 + 8)];
                    Some(word * 2 + pair.chunks_exact(4).position(is_nan)?)
                })
            }
            dtype if dtype == F64 => self.chunks::<8>().position(|bytes| f64::from_le_bytes(bytes).is_nan()),
            dtype if dtype == F16 => {
                self.chunks::<2>().position(|bytes| is_nan_of_16(u16::from_le_bytes(bytes), 0x7c00))
            }
            dtype if dtype == BF16 => {
                self.chunks::<2>().position(|bytes| is_nan_of_16(u16::from_le_bytes(bytes), 0x7f80))
            }
            _ => None,
        }
    }

    /// Returns true if no element is infinite or NaN.
    ///
    /// # Errors
    /// Returns an error for an element type that is not a number of up to 64 bits.
    pub(crate) fn is_finite(&self) -> Result<bool> {
        if self.dtype == F32 {
            // Infinity and NaN have the largest exponent.
            let is_other = |bytes: &[u8]| !f32::from_le_bytes(bytes.try_into().expect("four bytes")).is_finite();
            let found = self
                .words_with(has_largest_exponent)
                .any(|word| self.bytes[word * 8..self.bytes.len().min(word * 8 + 8)].chunks_exact(4).any(is_other));
            return Ok(!found);
        }
        Ok(!self.dtype.is_float() || self.to_floats()?.iter().all(|value| value.is_finite()))
    }

    /// Returns the tensor with zeros in place of subnormal float32 numbers, which some CPUs process
    /// a hundred times slower. `None` if it has none.
    pub(crate) fn flushed(&self) -> Option<Self> {
        let is_tiny = |bytes: &[u8]| {
            let bits = u32::from_le_bytes(bytes.try_into().expect("four bytes")) & 0x7fff_ffff;
            bits != 0 && bits < 0x0080_0000
        };
        if self.dtype != F32 {
            return None;
        }
        let mut made: Option<Vec<u8>> = None;
        for word in self.words_with(has_smallest_exponent) {
            let end = self.bytes.len().min(word * 8 + 8);
            for start in (word * 8..end).step_by(4).filter(|start| is_tiny(&self.bytes[*start..start + 4])) {
                made.get_or_insert_with(|| self.bytes.to_vec())[start..start + 4].fill(0);
            }
        }
        made.map(|bytes| Self { dtype: self.dtype, shape: self.shape.clone(), bytes: bytes.into() })
    }

    /// Returns the indices of words of two float32 elements, one of which may be a match. The last
    /// word may have a single element. Weights are long, and a build script is compiled without
    /// optimization, so this checks two elements at a time.
    fn words_with(&self, may_be: fn(u64) -> bool) -> impl Iterator<Item = usize> {
        let (words, rest) = self.bytes.as_chunks::<8>();
        let last = (!rest.is_empty()).then_some(words.len());
        let found = words.iter().enumerate().filter(move |(_, word)| may_be(u64::from_le_bytes(**word)));
        found.map(|(number, _)| number).chain(last)
    }

    fn chunks<const N: usize>(&self) -> impl Iterator<Item = [u8; N]> {
        self.bytes.chunks_exact(N).map(|chunk| chunk.try_into().expect("N bytes"))
    }

    /// Converts the tensor for the evaluator of the compiler.
    ///
    /// # Errors
    /// Returns an error for an extent that does not fit into memory.
    pub fn to_elements(&self) -> Result<Elements> {
        let shape: Vec<usize> = self.shape.iter().map(|extent| usize::try_from(*extent).unwrap_or(0)).collect();
        let mut elements = Elements::zeros(stored(self.dtype), &shape);
        require!(elements.bytes().len() == self.bytes.len(), "{} is not evaluated at build time", self.dtype);
        elements.bytes_mut().copy_from_slice(&self.bytes);
        Ok(elements)
    }

    /// Converts a tensor from the evaluator of the compiler.
    pub fn from_elements(elements: &Elements) -> Result<Self> {
        let shape: Vec<i64> =
            elements.shape().iter().map(|extent| i64::try_from(*extent).unwrap_or(i64::MAX)).collect();
        Self::new(elements.dtype(), &shape, elements.bytes())
    }
}

/// The exponents of two elements of float32, and the lowest and the highest bit of each.
const EXPONENTS: u64 = 0x7f80_0000_7f80_0000;
const LOWEST: u64 = 0x0080_0000_0080_0000;
const HIGHEST: u64 = 0x8000_0000_8000_0000;

/// Returns true if one of two elements is infinite or NaN. A sum with the lowest bit does not reach
/// the next element.
fn has_largest_exponent(word: u64) -> bool {
    ((word & EXPONENTS) + LOWEST) & HIGHEST != 0
}

/// Returns true if one of two elements is zero or subnormal.
fn has_smallest_exponent(word: u64) -> bool {
    ((word & EXPONENTS) + EXPONENTS) & HIGHEST != HIGHEST
}

impl core::fmt::Debug for Constant {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_that_are_not_numbers() {
        let of = |dtype, bits: &[u16]| {
            let bytes: Vec<u8> = bits.iter().flat_map(|bits| bits.to_le_bytes()).collect();
            Constant::new(dtype, &[i64::try_from(bits.len()).unwrap()], bytes).unwrap().first_nan()
        };
        // One, both infinities, and a NaN.
        assert_eq!(of(F16, &[0x3c00, 0x7c00, 0xfc00, 0xfe00]), Some(3));
        assert_eq!(of(BF16, &[0x3f80, 0x7f80, 0xff80, 0x7fc0]), Some(3));
        assert_eq!(of(F16, &[0x7c00, 0xfc00]), None);
        assert_eq!(Constant::of_floats(&[1.0, f32::INFINITY, f32::NAN]).first_nan(), Some(2));
        for place in 0..5 {
            let mut values = [f32::MAX, -1.0, f32::MIN_POSITIVE, f32::INFINITY, 0.0];
            assert_eq!(Constant::of_floats(&values).first_nan(), None);
            values[place] = -f32::NAN;
            assert_eq!(Constant::of_floats(&values).first_nan(), Some(place));
        }
        assert_eq!(Constant::of_floats(&[]).first_nan(), None);
        assert_eq!(Constant::of_ints(&[-1]).first_nan(), None);
    }

    #[test]
    fn numbers_that_are_flushed() {
        let smallest = f32::from_bits(1);
        let values = [0.0, smallest, -smallest, f32::MIN_POSITIVE, -0.0, f32::from_bits(0x7f_ffff), 1.0];
        assert_eq!(Constant::of_floats(&[1.0, f32::MIN_POSITIVE, 0.0]).flushed(), None);
        let flushed = Constant::of_floats(&values).flushed().unwrap();
        assert!(flushed == Constant::of_floats(&[0.0, 0.0, 0.0, f32::MIN_POSITIVE, -0.0, 0.0, 1.0]));
        assert_eq!(Constant::of_ints(&[1]).flushed(), None);
    }

    #[test]
    fn the_corner_of_a_block() {
        let block = Constant::of_ints(&(0..12).collect::<Vec<_>>()).reshaped(&[3, 4]).unwrap();
        for (extents, expected) in [
            (&[2, 3][..], &[0, 1, 2, 4, 5, 6][..]),
            (&[3, 1], &[0, 4, 8]),
            (&[1, 4], &[0, 1, 2, 3]),
            (&[0, 4], &[]),
            (&[2, 0], &[]),
        ] {
            let corner = block.corner(extents).unwrap();
            assert_eq!((corner.shape(), &corner.to_ints().unwrap()[..]), (extents, expected));
        }
        assert_eq!(block.corner(&[4, 1]).unwrap_err().to_string(), "[4, 1] is not a part of [3, 4]");
        assert!(block.corner(&[1]).is_err() && block.corner(&[-1, 1]).is_err());
    }
}
