//! Calls whose arguments may be omitted or passed by name: constructors, and methods with defaults.
//!
//! The call has the form `f(positional..., MARKER, name, value, name, value...)`; the marker is one
//! object per process, which the global function `ffi.GetKwargsObject` returns. Python passes
//! `Point(3, y=4)` to a constructor in this form.

use core::ffi::c_void;
use std::sync::OnceLock;

use super::panic::guard;
use super::{Function, FunctionInfo, did_you_mean, views};
use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};
use crate::value::{Any, AnyView, ResultPlace};
use crate::{Error, Result};

/// Runs the body of a function whose parameters may be omitted, if their bit in `optional` is set,
/// or passed by name. The body receives a bit for each argument that was passed; the others are
/// None.
///
/// # Safety
/// `args` points to `num_args` valid views that live for the call, and `result` is writable and
/// holds nothing that must be released: the ABI's calling convention.
#[inline]
pub unsafe fn call_bound<const N: usize, F>(
    info: &'static FunctionInfo,
    optional: u64,
    args: *const TVMFFIAny,
    num_args: i32,
    result: *mut TVMFFIAny,
    body: F,
) -> i32
where
    F: for<'a> FnOnce(&'a [AnyView<'a>; N], ResultPlace, u64) -> Result<TVMFFIAny>,
{
    // SAFETY: promised by the caller.
    let place = unsafe { ResultPlace::new(result) };
    guard(info, place, || {
        let mut bound = [TVMFFIAny::NONE; N];
        // SAFETY: promised by the caller. The bound values are None and copies of the caller's
        // views, which live for the call; a view is transparent over the raw struct.
        unsafe {
            let views = views(args, num_args);
            let (args, given) = if views.len() == N && !views.iter().any(|arg| arg.type_index() == type_index::OBJECT) {
                // All arguments are present, and none of them can be the marker.
                (views.as_ptr().cast(), u64::MAX)
            } else {
                let given = bind(info, optional, views, &mut bound)?;
                ((&raw const bound).cast::<[AnyView<'_>; N]>(), given)
            };
            result.write(body(&*args, place, given)?);
        }
        Ok(())
    })
}

/// Runs the body of a property's getter.
///
/// # Safety
/// `object` is a live object, and `result` is writable and holds nothing that must be released.
#[inline]
pub unsafe fn call_getter<F>(info: &'static FunctionInfo, object: *mut c_void, result: *mut TVMFFIAny, body: F) -> i32
where
    F: for<'a> FnOnce(&'a [AnyView<'a>; 1], ResultPlace) -> Result<TVMFFIAny>,
{
    // SAFETY: promised by the caller.
    let place = unsafe { ResultPlace::new(result) };
    guard(info, place, || {
        // SAFETY: promised by the caller.
        unsafe {
            let view = [TVMFFIAny::pointer((*object.cast::<TVMFFIObject>()).type_index, object)];
            result.write(body(&*(&raw const view).cast::<[AnyView<'_>; 1]>(), place)?);
        }
        Ok(())
    })
}

/// The entry point of a property's description, which cannot be called as a function.
///
/// # Safety
/// No requirements; the type is the ABI's.
pub unsafe extern "C" fn no_entry_point(_: *mut c_void, _: *const TVMFFIAny, _: i32, _: *mut TVMFFIAny) -> i32 {
    Error::runtime_error("a property is not a function").raise();
    -1
}

/// Stores each argument at its parameter's index. Returns a bit for each argument that was passed.
fn bind(info: &'static FunctionInfo, optional: u64, args: &[AnyView<'_>], bound: &mut [TVMFFIAny]) -> Result<u64> {
    let positional = args.iter().position(is_marker).unwrap_or(args.len());
    if positional > bound.len() {
        return Err(too_many(info, positional));
    }
    for (place, arg) in bound.iter_mut().zip(&args[..positional]) {
        *place = *arg.as_raw();
    }
    // At most 64 parameters, which the macro ensures.
    let mut given = u64::MAX.checked_shr(u64::BITS - positional as u32).unwrap_or(0);
    if let Some((_, named)) = args[positional..].split_first() {
        bind_named(info, named, bound, &mut given)?;
    }
    let all = u64::MAX.checked_shr(u64::BITS - bound.len() as u32).unwrap_or(0);
    match all & !optional & !given {
        0 => Ok(given),
        missing => Err(missing_argument(info, missing.trailing_zeros() as usize)),
    }
}

fn bind_named(info: &FunctionInfo, named: &[AnyView<'_>], bound: &mut [TVMFFIAny], given: &mut u64) -> Result<()> {
    let (pairs, rest) = named.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(info.fault("behind the marker, names and values come in turn, but the last name has no value"));
    }
    for [name, value] in pairs {
        let Ok(name) = name.get::<&str>() else {
            return Err(info.fault(&format!("expected the name of an argument, got {}", name.type_name())));
        };
        let Some(index) = info.params.iter().position(|param| param.name == name) else {
            let hint = did_you_mean(name, &mut info.params.iter().map(|param| param.name));
            return Err(info.fault(&format!("there is no argument '{name}'{hint}")));
        };
        if *given & 1 << index != 0 {
            return Err(info.fault(&format!("argument '{name}' is given twice")));
        }
        *given |= 1 << index;
        bound[index] = *value.as_raw();
    }
    Ok(())
}

/// Returns whether an argument is the marker before the names.
#[inline]
fn is_marker(arg: &AnyView<'_>) -> bool {
    // Other objects are rarely of the root type itself.
    arg.type_index() == type_index::OBJECT && is_the_marker(arg)
}

#[cold]
#[inline(never)]
fn is_the_marker(arg: &AnyView<'_>) -> bool {
    static MARKER: OnceLock<Any> = OnceLock::new();
    let marker = match MARKER.get() {
        Some(marker) => marker,
        None => {
            // An implementation without this function does not support calls by name.
            let Ok(Some(function)) = Function::find_global("ffi.GetKwargsObject") else { return false };
            let Ok(marker) = function.call(()) else { return false };
            MARKER.get_or_init(|| marker)
        }
    };
    arg.as_raw().bits() == marker.as_view().as_raw().bits()
}

#[cold]
#[inline(never)]
fn too_many(info: &FunctionInfo, got: usize) -> Error {
    let most = info.params.len();
    let noun = if most == 1 { "argument" } else { "arguments" };
    info.fault(&format!("expected at most {most} {noun}, got {got}"))
}

#[cold]
#[inline(never)]
fn missing_argument(info: &FunctionInfo, index: usize) -> Error {
    let name = info.params.get(index).map_or("", |param| param.name);
    info.fault(&format!("argument '{name}' is missing"))
}
