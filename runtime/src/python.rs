//! Objects of the Python interpreter that imported the library: feature `python`.
//!
//! An `Object` is any Python object. It is a valid parameter, result,
//! field, element of a container and key of a `HashMap`.
//!
#![cfg_attr(feature = "python", doc = "```")]
#![cfg_attr(not(feature = "python"), doc = "```ignore")]
//! use std::collections::HashMap;
//!
//! use kernpack::python::{self, Object};
//! use kernpack::{Result, packed_func};
//!
//! /// The elements by the result of a function for each.
//! #[packed_func]
//! pub fn grouped(elements: &Object, by: &Object) -> Result<HashMap<Object, Vec<Object>>> {
//!     let mut groups = HashMap::new();
//!     for element in elements.iterate()? {
//!         let element = element?;
//!         let key = by.call((&element,))?;
//!         python::caught(|| groups.entry(key).or_insert_with(Vec::new).push(element))?;
//!     }
//!     Ok(groups)
//! }
//! ```

#[cfg(feature = "python")]
#[doc(inline)]
pub use kernpack_python::object::{
    Comparison, Iter, Object, builtin, caught, error_of, exception_of, import, warn, write_unraisable,
};
#[cfg(feature = "python")]
#[doc(hidden)]
pub use module::Module;

#[cfg(feature = "python")]
mod module {
    use core::ffi::c_void;

    use crate::slices::collected;

    /// A module of this artifact, with everything in the slices.
    pub struct Module(kernpack_python::Module);

    impl Module {
        /// Creates a module of this name.
        pub const fn new(name: &'static str, doc: &'static str) -> Self {
            Self(kernpack_python::Module::new(name, doc, collected))
        }

        /// The result of `PyInit_<name>`.
        ///
        /// # Safety
        /// CPython calls: this thread runs in an interpreter and holds its lock.
        pub unsafe fn init(&'static self) -> *mut c_void {
            // SAFETY: promised by the caller.
            unsafe { self.0.init() }.cast()
        }
    }
}

/// The function that CPython looks up in a file that it imports.
#[cfg(feature = "python")]
#[doc(hidden)]
#[macro_export]
macro_rules! __python_module {
    ($symbol:literal, $name:expr, $doc:expr) => {
        static MODULE: $crate::__private_v0_1::PythonModule = $crate::__private_v0_1::PythonModule::new($name, $doc);

        #[unsafe(export_name = $symbol)]
        unsafe extern "C" fn init() -> *mut $crate::__private_v0_1::c_void {
            // SAFETY: the symbol is reserved for CPython, which calls with its lock held.
            unsafe { MODULE.init() }
        }
    };
}

/// Without the feature a library is not an extension module.
#[cfg(not(feature = "python"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __python_module {
    ($($ignored:tt)*) => {};
}
