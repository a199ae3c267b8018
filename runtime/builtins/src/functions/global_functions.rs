//! Functions of the global function table.

use crate::definition::function::Builtin;
use crate::definition::functor::functor;
use crate::definition::signature::{BOOL, FUNCTION, STRING, Signature};
use crate::value::{Any, IntoAny};
use crate::{Result, embedded, error};

#[cfg(feature = "all")]
pub(crate) const BUILTINS: &[Builtin] = &[
    Builtin {
        name: "ffi.FunctionListGlobalNamesFunctor",
        signature: Signature::Typed(&[], &FUNCTION),
        run: |_| Ok(functor(Names(embedded::function_table::list_names()), Names::at)),
    },
    Builtin {
        name: "ffi.FunctionRemoveGlobal",
        signature: Signature::Typed(&[&STRING], &BOOL),
        run: |args| Ok(embedded::function_table::remove_global(args.bytes(0)).into_any()),
    },
];

struct Names(Vec<Vec<u8>>);

impl Names {
    /// The name at an index; the number of names for a negative one.
    #[inline]
    fn at(&self, index: i64) -> Result<Any> {
        let Ok(place) = usize::try_from(index) else { return Ok(self.0.len().into_any()) };
        match self.0.get(place) {
            // SAFETY: a new owned string.
            Some(name) => Ok(unsafe { Any::from_raw(embedded::new_string(name)) }),
            None => Err(error!(IndexError, "Index {index} out of bounds {}", self.0.len())),
        }
    }
}
