//! Structural equality, hash and key: values are the same if they have the same structure,
//! independent of the addresses of their objects and the names of their variables.

mod container_hashes;
pub(crate) mod equal;
pub(crate) mod hash;
mod key;
mod kind;
mod leaf;
mod region;
mod tensor;
mod trace;

pub(crate) use key::KEY;

use super::access_path::ACCESS_PATH;
use crate::abi::TVMFFIAny;
use crate::definition::function::{Arguments, Builtin};
use crate::definition::signature::{ANY, Accepts, BOOL, INT, Signature, Type};
use crate::value::Any;
use crate::{Error, Result};

/// The treatment of free variables and tensors by an operation.
#[derive(Clone, Copy, Default)]
pub(crate) struct Options {
    pub(crate) map_free_vars: bool,
    pub(crate) skip_tensor_content: bool,
}

static PATH_PAIR: Type = Type {
    schema: r#"{"type":"Tuple","args":[{"type":"ffi.reflection.AccessPath"},{"type":"ffi.reflection.AccessPath"}]}"#,
    text: "Tuple<ffi.reflection.AccessPath, ffi.reflection.AccessPath>",
    accepts: Accepts::Tuple(&[&ACCESS_PATH, &ACCESS_PATH]),
};

static OPTIONAL_PATH_PAIR: Type = Type {
    schema: r#"{"type":"Optional","args":[{"type":"Tuple","args":[{"type":"ffi.reflection.AccessPath"},{"type":"ffi.reflection.AccessPath"}]}]}"#,
    text: "Optional<Tuple<ffi.reflection.AccessPath, ffi.reflection.AccessPath>>",
    accepts: Accepts::Optional(&PATH_PAIR),
};

#[cfg(feature = "all")]
pub(crate) const BUILTINS: &[Builtin] = &[
    Builtin {
        name: "ffi.StructuralEqual",
        signature: Signature::Typed(&[&ANY, &ANY, &BOOL, &BOOL], &BOOL),
        run: |args| {
            // SAFETY: the caller keeps the arguments alive.
            args.look_at(|[left, right]| flag(unsafe { equal::equal(left, right, options(args, 2)) }?))
        },
    },
    Builtin {
        name: "ffi.GetFirstStructuralMismatch",
        signature: Signature::Typed(&[&ANY, &ANY, &BOOL, &BOOL], &OPTIONAL_PATH_PAIR),
        run: |args| {
            // SAFETY: the caller keeps the arguments alive.
            args.look_at(|[left, right]| unsafe { equal::first_mismatch(left, right, options(args, 2)) })
        },
    },
    Builtin {
        name: "ffi.StructuralHash",
        signature: Signature::Typed(&[&ANY, &BOOL, &BOOL], &INT),
        run: |args| {
            // SAFETY: the caller keeps the argument alive; the result is a plain value.
            args.look_at(|[value]| unsafe {
                let hash = hash::hash(value, options(args, 1))?;
                Ok(Any::from_raw(TVMFFIAny::int(hash.cast_signed())))
            })
        },
    },
    Builtin {
        name: "ffi.StructuralKey",
        signature: Signature::Typed(&[&ANY], &key::STRUCTURAL_KEY),
        run: key::new_key,
    },
    Builtin {
        name: "ffi.StructuralKeyEqual",
        signature: Signature::Typed(&[&ANY, &ANY], &BOOL),
        run: |args| flag(key::equal(args.view(0).as_raw(), args.view(1).as_raw())?),
    },
];

const fn options(args: &Arguments<'_>, first: usize) -> Options {
    Options { map_free_vars: args.flag(first), skip_tensor_content: args.flag(first + 1) }
}

const fn flag(flag: bool) -> Result<Any, Error> {
    // SAFETY: a plain value.
    Ok(unsafe { Any::from_raw(TVMFFIAny::bool(flag)) })
}

#[cfg(test)]
mod tests;
