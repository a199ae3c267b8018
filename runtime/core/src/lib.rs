//! The runtime of Kernpack: functions, objects, modules and devices that every language can call,
//! over the TVM FFI C ABI.
//!
//! Crates use it through `kernpack`, which adds the attributes and reexports all of this. It is a
//! separate crate because it does not need a macro: it compiles in parallel with syn and the
//! attributes, which take as long as it does.

mod artifact;
#[doc(hidden)]
pub mod container;
pub mod device;
mod error;
pub mod error_kind;
mod exported;
mod exported_abi;
#[doc(hidden)]
pub mod function;
#[doc(hidden)]
pub mod generated_code;
#[doc(hidden)]
pub mod json;
mod kernel;
mod layout;
mod linker_symbol;
pub mod module;
mod multiversion;
#[doc(hidden)]
pub mod object;
pub mod parallel;
#[doc(hidden)]
pub mod process_table;
pub mod provider;
pub mod reflect;
mod registration;
mod signals;
mod tensor;
mod thread_pool;
#[cfg(all(test, unix, feature = "embedded"))]
mod too_many;
mod types;
#[doc(hidden)]
pub mod value;
mod with_path;

#[doc(inline)]
pub use kernpack_embedded as embedded;
#[doc(inline)]
pub use kernpack_formats::abi;

pub use container::{Array, Dict, List, Map, Shape};
pub use error::{Error, Result};
pub use error_kind::ErrorKind;
pub use function::{Args, Function, TypedClosure, TypedFunction};
pub use kernel::{DeviceKernel, ImageStatus, Kernel};
pub use layout::{BF16, Complex, Element, F16};
pub use module::Module;
pub use object::EnumType;
pub use object::{Field, FieldValue, Identity, MutableField, ObjRef, Object, ObjectRoot, ObjectStruct, WeakRef};
pub use registration::problems as load_problems;
pub use signals::check_signals;
pub use tensor::{Tensor, TensorView, TensorViewMut};
pub use value::{
    Any, AnyView, Arg, Bytes, DataType, Device, FromAny, IntoAny, IntoReturn, Mismatch, Schema, Slice, Str, Subscript,
    ToArg, TypeSchema,
};
#[doc(hidden)]
pub use with_path::SystemError;
pub use with_path::WithPath;
