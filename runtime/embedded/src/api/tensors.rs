//! Tensors, from DLPack and to it.

use core::ffi::c_int;

use super::guard::{plain_status, write_to};
use super::parameters::{checked, object_of, writable};
use crate::abi::{DLManagedTensor, DLManagedTensorVersioned, DLTensor, TVMFFIObjectHandle, type_index};
use crate::cells::failure::Failure;
use crate::cells::tensor;

// SAFETY of all functions: the callers follow the C header, see the module above.

pub(super) unsafe extern "C" fn tensor_from_dlpack(
    from: *mut DLManagedTensor,
    require_alignment: i32,
    require_contiguous: i32,
    out: *mut TVMFFIObjectHandle,
) -> c_int {
    // SAFETY: see above.
    write_to("TVMFFITensorFromDLPack", out, || unsafe {
        tensor::from_dlpack(from, require_alignment, require_contiguous != 0)
    })
}

pub(super) unsafe extern "C" fn tensor_from_dlpack_versioned(
    from: *mut DLManagedTensorVersioned,
    require_alignment: i32,
    require_contiguous: i32,
    out: *mut TVMFFIObjectHandle,
) -> c_int {
    // SAFETY: see above.
    write_to("TVMFFITensorFromDLPackVersioned", out, || unsafe {
        tensor::from_dlpack_versioned(from, require_alignment, require_contiguous != 0)
    })
}

pub(super) unsafe extern "C" fn tensor_to_dlpack(from: TVMFFIObjectHandle, out: *mut *mut DLManagedTensor) -> c_int {
    // SAFETY: see above.
    write_to("TVMFFITensorToDLPack", out, || unsafe {
        let from = object_of(from, type_index::TENSOR, "from")?;
        if tensor::is_read_only(from) {
            return Err(Failure::value("ToDLPack: the tensor is read-only; use ToDLPackVersioned"));
        }
        Ok(tensor::to_dlpack(from))
    })
}

pub(super) unsafe extern "C" fn tensor_to_dlpack_versioned(
    from: TVMFFIObjectHandle,
    out: *mut *mut DLManagedTensorVersioned,
) -> c_int {
    // SAFETY: see above.
    write_to("TVMFFITensorToDLPackVersioned", out, || unsafe {
        Ok(tensor::to_dlpack_versioned(object_of(from, type_index::TENSOR, "from")?))
    })
}

pub(super) unsafe extern "C" fn tensor_create_unsafe_view(
    source: TVMFFIObjectHandle,
    prototype: *const DLTensor,
    out: *mut TVMFFIObjectHandle,
) -> c_int {
    let run = || {
        let out = writable(out, "out")?;
        // SAFETY: see above.
        unsafe {
            let source = object_of(source, type_index::TENSOR, "source")?;
            out.write(tensor::unsafe_view(source, checked(prototype, "prototype")?)?);
        }
        Ok(())
    };
    plain_status("TVMFFITensorCreateUnsafeView", run())
}
