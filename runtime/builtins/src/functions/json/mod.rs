//! The global functions that read and write JSON.

use crate::definition::function::Builtin;
use crate::definition::signature::{ANY, OPTIONAL_INT, STRING, Signature};
use crate::embedded;
use crate::json::{parse, write};
use crate::value::Any;

#[cfg(feature = "all")]
pub(crate) const BUILTINS: &[Builtin] = &[
    Builtin { name: "ffi.json.Parse", signature: Signature::Typed(&[&STRING], &ANY), run: |args| parse(args.bytes(0)) },
    Builtin {
        name: "ffi.json.Stringify",
        signature: Signature::Typed(&[&ANY, &OPTIONAL_INT], &STRING),
        run: |args| {
            // The stock library takes a 32-bit integer and truncates a larger one.
            let indent = if args.view(1).is_none() { 0 } else { args.int(1) as i32 };
            let text = write(&args.owned(0)?, indent)?;
            // An object even if it is short, as in the stock library.
            // SAFETY: a new object; its only reference is transferred to the value.
            Ok(unsafe { Any::from_object(embedded::new_string_object(&text)) })
        },
    },
];

#[cfg(test)]
mod tests;
