//! Serialization of a graph of objects as JSON, and deserialization.
//!
//! ```json
//! {"root_index": 2, "nodes": [{"type": "int", "data": 1}, {"type": "ffi.String", "data": "a"}, {"type": "ffi.Array", "data": [0, 1]}]}
//! ```
//!
//! Each value is a node, and references give its index: sharing is preserved, and equal numbers and
//! texts are one node. A node's parts come before it. Objects are written field by field, unless
//! their type has a hook; fields that always hold a number, a flag or a data type are written in
//! place.

mod base64;
mod decode;
mod encode;
mod leaf;
mod node_table;
mod plain;
pub(crate) mod tensor;
mod text_output;
mod value_output;

use crate::definition::function::Builtin;
use crate::definition::signature::{ANY, STRING, Signature};
use crate::value::Any;
use crate::{Result, embedded};

#[cfg(feature = "all")]
pub(crate) const BUILTINS: &[Builtin] = &[
    Builtin {
        name: "ffi.ToJSONGraph",
        signature: Signature::Typed(&[&ANY, &ANY], &ANY),
        run: |args| value_output::to_value(&args.owned(0)?, args.owned(1)?),
    },
    Builtin {
        name: "ffi.ToJSONGraphString",
        signature: Signature::Typed(&[&ANY, &ANY], &STRING),
        run: |args| {
            let text = text_output::to_text(&args.owned(0)?, &args.owned(1)?)?;
            // SAFETY: a new text, whose reference is transferred to the value.
            Ok(unsafe { Any::from_raw(embedded::new_string(&text)) })
        },
    },
    Builtin {
        name: "ffi.FromJSONGraph",
        signature: Signature::Typed(&[&ANY], &ANY),
        run: |args| decode::decode(&args.owned(0)?),
    },
    Builtin {
        name: "ffi.FromJSONGraphString",
        signature: Signature::Typed(&[&STRING], &ANY),
        run: |args| from_text(args.bytes(0)),
    },
];

/// The text of a graph, without metadata.
#[inline]
pub(crate) fn to_text(root: &Any) -> Result<Vec<u8>> {
    text_output::to_text(root, &Any::NONE)
}

/// Decodes the value of the root from the text of a graph.
#[inline]
pub(crate) fn from_text(text: &[u8]) -> Result<Any> {
    decode::decode(&crate::json::parse(text)?)
}

#[cfg(test)]
mod tests;
