//! The `tvm-ffi` crate's peer library: `add` and `fail`.

use tvm_ffi::{bail, tvm_ffi_dll_export_typed_func, Result, VALUE_ERROR};

fn add(a: i64, b: i64) -> Result<i64> {
    Ok(a + b)
}

fn fail(code: i64) -> Result<i64> {
    bail!(VALUE_ERROR, "code {} is not allowed", code)
}

tvm_ffi_dll_export_typed_func!(add, add);
tvm_ffi_dll_export_typed_func!(fail, fail);
