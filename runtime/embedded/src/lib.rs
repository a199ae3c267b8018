//! Kernpack's own implementation of the C ABI: it serves a process that has no libtvm_ffi.
//!
//! | module | content |
//! |---|---|
//! | `notice` | one line on stderr, if there is no error to return |
//! | `dynamic_linker` | loaded files, and addresses of symbols |
//! | `sync` | lock-free tables and references |
//! | `backtrace` | backtraces, including native frames |
//! | `cells` | the objects whose layout the ABI fixes |
//! | `tables` | functions, types, raised errors |
//! | `env` | streams, allocators, compiled libraries |
//! | `api` | `table()`: the 50 C functions over all of it |

// Without our own tables, many of their building blocks are unused.
#![cfg_attr(not(feature = "tables"), allow(dead_code, unused_imports))]

#[cfg(feature = "tables")]
mod api;
mod backtrace;
mod cells;
#[doc(hidden)]
pub mod dynamic_linker;
pub mod env;
#[doc(hidden)]
pub mod memory;
pub mod notice;
mod sync;
mod tables;

use kernpack_formats::abi;

#[cfg(feature = "tables")]
pub use api::{FUNCTIONS, table};
pub use cells::*;
pub use env::{custom_allocator, handle_once, module_env};
#[doc(hidden)]
pub use sync::{atomic, name_table, set_once, shared_ref};
pub use tables::{function_table, raised, type_attr, type_members, type_table};
