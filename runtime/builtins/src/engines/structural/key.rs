//! A map key that is compared by structure: a value and its structural hash.

use super::{Options, equal as structural, hash};
use crate::abi::{TVMFFIAny, seq_hash_kind};
use crate::definition::field::BuiltinField;
use crate::definition::function::{Arguments, Builtin};
use crate::definition::instance::{instance, metadata_of, object_attrs, object_body};
use crate::definition::signature::{ANY, OBJECT, Signature};
use crate::definition::type_def::{Attr, BuiltinMethod, BuiltinType};
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

object_body!(KeyBody, KEY, pub(super) STRUCTURAL_KEY = "ffi.StructuralKey");

const INIT: Builtin =
    Builtin { name: "ffi.StructuralKey.__ffi_init__", signature: Signature::Typed(&[&ANY], &OBJECT), run: new_key };

pub(crate) static KEY: BuiltinType = BuiltinType {
    metadata: Some(metadata_of::<KeyBody>(seq_hash_kind::UNSUPPORTED)),
    fields: &[
        BuiltinField { name: "key", ..BuiltinField::ANY },
        BuiltinField { name: "hash_i64", offset: 40, ..BuiltinField::I64 },
    ],
    methods: &[BuiltinMethod {
        function: INIT,
        is_static: true,
        doc: "Constructor that takes any key and computes its structural hash",
    }],
    attrs: object_attrs!(
        "ffi.StructuralKey",
        KeyBody,
        final: true,
        first: [("__ffi_init__", Attr::Function(INIT))],
        last: [
            ("__any_hash__", Attr::Native(any_hash as *const _)),
            ("__any_equal__", Attr::Native(any_equal as *const _))
        ]
    ),
    ..BuiltinType::new("ffi.StructuralKey")
};

/// Creates a key that wraps the argument.
pub(super) fn new_key(args: &Arguments<'_>) -> Result<Any> {
    let key = args.owned(0)?;
    // SAFETY: the value is alive for the call.
    let hash = unsafe { hash::hash(key.as_view().as_raw(), Options::default()) }?;
    Ok(instance(KeyBody { key, hash: hash.cast_signed() }))
}

/// The body of a key; for other values an error that names the variable.
fn body<'a>(value: &'a TVMFFIAny, name: &str) -> Result<&'a KeyBody> {
    if value.type_index != KEY.host_index() {
        bail!(InternalError, "Check not null: {name} ");
    }
    // SAFETY: the value is a key, alive for `'a`; the type has no descendants.
    Ok(unsafe { embedded::body(value.payload.v_obj) })
}

/// Returns true if two keys wrap values that are structurally equal.
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
    unsafe { structural::equal(left.key.as_view().as_raw(), right.key.as_view().as_raw(), Options::default()) }
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
