//! Functions that the expansion of `#[packed_func]` calls. The success path is inlined; everything
//! else is one cold call.

use super::FunctionInfo;
use super::panic::guard;
use crate::abi::TVMFFIAny;
use crate::layout::byte_range;
use crate::value::{AnyView, FromArg, IntoAny, Mismatch, ResultPlace, sequence};
use crate::{Error, Result, embedded};

/// Runs a packed function's body: checks the number of arguments, catches panics, raises errors,
/// writes the result.
///
/// # Safety
/// `args` points to `num_args` valid views that live for the call, and `result` is writable and
/// holds nothing that must be released: the ABI's calling convention.
#[inline(always)]
pub unsafe fn call_packed<const N: usize, F>(
    info: &'static FunctionInfo,
    args: *const TVMFFIAny,
    num_args: i32,
    result: *mut TVMFFIAny,
    body: F,
) -> i32
where
    F: for<'a> FnOnce(&'a [AnyView<'a>; N], ResultPlace) -> Result<TVMFFIAny>,
{
    if num_args != N as i32 {
        return wrong_count(info, num_args);
    }
    // SAFETY: the caller passes N valid views; for N = 0, any well-aligned pointer is valid.
    let args: &[AnyView<'_>; N] =
        unsafe { if N == 0 { &*core::ptr::NonNull::dangling().as_ptr() } else { &*args.cast() } };
    // SAFETY: promised by the caller.
    let place = unsafe { ResultPlace::new(result) };
    guard(info, place, || {
        // SAFETY: promised by the caller.
        unsafe { result.write(body(args, place)?) };
        Ok(())
    })
}

/// Returns the arguments of a call as a slice; without arguments, the pointer is not used.
///
/// # Safety
/// `args` points to `num_args` valid views that live for `'a`.
#[inline]
#[doc(hidden)]
pub unsafe fn views<'a>(args: *const TVMFFIAny, num_args: i32) -> &'a [AnyView<'a>] {
    match usize::try_from(num_args) {
        // SAFETY: promised by the caller; a view is transparent over the raw struct.
        Ok(count) if count > 0 => unsafe { core::slice::from_raw_parts(args.cast(), count) },
        _ => &[],
    }
}

#[cold]
#[inline(never)]
fn wrong_count(info: &FunctionInfo, got: i32) -> i32 {
    let expected = info.params.len();
    let noun = if expected == 1 { "argument" } else { "arguments" };
    let message = format!("{}: expected {expected} {noun}, got {got}", info.signature());
    Error::with_backtrace("TypeError", &message, &frame(info)).raise();
    -1
}

/// Converts argument `index`.
///
/// # Errors
/// Returns a TypeError or ValueError that names the function and the argument, and says what was
/// expected and what was passed.
///
/// # Safety
/// Each argument is converted at most once.
#[inline(always)]
pub unsafe fn arg<'a, T: FromArg<'a>>(info: &'static FunctionInfo, args: &'a [AnyView<'a>], index: usize) -> Result<T> {
    if T::WRITES {
        check_overlap(info, args, index)?;
    }
    // SAFETY: if the type gives write access, no other argument shares the memory, and by the
    // caller's promise this argument is not converted twice.
    match unsafe { T::from_arg(&args[index]) } {
        Ok(value) => Ok(value),
        Err(mismatch) => Err(wrong_argument(info, &args[index], index, mismatch)),
    }
}

#[cold]
#[inline(never)]
fn wrong_argument(info: &FunctionInfo, got: &AnyView<'_>, index: usize, mismatch: Mismatch) -> Error {
    let Some(param) = info.params.get(index) else {
        return crate::error!(InternalError, "{} has no parameter {index}", info.name);
    };
    let clause = mismatch.describe(&param.ty, got);
    let message = if param.name.is_empty() {
        format!("{}: argument {index}: {clause}", info.signature())
    } else {
        format!("{}: argument '{}': {clause}", info.signature(), param.name)
    };
    // The guard appends the function's frame.
    mismatch.into_plain_error(&message)
}

/// Checks that no other argument shares memory with argument `written`, a tensor that the function
/// writes to. Tensors inside a sequence count, too.
#[inline(never)]
fn check_overlap(info: &FunctionInfo, args: &[AnyView<'_>], written: usize) -> Result<()> {
    if args.len() == 1 {
        return Ok(());
    }
    let Some(target) = args.get(written).and_then(byte_range) else { return Ok(()) };
    let shares_memory = |value: &AnyView<'_>| {
        byte_range(value).is_some_and(|source| target.start < source.end && source.start < target.end)
    };
    for (index, other) in args.iter().enumerate().filter(|(index, _)| *index != written) {
        if shares_memory(other) || sequence(other).is_ok_and(|elements| elements.views().iter().any(shares_memory)) {
            let name = |index: usize| info.params.get(index).map_or("", |param| param.name);
            let message = format!(
                "{}: arguments '{}' and '{}' share memory, but the function writes to '{}'; pass a copy",
                info.signature(),
                name(written.min(index)),
                name(written.max(index)),
                name(written)
            );
            return Err(Error::with_backtrace("ValueError", &message, ""));
        }
    }
    Ok(())
}

/// The backtrace line of a packed function.
pub(super) fn frame(info: &FunctionInfo) -> String {
    embedded::backtrace_frame(info.file, info.line, info.global_name.unwrap_or(info.name))
}

/// The body of a metadata symbol: returns the JSON type schema.
///
/// # Safety
/// `result` is writable and holds nothing that must be released.
pub unsafe fn return_metadata(info: &'static FunctionInfo, result: *mut TVMFFIAny) -> i32 {
    // SAFETY: promised by the caller.
    guard(info, unsafe { ResultPlace::new(result) }, || {
        // SAFETY: promised by the caller.
        unsafe { result.write(info.metadata_json().into_any().into_raw()) };
        Ok(())
    })
}

/// The body of a documentation symbol.
///
/// # Safety
/// `result` is writable and holds nothing that must be released.
pub unsafe fn return_doc(info: &'static FunctionInfo, result: *mut TVMFFIAny) -> i32 {
    // SAFETY: promised by the caller.
    guard(info, unsafe { ResultPlace::new(result) }, || {
        // SAFETY: promised by the caller.
        unsafe { result.write(info.doc.into_any().into_raw()) };
        Ok(())
    })
}
