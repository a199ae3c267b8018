//! Callbacks of the sanitizer, which cannot fail.

use kernpack::python::{self, Object as PyObject};
use kernpack::{Any, Function, Result, error};

/// Calls a function with texts, and returns its text, or `None` if it returned None. If it raises
/// or returns anything else, the error is reported with the arguments, and the result is `None`.
pub(crate) fn text<const N: usize>(name: &str, function: &Function, arguments: [&str; N]) -> Option<String> {
    called(name, function, arguments).unwrap_or_else(|error| {
        let shown = python::builtin("tuple").and_then(|tuple| tuple.call((arguments.to_vec(),)));
        python::write_unraisable(&error, shown.as_ref().ok().or(None::<&PyObject>));
        None
    })
}

fn called<const N: usize>(name: &str, function: &Function, arguments: [&str; N]) -> Result<Option<String>> {
    let result: Any = match arguments[..] {
        [url] => function.call((url,))?,
        [tag, attribute, value] => function.call((tag, attribute, value))?,
        _ => unreachable!("a callback has one argument or three"),
    };
    result.to().map_err(|_| error!(TypeError, "expected {name} to return str or None"))
}
