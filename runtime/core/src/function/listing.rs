//! Global functions that list the global functions, for an artifact that uses its own
//! implementation of the ABI. With the feature `builtins`, those of `kernpack-builtins` are used
//! instead, whose messages are the stock library's.

use core::ffi::c_void;

use super::{guard_nameless, views};
use crate::abi::{SafeCall, TVMFFIAny, type_index};
use crate::embedded::{self, function_table};
use crate::value::AnyView;
use crate::{Error, Result};

/// Name, entry point and metadata.
const FUNCTIONS: [(&str, SafeCall, &str); 2] = [
    (
        "ffi.FunctionListGlobalNamesFunctor",
        list,
        r#"{"type_schema":"{\"type\":\"ffi.Function\",\"named_args\":{\"return\":[{\"type\":\"ffi.Function\"}],\"params\":[]}}"}"#,
    ),
    (
        "ffi.FunctionRemoveGlobal",
        remove,
        r#"{"type_schema":"{\"type\":\"ffi.Function\",\"named_args\":{\"return\":[{\"type\":\"bool\"}],\"params\":[{\"type\":\"ffi.String\"}]}}"}"#,
    ),
];

/// Registers the functions.
pub(crate) fn register() -> Result<()> {
    FUNCTIONS
        .into_iter()
        .try_for_each(|(name, call, metadata)| super::info::register_entry_point(name, "", metadata, call, String::new))
}

/// Returns a function that maps a negative number to the number of names, and an index to the name
/// at this index.
unsafe extern "C" fn list(_: *mut c_void, _: *const TVMFFIAny, _: i32, result: *mut TVMFFIAny) -> i32 {
    let names = embedded::new_function(at, function_table::unordered_names());
    // SAFETY: the result is writable and takes ownership of the new function's one reference.
    unsafe { result.write(TVMFFIAny::pointer(type_index::FUNCTION, names.cast())) };
    0
}

unsafe extern "C" fn at(this: *mut c_void, args: *const TVMFFIAny, count: i32, result: *mut TVMFFIAny) -> i32 {
    // SAFETY: the handle is the function that `list` created; the rest is the ABI's calling
    // convention.
    unsafe {
        with_argument(args, count, result, |argument| {
            let names: &Vec<(u64, &[u8])> = embedded::closure_of(this);
            let Ok(index) = usize::try_from(argument.get::<i64>()?) else {
                return Ok(TVMFFIAny::int(names.len() as i64));
            };
            match names.get(index) {
                Some((_, name)) => Ok(embedded::new_string(name)),
                None => Err(crate::error!(IndexError, "Index {index} out of bounds {}", names.len())),
            }
        })
    }
}

unsafe extern "C" fn remove(_: *mut c_void, args: *const TVMFFIAny, count: i32, result: *mut TVMFFIAny) -> i32 {
    // SAFETY: the ABI's calling convention.
    unsafe {
        with_argument(args, count, result, |name| {
            let is_removed = function_table::remove_global(name.get::<&str>()?.as_bytes());
            Ok(TVMFFIAny::bool(is_removed))
        })
    }
}

/// Runs the body of a function with one argument.
///
/// # Safety
/// The ABI's calling convention; the result of `run` is owned.
unsafe fn with_argument(
    args: *const TVMFFIAny,
    count: i32,
    result: *mut TVMFFIAny,
    run: impl FnOnce(&AnyView<'_>) -> Result<TVMFFIAny>,
) -> i32 {
    guard_nameless(|| {
        // SAFETY: promised by the caller.
        let [argument] = (unsafe { views(args, count) }) else {
            return Err(Error::type_error(format!("expected 1 argument, got {count}")));
        };
        let value = run(argument)?;
        // SAFETY: promised by the caller.
        unsafe { result.write(value) };
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use crate::Function;

    #[test]
    fn names_are_listed_and_removed() {
        Function::register_global("listing.f", &Function::from_fn(|| 1i64)).unwrap();
        let names = Function::list_global_names().unwrap();
        assert!(names.iter().any(|name| name == "listing.f"));
        let functor: Function = Function::global("ffi.FunctionListGlobalNamesFunctor").unwrap().call_as(()).unwrap();
        assert_eq!(functor.call_as::<i64>((-1,)).unwrap(), names.len() as i64);
        assert!(functor.call((1_i64 << 40,)).unwrap_err().message().starts_with("Index 1099511627776 out of bounds "));
        assert!(functor.call(("one",)).is_err() && functor.call(()).is_err());
        Function::remove_global("listing.f").unwrap();
        assert!(Function::find_global("listing.f").unwrap().is_none());
    }
}
