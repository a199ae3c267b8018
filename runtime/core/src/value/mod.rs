//! Values: [`Any`] and [`AnyView`], and their conversion from and to Rust types.
//!
//! ```
//! use kernpack::{Any, IntoAny};
//! let value: Any = "hello".into_any();
//! assert_eq!(value.to::<String>().unwrap(), "hello");
//! assert_eq!(value.to::<i64>().unwrap_err().message(), "expected int, got str");
//! ```

mod address;
mod any;
mod borrowed_or_owned;
mod convert;
mod counted;
mod data_type;
mod device;
mod error;
mod optional;
mod path;
#[doc(hidden)]
pub mod python_number;
mod raw_handle;
mod result_place;
mod scalar;
mod schema;
mod seen;
mod sequence;
mod subscript;
mod text;
mod time;
mod type_name;
mod wide;

pub use any::{Any, AnyView};
pub use convert::{Arg, FromAny, FromArg, IntoAny, IntoReturn, Mismatch, ToArg};
pub(crate) use counted::Counted;
pub use data_type::DataType;
pub use device::Device;
pub(crate) use raw_handle::raw_handle;
#[doc(hidden)]
pub use result_place::{LentPlaces, Parts, ResultPlace, Written};
pub use schema::{Access, Schema, Storage, TypeSchema};
#[doc(hidden)]
pub use seen::{Changed, Narrow, Shown};
#[doc(hidden)]
pub use sequence::{Sequence, sequence};
pub(crate) use sequence::{array_elements, entries, pair, views};
pub use subscript::{Slice, Subscript};
pub use text::{Bytes, Str};
#[doc(hidden)]
pub use type_name::type_key;
pub(crate) use type_name::type_name;
