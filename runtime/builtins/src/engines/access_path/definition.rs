//! What the types of steps and paths register: fields, methods, attributes.

use super::{Kind, PathBody, StepBody, extend, extend_by, flag, is_prefix_of, new_root, paths_equal, to_steps, value};
use super::{repr_path, repr_step};
use crate::abi::{TVMFFIAny, seq_hash_kind, type_index};
use crate::definition::function::{Arguments, Builtin};
use crate::definition::instance::{Body, copy_function, creator, new_function};
use crate::definition::setters::{ObjectField, set_any, set_i32, set_object};
use crate::definition::signature::{ANY, Accepts, BOOL, FUNCTION, INT, OBJECT, STRING, Signature, Type};
use crate::definition::type_def::{Attr, BuiltinField, BuiltinMethod, BuiltinType, Index, Metadata, field};
use crate::value::Any;
use crate::{Result, embedded};

pub(super) const STEP_KEY: &str = "ffi.reflection.AccessStep";
pub(super) const PATH_KEY: &str = "ffi.reflection.AccessPath";
const STEP_SCHEMA: &str = r#"{"type":"ffi.reflection.AccessStep"}"#;
const PATH_SCHEMA: &str = r#"{"type":"ffi.reflection.AccessPath"}"#;

pub(crate) static ACCESS_STEP: Type =
    Type { schema: STEP_SCHEMA, text: STEP_KEY, accepts: Accepts::Kind(|| STEP.index.get()) };
pub(crate) static ACCESS_PATH: Type =
    Type { schema: PATH_SCHEMA, text: PATH_KEY, accepts: Accepts::Kind(|| PATH.index.get()) };
static ARRAY_OF_STEPS: Type = Type {
    schema: r#"{"type":"ffi.Array","args":[{"type":"ffi.reflection.AccessStep"}]}"#,
    text: "Array<ffi.reflection.AccessStep>",
    accepts: Accepts::Items(&ACCESS_STEP),
};
pub(crate) static ARRAY_OF_ACCESS_PATHS: Type = Type {
    schema: r#"{"type":"ffi.Array","args":[{"type":"ffi.reflection.AccessPath"}]}"#,
    text: "Array<ffi.reflection.AccessPath>",
    accepts: Accepts::Items(&ACCESS_PATH),
};
static OPTIONAL_OBJECT: Type = Type {
    schema: r#"{"type":"Optional","args":[{"type":"ffi.Object"}]}"#,
    text: "Optional<ffi.Object>",
    accepts: Accepts::Optional(&OBJECT),
};
static OPTIONAL_STEP: Type = Type {
    schema: r#"{"type":"Optional","args":[{"type":"ffi.reflection.AccessStep"}]}"#,
    text: "Optional<ffi.reflection.AccessStep>",
    accepts: Accepts::Optional(&ACCESS_STEP),
};

struct Parent;
struct Step;

impl ObjectField for Parent {
    const TYPE: &'static Type = &OPTIONAL_OBJECT;
}

impl ObjectField for Step {
    const TYPE: &'static Type = &OPTIONAL_STEP;
}

impl Body for StepBody {
    const SELF: &'static [&'static Type] = &[&ACCESS_STEP];

    fn definition() -> &'static BuiltinType {
        &STEP
    }
}

impl Body for PathBody {
    const SELF: &'static [&'static Type] = &[&ACCESS_PATH];

    fn definition() -> &'static BuiltinType {
        &PATH
    }
}

const FIELD: BuiltinField = BuiltinField {
    name: "",
    doc: "",
    schema: "",
    flags: 0,
    offset: 0,
    size: 8,
    align: 8,
    static_type_index: type_index::ANY,
    default: TVMFFIAny::NONE,
    getter: field::get_object,
    setter: set_any,
};

const INT_FIELD: BuiltinField = BuiltinField {
    schema: r#"{"type":"int"}"#,
    size: 4,
    align: 4,
    static_type_index: type_index::INT,
    getter: field::get_i32,
    setter: set_i32,
    ..FIELD
};

const fn method(
    name: &'static str,
    params: &'static [&'static Type],
    result: &'static Type,
    run: fn(&Arguments<'_>) -> Result<Any>,
) -> BuiltinMethod {
    let function = Builtin { name, signature: Signature::Typed(params, result), run };
    BuiltinMethod { function, is_static: params.is_empty(), doc: "" }
}

const fn repr(name: &'static str, run: fn(&Arguments<'_>) -> Result<Any>) -> Attr {
    const PARAMS: &[&Type] = &[&OBJECT, &FUNCTION];
    Attr::Function(Builtin { name, signature: Signature::Typed(PARAMS, &STRING), run })
}

pub(crate) static STEP: BuiltinType = BuiltinType {
    key: STEP_KEY,
    index: Index::dynamic(),
    parent: || type_index::OBJECT,
    metadata: Some(Metadata {
        total_size: 48,
        creator: Some(creator::<StepBody>),
        structural_kind: seq_hash_kind::CONST_TREE_NODE,
    }),
    fields: &[
        BuiltinField { name: "kind", offset: 24, ..INT_FIELD },
        BuiltinField {
            name: "key",
            schema: r#"{"type":"Any"}"#,
            offset: 32,
            size: 16,
            getter: field::get_any,
            ..FIELD
        },
    ],
    methods: &[],
    attrs: &[
        ("__ffi_new__", new_function::<StepBody>("ffi.reflection.AccessStep.__ffi_new__")),
        ("__ffi_shallow_copy__", copy_function::<StepBody>("ffi.reflection.AccessStep.__ffi_shallow_copy__")),
        ("__ffi_repr__", repr("ffi.reflection.AccessStep.__ffi_repr__", repr_step)),
        ("__ffi_type_final__", Attr::Flag(true)),
    ],
};

pub(crate) static PATH: BuiltinType = BuiltinType {
    key: PATH_KEY,
    index: Index::dynamic(),
    parent: || type_index::OBJECT,
    metadata: Some(Metadata {
        total_size: 48,
        creator: Some(creator::<PathBody>),
        structural_kind: seq_hash_kind::CONST_TREE_NODE,
    }),
    fields: &[
        BuiltinField {
            name: "parent",
            schema: OPTIONAL_OBJECT.schema,
            offset: 24,
            setter: set_object::<Parent>,
            ..FIELD
        },
        BuiltinField { name: "step", schema: OPTIONAL_STEP.schema, offset: 32, setter: set_object::<Step>, ..FIELD },
        BuiltinField { name: "depth", offset: 40, ..INT_FIELD },
    ],
    methods: &[
        method("ffi.reflection.AccessPath._root", &[], &ACCESS_PATH, |_| Ok(value(new_root()))),
        method("ffi.reflection.AccessPath._extend", &[&ACCESS_PATH, &ACCESS_STEP], &ACCESS_PATH, |args| {
            let step = args.object(1);
            // SAFETY: the arguments are a path and a step, alive for the call; the path gets a reference of its own.
            unsafe {
                embedded::inc_ref(step);
                Ok(value(extend(args.object(0), step)))
            }
        }),
        method("ffi.reflection.AccessPath._attr", &[&ACCESS_PATH, &STRING], &ACCESS_PATH, |args| {
            extend_by(Kind::Attr, args)
        }),
        method("ffi.reflection.AccessPath._array_item", &[&ACCESS_PATH, &INT], &ACCESS_PATH, |args| {
            extend_by(Kind::ArrayItem, args)
        }),
        method("ffi.reflection.AccessPath._map_item", &[&ACCESS_PATH, &ANY], &ACCESS_PATH, |args| {
            extend_by(Kind::MapItem, args)
        }),
        method("ffi.reflection.AccessPath._attr_missing", &[&ACCESS_PATH, &STRING], &ACCESS_PATH, |args| {
            extend_by(Kind::AttrMissing, args)
        }),
        method("ffi.reflection.AccessPath._array_item_missing", &[&ACCESS_PATH, &INT], &ACCESS_PATH, |args| {
            extend_by(Kind::ArrayItemMissing, args)
        }),
        method("ffi.reflection.AccessPath._map_item_missing", &[&ACCESS_PATH, &ANY], &ACCESS_PATH, |args| {
            extend_by(Kind::MapItemMissing, args)
        }),
        method("ffi.reflection.AccessPath._is_prefix_of", &[&ACCESS_PATH, &ACCESS_PATH], &BOOL, |args| {
            // SAFETY: the arguments are paths, alive for the call.
            flag(unsafe { is_prefix_of(args.object(0), args.object(1)) }?)
        }),
        method("ffi.reflection.AccessPath._to_steps", &[&ACCESS_PATH], &ARRAY_OF_STEPS, to_steps),
        method("ffi.reflection.AccessPath._path_equal", &[&ACCESS_PATH, &ACCESS_PATH], &BOOL, |args| {
            // SAFETY: the arguments are paths, alive for the call.
            flag(unsafe { paths_equal(args.object(0), args.object(1)) }?)
        }),
    ],
    attrs: &[
        ("__ffi_new__", new_function::<PathBody>("ffi.reflection.AccessPath.__ffi_new__")),
        ("__ffi_shallow_copy__", copy_function::<PathBody>("ffi.reflection.AccessPath.__ffi_shallow_copy__")),
        ("__ffi_repr__", repr("ffi.reflection.AccessPath.__ffi_repr__", repr_path)),
        ("__ffi_type_final__", Attr::Flag(true)),
    ],
};
