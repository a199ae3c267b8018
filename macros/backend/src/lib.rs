//! Parsing and expansion behind `kernpack-macros`.
//!
//! A normal library over `proc_macro2` tokens, so that it can be tested without a compiler around
//! it. The functions here expand the input of a macro to its output. They never panic. Each error
//! in the input becomes a `compile_error!` at the user's own token, and all errors of an item are
//! reported together.
//!
//! ```
//! use kernpack_macros_backend::{Environment, expand_packed_func};
//! let environment = Environment { crate_name: Some("imagekit".to_owned()), ..Environment::default() };
//! let item = "fn add(a: i64, b: i64) -> i64 { a + b }".parse().unwrap();
//! let code = expand_packed_func("".parse().unwrap(), item, &environment).to_string();
//! assert!(code.contains("\"__tvm_ffi_add\""));
//! assert!(code.contains("\"imagekit.add\""));
//! ```

mod dependencies;
mod doc;
mod enclosing;
mod environment;
mod library;
mod lifetime;
mod mistakes;
mod name;
mod object;
mod object_methods;
mod options;
mod packed_func;
mod signature;

pub use dependencies::Dependency;
pub use environment::Environment;
pub use library::expand as expand_library;
pub use object::expand as expand_object;
pub use object_methods::expand as expand_object_methods;
pub use packed_func::{expand as expand_packed_func, expand_constant};
