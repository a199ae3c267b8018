//! Field-by-field comparison and hash of any values: the meaning of `==`, `<` and `hash()` for
//! objects.

pub(crate) mod compare;
mod found_equal;
pub(crate) mod hash;
mod leaf;
mod pair_set;

use core::cmp::Ordering;

use crate::Result;
use crate::abi::TVMFFIAny;
use crate::definition::function::{Arguments, Builtin};
use crate::definition::signature::{ANY, BOOL, INT, Signature, Type};
use crate::value::Any;

const TWO_VALUES: &[&Type] = &[&ANY, &ANY];

#[cfg(feature = "all")]
pub(crate) const BUILTINS: &[Builtin] = &[
    comparison("ffi.RecursiveEq", |args| compare(args, true, Ordering::is_eq)),
    comparison("ffi.RecursiveLt", |args| compare(args, false, Ordering::is_lt)),
    comparison("ffi.RecursiveLe", |args| compare(args, false, Ordering::is_le)),
    comparison("ffi.RecursiveGt", |args| compare(args, false, Ordering::is_gt)),
    comparison("ffi.RecursiveGe", |args| compare(args, false, Ordering::is_ge)),
    Builtin {
        name: "ffi.RecursiveHash",
        signature: Signature::Typed(&[&ANY], &INT),
        run: |args| {
            // SAFETY: the caller keeps the argument alive; the result is a plain value.
            args.look_at(|[value]| unsafe { Ok(Any::from_raw(TVMFFIAny::int(hash::hash(value)?.cast_signed()))) })
        },
    },
];

#[inline]
const fn comparison(name: &'static str, run: fn(&Arguments<'_>) -> Result<Any>) -> Builtin {
    Builtin { name, signature: Signature::Typed(TWO_VALUES, &BOOL), run }
}

#[inline]
fn compare(args: &Arguments<'_>, equality_only: bool, holds: fn(Ordering) -> bool) -> Result<Any> {
    // SAFETY: the caller keeps the arguments alive; the result is a plain value.
    args.look_at(|[left, right]| unsafe {
        let ordering = compare::compare(left, right, equality_only)?;
        Ok(Any::from_raw(TVMFFIAny::bool(holds(ordering))))
    })
}

#[cfg(test)]
mod tests;
