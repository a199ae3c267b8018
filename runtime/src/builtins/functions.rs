//! The global function table as functions.

use super::builtin::Builtin;
use super::signature::{BOOL, FUNCTION, STRING, Signature};
use crate::function::Function;
use crate::value::{Any, IntoAny};
use crate::{Result, embedded, error};

pub(super) static BUILTINS: &[Builtin] = &[
    Builtin {
        name: "ffi.FunctionListGlobalNamesFunctor",
        signature: Signature::Typed(&[], &FUNCTION),
        run: |_| Ok(functor_of_names(embedded::function_table::list_names()).into_any()),
    },
    Builtin {
        name: "ffi.FunctionRemoveGlobal",
        signature: Signature::Typed(&[&STRING], &BOOL),
        run: |args| Ok(embedded::function_table::remove_global(args.bytes(0)).into_any()),
    },
];

/// A function that gives the number of names for -1 and the name at each index.
fn functor_of_names(names: Vec<Vec<u8>>) -> Function {
    Function::from_fn(move |index: i64| -> Result<Any> {
        if index == -1 {
            return Ok(names.len().into_any());
        }
        let name = usize::try_from(index).ok().and_then(|index| names.get(index));
        name.map(|name| String::from_utf8_lossy(name).as_ref().into_any())
            .ok_or_else(|| error!(IndexError, "Index {index} out of bounds {}", names.len()))
    })
}
