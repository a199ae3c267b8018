//! The attribute `__ffi_convert__` of the ABI's own types: the conversion of a value that is
//! assigned to a field of that type.

use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};
use crate::definition::function::{Arguments, Builtin};
use crate::definition::signature::{
    ANY_VIEW, Accepts, BYTES, DICT_OF_ANY, FUNCTION, LIST_OF_ANY, OBJECT, STRING, Signature, Type, type_key,
};
use crate::definition::type_def::Attr;
use crate::definition::type_def::FixedTypeAttrs;
use crate::embedded::{list, map, seq, shape};
use crate::error;
use crate::value::Any;
use kernpack_core::reflect::TypeInfo;

const CONVERT: &str = "__ffi_convert__";

static ERROR: Type = Type { schema: r#"{"type":"ffi.Error"}"#, text: "ffi.Error", accepts: Accepts::Anything };
static SHAPE: Type = Type { schema: r#"{"type":"ffi.Shape"}"#, text: "ffi.Shape", accepts: Accepts::Anything };
static TENSOR: Type = Type { schema: r#"{"type":"ffi.Tensor"}"#, text: "ffi.Tensor", accepts: Accepts::Anything };
static ARRAY_OF_ANY: Type =
    Type { schema: r#"{"type":"ffi.Array","args":[{"type":"Any"}]}"#, text: "Array<Any>", accepts: Accepts::Anything };
static MAP_OF_ANY: Type = Type {
    schema: r#"{"type":"ffi.Map","args":[{"type":"Any"},{"type":"Any"}]}"#,
    text: "Map<Any, Any>",
    accepts: Accepts::Anything,
};

macro_rules! conversions {
    ($($index:ident, $name:literal, $result:expr, $convert:expr;)*) => {
        pub(crate) const ATTRS: FixedTypeAttrs = &[$((
            type_index::$index,
            CONVERT,
            Attr::Function(Builtin {
                name: $name,
                signature: Signature::Typed(&[&ANY_VIEW], &$result),
                run: |args| {
                    let convert: fn(&Arguments<'_>) -> Option<Any> = $convert;
                    convert(args).ok_or_else(|| mismatch(args, &$result))
                },
            }),
        ),)*];
    };
}

conversions! {
    OBJECT, "ffi.Object.__ffi_convert__", OBJECT, |args| nullable(args, type_index::OBJECT);
    STR, "ffi.String.__ffi_convert__", STRING, |args| accepted(args, &STRING);
    BYTES, "ffi.Bytes.__ffi_convert__", BYTES, |args| accepted(args, &BYTES);
    ERROR, "ffi.Error.__ffi_convert__", ERROR, |args| object(args, type_index::ERROR);
    FUNCTION, "ffi.Function.__ffi_convert__", FUNCTION, |args| nullable(args, type_index::FUNCTION);
    SHAPE, "ffi.Shape.__ffi_convert__", SHAPE, to_shape;
    TENSOR, "ffi.Tensor.__ffi_convert__", TENSOR, |args| nullable(args, type_index::TENSOR);
    ARRAY, "ffi.Array.__ffi_convert__", ARRAY_OF_ANY,
        |args| either(args, type_index::ARRAY, type_index::LIST, |from| {
            // SAFETY: the argument is a list, whose elements are alive.
            Some(unsafe { seq::new_array_of_shared(&list::shared::elements(from)) })
        });
    MAP, "ffi.Map.__ffi_convert__", MAP_OF_ANY,
        |args| either(args, type_index::MAP, type_index::DICT, |dict| {
            // SAFETY: the entries are alive.
            unsafe { map::new_map_of_views(&map::shared::contents(dict)).ok() }
        });
    LIST, "ffi.List.__ffi_convert__", LIST_OF_ANY,
        |args| either(args, type_index::LIST, type_index::ARRAY, |array| {
            // SAFETY: the argument is an array, whose elements are alive.
            Some(unsafe { seq::new_list_of_shared(seq::elements(array)) })
        });
    DICT, "ffi.Dict.__ffi_convert__", DICT_OF_ANY,
        |args| either(args, type_index::DICT, type_index::MAP, |from| {
            // SAFETY: the entries are alive.
            unsafe { map::new_dict_of_views(&map::shared::contents(from)).ok() }
        });
}

/// `None`, or an object of this type or a descendant.
#[inline]
fn nullable(args: &Arguments<'_>, expected: i32) -> Option<Any> {
    if args.view(0).is_none() { Some(Any::NONE) } else { object(args, expected) }
}

/// An object of this type or a descendant.
#[inline]
fn object(args: &Arguments<'_>, expected: i32) -> Option<Any> {
    let index = args.view(0).type_index();
    let fits = index == expected || index >= type_index::STATIC_OBJECT_BEGIN && TypeInfo::find(index)?.is_a(expected);
    if fits { args.owned(0).ok() } else { None }
}

/// An argument that a parameter of this type accepts.
#[inline]
fn accepted(args: &Arguments<'_>, expected: &Type) -> Option<Any> {
    if expected.accepts(args.view(0)) { args.owned(0).ok() } else { None }
}

/// An object of the first type, or the result of `convert` for one of the second.
#[inline]
fn either(
    args: &Arguments<'_>,
    same: i32,
    other: i32,
    convert: fn(*mut TVMFFIObject) -> Option<*mut TVMFFIObject>,
) -> Option<Any> {
    let index = args.view(0).type_index();
    if index == same {
        return args.owned(0).ok();
    }
    if index != other {
        return None;
    }
    // SAFETY: a new object, whose only reference is transferred to the value.
    convert(args.object(0)).map(|object| unsafe { Any::from_object(object) })
}

/// Converts a shape, or an array or list of integers.
#[inline]
fn to_shape(args: &Arguments<'_>) -> Option<Any> {
    match args.view(0).type_index() {
        type_index::SHAPE => args.owned(0).ok(),
        type_index::ARRAY | type_index::LIST => {
            // SAFETY: the type is checked, and the elements are alive as long as their container.
            let elements = unsafe { list::shared::elements(args.object(0)) };
            let int = |value: &TVMFFIAny| {
                matches!(value.type_index, type_index::INT | type_index::BOOL).then_some(value.bits().cast_signed())
            };
            let dimensions: Vec<i64> = elements.iter().map(int).collect::<Option<_>>()?;
            // SAFETY: a new object, whose only reference is transferred to the value.
            Some(unsafe { Any::from_object(shape::new_shape(&dimensions)) })
        }
        _ => None,
    }
}

#[cold]
#[inline]
fn mismatch(args: &Arguments<'_>, expected: &Type) -> crate::Error {
    error!(TypeError, "Cannot cast from `{}` to `{}`", type_key(args.view(0)), expected.text)
}
