use std::ffi::c_void;
use std::ptr;

use kernpack::sys::abi::{DLManagedTensorVersioned, DLPackVersion, DLTensor};
use kernpack::{Result, Tensor};

use super::memory::{Block, Memory};
use crate::wire::TensorHeader;

/// A tensor in the memory of a session, with the data that it refers to.
struct Managed {
    versioned: DLManagedTensorVersioned,
    /// Shape and strides.
    dimensions: Vec<i64>,
    _block: Block,
}

/// Creates the tensor that a client describes, after a check that the client owns all of its
/// memory. It keeps the memory alive, even if the client frees it.
pub(super) fn tensor(memory: &Memory, header: &TensorHeader) -> Result<Tensor> {
    let (place, block) = memory.resolve_tensor(header)?;
    let ndim = header.shape.len();
    let mut dimensions = header.shape.clone();
    dimensions.resize(2 * ndim, 1);
    for axis in (1..ndim).rev() {
        dimensions[ndim + axis - 1] = dimensions[ndim + axis].wrapping_mul(header.shape[axis]);
    }
    let mut managed = Box::new(Managed {
        versioned: DLManagedTensorVersioned {
            version: DLPackVersion { major: 1, minor: 1 },
            manager_ctx: ptr::null_mut(),
            deleter: Some(delete),
            flags: 0,
            dl_tensor: DLTensor {
                data: place.data,
                device: header.device.as_raw(),
                // `Bounds` limits it.
                ndim: ndim as i32,
                dtype: header.dtype.as_raw(),
                shape: ptr::null_mut(),
                strides: ptr::null_mut(),
                byte_offset: place.byte_offset,
            },
        },
        dimensions,
        _block: block.clone(),
    });
    let start = managed.dimensions.as_mut_ptr();
    managed.versioned.dl_tensor.shape = start;
    managed.versioned.dl_tensor.strides = start.wrapping_add(ndim);
    let managed = Box::into_raw(managed);
    // SAFETY: `managed` lives until its deleter is called.
    unsafe {
        let versioned = &raw mut (*managed).versioned;
        (*versioned).manager_ctx = managed.cast::<c_void>();
        // SAFETY: a DLPack tensor over memory that its block keeps, and of the size that was
        // checked.
        Tensor::from_dlpack(versioned).inspect_err(|_| delete(versioned))
    }
}

unsafe extern "C" fn delete(this: *mut DLManagedTensorVersioned) {
    // SAFETY: called once, with the tensor that `tensor` made.
    drop(unsafe { Box::from_raw((*this).manager_ctx.cast::<Managed>()) });
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernpack::{DataType, Device};

    #[test]
    fn a_tensor_keeps_its_memory() {
        let mut memory = Memory::new();
        let address = memory.allocate(Device::CPU, 24, 64).unwrap();
        let header = |shape: &[i64], byte_offset| TensorHeader {
            data: address,
            device: Device::CPU,
            dtype: DataType::FLOAT32,
            shape: shape.to_vec(),
            byte_offset,
        };
        let whole = tensor(&memory, &header(&[2, 3], 0)).unwrap();
        assert_eq!((whole.shape(), whole.strides(), whole.is_contiguous()), (&[2, 3][..], Some(&[3, 1][..]), true));
        let part = tensor(&memory, &header(&[2], 16)).unwrap();
        assert_eq!(part.dl_tensor().byte_offset, 16);
        assert!(tensor(&memory, &header(&[7], 0)).is_err());
        assert!(tensor(&memory, &header(&[2], 20)).is_err());
        assert!(tensor(&memory, &header(&[-1], 0)).is_err());
        memory.free(Device::CPU, address).unwrap();
        // SAFETY: the tensor keeps the block, whose bytes are written here.
        unsafe { whole.dl_tensor().data.cast::<u8>().write_bytes(0, 24) };
        assert_eq!(part.len(), 2);
        drop(whole);
    }
}
