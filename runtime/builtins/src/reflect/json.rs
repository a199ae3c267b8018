//! Conversion of values and the objects that they contain to JSON, and back.

use crate::engines::json_graph;
use crate::value::{Any, AnyView, ToArg};
use crate::{Result, provider};

/// Converts a value and all objects that it contains to a JSON graph: the text of the global
/// function `ffi.ToJSONGraphString`, which every implementation of the ABI can read.
///
/// Works on objects of all languages, through their registered fields, or the hook
/// `__data_to_json__` of their type. An object that several others refer to is written once and is
/// one object again after reading. Depth is bounded by memory only.
///
/// # Errors
/// TypeError for values that JSON cannot represent, such as tensors and functions, and for types
/// that cannot create new objects; ValueError for objects that contain themselves.
///
/// ```
/// use kernpack::reflect::{from_json, to_json};
/// use kernpack::{Array, Str};
///
/// let words: Array<Str> = ["a", "b", "a"].into_iter().map(Str::new).collect();
/// let text = to_json(&words)?;
/// assert_eq!(
///     text,
///     r#"{"root_index":2,"nodes":[{"type":"ffi.String","data":"a"},{"type":"ffi.String","data":"b"},{"type":"ffi.Array","data":[0,1,0]}]}"#,
/// );
/// assert_eq!(from_json(&text)?.to::<Array<Str>>()?, words);
/// # Ok::<(), kernpack::Error>(())
/// ```
#[inline]
pub fn to_json<T: ToArg + ?Sized>(value: &T) -> Result<String> {
    let arg = value.to_arg();
    // SAFETY: the argument lives to the end of the function.
    write(&unsafe { AnyView::from_raw(arg.as_raw()) })
}

#[inline]
fn write(value: &AnyView<'_>) -> Result<String> {
    provider::api();
    let text = json_graph::to_text(&value.try_to_owned()?)?;
    Ok(String::from_utf8(text).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Reads a value that [`to_json`], or `ffi.ToJSONGraphString` of any implementation, has written:
/// new objects, created by their types.
///
/// # Errors
/// Fails if the text is not JSON or not a graph, if a type is not registered, or with the errors of
/// creators and setters of fields.
#[inline]
pub fn from_json(text: &str) -> Result<Any> {
    provider::api();
    json_graph::from_text(text.as_bytes())
}
