//! Containers: the immutable [`Array`], [`Map`] and [`Shape`]; the mutable [`List`] and [`Dict`];
//! and the conversions of `Vec`, sets and maps of the standard library, and tuples.
//!
//! ```
//! use kernpack::{Any, Array, IntoAny};
//! let array = Array::from(vec![1i64, 2, 3]);
//! assert_eq!(array.iter().sum::<i64>(), 6);
//! let any: Any = (1i64, "two").into_any();
//! let (one, two): (i64, String) = any.to().unwrap();
//! assert_eq!((one, two.as_str()), (1, "two"));
//! ```

mod array;
mod details;
mod dict;
mod iteration;
mod list;
mod map;
mod set;
mod shape;
mod tuple;

#[doc(hidden)]
pub use crate::value::{Sequence, sequence};
pub use array::Array;
pub use details::Details;
pub use dict::Dict;
pub use iteration::{ArrayIntoIter, ArrayIter, InPlace};
pub use list::{List, ListIter};
pub use map::Map;
pub use shape::Shape;
#[doc(hidden)]
pub use tuple::TUPLE;
