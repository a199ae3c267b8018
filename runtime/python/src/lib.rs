//! A Kernpack library as a CPython extension module: `import mylib` loads the very file that other languages load.
//!
//! The module is made at import, from what the library registers: no code is generated for a function. The functions of CPython are found in the
//! process, so the file links no libpython, and one file serves every version from 3.9 on.
//!
//! | room | what is in it |
//! |---|---|
//! | `capi` | the functions of CPython, and the token that says that its lock is held |
//! | `object` | references, and what is asked of any object |
//! | `interpreter`, `state` | which interpreter this is, and its lock |
//! | `exception` | errors as exceptions, and back |
//! | `number`, `from_python` | Python objects as values |
//! | `to_python` | values as Python objects |
//! | `callback`, `handle` | Python callables as functions, and functions as Python objects |
//! | `tensor`, `tensor_copy`, `lend`, `array`, `exchange`, `stored` | arrays of Python as tensors, for the time of a call too, and tensors as Python objects |
//! | `class` | a class for each registered type: `field`, `method`, `iteration`, `construct`, `operators`, `pickle`, `gc` |
//! | `shared_container` | lists and dicts that change |
//! | `enumeration` | a class for each enum without data |
//! | `heap_type`, `freelist` | how classes are made, and their objects |
//! | `wanted`, `arguments`, `function` | a call |
//! | `tvm_ffi` | the package tvm_ffi in the same process |
//! | `module` | what `PyInit_<name>` does |
//!
//! Users turn it on by the feature `python` of `kernpack`, and `library!()` does the rest; nothing here is called by hand.

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
