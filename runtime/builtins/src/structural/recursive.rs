use core::cmp::Ordering;

use super::lent;
use crate::Result;
use crate::engines::recursive as engine;
use crate::value::{AnyView, ToArg};

/// Returns true if two values are equal field by field: the meaning of `==` for objects, as
/// computed by `ffi.RecursiveEq`. Fields that were registered with `compare = false` are ignored; a
/// type's own `__ffi_eq__` decides about its objects.
///
/// # Errors
/// Any error of a type's own comparison.
///
/// ```
/// use kernpack::Array;
/// use kernpack::structural::{recursive_compare, recursive_equal, recursive_hash};
///
/// let (one, two) = (Array::from(vec![1_i64]), Array::from(vec![1_i64, 2]));
/// assert!(!recursive_equal(&one, &two)?);
/// assert!(recursive_compare(&one, &two)?.is_lt());
/// assert_eq!(recursive_hash(&one)?, recursive_hash(&Array::from(vec![1_i64]))?);
/// # Ok::<(), kernpack::Error>(())
/// ```
pub fn recursive_equal(left: &(impl ToArg + ?Sized), right: &(impl ToArg + ?Sized)) -> Result<bool> {
    compare(&lent(&left.to_arg()), &lent(&right.to_arg()), true).map(Ordering::is_eq)
}

/// The order of two values, field by field, as in `ffi.RecursiveLt` and its siblings.
///
/// # Errors
/// TypeError for values that have no order: maps, or two different types; any error of a type's own
/// comparison.
pub fn recursive_compare(left: &(impl ToArg + ?Sized), right: &(impl ToArg + ?Sized)) -> Result<Ordering> {
    compare(&lent(&left.to_arg()), &lent(&right.to_arg()), false)
}

/// The hash that is consistent with [`recursive_equal`]: the same number as `ffi.RecursiveHash` in
/// any language.
///
/// # Errors
/// TypeError for types with an `__ffi_eq__` and no `__ffi_hash__`; any error of a type's own hash.
pub fn recursive_hash(value: &(impl ToArg + ?Sized)) -> Result<u64> {
    let arg = value.to_arg();
    // SAFETY: a valid view, which is not an offer to take an object.
    unsafe { engine::hash::hash(lent(&arg).as_raw()) }
}

fn compare(left: &AnyView<'_>, right: &AnyView<'_>, equality_only: bool) -> Result<Ordering> {
    // SAFETY: the callers' views are valid, and none is an offer to take an object.
    unsafe { engine::compare::compare(left.as_raw(), right.as_raw(), equality_only) }
}
