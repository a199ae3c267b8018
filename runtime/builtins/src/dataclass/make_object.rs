//! `ffi.MakeObjectFromPackedArgs`: creates an object from the index or key of its type and the
//! names and values of its fields.

use super::creation::create_empty;
use super::py_class::known_type;
use crate::abi::{TVMFFIAny, type_index};
use crate::definition::function::Arguments;
use crate::definition::signature::{STRING, type_key};
use crate::value::{Any, AnyView};
use crate::{Result, bail, embedded};
use kernpack_core::reflect::TypeInfo;

/// A field's name and value.
struct Given<'a> {
    name: &'a [u8],
    value: &'a AnyView<'a>,
    used: bool,
}

#[inline]
pub(super) fn make_object(args: &Arguments<'_>) -> Result<Any> {
    let Some((what, fields)) = args.all().split_first() else {
        bail!(
            TypeError,
            "ffi.MakeObjectFromPackedArgs: expected a type, then names and values of fields, got no argument"
        );
    };
    let info = type_of(what)?;
    let (pairs, []) = fields.as_chunks::<2>() else {
        bail!(InternalError, "Check failed: (args.size() % 2 == 1) is false: ");
    };
    let object = create_empty(info)?;
    let mut given = Vec::with_capacity(pairs.len());
    for [name, value] in pairs {
        given.push(Given { name: text(name)?, value, used: false });
    }
    for field in info.fields() {
        let found = given.iter_mut().find(|given| !given.used && given.name == field.name_bytes());
        // SAFETY: the object is of the type, and no other code knows it.
        unsafe {
            let object = object.as_view().as_raw().payload.v_obj;
            if let Some(given) = found {
                given.used = true;
                field.set(object, given.value)?;
            } else if !field.set_default(object)? {
                bail!(TypeError, "Required field `{}` not set in type `{}`", field.name(), info.key());
            }
        }
    }
    if let Some(unused) = given.iter().find(|given| !given.used) {
        let name = String::from_utf8_lossy(unused.name);
        bail!(TypeError, "Type `{}` does not have field `{name}`", info.key());
    }
    Ok(object)
}

#[inline]
fn type_of(what: &AnyView<'_>) -> Result<TypeInfo> {
    match what.type_index() {
        type_index::INT | type_index::BOOL => known_type(what.as_raw().bits() as i32),
        _ => TypeInfo::by_key(text(what)?),
    }
}

#[inline]
fn text<'a>(value: &'a AnyView<'_>) -> Result<&'a [u8]> {
    if !STRING.accepts(value) {
        bail!(TypeError, "Cannot convert from type `{}` to `str`", type_key(value));
    }
    let raw: &TVMFFIAny = value.as_raw();
    // SAFETY: a valid view.
    Ok(unsafe { embedded::text_of(raw) }.unwrap_or_default())
}
