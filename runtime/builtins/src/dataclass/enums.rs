//! Enums: types whose instances are a fixed set of objects, each with an integer and a name; and
//! the table of a type's instances.

use crate::abi::{TVMFFIAny, TVMFFIFieldSetter, TVMFFIObject, field_flag, seq_hash_kind, type_index};
use crate::definition::field::BuiltinField;
use crate::definition::function::{Arguments, Builtin};
use crate::definition::signature::{ANY_VIEW, OBJECT, STRING, Signature, Type, type_key};
use crate::definition::type_def::{Attr, BuiltinMethod, BuiltinType};
use crate::embedded::{self, map, new_string, seq, text_of};
use crate::object::{ObjRef, ObjectRoot};
use crate::value::{Any, IntoAny};
use crate::{Result, bail};
use kernpack_core::reflect::{AttrColumn, TypeInfo};

use super::enum_state_fields::{set_attrs, set_entries, set_indexes};
use crate::definition::instance::{create, metadata_of, new_function, object_attrs, object_body};
use crate::definition::setters::set_text;

/// The state of an enum type: its instances; the value of `__ffi_enum__`.
#[derive(Clone)]
#[repr(C)]
pub(super) struct EnumStateBody {
    pub(super) entries: ObjRef<ObjectRoot>,
    pub(super) indexes: ObjRef<ObjectRoot>,
    pub(super) attrs: ObjRef<ObjectRoot>,
}

impl Default for EnumStateBody {
    #[inline]
    fn default() -> Self {
        Self { entries: owned(seq::new_list(vec![])), indexes: new_dict(), attrs: new_dict() }
    }
}

#[inline]
fn new_dict() -> ObjRef<ObjectRoot> {
    // SAFETY: there are no views to be valid.
    let dict = unsafe { map::new_dict_of_views(&[]) };
    // Without keys there is nothing to fail.
    owned(dict.unwrap_or_else(|failure| unreachable!("{failure:?}")))
}

#[inline]
fn owned(new: *mut TVMFFIObject) -> ObjRef<ObjectRoot> {
    // SAFETY: the callers pass a new object, whose reference is transferred to the result.
    unsafe { ObjRef::from_raw(new) }
}

/// An instance of an enum.
#[derive(Clone)]
#[repr(C)]
pub(super) struct EnumBody {
    pub(super) int_index: i64,
    pub(super) str_index: Any,
}

/// The offset of the name in an instance of an enum.
pub(crate) const NAME_OFFSET: i64 = 32;

impl Default for EnumBody {
    #[inline]
    fn default() -> Self {
        // SAFETY: a new text, whose reference is transferred to the field.
        Self { int_index: 0, str_index: unsafe { Any::from_raw(new_string(b"")) } }
    }
}

#[derive(Clone, Default)]
#[repr(transparent)]
struct IntEnumBody(EnumBody);

#[derive(Clone, Default)]
#[repr(transparent)]
struct StrEnumBody(EnumBody);

const _: () = assert!(size_of::<EnumBody>() == 24 && size_of::<EnumStateBody>() == 24);

object_body!(EnumStateBody, ENUM_STATE, ENUM_STATE_TYPE = "ffi.EnumState");
object_body!(EnumBody, ENUM, ENUM_TYPE = "ffi.Enum");
object_body!(IntEnumBody, INT_ENUM, INT_ENUM_TYPE = "ffi.IntEnum");
object_body!(StrEnumBody, STR_ENUM, STR_ENUM_TYPE = "ffi.StrEnum");

const INT_INDEX: BuiltinField = BuiltinField {
    name: "_int_index",
    doc: "Canonical integer index.",
    flags: field_flag::SEQ_HASH_IGNORE,
    ..BuiltinField::I64
};

const STR_INDEX: BuiltinField = BuiltinField {
    name: "_str_index",
    doc: "Canonical string index.",
    schema: STRING.schema,
    offset: NAME_OFFSET,
    setter: set_text,
    ..BuiltinField::ANY
};

/// A table of an [`EnumStateBody`]: its offset, type and setter.
#[inline]
const fn table(
    name: &'static str,
    doc: &'static str,
    schema: &'static str,
    offset: i64,
    static_type_index: i32,
    setter: TVMFFIFieldSetter,
) -> BuiltinField {
    BuiltinField {
        name,
        doc,
        schema,
        flags: field_flag::INIT_OFF,
        offset,
        static_type_index,
        setter,
        ..BuiltinField::OBJECT
    }
}

/// The flags of a second name of an index.
const VALUE_FLAGS: i64 = field_flag::INIT_OFF | field_flag::SEQ_HASH_IGNORE;

pub(crate) static ENUM_STATE: BuiltinType = BuiltinType {
    metadata: Some(metadata_of::<EnumStateBody>(seq_hash_kind::UNSUPPORTED)),
    fields: &[
        table(
            "entries",
            "Enum singletons in registration order.",
            r#"{"type":"ffi.List","args":[{"type":"ffi.Object"}]}"#,
            24,
            type_index::LIST,
            set_entries,
        ),
        table(
            "indexes",
            "Canonical integer and string indices to enum singletons.",
            r#"{"type":"ffi.Dict","args":[{"type":"Any"},{"type":"ffi.Object"}]}"#,
            32,
            type_index::OBJECT,
            set_indexes,
        ),
        table(
            "attrs",
            "Extensible-attribute columns keyed by enum singleton.",
            r#"{"type":"ffi.Dict","args":[{"type":"ffi.String"},{"type":"ffi.Dict","args":[{"type":"ffi.Object"},{"type":"Any"}]}]}"#,
            40,
            type_index::OBJECT,
            set_attrs,
        ),
    ],
    methods: &[BuiltinMethod {
        function: Builtin {
            name: "ffi.EnumState.__ffi_init__",
            signature: Signature::Typed(&[], &OBJECT),
            run: create::<EnumStateBody>,
        },
        is_static: true,
        doc: "",
    }],
    attrs: object_attrs!(
        "ffi.EnumState",
        EnumStateBody,
        final: true,
        first: [("__ffi_init__", new_function::<EnumStateBody>("ffi.EnumState.__ffi_init__"))],
        last: []
    ),
    ..BuiltinType::new("ffi.EnumState")
};

pub(crate) static ENUM: BuiltinType = BuiltinType {
    metadata: Some(metadata_of::<EnumBody>(seq_hash_kind::UNIQUE_INSTANCE)),
    fields: &[INT_INDEX, STR_INDEX],
    attrs: object_attrs!("ffi.Enum", EnumBody, final: false, first: [], last: []),
    ..BuiltinType::new("ffi.Enum")
};

/// A base of enums whose `value` is one of the two indices, with the function that converts to its
/// instances.
macro_rules! base_of_enums {
    ($definition:ident, $key:literal, $body:ty, $type:ident, $index:expr) => {
        pub(crate) static $definition: BuiltinType = BuiltinType {
            parent: || ENUM.host_index(),
            metadata: Some(metadata_of::<$body>(seq_hash_kind::UNIQUE_INSTANCE)),
            fields: &[BuiltinField { name: "value", flags: VALUE_FLAGS, ..$index }],
            attrs: object_attrs!(
                $key,
                $body,
                final: false,
                first: [(
                    "__ffi_convert__",
                    convert_function(concat!($key, ".__ffi_convert__"), &$type, |args| convert(args, &$type))
                )],
                last: []
            ),
            ..BuiltinType::new($key)
        };
    };
}

base_of_enums!(INT_ENUM, "ffi.IntEnum", IntEnumBody, INT_ENUM_TYPE, INT_INDEX);
base_of_enums!(STR_ENUM, "ffi.StrEnum", StrEnumBody, STR_ENUM_TYPE, STR_INDEX);

#[inline]
const fn convert_function(name: &'static str, result: &'static Type, run: fn(&Arguments<'_>) -> Result<Any>) -> Attr {
    const PARAMS: &[&Type] = &[&ANY_VIEW];
    Attr::Function(Builtin { name, signature: Signature::Typed(PARAMS, result), run })
}

#[inline]
fn convert(args: &Arguments<'_>, to: &Type) -> Result<Any> {
    if !to.accepts(args.view(0)) {
        bail!(TypeError, "Cannot cast from `{}` to `{}`", type_key(args.view(0)), to.text);
    }
    args.owned(0)
}

/// Returns true if a type is an enum.
#[inline]
pub(crate) fn is_enum(info: TypeInfo) -> bool {
    let root = ENUM.host_index();
    info.index() == root || info.ancestor(1).is_some_and(|ancestor| ancestor.index() == root)
}

/// The name of an instance of an enum of the ABI; `None` for other objects.
///
/// # Safety
/// The object is alive for `'a`, and of this type.
#[inline]
pub(crate) unsafe fn enum_name<'a>(object: *mut TVMFFIObject, info: TypeInfo) -> Option<&'a [u8]> {
    // SAFETY: promised by the caller.
    is_enum(info).then(|| unsafe { name_of(object) })
}

/// The name of an instance of an enum.
///
/// # Safety
/// `instance` is of an enum type and lives for `'a`.
#[inline]
pub(crate) unsafe fn name_of<'a>(instance: *mut TVMFFIObject) -> &'a [u8] {
    // SAFETY: promised by the caller; objects of all enum types begin with this body.
    unsafe { text_of(embedded::body::<EnumBody>(instance).str_index.as_view().as_raw()) }.unwrap_or_default()
}

/// Returns true if a type is an enum of integers.
#[inline]
pub(crate) fn is_int_enum(info: TypeInfo) -> bool {
    info.is_a(INT_ENUM.host_index())
}

/// The value that an instance of an enum is serialized as: its integer in an enum of integers, else
/// its name.
///
/// # Safety
/// `instance` is a live object of this enum type.
#[inline]
pub(crate) unsafe fn index_of(instance: *mut TVMFFIObject, info: TypeInfo) -> Any {
    // SAFETY: promised by the caller; objects of all enum types begin with this body.
    let body = unsafe { embedded::body::<EnumBody>(instance) };
    if is_int_enum(info) { body.int_index.into_any() } else { body.str_index.clone() }
}

/// The instance of an enum type with this integer or name.
///
/// # Errors
/// ValueError when there is none.
///
/// # Safety
/// `index` is a live integer or text.
#[inline]
pub(crate) unsafe fn instance_with(info: TypeInfo, index: &TVMFFIAny) -> Result<Any> {
    static STATES: AttrColumn = AttrColumn::new("__ffi_enum__");
    if let Some(state) = STATES.get(info.index()) {
        if !ENUM_STATE_TYPE.accepts(&state) {
            bail!(TypeError, "Cannot treat type `{}` as type `{}`", type_key(&state), ENUM_STATE.key);
        }
        // SAFETY: the column keeps the state alive, which is one; the instance is owned.
        unsafe {
            let body = embedded::body::<EnumStateBody>(state.as_raw().payload.v_obj);
            if let Some(instance) = map::shared::get(body.indexes.as_ptr(), index)? {
                return Ok(Any::from_raw(instance));
            }
        }
    }
    // SAFETY: promised by the caller.
    let index = match unsafe { text_of(index) } {
        Some(name) => String::from_utf8_lossy(name).into_owned(),
        None => index.bits().cast_signed().to_string(),
    };
    bail!(ValueError, "Enum `{}` has no instance with index {index}", info.key())
}
