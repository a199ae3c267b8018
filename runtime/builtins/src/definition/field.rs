//! A field of a type as data, and the getters for all kinds of fields.

use core::ffi::c_void;

use super::setters::{set_any, set_i32, set_i64};
use super::signature::{ANY, INT, Type};
use crate::Result;
use crate::abi::{TVMFFIAny, TVMFFIFieldGetter, TVMFFIFieldSetter, TVMFFIObject, type_index};
use crate::embedded::{self, release};
use crate::value::AnyView;

/// A field.
pub(crate) struct BuiltinField {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    /// JSON of the type schema.
    pub(crate) schema: &'static str,
    pub(crate) flags: i64,
    pub(crate) offset: i64,
    pub(crate) size: i64,
    pub(crate) align: i64,
    pub(crate) static_type_index: i32,
    pub(crate) default: TVMFFIAny,
    pub(crate) getter: TVMFFIFieldGetter,
    pub(crate) setter: TVMFFIFieldSetter,
}

// SAFETY: the default is a plain value.
unsafe impl Sync for BuiltinField {}

impl BuiltinField {
    /// A field of any value, without a name, directly after the header. Other fields are based on
    /// it.
    pub(crate) const ANY: Self = Self {
        name: "",
        doc: "",
        schema: ANY.schema,
        flags: 0,
        offset: 24,
        size: 16,
        align: 8,
        static_type_index: type_index::ANY,
        default: TVMFFIAny::NONE,
        getter: get_any,
        setter: set_any,
    };

    /// A field of a 64-bit integer.
    pub(crate) const I64: Self = Self {
        schema: INT.schema,
        size: 8,
        static_type_index: type_index::INT,
        getter: get_i64,
        setter: set_i64,
        ..Self::ANY
    };

    /// A field of a 32-bit integer.
    pub(crate) const I32: Self = Self { size: 4, align: 4, getter: get_i32, setter: set_i32, ..Self::I64 };

    /// A field of an object. The accepted values depend on its setter, which has to be set.
    pub(crate) const OBJECT: Self = Self { size: 8, getter: get_object, ..Self::ANY };
}

/// Reads a slot of type `Any` (also a text).
pub(crate) unsafe extern "C" fn get_any(field: *mut c_void, result: *mut TVMFFIAny) -> i32 {
    // SAFETY: the field owns a valid value, and `result` is writable: the ABI's convention of
    // getters.
    unsafe { result.write(release::retain(&*field.cast::<TVMFFIAny>())) };
    0
}

/// Reads a 64-bit integer.
pub(crate) unsafe extern "C" fn get_i64(field: *mut c_void, result: *mut TVMFFIAny) -> i32 {
    // SAFETY: the ABI's convention of getters.
    unsafe { result.write(TVMFFIAny::int(*field.cast::<i64>())) };
    0
}

/// Reads a 32-bit integer.
pub(crate) unsafe extern "C" fn get_i32(field: *mut c_void, result: *mut TVMFFIAny) -> i32 {
    // SAFETY: the ABI's convention of getters.
    unsafe { result.write(TVMFFIAny::int(i64::from(*field.cast::<i32>()))) };
    0
}

/// Reads a pointer to an object, which may be NULL.
pub(crate) unsafe extern "C" fn get_object(field: *mut c_void, result: *mut TVMFFIAny) -> i32 {
    // SAFETY: the ABI's convention of getters; the field holds NULL or a live object.
    unsafe {
        let object = *field.cast::<*mut TVMFFIObject>();
        result.write(match object.as_ref() {
            None => TVMFFIAny::NONE,
            Some(header) => {
                embedded::inc_ref(object);
                TVMFFIAny::pointer(header.type_index, object.cast())
            }
        });
    }
    0
}

/// Checks a value against a type before a setter stores it.
pub(crate) fn check(value: &AnyView<'_>, expected: &Type) -> Result<()> {
    if expected.accepts(value) {
        return Ok(());
    }
    Err(crate::error!(TypeError, "Cannot convert from type `{}` to `{}`", expected.describe(value), expected.text))
}
