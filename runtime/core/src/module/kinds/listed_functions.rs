//! Functions of modules whose code is not compiled, or not linked, yet: they are listed, but cannot
//! be called.

use crate::Result;
use crate::container::Array;
use crate::function::Function;
use crate::value::Str;

/// The function lookup of such a module: `get_func_names`, which Apache TVM calls, returns the
/// names of the functions that the code defines. Returns `None` for a name that the code does not
/// define.
///
/// # Errors
/// Returns a RuntimeError for each of `functions`, because the code must be compiled first.
#[inline]
pub(in crate::module) fn function_of_code(kind: &str, functions: &[String], name: &str) -> Result<Option<Function>> {
    if name == "get_func_names" {
        return Ok(Some(returns_strings(functions)));
    }
    crate::ensure!(
        functions.iter().all(|function| function != name),
        RuntimeError,
        "'{name}' of a module of kind '{kind}' cannot be called before the module is compiled: export it with export_library and \
         load the library, or use Module::compile"
    );
    Ok(None)
}

/// Returns a function without arguments that returns strings.
#[inline]
pub(in crate::module) fn returns_strings(strings: &[String]) -> Function {
    let strings = strings.to_vec();
    Function::from_fn(move || strings.iter().map(|string| Str::new(string)).collect::<Array<Str>>())
}
