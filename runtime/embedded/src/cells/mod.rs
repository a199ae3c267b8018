//! Cells: the objects whose layout the ABI fixes (strings, errors, functions, arrays, maps, shapes,
//! tensors), created and read through raw pointers. The typed wrappers of the crates above use them
//! with every provider, because an object carries its own deleter.

pub mod access;
pub mod any_hash;
pub mod big_int;
pub mod dtype;
mod error;
pub mod failure;
mod function;
pub mod list;
pub mod map;
mod object;
pub mod opaque;
pub mod release;
pub mod seq;
pub mod serving;
pub mod shape;
pub mod tensor;
mod text;
#[cfg(all(test, unix, feature = "tables"))]
mod too_many;

pub use error::{backtrace_frame, name_frame, new_error, new_error_at};
pub use function::{closure_of, new_function, trampoline_function};
#[doc(hidden)]
pub use object::free_storage;
pub use object::{
    HEADER_SIZE, ObjectCell, body, body_ptr, dec_ref, dec_weak, inc_ref, inc_weak, is_unique, new_object,
    new_object_with_tail, new_polymorphic_object, strong_count, try_promote,
};
#[doc(hidden)]
pub use object::{deleter_of, discard_panic, inc_ref_in_order, is_unique_in_order};
pub use text::{
    lend_text, lent_text, new_bytes, new_bytes_object, new_bytes_object_of, new_string, new_string_object, text_of,
};
