//! The global function table as functions.

use super::global;
use crate::function::Function;
use crate::value::{Any, IntoAny};
use crate::{Error, Result, embedded};

pub(super) fn register() -> Result<()> {
    // A function that gives the number of names for -1 and the name at each index.
    global("ffi.FunctionListGlobalNamesFunctor", || {
        let names = embedded::function_table::list_names();
        Function::from_fn(move |index: i64| -> Result<Any> {
            if index == -1 {
                return Ok(names.len().into_any());
            }
            let name = usize::try_from(index).ok().and_then(|index| names.get(index));
            name.map(|name| String::from_utf8_lossy(name).into_owned().into_any())
                .ok_or_else(|| Error::index_error(format!("Index {index} out of bounds {}", names.len())))
        })
    })?;
    global("ffi.FunctionRemoveGlobal", |name: String| embedded::function_table::remove_global(name.as_bytes()))
}
