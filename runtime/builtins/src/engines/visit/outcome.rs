//! Outcomes: the results of hooks and of the tables' functions of visitors and mutators. An owned
//! value; an error object represents a failure.
//!
//! A visit's outcome is `None` to continue, a `ffi.VisitInterrupt` to stop, or an error. A
//! mutation's outcome is a new value, [`UNCHANGED`], or an error.

use crate::abi::{TVMFFIAny, TVMFFIFunctionCell, TVMFFIObject, type_index};
use crate::definition::signature::type_key;
use crate::embedded::release::release;
use crate::function::guard_nameless;
use crate::value::{Any, AnyView};
use crate::{Error, Result, embedded};

/// The mutation's outcome that leaves the value as it is.
pub(crate) const UNCHANGED: TVMFFIAny = TVMFFIAny { type_index: type_index::UNCHANGED, ..TVMFFIAny::NONE };

/// No outcome yet: the children come first. Never leaves the traversal that it is in.
pub(super) const PENDING: TVMFFIAny = TVMFFIAny { type_index: i32::MIN, ..TVMFFIAny::NONE };

/// Returns true if this is [`PENDING`].
#[inline]
pub(super) const fn is_pending(outcome: &TVMFFIAny) -> bool {
    outcome.type_index == PENDING.type_index
}

/// Returns true if this is a failure.
#[inline]
pub(super) const fn is_error(outcome: &TVMFFIAny) -> bool {
    outcome.type_index == type_index::ERROR
}

/// Returns true if two values are the same: equal plain values, or the same object.
#[inline]
pub(super) const fn same(left: &TVMFFIAny, right: &TVMFFIAny) -> bool {
    left.type_index == right.type_index && left.small_len == right.small_len && left.bits() == right.bits()
}

/// The outcome for this error.
#[cold]
pub(super) fn failed(error: Error) -> TVMFFIAny {
    TVMFFIAny::pointer(type_index::ERROR, error.into_raw().cast())
}

/// A `TypeError` of the stock library, which has no backtrace there.
#[cold]
pub(super) fn type_error(message: &str) -> TVMFFIAny {
    failed(Error::with_backtrace("TypeError", message, ""))
}

/// The outcome as a function's result.
///
/// # Safety
/// The ownership of the outcome is transferred.
pub(super) unsafe fn into_result(outcome: TVMFFIAny) -> Result<Any> {
    // SAFETY: promised by the caller.
    unsafe {
        if is_error(&outcome) {
            return Err(Error::from_raw(outcome.payload.v_obj));
        }
        Ok(Any::from_raw(outcome))
    }
}

/// Calls a function object; an error that it raises or returns is a failure.
///
/// # Safety
/// `function` is a live function object, and the arguments are valid views.
#[inline]
pub(super) unsafe fn call(function: *mut TVMFFIObject, args: &[TVMFFIAny]) -> TVMFFIAny {
    // SAFETY: promised by the caller; on success `result` is an owned value.
    unsafe {
        let Some(safe_call) = embedded::body::<TVMFFIFunctionCell>(function).safe_call else {
            return failed(crate::error!(InternalError, "a function object has no entry point"));
        };
        let mut result = TVMFFIAny::NONE;
        if safe_call(function.cast(), args.as_ptr(), args.len() as i32, &mut result) != 0 {
            return failed(Error::take_raised());
        }
        result
    }
}

/// Runs the body of a hook or of a table's function; a panic in it is a failure.
#[inline]
pub(super) fn guard(body: impl FnOnce() -> TVMFFIAny) -> TVMFFIAny {
    let mut outcome = TVMFFIAny::NONE;
    let status = guard_nameless(|| {
        outcome = body();
        Ok(())
    });
    if status == 0 { outcome } else { failed(Error::take_raised()) }
}

/// The failure of a callback that returned a value of an unexpected type.
///
/// # Safety
/// The ownership of the value is transferred.
#[cold]
pub(super) unsafe fn mismatch(expected: &str, got: TVMFFIAny) -> TVMFFIAny {
    // SAFETY: promised by the caller.
    unsafe {
        let key = type_key(&AnyView::from_raw(got));
        release(got);
        type_error(&format!("CallExpected: result type mismatch, expected {expected}, but got {key}"))
    }
}
