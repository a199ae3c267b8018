//! Kernpack: packed functions, objects and modules that every language can call.
//!
//! A crate annotates its functions and types, calls [`library!`] in its root, is built as a `cdylib`, and the one file that comes
//! out loads in Rust ([`Module::load`]), in Python (`tvm_ffi.load_module`), in C++ and in C. The library speaks the TVM FFI C ABI
//! and needs nothing installed: where libtvm_ffi is in the process it joins it, elsewhere its own implementation serves.
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

// Without our own tables, much of what they are made of has no caller.
#![cfg_attr(not(feature = "embedded"), allow(dead_code, unused_imports))]

// Generated code names this crate `::kernpack`; in our own tests and documentation that is us.
extern crate self as kernpack;

mod builtins;
mod container;
pub mod device;
pub mod embedded;
mod error;
mod exports;
mod function;
pub mod host;
mod host_symbols;
#[doc(hidden)]
pub mod impl_;
pub mod module;
mod notice;
mod object;
mod process_table;
pub mod reflect;
mod registration;
pub mod structural;
mod tensor;
mod value;

#[doc(inline)]
pub use kernpack_formats::abi;

pub use container::{Array, Map, Shape};
pub use error::{Error, Result};
pub use function::{Args, DeviceKernel, Function, ImageStatus, Kernel, TypedClosure, TypedFunction};
pub use kernpack_macros::{Object, library, object_methods, packed_func};
pub use module::Module;
pub use object::EnumType;
pub use object::{Field, FieldValue, Identity, MutableField, ObjRef, Object, ObjectRoot, ObjectStruct, WeakRef};
pub use registration::problems as load_problems;
pub use tensor::{Element, Tensor, TensorView, TensorViewMut};
pub use value::{
    Any, AnyView, Arg, Bytes, DataType, Device, FromAny, IntoAny, IntoReturn, Mismatch, Schema, Str, ToArg, TypeSchema,
};
