//! A Kernpack library as a CPython extension module: `import mylib` loads the same file that other
//! languages load.
//!
//! The module is created at import, from the library's registrations: no code is generated for a
//! function. The functions of CPython are looked up in the process, so the file does not link
//! libpython, and one file serves every version since 3.9.
//!
//! | module | content |
//! |---|---|
//! | `cpython` | the functions of CPython (`capi`), references (`object`), the lock (`interpreter`), `exception`, creation of classes (`heap_type`, `freelist`), the Python object of each object (`alive`), the package `tvm_ffi` in the same process, `state` |
//! | `signature` | a function (`callable`), the demands of its parameters (`wanted`), its `text` for `help`, `constructor` |
//! | `tensor` | arrays of Python as tensors: an `array` through its buffer or DLPack, one that is lent to a call (`lend`), `exchange` with PyTorch; the library's own tensors: `managed`, `offer` |
//! | `instance` | Python objects of the library's objects: `table` of classes, `wrap`, `member` of an enum, `container` |
//! | `convert` | `from_python`, `to_python`, classes of the `standard` library, and Python callables as functions: `lent`, `callback` |
//! | `call` | what CPython passes (`given`), `arguments`, those of a declared signature (`signed`), `function`, `method`, and functions as values: `handle` |
//! | `class` | the class of a registered type (`types`) and its parts: `field`, `construct`, `operators`, `pickle`, `deep_copy`, `gc`; `enumeration`, `container`, `tensor` |
//! | `object` | any Python object as a value of Rust, for users |
//! | `module` | the implementation of `PyInit_<name>` |
//!
//! Users enable it by the feature `python` of `kernpack`, and `library!()` does the rest; this
//! crate is not called by hand.

mod call;
mod class;
mod convert;
mod cpython;
mod instance;
mod module;
pub mod object;
mod signature;
mod tensor;

pub use class::operators::RECURSION;
pub use cpython::capi::PyObject;
pub use module::Module;
