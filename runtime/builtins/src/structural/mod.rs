//! Structural operations on values and objects of any language: equality, hash, walk and rewriting,
//! field by field as the types registered them.
//!
//! Objects are equal if they have the same structure, independent of their addresses and the names
//! of their variables; the fields and types determine what is compared (`structural = "..."`).
//! Results are those of the global functions `ffi.StructuralEqual`, `ffi.StructuralHash`,
//! `ffi.StructuralWalk`, `ffi.StructuralMap`, `ffi.RecursiveEq` and `ffi.DeepCopy`, which need not
//! be registered. All operations use a stack on the heap, so that a chain of a million objects does
//! not use more native stack than one object.
//!
//! ```
//! use kernpack::structural::{self, Flow, Rewrite, Walk};
//! use kernpack::{Array, Result};
//!
//! let numbers = Array::from(vec![Array::from(vec![1_i64, 2]), Array::from(vec![3])]);
//! assert!(structural::equal(&numbers, &numbers.clone())?);
//!
//! // The first even number.
//! let even = Walk::returning()
//!     .pre(|number: i64| if number % 2 == 0 { Flow::Stop(number) } else { Flow::Continue })
//!     .run(&numbers)?;
//! assert_eq!(even, Some(2));
//!
//! let doubled = Rewrite::new().post(|number: i64| number * 2).run(numbers)?;
//! assert_eq!(doubled.get(1).unwrap().iter().collect::<Vec<_>>(), [6]);
//! # Ok::<(), kernpack::Error>(())
//! ```

mod callback;
mod compare;
mod copy;
mod flow;
mod key;
mod mutate;
mod mutator;
mod path;
mod recursive;
mod region;
mod replacement;
mod rewrite;
mod session;
mod walk;

pub use callback::{Callback, NodeValue, forms};
pub use compare::{Difference, Options, equal, first_mismatch, hash};
pub use copy::deep_copy;
pub use flow::{Flow, IntoFlow};
pub use key::StructuralKey;
pub use mutate::{Mutate, MutateCallback};
pub use mutator::Mutator;
pub use path::{AccessPath, AccessStep, paths_of_error};
pub use recursive::{recursive_compare, recursive_equal, recursive_hash};
pub use region::Region;
pub use replacement::{IntoReplacement, Replacement};
pub use rewrite::Rewrite;
pub use walk::Walk;

use crate::provider;
use crate::value::{AnyView, Arg};

/// The view of an argument for an operation: it never gives the object away. Ensures that the
/// provider is bound.
fn lent<'a>(arg: &'a Arg<'_>) -> AnyView<'a> {
    provider::api();
    // SAFETY: the argument is a valid view as long as it lives.
    unsafe { AnyView::from_raw(arg.as_raw()) }.lent()
}
