//! The package tvm_ffi: a library that Python imports shares the implementation of the ABI with it, whichever is imported first.

use std::ffi::CString;
use std::path::Path;

use kernpack_core::embedded::dynamic_linker::Scope;

use crate::capi::Py;
use crate::object::{Owned, PyResult};

/// Where the package has its library, from a folder of `sys.path`.
const LIBRARY: &str = "tvm_ffi/lib/libtvm_ffi.so";

/// The variable that keeps the package's library out of the process until the package itself is imported.
const ALONE: &str = "KERNPACK_PYTHON_ALONE";

/// Loads the library of the package tvm_ffi where it is installed, before this library is bound to its own implementation: a later
/// `import tvm_ffi` finds the very same one, so functions, types and errors are those of one implementation.
pub(crate) fn load_library(py: Py) -> PyResult<()> {
    if std::env::var_os(ALONE).is_some_and(|value| value == "1") {
        return Ok(());
    }
    // SAFETY: what the function gives is borrowed, and shared at once; it may be no list.
    let path = unsafe {
        let path = py.PySys_GetObject(c"path".as_ptr());
        if path.is_null() || py.type_of(path) != py.PyList_Type() {
            return Ok(());
        }
        Owned::share(py, path)
    };
    // SAFETY: the list is alive; each element is looked at before other code of Python runs.
    unsafe {
        for index in 0..py.PyList_Size(path.as_ptr()) {
            let folder = py.PyList_GetItem(path.as_ptr(), index);
            if folder.is_null() || py.type_of(folder) != py.PyUnicode_Type() {
                continue;
            }
            let Ok(folder) = py.utf8(folder) else {
                py.PyErr_Clear();
                continue;
            };
            let Ok(folder) = core::str::from_utf8(folder) else { continue };
            let file = Path::new(if folder.is_empty() { "." } else { folder }).join(LIBRARY);
            if !file.is_file() {
                continue;
            }
            let Ok(name) = CString::new(file.into_os_string().into_encoded_bytes()) else { continue };
            // The file is what `import tvm_ffi` loads from the same place, with the same flags. It stays loaded.
            Scope::open(&name, libc::RTLD_NOW | libc::RTLD_GLOBAL);
            break;
        }
    }
    Ok(())
}
