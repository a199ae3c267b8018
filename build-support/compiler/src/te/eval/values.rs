//! Typed arrays of the evaluator, and the arithmetic of one element.

use kernpack::DataType;

use crate::error::{Result, fail, require};
use crate::ir::builder::{float_bits, float_of_bits, fold_int, round_float, round_int, wrap_int};
use crate::ir::{BinaryOp, CompareOp, DataTypeExt};

/// An element: integers and truth values as the bits of an `i64`, floats as an `f64`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// An integer or a truth value; for an unsigned 64-bit integer, its bits.
    Int(i64),
    /// A float.
    Float(f64),
}

impl Value {
    /// The integer.
    pub(crate) fn int(self) -> i64 {
        match self {
            Self::Int(value) => value,
            Self::Float(value) => value as i64,
        }
    }

    /// The float.
    pub(crate) fn float(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    pub(crate) fn is_true(self) -> bool {
        self.int() != 0
    }
}

/// Arithmetic with the semantics of the generated code: floats are rounded to their type after each
/// operation.
pub(crate) fn binary(op: BinaryOp, dtype: DataType, a: Value, b: Value) -> Result<Value> {
    if !dtype.is_float() {
        let (a, b) = (a.int(), b.int());
        return match fold_int(op, dtype, a, b) {
            Some(value) => Ok(Value::Int(value)),
            None => fail!(Run, "{op:?} of {}", dtype.short_name()),
        };
    }
    let (a, b) = (a.float(), b.float());
    let value = match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => a / b,
        BinaryOp::Mod => a % b,
        BinaryOp::Min => return Ok(Value::Float(if a < b { a } else { b })),
        BinaryOp::Max => return Ok(Value::Float(if a > b { a } else { b })),
        _ => fail!(Run, "{op:?} of {}", dtype.short_name()),
    };
    Ok(Value::Float(round_float(dtype, value)))
}

pub(crate) fn compare(op: CompareOp, dtype: DataType, a: Value, b: Value) -> Value {
    let holds = if dtype.is_float() {
        op.holds(a.float(), b.float())
    } else if dtype.is_uint() {
        op.holds(a.int() as u64, b.int() as u64)
    } else {
        op.holds(a.int(), b.int())
    };
    Value::Int(holds.into())
}

/// A conversion: float to integer saturates, NaN becomes 0; a wider integer is truncated.
pub(crate) fn cast(from: DataType, to: DataType, value: Value) -> Value {
    match value {
        Value::Float(value) if to.is_float() => Value::Float(round_float(to, value)),
        Value::Float(value) if to.is_bool() => Value::Int((value != 0.0).into()),
        Value::Float(value) => Value::Int(saturated(to, value)),
        Value::Int(value) if !to.is_float() => Value::Int(wrap_int(to, value)),
        Value::Int(value) => {
            let unsigned = from.is_uint() && from.bits() == 64;
            Value::Float(round_int(to, value, unsigned))
        }
    }
}

fn saturated(to: DataType, value: f64) -> i64 {
    let bits = u32::from(to.bits());
    match (to.is_uint(), bits) {
        (true, 64) => (value as u64) as i64,
        (true, _) => (value as i64).clamp(0, (1i64 << bits) - 1),
        (false, 64) => value as i64,
        (false, _) => (value as i64).clamp(-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1),
    }
}

/// The elements of a tensor, in row-major order.
#[derive(Clone, PartialEq, Debug)]
pub struct Elements {
    dtype: DataType,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

/// Rust types of elements.
pub trait Element: Copy {
    /// The element type.
    const DTYPE: DataType;
    /// Writes the bytes of the value to memory.
    fn put(self, bytes: &mut [u8]);
    /// Reads the value from its bytes.
    fn take(bytes: &[u8]) -> Self;
}

macro_rules! elements {
    ($($type:ty => $dtype:ident;)*) => {$(
        impl Element for $type {
            const DTYPE: DataType = crate::ir::$dtype;

            fn put(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_ne_bytes());
            }

            fn take(bytes: &[u8]) -> Self {
                Self::from_ne_bytes(bytes.try_into().unwrap_or_else(|_| unreachable!("as many bytes as the type has")))
            }
        }
    )*};
}

elements! {
    i8 => I8;
    i16 => I16;
    i32 => I32;
    i64 => I64;
    u8 => U8;
    u16 => U16;
    u32 => U32;
    u64 => U64;
    f32 => F32;
    f64 => F64;
}

impl Element for bool {
    const DTYPE: DataType = crate::ir::BOOLEAN;

    fn put(self, bytes: &mut [u8]) {
        bytes[0] = self.into();
    }

    fn take(bytes: &[u8]) -> Self {
        bytes[0] != 0
    }
}

impl Elements {
    /// Creates elements that are all zero.
    pub fn zeros(dtype: DataType, shape: &[usize]) -> Self {
        let count: usize = shape.iter().product();
        Self { dtype, shape: shape.to_vec(), bytes: vec![0; count * dtype.lane_bytes()] }
    }

    /// Creates elements from values, in row-major order.
    ///
    /// # Errors
    /// Returns an error if the number of values differs from that of the shape.
    pub fn new<T: Element>(shape: &[usize], values: &[T]) -> Result<Self> {
        let count: usize = shape.iter().product();
        require!(count == values.len(), Run, "{} values for the shape {shape:?}", values.len());
        let mut elements = Self::zeros(T::DTYPE, shape);
        let bytes = T::DTYPE.lane_bytes();
        for (value, place) in values.iter().zip(elements.bytes.chunks_exact_mut(bytes)) {
            value.put(place);
        }
        Ok(elements)
    }

    /// Creates each element from its indices, converted to the type:
    /// `Elements::from_fn(F32, &[2, 3], |at| (at[0] * 3 + at[1]) as f64)`.
    pub fn from_fn(dtype: DataType, shape: &[usize], mut value: impl FnMut(&[usize]) -> f64) -> Self {
        let mut elements = Self::zeros(dtype, shape);
        let mut at = vec![0; shape.len()];
        for index in 0..elements.len() {
            let float = value(&at);
            elements.set(index, cast(crate::ir::F64, dtype, Value::Float(float)));
            for dimension in (0..shape.len()).rev() {
                at[dimension] += 1;
                if at[dimension] < shape[dimension] {
                    break;
                }
                at[dimension] = 0;
            }
        }
        elements
    }

    /// Returns the values, in row-major order.
    ///
    /// # Errors
    /// Returns an error for another element type.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        let (own, asked) = (self.dtype.short_name(), T::DTYPE.short_name());
        require!(self.dtype == T::DTYPE, Run, "elements of type {own} asked for as {asked}");
        Ok(self.bytes.chunks_exact(self.dtype.lane_bytes()).map(T::take).collect())
    }

    /// Returns all values as doubles, in row-major order, for any type.
    pub fn to_f64(&self) -> Vec<f64> {
        let unsigned = self.dtype.is_uint();
        let values = (0..self.len()).map(|index| match self.get(index) {
            Value::Int(value) if unsigned => value as u64 as f64,
            value => value.float(),
        });
        values.collect()
    }

    /// The element type.
    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    /// The extents of the dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns true if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements in memory, in row-major order: native byte order, truth values as bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The mutable elements in memory.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Returns an element by its row-major position.
    pub fn get(&self, index: usize) -> Value {
        let width = self.dtype.lane_bytes();
        let bytes = &self.bytes[index * width..(index + 1) * width];
        if let (crate::ir::F32, [a, b, c, d]) = (self.dtype, bytes) {
            return Value::Float(f32::from_ne_bytes([*a, *b, *c, *d]).into());
        }
        let mut raw = [0; 8];
        raw[..width].copy_from_slice(bytes);
        let bits = u64::from_le_bytes(raw);
        let bits = if cfg!(target_endian = "big") { bits.swap_bytes() >> (64 - 8 * width) } else { bits };
        if !self.dtype.is_float() {
            return Value::Int(wrap_int(self.dtype, bits as i64));
        }
        Value::Float(float_of_bits(self.dtype, bits))
    }

    /// Sets an element; the value must have the right type.
    pub fn set(&mut self, index: usize, value: Value) {
        let width = self.dtype.lane_bytes();
        let bits = if self.dtype.is_float() {
            float_bits(self.dtype, value.float())
        } else {
            wrap_int(self.dtype, value.int()) as u64
        };
        let raw =
            if cfg!(target_endian = "big") { (bits << (64 - 8 * width)).to_be_bytes() } else { bits.to_le_bytes() };
        self.bytes[index * width..(index + 1) * width].copy_from_slice(&raw[..width]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{BF16, F16, F32, I8, U8};

    #[test]
    fn halves_survive_memory() {
        for dtype in [F16, BF16] {
            for bits in 0..=u16::MAX {
                let mut elements = Elements::zeros(dtype, &[1]);
                elements.bytes_mut().copy_from_slice(&bits.to_ne_bytes());
                let value = elements.get(0);
                if value.float().is_nan() {
                    continue;
                }
                let mut copy = Elements::zeros(dtype, &[1]);
                copy.set(0, value);
                assert_eq!(copy.bytes(), elements.bytes(), "{dtype} {bits:#x}");
            }
        }
    }

    #[test]
    fn casts_saturate_and_wrap() {
        let to_int = |dtype, value| cast(F32, dtype, Value::Float(value)).int();
        assert_eq!(to_int(I8, 300.0), 127);
        assert_eq!(to_int(I8, -300.0), -128);
        assert_eq!(to_int(U8, -1.0), 0);
        assert_eq!(to_int(I8, f64::NAN), 0);
        assert_eq!(to_int(I8, -1.9), -1);
        assert_eq!(cast(crate::ir::I64, I8, Value::Int(200)).int(), -56);
        assert_eq!(cast(crate::ir::I64, F32, Value::Int((1 << 24) + 1)).float(), f64::from(1 << 24));
    }
}
