//! Support for languages with classes: definitions of object types at run time, and enums, which
//! all languages share.

pub(crate) mod creation;
pub(crate) mod enum_registration;
mod enum_state_fields;
pub(crate) mod enums;
mod fields;
mod init;
mod make_object;
pub(crate) mod py_class;
#[cfg(test)]
mod tests;

use crate::definition::function::Builtin;
use crate::definition::signature::{FUNCTION, INT, Signature, VOID};

/// The generated constructor of a type with fields: every provider registers this function, for
/// libraries that do not contain it.
pub(crate) const CONSTRUCTORS: &[Builtin] =
    &[Builtin { name: "ffi._RegisterFFIInit", signature: Signature::Typed(&[&INT], &VOID), run: init::register_init }];

#[cfg(feature = "all")]
pub(crate) const BUILTINS: &[Builtin] = &[
    Builtin { name: "ffi.MakeFieldGetter", signature: Signature::Typed(&[&INT], &INT), run: fields::make_getter },
    Builtin {
        name: "ffi.MakeFieldSetter",
        signature: Signature::Typed(&[&INT, &INT, &INT], &FUNCTION),
        run: fields::make_setter,
    },
    Builtin {
        name: "ffi._PyClassRegisterTypeAttrColumns",
        signature: Signature::Typed(&[&INT, &INT], &VOID),
        run: py_class::register,
    },
    Builtin { name: "ffi.MakeObjectFromPackedArgs", signature: Signature::Packed, run: make_object::make_object },
];
