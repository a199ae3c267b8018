//! Packed and C functions that a test provides to the machine.

use super::block::Block;
use super::memory::{Fault, Memory};
use crate::error::{Result, fail};
use crate::ir::{DataType, DataTypeExt, U8, U16};

/// An argument or the result of a packed function.
#[derive(Clone, PartialEq, Debug)]
pub enum PackedValue {
    /// None, or a null pointer.
    Nothing,
    /// An integer or truth value.
    Int(i64),
    /// A float.
    Float(f64),
    /// A string.
    Text(String),
    /// An address in the machine's memory: data, or a `DLTensor`.
    Pointer(u64),
}

/// A call of a packed function.
pub struct PackedCall<'a> {
    pub(super) memory: &'a mut Memory,
    pub(super) args: &'a [PackedValue],
    pub(super) stmt: u32,
}

/// The offsets of the fields of a `DLTensor`, and its size.
pub(super) mod tensor {
    pub(crate) const DATA: u64 = 0;
    pub(crate) const DEVICE_TYPE: u64 = 8;
    pub(crate) const DEVICE_ID: u64 = 12;
    pub(crate) const NDIM: u64 = 16;
    pub(crate) const CODE: u64 = 20;
    pub(crate) const BITS: u64 = 21;
    pub(crate) const LANES: u64 = 22;
    pub(crate) const SHAPE: u64 = 24;
    pub(crate) const STRIDES: u64 = 32;
    pub(crate) const BYTE_OFFSET: u64 = 40;
    pub(crate) const SIZE: u64 = 48;
}

impl PackedCall<'_> {
    /// The arguments.
    pub fn args(&self) -> &[PackedValue] {
        self.args
    }

    /// Reads a lane at an address.
    ///
    /// # Errors
    /// Returns the errors of a load.
    pub fn read(&mut self, address: u64, dtype: DataType) -> Result<u64> {
        self.memory.read(address, dtype, self.stmt).map_err(fault)
    }

    /// Writes a lane at an address.
    ///
    /// # Errors
    /// Returns the errors of a store.
    pub fn write(&mut self, address: u64, dtype: DataType, bits: u64) -> Result<()> {
        self.memory.write(address, dtype, bits, self.stmt).map_err(fault)
    }

    /// The elements of the `DLTensor` in argument `index`, in row-major order: its type, its shape
    /// and the address of each element.
    ///
    /// # Errors
    /// Returns an error for an argument that is not a pointer, and the errors of a load.
    pub fn tensor(&mut self, index: usize) -> Result<(DataType, Vec<i64>, Vec<u64>)> {
        let Some(PackedValue::Pointer(tensor)) = self.args.get(index).cloned() else {
            fail!(Run, "argument {index} is not a tensor");
        };
        let field = |this: &mut Self, at: u64, dtype: DataType| this.read(tensor + at, dtype);
        let ndim = field(self, tensor::NDIM, crate::ir::I32)? as i64;
        let (code, bits) = (field(self, tensor::CODE, U8)?, field(self, tensor::BITS, U8)?);
        let lanes = field(self, tensor::LANES, U16)?;
        let dtype = DataType::scalar(code as u8, bits as u8).with_lanes(lanes as u16);
        let data = field(self, tensor::DATA, crate::ir::U64)? + field(self, tensor::BYTE_OFFSET, crate::ir::U64)?;
        let shape_at = field(self, tensor::SHAPE, crate::ir::U64)?;
        let strides_at = field(self, tensor::STRIDES, crate::ir::U64)?;
        let (mut shape, mut strides) = (Vec::new(), Vec::new());
        for axis in 0..ndim.max(0) as u64 {
            shape.push(self.read(shape_at + 8 * axis, crate::ir::I64)? as i64);
            if strides_at != 0 {
                strides.push(self.read(strides_at + 8 * axis, crate::ir::I64)? as i64);
            }
        }
        if strides_at == 0 {
            strides = compact(&shape);
        }
        let size = (dtype.lane_bytes() * usize::from(dtype.lanes())) as i64;
        let mut addresses = vec![data];
        for (extent, stride) in shape.iter().zip(strides) {
            addresses = addresses
                .iter()
                .flat_map(|address| {
                    (0..*extent).map(move |position| address.wrapping_add((position * stride * size) as u64))
                })
                .collect();
        }
        Ok((dtype, shape, addresses))
    }

    /// Reads the `DLTensor` in argument `index` as a compact copy.
    ///
    /// # Errors
    /// See [`tensor`](Self::tensor).
    pub fn read_tensor(&mut self, index: usize) -> Result<Block> {
        let (dtype, shape, addresses) = self.tensor(index)?;
        let mut lanes = Vec::new();
        for address in addresses {
            for lane in 0..u64::from(dtype.lanes()) {
                lanes.push(self.read(address + lane * dtype.lane_bytes() as u64, dtype.element())?);
            }
        }
        Ok(Block::from_lanes(dtype, &shape, &lanes))
    }

    /// Writes all elements of the `DLTensor` in argument `index`.
    ///
    /// # Errors
    /// Returns the errors of [`tensor`](Self::tensor), and an error for a block with another number
    /// of lanes.
    pub fn write_tensor(&mut self, index: usize, block: &Block) -> Result<()> {
        let (dtype, _, addresses) = self.tensor(index)?;
        let lanes = block.to_lanes()?;
        if lanes.len() != addresses.len() * usize::from(dtype.lanes()) {
            fail!(Run, "{} lanes for a tensor of {} elements", lanes.len(), addresses.len());
        }
        for (position, bits) in lanes.into_iter().enumerate() {
            let (element, lane) = (position / usize::from(dtype.lanes()), position % usize::from(dtype.lanes()));
            self.write(addresses[element] + (lane * dtype.lane_bytes()) as u64, dtype.element(), bits)?;
        }
        Ok(())
    }
}

/// The strides of a compact tensor.
pub(super) fn compact(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1i64; shape.len()];
    for axis in (0..shape.len().saturating_sub(1)).rev() {
        strides[axis] = strides[axis + 1] * shape[axis + 1];
    }
    strides
}

fn fault(fault: Fault) -> crate::CompileError {
    crate::CompileError::new(crate::ErrorKind::Run, fault)
}
