//! The types in the signatures of global functions, as in the stock library: their form in metadata
//! and messages, and the values that each accepts.

use core::fmt::Write;

use crate::abi::type_index;
use crate::container::{Sequence, sequence};
use crate::function::write_json_string;
use crate::value::AnyView;
use kernpack_core::reflect::TypeInfo;

/// A type of a parameter or result.
pub(crate) struct Type {
    /// JSON of the type schema.
    pub(crate) schema: &'static str,
    /// Its name in messages.
    pub(crate) text: &'static str,
    /// The accepted arguments.
    pub(crate) accepts: Accepts,
}

/// The arguments that a parameter accepts.
pub(crate) enum Accepts {
    /// Anything.
    Anything,
    /// An integer; booleans count.
    Integer,
    /// A boolean; integers count.
    Flag,
    /// An opaque pointer, or `None`.
    Pointer,
    /// Text.
    Text,
    /// Bytes.
    Bytes,
    /// An object of exactly this type, which does not have descendants.
    Exactly(i32),
    /// An object of the first type, or of the second type, which is copied.
    Either(i32, i32),
    /// An object of this type or of a descendant.
    Kind(fn() -> i32),
    /// `None`, or a value that the other type accepts.
    Optional(&'static Type),
    /// An array or list of elements that the other type accepts.
    Items(&'static Type),
    /// An array or list with one element for each of the types.
    Tuple(&'static [&'static Type]),
}

impl Type {
    /// Returns true if a value can be passed for a parameter of this type.
    pub(crate) fn accepts(&self, value: &AnyView<'_>) -> bool {
        let index = value.type_index();
        match &self.accepts {
            Accepts::Anything => true,
            Accepts::Integer | Accepts::Flag => matches!(index, type_index::INT | type_index::BOOL),
            Accepts::Pointer => matches!(index, type_index::OPAQUE_PTR | type_index::NONE),
            Accepts::Text => matches!(index, type_index::SMALL_STR | type_index::STR | type_index::RAW_STR),
            Accepts::Bytes => {
                matches!(index, type_index::SMALL_BYTES | type_index::BYTES | type_index::BYTE_ARRAY_PTR)
            }
            Accepts::Exactly(expected) => index == *expected || object_index(value) == *expected,
            Accepts::Either(first, second) => {
                let index = object_index(value);
                index == *first || index == *second
            }
            Accepts::Kind(expected) => {
                let expected = expected();
                let index = object_index(value);
                index == expected
                    || index >= type_index::STATIC_OBJECT_BEGIN
                        && TypeInfo::find(index).is_some_and(|info| info.is_a(expected))
            }
            Accepts::Optional(inner) => index == type_index::NONE || inner.accepts(value),
            Accepts::Items(item) => {
                sequence(value).is_ok_and(|elements| elements.views().iter().all(|element| item.accepts(element)))
            }
            Accepts::Tuple(items) => sequence(value).is_ok_and(|elements| {
                let elements = elements.views();
                elements.len() == items.len()
                    && elements.iter().zip(*items).all(|(element, item)| item.accepts(element))
            }),
        }
    }

    /// Returns true if a value has the most usual form for a parameter of this type. Fast; other
    /// values may be accepted, too.
    #[inline]
    fn takes(&self, value: &AnyView<'_>) -> bool {
        let index = value.type_index();
        if let Accepts::Exactly(expected) | Accepts::Either(expected, _) = self.accepts {
            return index == expected;
        }
        matches!(self.accepts, Accepts::Anything)
            || matches!(self.accepts, Accepts::Integer) && index == type_index::INT
            || matches!(self.accepts, Accepts::Flag) && index == type_index::BOOL
    }

    /// The description, for a message, of a value that this type does not accept.
    pub(crate) fn describe(&self, value: &AnyView<'_>) -> String {
        match &self.accepts {
            Accepts::Optional(inner) => return inner.describe(value),
            Accepts::Items(item) => {
                let elements = sequence(value);
                let elements = elements.as_ref().map_or(&[][..], Sequence::views);
                if let Some(at) = elements.iter().position(|element| !item.accepts(element)) {
                    let container = self.text.split('<').next().unwrap_or_default();
                    return format!("{container}[index {at}: {}]", item.describe(&elements[at]));
                }
            }
            Accepts::Tuple(items) => {
                if let Ok(elements) = sequence(value) {
                    let elements = elements.views();
                    if elements.len() != items.len() {
                        return format!("Array[size={}]", elements.len());
                    }
                    if let Some(at) = elements.iter().zip(*items).position(|(element, item)| !item.accepts(element)) {
                        return format!("Array[index {at}: {}]", items[at].describe(&elements[at]));
                    }
                }
            }
            _ => {}
        }
        type_key(value)
    }
}

/// The type index of a value; for an rvalue reference that of its object.
fn object_index(value: &AnyView<'_>) -> i32 {
    match value.object() {
        // SAFETY: the view keeps the object alive.
        Some(object) => unsafe { (*object).type_index },
        None => value.type_index(),
    }
}

/// The registered key of a value's type.
pub(crate) fn type_key(value: &AnyView<'_>) -> String {
    match TypeInfo::find(value.type_index()) {
        Some(info) => info.key().into_owned(),
        None => format!("<unknown type {}>", value.type_index()),
    }
}

/// Parameters and result of a function; a packed function checks its arguments itself.
pub(crate) enum Signature {
    /// Fixed parameters.
    Typed(&'static [&'static Type], &'static Type),
    /// Any number of arguments.
    Packed,
}

impl Signature {
    /// Returns true if the arguments have their most usual form. Fast; others may be accepted, too.
    #[inline(always)]
    pub(crate) fn takes(&self, views: &[AnyView<'_>]) -> bool {
        let Self::Typed(params, _) = self else { return true };
        views.len() == params.len() && params.iter().zip(views).all(|(param, view)| param.takes(view))
    }

    /// The metadata: a JSON object whose `type_schema` is a JSON string.
    pub(crate) fn metadata_json(&self) -> String {
        let mut schema = String::from("{\"type\":\"ffi.Function\"");
        if let Self::Typed(params, ret) = self {
            schema.push_str(",\"named_args\":{\"return\":[");
            schema.push_str(ret.schema);
            schema.push_str("],\"params\":[");
            for (at, param) in params.iter().enumerate() {
                schema.push_str(if at == 0 { "" } else { "," });
                schema.push_str(param.schema);
            }
            schema.push_str("]}");
        }
        schema.push('}');
        type_schema_json(&schema)
    }

    /// The text form, such as `(0: int, 1: Any) -> bool`.
    pub(crate) fn text(&self) -> String {
        let Self::Typed(params, ret) = self else { return String::new() };
        let mut text = String::from("(");
        for (at, param) in params.iter().enumerate() {
            let _ = write!(text, "{}{at}: {}", if at == 0 { "" } else { ", " }, param.text);
        }
        let _ = write!(text, ") -> {}", ret.text);
        text
    }
}

/// The metadata of an item with this type schema.
pub(crate) fn type_schema_json(schema: &str) -> String {
    let mut json = String::from("{\"type_schema\":");
    write_json_string(&mut json, schema);
    json.push('}');
    json
}

macro_rules! types {
    ($($name:ident = $schema:literal, $text:literal, $accepts:expr;)*) => {
        $(pub(crate) static $name: Type = Type { schema: $schema, text: $text, accepts: $accepts };)*
    };
}

types! {
    ANY = r#"{"type":"Any"}"#, "Any", Accepts::Anything;
    ANY_VIEW = r#"{"type":"Any"}"#, "AnyView", Accepts::Anything;
    VOID = r#"{"type":"None"}"#, "void", Accepts::Anything;
    INT = r#"{"type":"int"}"#, "int", Accepts::Integer;
    OPTIONAL_INT = r#"{"type":"Optional","args":[{"type":"int"}]}"#, "Optional<int>", Accepts::Optional(&INT);
    BOOL = r#"{"type":"bool"}"#, "bool", Accepts::Flag;
    POINTER = r#"{"type":"void*"}"#, "void*", Accepts::Pointer;
    DEVICE = r#"{"type":"Device"}"#, "Device", Accepts::Anything;
    STRING = r#"{"type":"ffi.String"}"#, "str", Accepts::Text;
    OPTIONAL_STRING = r#"{"type":"Optional","args":[{"type":"ffi.String"}]}"#, "Optional<str>", Accepts::Optional(&STRING);
    BYTES = r#"{"type":"ffi.Bytes"}"#, "bytes", Accepts::Bytes;
    FUNCTION = r#"{"type":"ffi.Function"}"#, "ffi.Function", Accepts::Exactly(type_index::FUNCTION);
    OPTIONAL_FUNCTION = r#"{"type":"Optional","args":[{"type":"ffi.Function"}]}"#, "Optional<ffi.Function>",
        Accepts::Optional(&FUNCTION);
    OBJECT = r#"{"type":"ffi.Object"}"#, "ffi.Object", Accepts::Kind(|| type_index::OBJECT);
    OPTIONAL_OBJECT = r#"{"type":"Optional","args":[{"type":"ffi.Object"}]}"#, "Optional<ffi.Object>", Accepts::Optional(&OBJECT);
    MODULE = r#"{"type":"ffi.Module"}"#, "ffi.Module", Accepts::Exactly(type_index::MODULE);
    ARRAY_OBJECT = r#"{"type":"ffi.Array"}"#, "ffi.Array", Accepts::Exactly(type_index::ARRAY);
    LIST_OBJECT = r#"{"type":"ffi.List"}"#, "ffi.List", Accepts::Exactly(type_index::LIST);
    MAP_OBJECT = r#"{"type":"ffi.Map"}"#, "ffi.Map", Accepts::Exactly(type_index::MAP);
    DICT_OBJECT = r#"{"type":"ffi.Dict"}"#, "ffi.Dict", Accepts::Exactly(type_index::DICT);
    LIST_OF_ANY = r#"{"type":"ffi.List","args":[{"type":"Any"}]}"#, "List<Any>",
        Accepts::Either(type_index::LIST, type_index::ARRAY);
    DICT_OF_ANY = r#"{"type":"ffi.Dict","args":[{"type":"Any"},{"type":"Any"}]}"#, "Dict<Any, Any>",
        Accepts::Either(type_index::DICT, type_index::MAP);
    ARRAY_OF_STRINGS = r#"{"type":"ffi.Array","args":[{"type":"ffi.String"}]}"#, "Array<str>", Accepts::Items(&STRING);
}
