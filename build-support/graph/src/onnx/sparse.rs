//! Sparse tensors of a model as dense constants.

use kernpack_compiler::ir::I64;

use super::proto::RawTensor;
use super::tensor::{External, to_constant};
use crate::constant::{Constant, element_bytes, num_elements};
use crate::error::{Result, fail, require};

/// The maximum number of bytes of a dense tensor, in total and for each stored element. A few bytes
/// of a file could request any size.
const MOST_BYTES: usize = 1 << 26;
const FOR_EACH: usize = 256;

/// `SparseTensorProto`.
#[derive(Clone, Debug, Default)]
pub struct SparseTensor<'a> {
    /// The non-zero elements. Its name is that of the whole tensor.
    pub values: RawTensor<'a>,
    /// The positions of the values: indices of elements in row-major order, or a row of indices for
    /// each.
    pub indices: RawTensor<'a>,
    /// The extents.
    pub dims: Vec<i64>,
}

/// Returns all elements of a sparse tensor.
///
/// # Errors
/// Returns an error for values or indices that do not match each other or the shape, and for more
/// than 64 MiB that are almost all zeros.
pub fn to_dense(sparse: &SparseTensor<'_>, external: &External<'_>) -> Result<Constant> {
    let read = || -> Result<Constant> {
        let (values, indices) = (to_constant(&sparse.values, external)?, to_constant(&sparse.indices, external)?);
        let (count, width) = (num_elements(&sparse.dims)?, element_bytes(values.dtype()));
        let bytes = count.saturating_mul(width);
        let most = values.bytes().len().saturating_mul(FOR_EACH).saturating_add(MOST_BYTES);
        require!(bytes <= most, "with all elements it has {bytes} bytes, and may have {most}");
        require!(indices.dtype() == I64, "its indices are {}, and have to be int64", indices.dtype());
        let &[stored] = values.shape() else {
            fail!("its values are {:?}, and have to have one dimension", values.shape())
        };
        let rank = i64::try_from(sparse.dims.len()).unwrap_or(i64::MAX);
        let is_flat = indices.shape() == [stored];
        require!(
            is_flat || indices.shape() == [stored, rank],
            "its indices are {:?} for {stored} values of {:?}",
            indices.shape(),
            sparse.dims
        );
        let numbers: Vec<i64> = indices
            .bytes()
            .chunks_exact(8)
            .map(|bytes| i64::from_le_bytes(bytes.try_into().expect("eight bytes")))
            .collect();
        let mut dense = vec![0; bytes];
        let mut last = None;
        for (number, value) in values.bytes().chunks_exact(width).enumerate() {
            let place = if is_flat {
                Some(numbers[number])
            } else {
                flat(&numbers[number * sparse.dims.len()..], &sparse.dims)
            };
            let place = place.and_then(|place| usize::try_from(place).ok()).filter(|place| *place < count);
            let Some(place) = place else { fail!("the index of value {number} is outside of {:?}", sparse.dims) };
            require!(last < Some(place), "the index of value {number} is not behind that of the value before");
            last = Some(place);
            dense[place * width..][..width].copy_from_slice(value);
        }
        Constant::new(values.dtype(), &sparse.dims, dense)
    };
    read().map_err(|error| error.within(&format!("sparse tensor '{}'", sparse.values.name)))
}

/// Returns the index of an element in row-major order.
fn flat(indices: &[i64], dims: &[i64]) -> Option<i64> {
    let mut place = 0;
    for (index, extent) in indices.iter().zip(dims) {
        if !(0..*extent).contains(index) {
            return None;
        }
        place = place * extent + index;
    }
    Some(place)
}
