//! Shared libraries that a test loads with `dlopen`, and their functions.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

const RTLD_NOW: c_int = 2;
const RTLD_GLOBAL: c_int = 0x100;

/// A library that stays loaded until the process ends.
#[derive(Clone, Copy, Debug)]
pub struct Library(*mut c_void);

/// Loads a library, which stays loaded until the process ends.
pub fn open(path: &Path) -> Library {
    let name = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the name is NUL-terminated, and our libraries may be loaded at any time.
    unsafe {
        let library = dlopen(name.as_ptr(), RTLD_NOW | RTLD_GLOBAL);
        assert!(!library.is_null(), "{:?}", CStr::from_ptr(dlerror()));
        Library(library)
    }
}

/// The address of a library's symbol.
pub fn symbol(library: Library, name: &str) -> *mut c_void {
    let name = CString::new(name).unwrap();
    // SAFETY: the library is loaded and the name is NUL-terminated.
    let address = unsafe { dlsym(library.0, name.as_ptr()) };
    assert!(!address.is_null(), "{name:?}");
    address
}

/// Defines a struct with a library's functions, each under its name, and `load(library)`.
#[macro_export]
macro_rules! functions {
    (
        $(#[$meta:meta])*
        struct $Struct:ident { $(fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $ret:ty)?;)* }
    ) => {
        $(#[$meta])*
        #[allow(non_snake_case)]
        pub(crate) struct $Struct { $(pub(crate) $name: unsafe extern "C" fn($($type),*) $(-> $ret)?,)* }

        impl $Struct {
            pub fn load(library: $crate::symbols::Library) -> Self {
                // SAFETY: the C++ file defines each function with this type.
                unsafe {
                    Self {
                        $($name: std::mem::transmute::<
                            *mut std::ffi::c_void,
                            unsafe extern "C" fn($($type),*) $(-> $ret)?,
                        >($crate::symbols::symbol(library, stringify!($name))),)*
                    }
                }
            }
        }
    };
}
pub use functions;
