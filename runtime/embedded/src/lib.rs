//! Kernpack's own implementation of the C ABI: what serves a process that has no libtvm_ffi.
//!
//! The lower half of this module are *cells*: the objects whose layout the ABI fixes (strings, errors, functions, arrays,
//! maps, shapes, tensors), made and read through raw pointers. The typed wrappers of the floors above are built on them
//! whichever implementation serves the process, because an object carries its own deleter. The upper half are the *tables*
//! (types, functions, the raised error, the environment) and [`table()`], the 50 C functions over both.

// Without our own tables, much of what they are made of has no caller.
#![cfg_attr(not(feature = "tables"), allow(dead_code, unused_imports))]

pub mod any_hash;
#[cfg(feature = "tables")]
mod api;
#[doc(hidden)]
pub mod atomic;
mod backtrace;
pub mod big_int;
pub mod custom_allocator;
mod dense_map;
pub mod dtype;
#[doc(hidden)]
pub mod dynamic_linker;
pub mod env;
mod error;
pub mod failure;
mod function;
pub mod function_table;
pub mod handle_once;
pub mod list;
pub mod map;
mod map_cell;
mod map_entries;
pub mod module_env;
#[doc(hidden)]
pub mod name_table;
#[cfg(feature = "native-frames")]
mod native_frames;
#[doc(hidden)]
pub mod notice;
mod object;
pub mod opaque;
mod outgrown;
pub mod raised;
mod ref_count;
pub mod release;
pub mod seq;
pub mod serving;
pub mod shape;
#[doc(hidden)]
pub mod shared_ref;
#[cfg(feature = "native-frames")]
mod stack_walk;
#[cfg(feature = "native-frames")]
mod symbols;
pub mod tensor;
mod text;
pub mod type_attr;
mod type_hash;
pub mod type_members;
pub mod type_table;

#[cfg(feature = "tables")]
pub use api::{FUNCTIONS, table};
use kernpack_formats::abi;

pub use error::{backtrace_frame, new_error};
pub use function::{closure_of, new_function, trampoline_function};
#[doc(hidden)]
pub use object::free_storage;
pub use object::{
    HEADER_SIZE, ObjectCell, body, body_ptr, dec_ref, dec_weak, inc_ref, inc_weak, is_unique, new_object,
    new_object_with_tail, new_polymorphic_object, strong_count, try_promote,
};
#[doc(hidden)]
pub use object::{deleter_of, discard_panic, inc_ref_in_order, is_unique_in_order};
pub use text::{new_bytes, new_bytes_object, new_bytes_object_of, new_string, new_string_object, text_of};
