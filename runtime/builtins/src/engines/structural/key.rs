//! A key of maps that goes by structure: a value and its structural hash.

use super::{Options, equal as structural, hash};
use crate::abi::{TVMFFIAny, seq_hash_kind, type_index};
use crate::definition::function::{Arguments, Builtin};
use crate::definition::instance::{Body, copy_function, creator, instance, new_function};
use crate::definition::setters::{set_any, set_i64};
use crate::definition::signature::{ANY, Accepts, OBJECT, Signature, Type};
use crate::definition::type_def::{Attr, BuiltinField, BuiltinMethod, BuiltinType, Index, Metadata, field};
use crate::embedded;
use crate::value::{Any, IntoAny};
use crate::walker::stack_space;
use crate::{Result, bail};

#[derive(Clone, Default)]
#[repr(C)]
struct KeyBody {
    key: Any,
    hash: i64,
}

const _: () = assert!(size_of::<KeyBody>() == 24);

const TYPE_KEY: &str = "ffi.StructuralKey";

pub(super) static STRUCTURAL_KEY: Type =
    Type { schema: r#"{"type":"ffi.StructuralKey"}"#, text: TYPE_KEY, accepts: Accepts::Kind(|| KEY.index.get()) };

impl Body for KeyBody {
    const SELF: &'static [&'static Type] = &[&STRUCTURAL_KEY];

    fn definition() -> &'static BuiltinType {
        &KEY
    }
}

const INIT: Builtin =
    Builtin { name: "ffi.StructuralKey.__ffi_init__", signature: Signature::Typed(&[&ANY], &OBJECT), run: new_key };

pub(crate) static KEY: BuiltinType = BuiltinType {
    key: TYPE_KEY,
    index: Index::dynamic(),
    parent: || type_index::OBJECT,
    metadata: Some(Metadata {
        total_size: 48,
        creator: Some(creator::<KeyBody>),
        structural_kind: seq_hash_kind::UNSUPPORTED,
    }),
    fields: &[
        BuiltinField {
            name: "key",
            doc: "",
            schema: r#"{"type":"Any"}"#,
            flags: 0,
            offset: 24,
            size: 16,
            align: 8,
            static_type_index: type_index::ANY,
            default: TVMFFIAny::NONE,
            getter: field::get_any,
            setter: set_any,
        },
        BuiltinField {
            name: "hash_i64",
            doc: "",
            schema: r#"{"type":"int"}"#,
            flags: 0,
            offset: 40,
            size: 8,
            align: 8,
            static_type_index: type_index::INT,
            default: TVMFFIAny::NONE,
            getter: field::get_i64,
            setter: set_i64,
        },
    ],
    methods: &[BuiltinMethod {
        function: INIT,
        is_static: true,
        doc: "Constructor that takes any key and computes its structural hash",
    }],
    attrs: &[
        ("__ffi_init__", Attr::Function(INIT)),
        ("__ffi_new__", new_function::<KeyBody>("ffi.StructuralKey.__ffi_new__")),
        ("__ffi_shallow_copy__", copy_function::<KeyBody>("ffi.StructuralKey.__ffi_shallow_copy__")),
        ("__ffi_type_final__", Attr::Flag(true)),
        ("__any_hash__", Attr::Native(any_hash as *const _)),
        ("__any_equal__", Attr::Native(any_equal as *const _)),
    ],
};

/// A key that wraps the argument.
pub(super) fn new_key(args: &Arguments<'_>) -> Result<Any> {
    let key = args.owned(0)?;
    // SAFETY: the value is alive for the call.
    let hash = unsafe { hash::hash(key.as_view().raw(), Options::default()) }?;
    Ok(instance(KeyBody { key, hash: hash.cast_signed() }))
}

/// The body of a key; an error that names the variable for other values.
fn body<'a>(value: &'a TVMFFIAny, name: &str) -> Result<&'a KeyBody> {
    if value.type_index != KEY.host_index() {
        bail!(InternalError, "Check not null: {name} ");
    }
    // SAFETY: the value is a key, alive for `'a`; the type has no descendants.
    Ok(unsafe { embedded::body(value.payload.v_obj) })
}

/// Whether two keys wrap values that are structurally equal.
pub(super) fn equal(left: &TVMFFIAny, right: &TVMFFIAny) -> Result<bool> {
    if (left.type_index, left.small_len, left.bits()) == (right.type_index, right.small_len, right.bits()) {
        return Ok(true);
    }
    let (left, right) = (body(left, "lhs_obj")?, body(right, "rhs_obj")?);
    if left.hash != right.hash {
        return Ok(false);
    }
    // A key may be in a map that is in a key.
    stack_space::check()?;
    // SAFETY: the keys are alive for the call, and so are their values.
    unsafe { structural::equal(left.key.as_view().raw(), right.key.as_view().raw(), Options::default()) }
}

/// The value of `__any_hash__`.
unsafe extern "C" fn any_hash(key: *const TVMFFIAny) -> TVMFFIAny {
    // SAFETY: the convention of this hook: a valid value.
    match body(unsafe { &*key }, "key_obj") {
        Ok(body) => TVMFFIAny::int(body.hash),
        Err(error) => error.into_any().into_raw(),
    }
}

/// The value of `__any_equal__`.
unsafe extern "C" fn any_equal(left: *const TVMFFIAny, right: *const TVMFFIAny) -> TVMFFIAny {
    // SAFETY: the convention of this hook: two valid values.
    match equal(unsafe { &*left }, unsafe { &*right }) {
        Ok(equal) => TVMFFIAny::bool(equal),
        Err(error) => error.into_any().into_raw(),
    }
}
