//! Enums: types whose instances are a fixed set of objects, each with an integer and a name; and the table of a type's instances.

use crate::abi::{TVMFFIAny, TVMFFIObject, field_flag, seq_hash_kind, type_index};
use crate::definition::function::{Arguments, Builtin};
use crate::definition::signature::{ANY_VIEW, Accepts, OBJECT, Signature, Type, type_key};
use crate::definition::type_def::{Attr, BuiltinField, BuiltinMethod, BuiltinType, Index, Metadata, field};
use crate::embedded::{self, map, new_string, seq, text_of};
use crate::object::{ObjRef, ObjectRoot};
use crate::value::{Any, AnyView, IntoAny};
use crate::{Result, bail};
use kernpack_core::reflect::{AttrColumn, TypeInfo};

use super::enum_state_fields::{set_attrs, set_entries, set_indexes};
use crate::definition::instance::{Body, copy_function, create, creator, new_function};
use crate::definition::setters::{set_i64, set_text};

/// What an enum type knows about its instances; the value of `__ffi_enum__`.
#[derive(Clone)]
#[repr(C)]
pub(super) struct EnumStateBody {
    pub(super) entries: ObjRef<ObjectRoot>,
    pub(super) indexes: ObjRef<ObjectRoot>,
    pub(super) attrs: ObjRef<ObjectRoot>,
}

impl Default for EnumStateBody {
    fn default() -> Self {
        Self { entries: owned(seq::new_list(vec![])), indexes: new_dict(), attrs: new_dict() }
    }
}

fn new_dict() -> ObjRef<ObjectRoot> {
    // SAFETY: there are no views to be valid.
    let dict = unsafe { map::new_dict_of_views(&[]) };
    // Without keys there is nothing to fail.
    owned(dict.unwrap_or_else(|failure| unreachable!("{failure:?}")))
}

fn owned(new: *mut TVMFFIObject) -> ObjRef<ObjectRoot> {
    // SAFETY: the callers pass a new object, whose reference goes over to the result.
    unsafe { ObjRef::from_object(new) }
}

/// An instance of an enum.
#[derive(Clone)]
#[repr(C)]
pub(super) struct EnumBody {
    pub(super) int_index: i64,
    pub(super) str_index: Any,
}

/// Where the name is in an instance of an enum.
pub(crate) const NAME_OFFSET: i64 = 32;

impl Default for EnumBody {
    fn default() -> Self {
        // SAFETY: a new text, whose reference goes over to the field.
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

macro_rules! body {
    ($body:ty, $type:ident, $definition:ident, $key:literal) => {
        static $type: Type = Type {
            schema: concat!("{\"type\":\"", $key, "\"}"),
            text: $key,
            accepts: Accepts::Kind(|| $definition.host_index()),
        };

        impl Body for $body {
            const SELF: &'static [&'static Type] = &[&$type];

            fn definition() -> &'static BuiltinType {
                &$definition
            }
        }
    };
}

body!(EnumStateBody, ENUM_STATE_TYPE, ENUM_STATE, "ffi.EnumState");
body!(EnumBody, ENUM_TYPE, ENUM, "ffi.Enum");
body!(IntEnumBody, INT_ENUM_TYPE, INT_ENUM, "ffi.IntEnum");
body!(StrEnumBody, STR_ENUM_TYPE, STR_ENUM, "ffi.StrEnum");

/// A read-only field without a default.
const FIELD: BuiltinField = BuiltinField {
    name: "",
    doc: "",
    schema: "",
    flags: 0,
    offset: 0,
    size: 8,
    align: 8,
    static_type_index: type_index::OBJECT,
    default: TVMFFIAny::NONE,
    getter: field::get_object,
    setter: set_entries,
};

const INT_INDEX: BuiltinField = BuiltinField {
    name: "_int_index",
    doc: "Canonical integer index.",
    schema: r#"{"type":"int"}"#,
    flags: field_flag::SEQ_HASH_IGNORE,
    offset: 24,
    static_type_index: type_index::INT,
    getter: field::get_i64,
    setter: set_i64,
    ..FIELD
};

const STR_INDEX: BuiltinField = BuiltinField {
    name: "_str_index",
    doc: "Canonical string index.",
    schema: r#"{"type":"ffi.String"}"#,
    offset: NAME_OFFSET,
    size: 16,
    static_type_index: type_index::ANY,
    getter: field::get_any,
    setter: set_text,
    ..FIELD
};

/// A second name of an index.
const VALUE_FLAGS: i64 = field_flag::INIT_OFF | field_flag::SEQ_HASH_IGNORE;

pub(crate) static ENUM_STATE: BuiltinType = BuiltinType {
    key: "ffi.EnumState",
    index: Index::dynamic(),
    parent: || type_index::OBJECT,
    metadata: Some(Metadata {
        total_size: 48,
        creator: Some(creator::<EnumStateBody>),
        structural_kind: seq_hash_kind::UNSUPPORTED,
    }),
    fields: &[
        BuiltinField {
            name: "entries",
            doc: "Enum singletons in registration order.",
            schema: r#"{"type":"ffi.List","args":[{"type":"ffi.Object"}]}"#,
            flags: field_flag::INIT_OFF,
            offset: 24,
            static_type_index: type_index::LIST,
            setter: set_entries,
            ..FIELD
        },
        BuiltinField {
            name: "indexes",
            doc: "Canonical integer and string indices to enum singletons.",
            schema: r#"{"type":"ffi.Dict","args":[{"type":"Any"},{"type":"ffi.Object"}]}"#,
            flags: field_flag::INIT_OFF,
            offset: 32,
            setter: set_indexes,
            ..FIELD
        },
        BuiltinField {
            name: "attrs",
            doc: "Extensible-attribute columns keyed by enum singleton.",
            schema: r#"{"type":"ffi.Dict","args":[{"type":"ffi.String"},{"type":"ffi.Dict","args":[{"type":"ffi.Object"},{"type":"Any"}]}]}"#,
            flags: field_flag::INIT_OFF,
            offset: 40,
            setter: set_attrs,
            ..FIELD
        },
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
    attrs: &[
        ("__ffi_init__", new_function::<EnumStateBody>("ffi.EnumState.__ffi_init__")),
        ("__ffi_new__", new_function::<EnumStateBody>("ffi.EnumState.__ffi_new__")),
        ("__ffi_shallow_copy__", copy_function::<EnumStateBody>("ffi.EnumState.__ffi_shallow_copy__")),
        ("__ffi_type_final__", Attr::Flag(true)),
    ],
};

pub(crate) static ENUM: BuiltinType = BuiltinType {
    key: "ffi.Enum",
    index: Index::dynamic(),
    parent: || type_index::OBJECT,
    metadata: Some(unique_instances(creator::<EnumBody>)),
    fields: &[INT_INDEX, STR_INDEX],
    methods: &[],
    attrs: &[
        ("__ffi_new__", new_function::<EnumBody>("ffi.Enum.__ffi_new__")),
        ("__ffi_shallow_copy__", copy_function::<EnumBody>("ffi.Enum.__ffi_shallow_copy__")),
        ("__ffi_type_final__", Attr::Flag(false)),
    ],
};

pub(crate) static INT_ENUM: BuiltinType = BuiltinType {
    key: "ffi.IntEnum",
    index: Index::dynamic(),
    parent: || ENUM.host_index(),
    metadata: Some(unique_instances(creator::<IntEnumBody>)),
    fields: &[BuiltinField { name: "value", flags: VALUE_FLAGS, ..INT_INDEX }],
    methods: &[],
    attrs: &[
        ("__ffi_convert__", convert_function("ffi.IntEnum.__ffi_convert__", &INT_ENUM_TYPE, to_int_enum)),
        ("__ffi_new__", new_function::<IntEnumBody>("ffi.IntEnum.__ffi_new__")),
        ("__ffi_shallow_copy__", copy_function::<IntEnumBody>("ffi.IntEnum.__ffi_shallow_copy__")),
        ("__ffi_type_final__", Attr::Flag(false)),
    ],
};

pub(crate) static STR_ENUM: BuiltinType = BuiltinType {
    key: "ffi.StrEnum",
    index: Index::dynamic(),
    parent: || ENUM.host_index(),
    metadata: Some(unique_instances(creator::<StrEnumBody>)),
    fields: &[BuiltinField { name: "value", flags: VALUE_FLAGS, ..STR_INDEX }],
    methods: &[],
    attrs: &[
        ("__ffi_convert__", convert_function("ffi.StrEnum.__ffi_convert__", &STR_ENUM_TYPE, to_str_enum)),
        ("__ffi_new__", new_function::<StrEnumBody>("ffi.StrEnum.__ffi_new__")),
        ("__ffi_shallow_copy__", copy_function::<StrEnumBody>("ffi.StrEnum.__ffi_shallow_copy__")),
        ("__ffi_type_final__", Attr::Flag(false)),
    ],
};

const fn unique_instances(creator: crate::abi::TVMFFIObjectCreator) -> Metadata {
    Metadata { total_size: 48, creator: Some(creator), structural_kind: seq_hash_kind::UNIQUE_INSTANCE }
}

const fn convert_function(name: &'static str, result: &'static Type, run: fn(&Arguments<'_>) -> Result<Any>) -> Attr {
    const PARAMS: &[&Type] = &[&ANY_VIEW];
    Attr::Function(Builtin { name, signature: Signature::Typed(PARAMS, result), run })
}

fn to_int_enum(args: &Arguments<'_>) -> Result<Any> {
    convert(args, &INT_ENUM_TYPE)
}

fn to_str_enum(args: &Arguments<'_>) -> Result<Any> {
    convert(args, &STR_ENUM_TYPE)
}

fn convert(args: &Arguments<'_>, to: &Type) -> Result<Any> {
    if !to.accepts(args.view(0)) {
        bail!(TypeError, "Cannot cast from `{}` to `{}`", type_key(args.view(0)), to.text);
    }
    args.owned(0)
}

/// Whether a type is an enum.
pub(crate) fn is_enum(info: TypeInfo) -> bool {
    let root = ENUM.host_index();
    info.index() == root || info.ancestor(1).is_some_and(|ancestor| ancestor.index() == root)
}

/// The name of an instance of an enum of the ABI; `None` for other objects.
///
/// # Safety
/// The object is alive for `'a`, and of this type.
pub(crate) unsafe fn enum_name<'a>(object: *mut TVMFFIObject, info: TypeInfo) -> Option<&'a [u8]> {
    // SAFETY: promised by the caller.
    is_enum(info).then(|| unsafe { name_of(object) })
}

/// The name of an instance of an enum.
///
/// # Safety
/// `instance` is of an enum type and lives for `'a`.
pub(crate) unsafe fn name_of<'a>(instance: *mut TVMFFIObject) -> &'a [u8] {
    // SAFETY: promised by the caller; objects of all enum types begin with this body.
    unsafe { text_of(embedded::body::<EnumBody>(instance).str_index.as_view().raw()) }.unwrap_or_default()
}

/// Whether a type is an enum of integers.
pub(crate) fn is_int_enum(info: TypeInfo) -> bool {
    info.is_a(INT_ENUM.host_index())
}

/// What an instance of an enum is written as: its integer in an enum of integers, else its name.
///
/// # Safety
/// `instance` is a live object of this enum type.
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
pub(crate) unsafe fn instance_with(info: TypeInfo, index: &TVMFFIAny) -> Result<Any> {
    static STATES: AttrColumn = AttrColumn::new("__ffi_enum__");
    if let Some(state) = STATES.get(info.index()) {
        if !ENUM_STATE_TYPE.accepts(&state) {
            bail!(TypeError, "Cannot treat type `{}` as type `{}`", type_key(&state), ENUM_STATE.key);
        }
        // SAFETY: the column keeps the state alive, which is one; the entry is copied.
        unsafe {
            let body = embedded::body::<EnumStateBody>(state.raw().payload.v_obj);
            if let Some(instance) = map::get(body.indexes.object(), index)? {
                return AnyView::from_raw(instance).try_to_owned();
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
