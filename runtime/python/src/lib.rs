//! A Kernpack library as a CPython extension module: `import mylib` loads the same file that other
//! languages load.
//!
//! The module is created at import, from the library's registrations: no code is generated for a
//! function. The functions of CPython are looked up in the process, so the file does not link
//! libpython, and one file serves every version since 3.9.
//!
//! | module | content |
//! |---|---|
//! | `capi` | the functions of CPython, and the token that its lock is held |
//! | `object` | references, and operations on any object |
//! | `interpreter`, `state` | the interpreter, and its lock |
//! | `exception` | errors as exceptions, and back |
//! | `number`, `from_python` | Python objects as values |
//! | `to_python` | values as Python objects |
//! | `callback`, `handle` | Python callables as functions, and functions as Python objects |
//! | `tensor`, `tensor_copy`, `lend`, `array`, `exchange`, `stored` | arrays of Python as tensors, for the time of a call too, and tensors as Python objects |
//! | `class` | a class for each registered type: `field`, `method`, `iteration`, `construct`, `operators`, `pickle`, `gc` |
//! | `shared_container` | lists and dicts that change |
//! | `enumeration` | a class for each enum without data |
//! | `heap_type`, `freelist` | creation of classes and their objects |
//! | `wanted`, `arguments`, `function` | a call |
//! | `tvm_ffi` | the package tvm_ffi in the same process |
//! | `module` | the implementation of `PyInit_<name>` |
//!
//! Users enable it by the feature `python` of `kernpack`, and `library!()` does the rest; this
//! crate is not called by hand.

mod arguments;
mod array;
mod callback;
mod capi;
mod class;
mod construct;
mod copy_level;
mod deep_copy;
mod enumeration;
mod exception;
mod exchange;
mod exchange_table;
mod field;
mod freelist;
mod from_python;
mod function;
mod gc;
mod handle;
mod heap_type;
mod identity;
mod interpreter;
mod iteration;
mod lend;
mod lent_memory;
mod method;
mod module;
mod number;
mod numpy_memory;
mod object;
mod operators;
mod parts;
mod pickle;
mod shared_container;
mod signals;
mod snapshot;
mod state;
mod stored;
mod tensor;
mod tensor_copy;
mod to_python;
mod tvm_ffi;
mod walk;
mod wanted;

pub use capi::PyObject;
pub use module::Module;
pub use operators::RECURSION;
