//! Kernpack: packed functions, objects and modules that every language can call.
//!
//! A crate annotates its functions and types, calls [`library!`] in its root, and is built as a
//! `cdylib`; the resulting file loads in Rust ([`Module::load`]), in Python
//! (`tvm_ffi.load_module`), in C++ and in C. The library implements the TVM FFI C ABI and needs
//! nothing installed: if libtvm_ffi is in the process, it joins it, otherwise its own
//! implementation serves.
//!
//! ```
//! use kernpack::{Function, packed_func};
//!
//! /// Adds two integers.
//! #[packed_func(name = "docs.add")]
//! fn add(a: i64, b: i64) -> i64 {
//!     a + b
//! }
//!
//! // The same function, as any language calls it:
//! let add = Function::global("docs.add").unwrap();
//! assert_eq!(add.call_as::<i64>((1, 2)).unwrap(), 3);
//! assert_eq!(
//!     add.call(("one", 2)).unwrap_err().message(),
//!     "docs.add(a: int, b: int): argument 'a': expected int, got str",
//! );
//! ```

// The API of this crate is in `kernpack-core`, which does not need the macros and compiles in
// parallel with them. This crate has the attributes, and the slices that they fill.

#[doc(hidden)]
#[path = "private_v0_1.rs"]
pub mod __private_v0_1;
mod device_api;
mod exception;
#[cfg_attr(not(feature = "python"), doc(hidden))]
pub mod python;
mod slices;
pub mod sys;

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use kernpack_macros::{Object, constant, library, object_methods, packed_func};

#[doc(inline)]
pub use kernpack_builtins::{reflect, structural};
#[doc(inline)]
pub use kernpack_core::{
    Any, AnyView, Arg, Args, Array, BF16, Bytes, Complex, DataType, Device, DeviceKernel, Dict, Element, EnumType,
    Error, ErrorKind, F16, Field, FieldValue, FromAny, Function, Identity, ImageStatus, IntoAny, IntoReturn, Kernel,
    List, Map, Mismatch, Module, MutableField, ObjRef, Object, ObjectRoot, ObjectStruct, Result, Schema, Shape, Slice,
    Str, Subscript, Tensor, TensorView, TensorViewMut, ToArg, TypeSchema, TypedClosure, TypedFunction, WeakRef,
    WithPath, bail, check_signals, device, ensure, error, error_kind, load_problems, module, parallel,
};
