//! Functions: the type-erased [`Function`], the functions that the code of `#[packed_func]` calls,
//! and the global registry.
//!
//! ```
//! use kernpack::Function;
//! let add = Function::from_fn(|a: i64, b: i64| a + b);
//! assert_eq!(add.call((1, 2)).unwrap().to::<i64>().unwrap(), 3);
//! let add = add.typed::<(i64, i64), i64>();
//! assert_eq!(add.call((3, 4)).unwrap(), 7);
//! assert_eq!(add.untyped().call(("x",)).unwrap_err().kind(), "TypeError");
//! ```

mod args;
mod bound;
mod closure;
mod entry_point;
mod exception;
mod handle;
mod info;
#[cfg(all(feature = "embedded", not(feature = "builtins")))]
mod listing;
mod nearest;
mod packed;
mod panic;
mod registry;
mod setter;
mod typed;

pub use args::Args;
pub use bound::{call_bound, call_getter, no_entry_point};
pub use closure::TypedClosure;
#[doc(hidden)]
pub use exception::{ExceptionInfo, register_exception};
pub use handle::Function;
pub(crate) use handle::{invoke, invoke_as};
#[doc(hidden)]
pub use info::write_json_string;
pub use info::{FunctionInfo, FunctionRole, ParamInfo, ParamKind};
pub(crate) use info::{Signature, register_entry_point, schema_metadata, write_function_metadata};
#[cfg(all(feature = "embedded", not(feature = "builtins")))]
pub(crate) use listing::register as register_listing;
#[doc(hidden)]
pub use nearest::did_you_mean;
#[doc(hidden)]
pub use packed::views;
pub use packed::{arg, call_packed, return_doc, return_metadata};
#[doc(hidden)]
pub use panic::{add_frame, guard_nameless};
pub(crate) use panic::{caught, install_hook};
pub use setter::value_to_set;
pub use typed::TypedFunction;
