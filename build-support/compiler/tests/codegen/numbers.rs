//! Numbers of any integer type as tensors, and as blocks of the interpreter.

use kernpack::{DataType, Tensor};
use kernpack_compiler::interpret::Block;
use kernpack_compiler::ir::{I8, I16, I32, I64, U8, U16, U32, U64};

/// A tensor of these numbers.
pub(crate) fn tensor_of(dtype: DataType, values: &[i128]) -> Tensor {
    macro_rules! of {
        ($($name:ident: $type:ty),*) => {
            match dtype {
                $(own if own == $name => {
                    let values: Vec<$type> = values.iter().map(|value| *value as $type).collect();
                    Tensor::from_slice(&values, &[values.len() as i64]).unwrap()
                })*
                _ => unreachable!("an integer type"),
            }
        };
    }
    of!(I8: i8, I16: i16, I32: i32, I64: i64, U8: u8, U16: u16, U32: u32, U64: u64)
}

/// The numbers of a tensor.
pub(crate) fn numbers_of(dtype: DataType, tensor: &Tensor) -> Vec<i128> {
    macro_rules! of {
        ($($name:ident: $type:ty),*) => {
            match dtype {
                $(own if own == $name => {
                    tensor.view::<$type>().unwrap().to_vec().into_iter().map(i128::from).collect()
                })*
                _ => unreachable!("an integer type"),
            }
        };
    }
    of!(I8: i8, I16: i16, I32: i32, I64: i64, U8: u8, U16: u16, U32: u32, U64: u64)
}

/// A block of these numbers.
pub(crate) fn block_of(dtype: DataType, values: &[i128]) -> Block {
    let mask = u64::MAX >> (64 - u32::from(dtype.bits()));
    let lanes: Vec<u64> = values.iter().map(|value| *value as u64 & mask).collect();
    Block::from_lanes(dtype, &[values.len() as i64], &lanes)
}

/// The numbers of a block.
pub(crate) fn numbers_in(dtype: DataType, block: &Block) -> Vec<i128> {
    block.to_lanes().unwrap().into_iter().map(|lane| crate::integers::wrapped(dtype, i128::from(lane))).collect()
}
