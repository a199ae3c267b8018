//! The registrations of steps and paths: fields, methods, attributes.

use super::{Kind, PathBody, StepBody, extend, extend_by, flag, is_prefix_of, new_root, paths_equal, to_steps, value};
use super::{repr_path, repr_step};
use crate::abi::seq_hash_kind;
use crate::definition::field::BuiltinField;
use crate::definition::function::{Arguments, Builtin};
use crate::definition::instance::{metadata_of, object_attrs, object_body};
use crate::definition::setters::{ObjectField, OptionalObject, set_object};
use crate::definition::signature::{
    ANY, Accepts, BOOL, FUNCTION, INT, OBJECT, OPTIONAL_OBJECT, STRING, Signature, Type,
};
use crate::definition::type_def::{Attr, BuiltinMethod, BuiltinType};
use crate::value::Any;
use crate::{Result, embedded};

object_body!(StepBody, STEP, pub(crate) ACCESS_STEP = "ffi.reflection.AccessStep");
object_body!(PathBody, PATH, pub(crate) ACCESS_PATH = "ffi.reflection.AccessPath");
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
static OPTIONAL_STEP: Type = Type {
    schema: r#"{"type":"Optional","args":[{"type":"ffi.reflection.AccessStep"}]}"#,
    text: "Optional<ffi.reflection.AccessStep>",
    accepts: Accepts::Optional(&ACCESS_STEP),
};

struct Step;

impl ObjectField for Step {
    const TYPE: &'static Type = &OPTIONAL_STEP;
}

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
    metadata: Some(metadata_of::<StepBody>(seq_hash_kind::CONST_TREE_NODE)),
    fields: &[
        BuiltinField { name: "kind", ..BuiltinField::I32 },
        BuiltinField { name: "key", offset: 32, ..BuiltinField::ANY },
    ],
    attrs: object_attrs!(
        "ffi.reflection.AccessStep",
        StepBody,
        final: true,
        first: [],
        last: [("__ffi_repr__", repr("ffi.reflection.AccessStep.__ffi_repr__", repr_step))]
    ),
    ..BuiltinType::new("ffi.reflection.AccessStep")
};

pub(crate) static PATH: BuiltinType = BuiltinType {
    metadata: Some(metadata_of::<PathBody>(seq_hash_kind::CONST_TREE_NODE)),
    fields: &[
        BuiltinField {
            name: "parent",
            schema: OPTIONAL_OBJECT.schema,
            setter: set_object::<OptionalObject>,
            ..BuiltinField::OBJECT
        },
        BuiltinField {
            name: "step",
            schema: OPTIONAL_STEP.schema,
            offset: 32,
            setter: set_object::<Step>,
            ..BuiltinField::OBJECT
        },
        BuiltinField { name: "depth", offset: 40, ..BuiltinField::I32 },
    ],
    methods: &[
        method("ffi.reflection.AccessPath._root", &[], &ACCESS_PATH, |_| Ok(value(new_root()))),
        method("ffi.reflection.AccessPath._extend", &[&ACCESS_PATH, &ACCESS_STEP], &ACCESS_PATH, |args| {
            let step = args.object(1);
            // SAFETY: the arguments are a path and a step, alive for the call; the path gets a
            // reference of its own.
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
    attrs: object_attrs!(
        "ffi.reflection.AccessPath",
        PathBody,
        final: true,
        first: [],
        last: [("__ffi_repr__", repr("ffi.reflection.AccessPath.__ffi_repr__", repr_path))]
    ),
    ..BuiltinType::new("ffi.reflection.AccessPath")
};
