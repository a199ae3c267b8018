//! Opaque objects: a foreign handle that lives as long as the object.

use core::ffi::c_void;

use crate::abi::{TVMFFIObject, TVMFFIOpaqueObjectCell, type_index};

use super::failure::Failure;
use super::new_object;

#[repr(C)]
struct OpaqueBody {
    cell: TVMFFIOpaqueObjectCell,
    deleter: Option<unsafe extern "C" fn(*mut c_void)>,
}

impl Drop for OpaqueBody {
    fn drop(&mut self) {
        if let Some(deleter) = self.deleter {
            // SAFETY: the creator gave this deleter for this handle; it is called once.
            unsafe { deleter(self.cell.handle) }
        }
    }
}

/// Creates an opaque object; `deleter(handle)` runs when the last strong reference goes.
pub fn new_opaque(
    handle: *mut c_void,
    type_index: i32,
    deleter: Option<unsafe extern "C" fn(*mut c_void)>,
) -> Result<*mut TVMFFIObject, Failure> {
    if type_index != type_index::OPAQUE_PY_OBJECT {
        return Err(Failure::runtime("Only kTVMFFIOpaquePyObject is supported for now"));
    }
    Ok(new_python_object(handle, deleter))
}

/// Creates an opaque object for a Python object; see [`new_opaque`].
pub fn new_python_object(handle: *mut c_void, deleter: Option<unsafe extern "C" fn(*mut c_void)>) -> *mut TVMFFIObject {
    let body = OpaqueBody { cell: TVMFFIOpaqueObjectCell { handle }, deleter };
    new_object(type_index::OPAQUE_PY_OBJECT, body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::{body, dec_ref};

    unsafe extern "C" fn count(handle: *mut c_void) {
        // SAFETY: the test passes the address of an integer.
        unsafe { *handle.cast::<i32>() += 1 }
    }

    #[test]
    fn deleter_runs_once_and_the_type_is_checked() {
        let mut deleted = 0;
        let handle = (&raw mut deleted).cast();
        let object = new_opaque(handle, type_index::OPAQUE_PY_OBJECT, Some(count)).unwrap();
        // SAFETY: the test owns the reference.
        unsafe {
            assert_eq!(body::<TVMFFIOpaqueObjectCell>(object).handle, handle);
            dec_ref(object);
        }
        assert_eq!(deleted, 1);
        assert_eq!(new_opaque(handle, type_index::ARRAY, Some(count)).unwrap_err().kind(), "RuntimeError");
        assert_eq!(deleted, 1);
    }
}
