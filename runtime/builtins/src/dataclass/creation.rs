//! Creation of an empty object of any registered type.

use super::py_class;
use crate::abi::{TVMFFIFunctionCell, type_index};
use crate::embedded;
use crate::value::Any;
use crate::{Error, Result, bail, error};
use kernpack_core::reflect::{AttrColumn, TypeInfo, call_function};

static NEW: AttrColumn = AttrColumn::new("__ffi_new__");

/// Creates an object whose fields are not set yet: by the type's creator, or by its `__ffi_new__`.
///
/// # Errors
/// RuntimeError when the type has neither; any error that they raise.
pub(crate) fn create_empty(info: TypeInfo) -> Result<Any> {
    if let Some(creator) = info.metadata().and_then(|metadata| metadata.creator) {
        let mut object = core::ptr::null_mut();
        // SAFETY: the ABI's convention of creators: on success `object` is an object whose
        // reference is ours.
        unsafe {
            Error::check(creator(&mut object))?;
            if object.is_null() {
                bail!(InternalError, "the creator of type `{}` made nothing", info.key());
            }
            return Ok(Any::from_object(object));
        }
    }
    let Some(new) = NEW.get(info.index()) else { return Err(no_creator(info)) };
    if new.type_index() != type_index::FUNCTION {
        let key = TypeInfo::find(new.type_index()).map(TypeInfo::key).unwrap_or_default();
        bail!(TypeError, "Cannot treat type `{key}` as type `() -> ffi.Object`");
    }
    // SAFETY: the column keeps the function.
    unsafe {
        let function = new.as_raw().payload.v_obj;
        if let Some(layout) = py_class::layout_of_new(function) {
            return layout.new_object();
        }
        debug_assert!(embedded::body::<TVMFFIFunctionCell>(function).safe_call.is_some());
        let object = call_function(function, &[])?;
        if object.as_view().object().is_none() {
            let key = TypeInfo::find(object.type_index()).map(TypeInfo::key).unwrap_or_default();
            bail!(TypeError, "Cannot convert from type `{key}` to `ffi.Object`");
        }
        Ok(object)
    }
}

/// Returns true if [`create_empty`] can create an object of this type.
pub(crate) fn has_creator(info: TypeInfo) -> bool {
    info.metadata().is_some_and(|metadata| metadata.creator.is_some())
        || NEW.get(info.index()).is_some_and(|new| new.type_index() == type_index::FUNCTION)
}

#[cold]
fn no_creator(info: TypeInfo) -> Error {
    error!(
        RuntimeError,
        "Type `{}` does not support reflection creation (no native creator or __ffi_new__ type attr)",
        info.key()
    )
}
